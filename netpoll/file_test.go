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
)

func TestPipe(t *testing.T) {
	both(t, func(t *testing.T) {
		r, w, err := Pipe()
		must(t, err)
		want := pattern(1 << 20)
		writer := spawn(func() {
			n, err := w.Write(want)
			must(t, err)
			if n != len(want) {
				t.Errorf("%d of %d bytes written", n, len(want))
			}
			must(t, w.Close())
		})
		got, err := io.ReadAll(r)
		must(t, err)
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
			if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, unix.EPIPE) {
				t.Errorf("Write without a reader: %v, want EPIPE", err)
			}
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
		if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read: %v, want os.ErrDeadlineExceeded", err)
		}
		must(t, w.SetWriteDeadline(time.Now().Add(5*time.Millisecond)))
		if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write: %v, want os.ErrDeadlineExceeded", err)
		}
		must(t, r.Close())
		must(t, w.Close())
	})
}

// One descriptor for both ends, as a FIFO opened for reading and writing is.
func TestNewFile(t *testing.T) {
	both(t, func(t *testing.T) {
		fd := openFIFO(t)
		f, err := NewFile(fd, "fifo")
		must(t, err)
		reader := spawn(func() {
			buf := make([]byte, 10)
			for i := range 100 {
				n, err := f.Read(buf)
				must(t, err)
				if n != 1 || buf[0] != byte(i) {
					t.Errorf("token %d is %v", i, buf[:n])
				}
				if i < 99 {
					_, err = f.Write([]byte{byte(i + 1)})
					must(t, err)
				}
			}
		})
		awaitWaiter(&f.d.read)
		_, err = f.Write([]byte{0})
		must(t, err)
		must(t, reader())
		must(t, f.Close())
	})
}

func openFIFO(t testing.TB) int {
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, unix.Mkfifo(path, 0o600))
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	must(t, os.Remove(path))
	return fd
}

func TestNewFileKinds(t *testing.T) {
	withEpoll(t)
	dir, err := os.Open(".")
	must(t, err)
	defer dir.Close()
	if _, err := NewFile(int(dir.Fd()), "dir"); !errors.Is(err, errNotPollable) {
		t.Errorf("a directory: %v, want errNotPollable", err)
	}
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	if f, err := NewFile(int(null.Fd()), "null"); *pollerFlag == "epoll" && !errors.Is(err, unix.EPERM) {
		t.Errorf("the null device: %v, want EPERM", err) // epoll_ctl(2)
	} else if err == nil {
		must(t, f.Close())
	}
	if _, err := NewFile(1<<20, "bad"); !errors.Is(err, unix.EBADF) {
		t.Errorf("a bad descriptor: %v, want EBADF", err)
	}
	var p [2]int
	must(t, unix.Pipe2(p[:], unix.O_DIRECT|unix.O_CLOEXEC))
	event, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	must(t, err)
	stream, peer := bareSocketpair(t)
	fifo := openFIFO(t)
	for _, x := range []struct {
		fd   int
		want kind
	}{{p[0], kindFile}, {p[1], kindFile}, {event, kindFile}, {stream, kindStream}, {peer, kindStream}, {fifo, kindPipe}} {
		f, err := NewFile(x.fd, "x")
		must(t, err)
		if f.d.kind != x.want {
			t.Errorf("fd %d is of kind %d, want %d", x.fd, f.d.kind, x.want)
		}
		must(t, f.Close())
	}
}

// A socket with records has an end, unlike one of datagrams, and a short record is not it.
func TestRecords(t *testing.T) {
	both(t, func(t *testing.T) {
		p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		r, err := NewFile(p[0], "r")
		must(t, err)
		w, err := NewFile(p[1], "w")
		must(t, err)
		buf := make([]byte, 100)
		for _, record := range []string{"one", "three"} {
			_, err := w.Write([]byte(record))
			must(t, err)
		}
		must(t, r.SetDeadline(time.Now().Add(time.Minute)))
		if n, err := r.Read(nil); n != 0 || err != nil {
			t.Errorf("Read of nothing: %d, %v", n, err)
		}
		for _, want := range []string{"one", "three"} {
			n, err := r.Read(buf)
			must(t, err)
			if string(buf[:n]) != want {
				t.Errorf("got %q, want %q", buf[:n], want)
			}
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
		r, err := NewFile(p[0], "r")
		must(t, err)
		w, err := NewFile(p[1], "w")
		must(t, err)
		for range 3 {
			_, err := w.Write([]byte("packet"))
			must(t, err)
		}
		for range 3 {
			buf := make([]byte, 100)
			n, err := r.Read(buf)
			must(t, err)
			if string(buf[:n]) != "packet" {
				t.Errorf("got %q", buf[:n])
			}
		}
		must(t, r.Close())
		must(t, w.Close())
	})
}
