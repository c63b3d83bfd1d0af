//go:build linux

package netpoll

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// splicePipe is the size of the pipe in bytes. With the 64 KB that a pipe has by itself nothing is
// gained over copying, so where that is all there is (pipe(7), pipe-user-pages-soft) we copy.
const splicePipe = 1 << 20

// relay writes to c what it reads from src, through buf, or without a copy through a pipe (splice(2)) while much comes
// at a time; the pipe exists only for so long. It returns how many bytes c has taken, and how many of them through a
// pipe. It parks.
func (c *Conn) relay(src *Conn, buf []byte) (total, spliced int64, err error) {
	may := c.maySplice(src)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			m, werr := c.Write(buf[:n])
			total += int64(m)
			if werr != nil {
				return total, spliced, werr
			}
		}
		if err == io.EOF {
			return total, spliced, nil
		}
		if err != nil {
			return total, spliced, err
		}
		if may && n == len(buf) { // there is more
			var k int64
			k, may, err = c.splice(src)
			total, spliced = total+k, spliced+k
			if err == io.EOF {
				return total, spliced, nil
			}
			if err != nil {
				return total, spliced, err
			}
		}
	}
}

// maySplice reports whether the kernel can move bytes from src to c. With io_uring what src has received
// may be in a buffer already.
func (c *Conn) maySplice(src *Conn) bool {
	return c.d.kind <= kindStream && src.d.kind <= kindStream && src.d.requests == nil && kernel.Net == nil
}

// splice moves bytes from src to c until there are none for the moment; then the error is nil. It
// reports whether to try again later. It parks while c has no room.
func (c *Conn) splice(src *Conn) (total int64, again bool, err error) {
	var pipe [2]int
	if unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK) != nil {
		return 0, false, nil
	}
	defer func() {
		unix.Close(pipe[0])
		unix.Close(pipe[1])
	}()
	if size, err := unix.FcntlInt(uintptr(pipe[1]), unix.F_SETPIPE_SZ, splicePipe); err != nil || size < splicePipe {
		return 0, false, nil
	}
	for {
		in, err := src.d.splicePart(pipe[1])
		switch {
		case err == unix.EAGAIN:
			return total, true, nil
		case err == unix.EINVAL || err == unix.ENOSYS:
			return total, false, nil
		case err != nil:
			return total, false, src.readError(err)
		case in == 0:
			return total, false, io.EOF
		}
		for in > 0 {
			out, err := c.d.part(func() (int64, syscall.Errno) { return sys.Splice(pipe[0], int(c.d.fd), in) })
			if err != nil {
				return total, false, c.opError("write", "splice", err)
			}
			in -= out
			total += out
			c.d.pace(c.d.own(), int(out))
		}
	}
}

// splicePart makes one attempt to move received bytes into an empty pipe; EAGAIN if there are none.
func (d *desc) splicePart(pipe int) (int64, error) {
	if err := d.lock(readSide); err != nil {
		return 0, err
	}
	defer d.unlock(readSide)
	if err := d.failed(flagReadExpired); err != nil {
		return 0, err
	}
	own := d.own()
	if !d.read.begin(own) {
		return 0, unix.EAGAIN
	}
	n, e := sys.Splice(int(d.fd), pipe, splicePipe)
	if e == unix.EAGAIN {
		d.exhausted(&d.read, own)
		return 0, e
	}
	d.read.more()
	if e != 0 {
		return 0, e
	}
	return n, nil
}
