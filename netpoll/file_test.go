//go:build linux

package netpoll

import (
	"bytes"
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
		r, w, err := Pipe()
		must(t, err)
		want := pattern(1 << 20)
		writer := spawn(func() {
			n := need(w.Write(want))(t)
			testenv.Equal(t, n, len(want), "of %d bytes written", len(want))
			must(t, w.Close())
		})
		got := need(io.ReadAll(r))(t)
		must(t, writer())
		if !bytes.Equal(got, want) {
			t.Errorf("got %d bytes that differ from the %d written", len(got), len(want))
		}
		must(t, r.Close())
		_, err = r.Read(make([]byte, 1))
		var pe *fs.PathError
		if !errors.Is(err, net.ErrClosed) || !errors.Is(err, os.ErrClosed) || !errors.As(err, &pe) || pe.Op != "read" {
			t.Errorf("Read after Close: %v, want a *fs.PathError that is net.ErrClosed and os.ErrClosed", err)
		}
	})
}

// The ends of a pipe are not to be confused, and that does not hang.
func TestWrongEndOfAPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w, err := Pipe()
		must(t, err)
		defer r.Close()
		defer w.Close()
		must(t, w.SetReadDeadline(time.Now().Add(10*time.Second)))
		if _, err := w.Read(make([]byte, 1)); !errors.Is(err, unix.EBADF) {
			t.Errorf("reading from the end that is written: %v", err)
		}
		if _, err := r.Write([]byte("x")); !errors.Is(err, unix.EBADF) {
			t.Errorf("writing to the end that is read: %v", err)
		}
	})
}

func TestBrokenPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w, err := Pipe()
		must(t, err)
		writer := spawn(func() {
			testenv.ErrorIs(t, testenv.Err(w.Write(make([]byte, 1<<20))), unix.EPIPE, "Write without a reader")
		})
		awaitWaiter(&w.d.write)
		must(t, r.Close())
		must(t, writer())
		must(t, w.Close())
	})
}

func TestFileDeadline(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w, err := Pipe()
		must(t, err)
		must(t, r.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
		testenv.ErrorIs(t, testenv.Err(r.Read(make([]byte, 1))), os.ErrDeadlineExceeded, "Read")
		must(t, w.SetWriteDeadline(time.Now().Add(5*time.Millisecond)))
		testenv.ErrorIs(t, testenv.Err(w.Write(make([]byte, 1<<20))), os.ErrDeadlineExceeded, "Write")
		must(t, r.Close())
		must(t, w.Close())
	})
}

// One descriptor for both ends, as a FIFO opened for reading and writing is.
func TestNewFile(t *testing.T) {
	both(t, func(t *testing.T) {
		fd := openFIFO(t)
		f := need(NewFile(fd, "fifo"))(t)
		reader := spawn(func() {
			buf := make([]byte, 10)
			for i := range 100 {
				n := need(f.Read(buf))(t)
				if n != 1 || buf[0] != byte(i) {
					t.Errorf("token %d is %v", i, buf[:n])
				}
				if i < 99 {
					need(f.Write([]byte{byte(i + 1)}))(t)
				}
			}
		})
		awaitWaiter(&f.d.read)
		need(f.Write([]byte{0}))(t)
		must(t, reader())
		must(t, f.Close())
	})
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
	stream, peer := bareSocketpair(t)
	fifo := openFIFO(t)
	for _, x := range []struct {
		fd   int
		want kind
	}{{p[0], kindFile}, {p[1], kindFile}, {event, kindFile}, {stream, kindStream}, {peer, kindStream}, {fifo, kindPipe}} {
		f := need(NewFile(x.fd, "x"))(t)
		testenv.Equal(t, f.d.kind, x.want, "fd %d is of kind", x.fd)
		must(t, f.Close())
	}
}

// A socket with records has an end, unlike one of datagrams, and a short record is not it.
func TestRecords(t *testing.T) {
	both(t, func(t *testing.T) {
		p := need(unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0))(t)
		r := need(NewFile(p[0], "r"))(t)
		w := need(NewFile(p[1], "w"))(t)
		buf := make([]byte, 100)
		for _, record := range []string{"one", "three"} {
			need(w.Write([]byte(record)))(t)
		}
		must(t, r.SetDeadline(time.Now().Add(time.Minute)))
		testenv.Got(r.Read(nil))(t, 0, "Read of nothing")
		for _, want := range []string{"one", "three"} {
			n := need(r.Read(buf))(t)
			testenv.Equal(t, string(buf[:n]), want)
		}
		reader := spawn(func() {
			for range 2 {
				if n, err := r.Read(buf); n != 0 || err != io.EOF {
					t.Errorf("Read when the peer has closed: %d, %v; want io.EOF", n, err)
				}
			}
		})
		must(t, w.Close())
		must(t, reader())
		must(t, r.Close())
	})
}

// In packet mode a pipe gives one packet a read, however much room there is.
func TestPacketPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		var p [2]int
		must(t, unix.Pipe2(p[:], unix.O_DIRECT|unix.O_CLOEXEC))
		r := need(NewFile(p[0], "r"))(t)
		w := need(NewFile(p[1], "w"))(t)
		for range 3 {
			need(w.Write([]byte("packet")))(t)
		}
		for range 3 {
			buf := make([]byte, 100)
			n := need(r.Read(buf))(t)
			testenv.Equal(t, string(buf[:n]), "packet")
		}
		must(t, r.Close())
		must(t, w.Close())
	})
}
