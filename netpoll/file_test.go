//go:build linux

package netpoll

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w := pipe(t)
		want := pattern(1 << 20)
		writer := spawn(func() {
			testenv.Got(w.Write(want))(t, len(want), "written")
			must(t, w.Close())
		})
		sameBytes(t, need(io.ReadAll(r))(t), want, "pipe")
		must(t, writer())
		must(t, r.Close())
		_, err := r.Read(make([]byte, 1))
		var pe *fs.PathError
		testenv.True(t, errors.Is(err, net.ErrClosed) && errors.Is(err, os.ErrClosed) && errors.As(err, &pe) && pe.Op == "read",
			"Read after Close: %v, want a *fs.PathError that is net.ErrClosed and os.ErrClosed", err)
	})
}

// Errors of a pipe: the ends are not to be confused, and that does not hang; nobody reads any more; a deadline passes.
func TestErrorsOfPipes(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w := pipe(t)
		much := make([]byte, 1<<20)
		must(t, w.SetReadDeadline(time.Now().Add(10*time.Second)))
		readFails(t, w, unix.EBADF, "from the end that is written")
		testenv.ErrorIs(t, testenv.Err(r.Write([]byte("x"))), unix.EBADF, "writing to the end that is read")
		must(t, r.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
		readFails(t, r, os.ErrDeadlineExceeded, "Read until a deadline")
		must(t, w.SetWriteDeadline(time.Now().Add(5*time.Millisecond)))
		testenv.ErrorIs(t, testenv.Err(w.Write(much)), os.ErrDeadlineExceeded, "Write until a deadline")
		must(t, w.SetWriteDeadline(time.Time{}))
		writer := spawn(func() { testenv.ErrorIs(t, testenv.Err(w.Write(much)), unix.EPIPE, "Write without a reader") })
		awaitWaiter(&w.d.write)
		must(t, r.Close())
		must(t, writer())
	})
}

// One descriptor for both ends, as a FIFO opened for reading and writing is.
func TestNewFile(t *testing.T) {
	both(t, func(t *testing.T) {
		f := adopt(t, openFIFO(t))
		reader := spawn(func() {
			for i := range 100 {
				reads(t, f, string([]byte{byte(i)}), "token %d", i)
				if i < 99 {
					need(f.Write([]byte{byte(i + 1)}))(t)
				}
			}
		})
		awaitWaiter(&f.d.read)
		need(f.Write([]byte{0}))(t)
		must(t, reader())
	})
}

func adopt(t testing.TB, fd int) *File {
	t.Helper()
	return closing(t, need(NewFile(fd, "adopted"))(t))
}

func openFIFO(t testing.TB) int {
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(path, 0o600))
	fd := need(unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0))(t)
	must(t, os.Remove(path))
	return fd
}

func TestNewFileKinds(t *testing.T) {
	withEpoll(t)
	dir := need(os.Open("."))(t)
	defer dir.Close()
	testenv.ErrorIs(t, testenv.Err(NewFile(int(dir.Fd()), "dir")), errNotPollable, "a directory")
	null := need(os.Open(os.DevNull))(t)
	defer null.Close()
	if f, err := NewFile(int(null.Fd()), "null"); *pollerFlag == "epoll" && !errors.Is(err, unix.EPERM) {
		t.Errorf("the null device: %v, want EPERM", err) // epoll_ctl(2)
	} else if err == nil {
		must(t, f.Close())
	}
	testenv.ErrorIs(t, testenv.Err(NewFile(1<<20, "bad")), unix.EBADF, "a bad descriptor")
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_DIRECT|unix.O_CLOEXEC))
	event := need(unix.Eventfd(0, unix.EFD_CLOEXEC))(t)
	sockets := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	for fd, want := range map[int]kind{p[0]: kindFile, p[1]: kindFile, event: kindFile, sockets[0]: kindStream, sockets[1]: kindStream, openFIFO(t): kindPipe} {
		testenv.Equal(t, adopt(t, fd).d.kind, want, "fd %d is of kind", fd)
	}
}

// A socket with records has an end, unlike one of datagrams, and a short record is not it.
func TestRecords(t *testing.T) {
	both(t, func(t *testing.T) {
		p := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
		r, w := adopt(t, p[0]), adopt(t, p[1])
		for _, record := range []string{"one", "three"} {
			need(w.Write([]byte(record)))(t)
		}
		must(t, r.SetDeadline(time.Now().Add(time.Minute)))
		testenv.Got(r.Read(nil))(t, 0, "Read of nothing")
		reads(t, r, "one")
		reads(t, r, "three")
		reader := spawn(func() {
			readFails(t, r, io.EOF, "the peer has closed")
			readFails(t, r, io.EOF, "the peer has closed, again")
		})
		must(t, w.Close())
		must(t, reader())
	})
}

// In packet mode a pipe gives one packet a read, however much room there is.
func TestPacketPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		var p [2]int
		must(t, unix.Pipe2(p[:], unix.O_DIRECT|unix.O_CLOEXEC))
		r, w := adopt(t, p[0]), adopt(t, p[1])
		for range 3 {
			need(w.Write([]byte("packet")))(t)
		}
		for range 3 {
			reads(t, r, "packet")
		}
	})
}

func TestFileAndFileConn(t *testing.T) {
	both(t, func(t *testing.T) {
		// handedOn closes c, and makes another of its file.
		handedOn := func(c interface {
			io.Closer
			File() (*os.File, error)
		}) (net.Conn, error) {
			f := need(c.File())(t)
			defer f.Close()
			must(t, c.Close())
			return FileConn(f)
		}
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			again := closing(t, need(handedOn(c))(t))
			testenv.Equal(t, again.RemoteAddr().String(), s.LocalAddr().String(), "%s: connected to", network)
			testenv.Equal(t, again.RemoteAddr().Network(), network)
			talkOnce(t, again, s)
		}
		again := closing(t, need(handedOn(listenPacket(t, "udp")))(t))
		talkOnce(t, dialPacket(t, again.LocalAddr()), again)

		ln := listen(t, "tcp")
		f := need(ln.File())(t)
		defer f.Close()
		testenv.Fails(t, testenv.Err(handedOn(ln)), "FileConn takes a listener")
		must(t, need(net.FileListener(f))(t).Close())
		testenv.ErrorIs(t, testenv.Err(ln.File()), net.ErrClosed, "File after Close")
		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		defer w.Close()
		testenv.ErrorIs(t, testenv.Err(FileConn(r)), unix.ENOTSOCK, "FileConn of a pipe")
	})
}
