//go:build linux

package netpoll

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestSyscallConn(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "unix")
		raw := need(s.SyscallConn())(t)
		buf := make([]byte, 10)
		var calls atomic.Int32
		var got int
		reader := spawn(func() {
			must(t, raw.Read(func(fd uintptr) bool {
				calls.Add(1)
				n, err := unix.Read(int(fd), buf)
				got = n
				return err != unix.EAGAIN
			}))
		})
		awaitWaiter(&s.d.read)
		need(c.Write([]byte("raw")))(t)
		must(t, reader())
		if string(buf[:got]) != "raw" || calls.Load() < 2 {
			t.Errorf("raw read %q in %d calls, want \"raw\" in at least 2", buf[:got], calls.Load())
		}
		must(t, raw.Write(func(uintptr) bool { return true }))
		must(t, c.Close())
		must(t, s.Close())
		testenv.ErrorIs(t, raw.Control(func(uintptr) {}), net.ErrClosed, "Control after Close")
	})
}

// The RawConn of whatever has been closed fails without calling what it is given.
func TestRawConnOfClosed(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		packets := need(ListenPacket("udp", "127.0.0.1:0"))(t)
		connected := need(Dial("udp", packets.LocalAddr().String()))(t)
		r, w, err := Pipe()
		must(t, err)
		for _, x := range []interface {
			syscall.Conn
			io.Closer
		}{c, s, ln, packets, connected.(*PacketConn), r, w} {
			raw := need(x.SyscallConn())(t)
			if _, ok := x.(*Listener); ok {
				never := func(uintptr) bool { t.Error("the function was called"); return true }
				if e1, e2 := raw.Read(never), raw.Write(never); e1 != unix.EINVAL || e2 != unix.EINVAL {
					t.Errorf("Read and Write of a listener: %v, %v, want EINVAL", e1, e2)
				}
			}
			must(t, x.Close())
			for name, do := range map[string]func(func(uintptr) bool) error{
				"Control": func(f func(uintptr) bool) error { return raw.Control(func(fd uintptr) { f(fd) }) },
				"Read":    raw.Read,
				"Write":   raw.Write,
			} {
				err := do(func(uintptr) bool { t.Errorf("%T: %s called its function", x, name); return true })
				if _, ok := x.(*Listener); ok && name != "Control" {
					continue
				}
				testenv.ErrorIs(t, err, net.ErrClosed, "%T: %s after Close", x, name)
			}
			testenv.ErrorIs(t, testenv.Err(x.SyscallConn()), net.ErrClosed, "%T: SyscallConn after Close", x)
		}
	})
}

// A connection that is closed, or whose deadline passes, between two calls of the function
// does not call it again, whatever event has come meanwhile.
func TestRawConnClosedBetweenCalls(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *engine.Runtime) {
		c, s := connPair(t, "unix")
		defer s.Close()
		raw := need(c.SyscallConn())(t)
		var closed func() error
		for _, x := range []struct {
			end  func()
			want error
		}{
			{func() { must(t, c.SetReadDeadline(time.Unix(1, 0))) }, os.ErrDeadlineExceeded},
			{func() {
				closed = spawn(func() { must(t, c.Close()) })
				for c.d.flags.Load()&flagClosing == 0 {
					breathe(100 * time.Microsecond)
				}
			}, net.ErrClosed},
		} {
			must(t, c.SetReadDeadline(time.Time{}))
			calls := 0
			err := raw.Read(func(uintptr) bool {
				if calls++; calls > 1 {
					return true
				}
				x.end()
				c.d.read.more() // as an event does
				return false
			})
			if calls != 1 || !errors.Is(err, x.want) {
				t.Errorf("Read called its function %d times and returned %v, want once and %v", calls, err, x.want)
			}
		}
		must(t, closed())
	})
}
