//go:build linux

package netpoll

import (
	"bytes"
	"errors"
	"io"
	"math"
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

// A TCP read stops at the mark of urgent data although more is there.
func TestUrgentData(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		defer c.Close()
		defer s.Close()
		raw := need(c.SyscallConn())(t)
		must(t, raw.Control(func(fd uintptr) {
			unix.Send(int(fd), []byte("ab!"), unix.MSG_OOB)
			unix.Send(int(fd), []byte("cd"), 0)
		}))
		got := make([]byte, 0, 10)
		for len(got) < 4 {
			must(t, s.SetReadDeadline(time.Now().Add(time.Minute)))
			buf := make([]byte, 10)
			n := need(s.Read(buf))(t)
			got = append(got, buf[:n]...)
		}
		testenv.Equal(t, string(got), "abcd")
		if s.HungUp() || c.HungUp() {
			t.Error("urgent data is taken for a hang-up")
		}
	})
}

func TestOptions(t *testing.T) {
	rt := withEpoll(t)
	inTask(t, rt, func() {
		c, s := connPair(t, "tcp")
		defer c.Close()
		defer s.Close()
		get := func(c *Conn, level, opt int) int {
			v := need(unix.GetsockoptInt(int(c.d.fd), level, opt))(t)
			return v
		}
		for _, conn := range []*Conn{c, s} { // dialled and accepted
			for _, x := range []struct{ level, opt, want int }{
				{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 15}, {unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15},
				{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 9},
			} {
				testenv.Equal(t, get(conn, x.level, x.opt), x.want, "option %d of a new connection", x.opt)
			}
			flags := need(unix.FcntlInt(uintptr(conn.d.fd), unix.F_GETFD, 0))(t)
			if flags&unix.FD_CLOEXEC == 0 {
				t.Error("a connection without FD_CLOEXEC")
			}
		}
		must(t, c.SetNoDelay(false))
		must(t, c.SetKeepAliveConfig(net.KeepAliveConfig{}))
		must(t, s.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: -1, Count: 4}))
		must(t, s.SetReadBuffer(1<<16))
		must(t, s.SetWriteBuffer(1<<16))
		if get(c, unix.IPPROTO_TCP, unix.TCP_NODELAY) != 0 || get(c, unix.SOL_SOCKET, unix.SO_KEEPALIVE) != 0 {
			t.Error("SetNoDelay(false) or keep-alive off had no effect")
		}
		if get(s, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) != 3 || get(s, unix.IPPROTO_TCP, unix.TCP_KEEPINTVL) != 15 ||
			get(s, unix.IPPROTO_TCP, unix.TCP_KEEPCNT) != 4 {
			t.Error("SetKeepAliveConfig had no or the wrong effect")
		}
		var look interface { // what libraries look for
			SetKeepAlive(bool) error
			SetKeepAlivePeriod(time.Duration) error
		} = c
		must(t, look.SetKeepAlivePeriod(6*time.Second+1))
		must(t, look.SetKeepAlive(true))
		if get(c, unix.SOL_SOCKET, unix.SO_KEEPALIVE) == 0 || get(c, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE) != 7 {
			t.Error("SetKeepAlive or SetKeepAlivePeriod had no effect")
		}
		for _, x := range []struct {
			period time.Duration
			want   int
		}{{-1, 7}, {0, 15}} {
			must(t, look.SetKeepAlivePeriod(x.period))
			testenv.Equal(t, get(c, unix.IPPROTO_TCP, unix.TCP_KEEPIDLE), x.want, "after SetKeepAlivePeriod(%v) it is N s", x.period)
		}
	})
}

func TestWriteBuffers(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			var bufs net.Buffers
			var want []byte
			for i := range 3000 { // more than one call takes, some of them empty
				b := bytes.Repeat([]byte{byte(i)}, i%700)
				bufs = append(bufs, b)
				want = append(want, b...)
			}
			writer := spawn(func() {
				n := need(c.WriteBuffers(&bufs))(t)
				if n != int64(len(want)) || len(bufs) != 0 {
					t.Errorf("WriteBuffers wrote %d of %d bytes and left %d buffers", n, len(want), len(bufs))
				}
				must(t, c.Close())
			})
			got := need(io.ReadAll(s))(t)
			must(t, writer())
			if !bytes.Equal(got, want) {
				t.Errorf("got %d bytes that differ from the %d sent", len(got), len(want))
			}
			must(t, s.Close())
		}
	})
}

// TestWriteRoom: a Write of the bytes that there is room for ends although the other end reads nothing. A full buffer has no
// room, until the other end reads.
func TestWriteRoom(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		inTask(t, rt, func() {
			for _, fill := range []int{0, 1, 10_000, 100_000} {
				here, there := connPair(t, "tcp")
				there.SetReadBuffer(4 << 10)
				here.SetWriteBuffer(256 << 10)
				testenv.Need(here.Write(make([]byte, fill)))(t)
				room := here.WriteRoom()
				if room < 64<<10 || room > 1<<20 {
					t.Errorf("%d bytes of room behind %d", room, fill)
				}
				here.SetWriteDeadline(time.Now().Add(time.Minute))
				testenv.Need(here.Write(make([]byte, room)))(t)
				here.Close()
				there.Close()
			}
			here, there := connPair(t, "tcp")
			sent := int64(0)
			for n := 1; n > 0 || here.WriteRoom() > 4<<10; sent += int64(n) { // the other end's buffer grows for a while
				var err error
				here.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
				n, err = here.Write(make([]byte, 64<<20))
				testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "a Write of far more")
			}
			testenv.Need(io.CopyN(io.Discard, there, sent))(t)
			testenv.Until(t, "there is room again", func() bool { return here.WriteRoom() > 64<<10 })
			here.Close()
			there.Close()
			here, there = connPair(t, "unix")
			testenv.Equal(t, here.WriteRoom(), math.MaxInt, "room of another kind of socket")
			here.Close()
			there.Close()
		})
	})
}

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
