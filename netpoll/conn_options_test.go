//go:build linux

package netpoll

import (
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"os"
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
		testenv.True(t, !s.HungUp() && !c.HungUp(), "urgent data is taken for a hang-up")
	})
}

func TestOptions(t *testing.T) {
	rt := withEpoll(t)
	inTask(t, rt, func() {
		c, s := connPair(t, "tcp")
		want := func(c *Conn, noDelay, keepAlive, idle, interval, count int, when string) {
			t.Helper()
			for _, x := range []struct{ level, opt, want int }{
				{unix.IPPROTO_TCP, unix.TCP_NODELAY, noDelay},
				{unix.SOL_SOCKET, unix.SO_KEEPALIVE, keepAlive},
				{unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, idle},
				{unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, interval},
				{unix.IPPROTO_TCP, unix.TCP_KEEPCNT, count},
			} {
				testenv.Got(unix.GetsockoptInt(int(c.d.fd), x.level, x.opt))(t, x.want, "option %d %s", x.opt, when)
			}
		}
		for _, conn := range []*Conn{c, s} { // dialled and accepted
			want(conn, 1, 1, 15, 15, 9, "of a new connection")
			flags := need(unix.FcntlInt(uintptr(conn.d.fd), unix.F_GETFD, 0))(t)
			testenv.True(t, flags&unix.FD_CLOEXEC != 0, "a connection without FD_CLOEXEC")
		}
		must(t, c.SetNoDelay(false))
		must(t, c.SetKeepAliveConfig(net.KeepAliveConfig{}))
		must(t, s.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: 3 * time.Second, Interval: -1, Count: 4}))
		must(t, s.SetReadBuffer(1<<16))
		must(t, s.SetWriteBuffer(1<<16))
		want(c, 0, 0, 15, 15, 9, "after SetNoDelay(false), with keep-alive off")
		want(s, 1, 1, 3, 15, 4, "after SetKeepAliveConfig")
		var look interface { // what libraries look for
			SetKeepAlive(bool) error
			SetKeepAlivePeriod(time.Duration) error
		} = c
		must(t, look.SetKeepAlive(true))
		for _, x := range []struct {
			period time.Duration
			idle   int
		}{{6*time.Second + 1, 7}, {-1, 7}, {0, 15}} {
			must(t, look.SetKeepAlivePeriod(x.period))
			want(c, 0, 1, x.idle, 15, 9, "after SetKeepAlivePeriod("+x.period.String()+")")
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
				testenv.Got(c.WriteBuffers(&bufs))(t, int64(len(want)), "WriteBuffers")
				testenv.Equal(t, len(bufs), 0, "buffers left")
				must(t, c.Close())
			})
			got := need(io.ReadAll(s))(t)
			must(t, writer())
			sameBytes(t, got, want, network)
		}
	})
}

// TestWriteRoom: a Write of the bytes that there is room for ends although the other end reads nothing. A full buffer has no
// room, until the other end reads.
func TestWriteRoom(t *testing.T) {
	inTaskEverywhere(t, func(t *testing.T) {
		for _, fill := range []int{0, 1, 10_000, 100_000} {
			here, there := connPair(t, "tcp")
			there.SetReadBuffer(4 << 10)
			here.SetWriteBuffer(256 << 10)
			need(here.Write(make([]byte, fill)))(t)
			room := here.WriteRoom()
			testenv.True(t, room >= 64<<10 && room <= 1<<20, "%d bytes of room behind %d", room, fill)
			here.SetWriteDeadline(time.Now().Add(time.Minute))
			need(here.Write(make([]byte, room)))(t)
		}
		here, there := connPair(t, "tcp")
		sent := int64(0)
		for n := 1; n > 0 || here.WriteRoom() > 4<<10; sent += int64(n) { // the other end's buffer grows for a while
			var err error
			here.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			n, err = here.Write(make([]byte, 64<<20))
			testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "a Write of far more")
		}
		need(io.CopyN(io.Discard, there, sent))(t)
		testenv.Until(t, "there is room again", func() bool { return here.WriteRoom() > 64<<10 })
		here, _ = connPair(t, "unix")
		testenv.Equal(t, here.WriteRoom(), math.MaxInt, "room of another kind of socket")
	})
}

func TestSyscallConn(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "unix")
		raw := need(s.SyscallConn())(t)
		buf, calls := make([]byte, 3), 0
		reader := spawn(func() {
			must(t, raw.Read(func(fd uintptr) bool {
				calls++
				return testenv.Err(unix.Read(int(fd), buf)) != unix.EAGAIN
			}))
		})
		awaitWaiter(&s.d.read)
		need(c.Write([]byte("raw")))(t)
		must(t, reader())
		testenv.Equal(t, string(buf), "raw")
		testenv.AtLeast(t, calls, 2, "calls")
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
		ln := listen(t, "tcp")
		packets := listenPacket(t, "udp")
		r, w := pipe(t)
		for _, x := range []interface {
			syscall.Conn
			io.Closer
		}{c, s, ln, packets, dialPacket(t, packets.LocalAddr()), r, w} {
			raw := need(x.SyscallConn())(t)
			never := func(uintptr) bool { t.Errorf("%T: the function was called", x); return true }
			want := net.ErrClosed
			if x == ln { // which has nothing to read, open or not
				want = unix.EINVAL
				testenv.ErrorIs(t, raw.Read(never), want, "Read of a listener")
				testenv.ErrorIs(t, raw.Write(never), want, "Write of a listener")
			}
			must(t, x.Close())
			testenv.ErrorIs(t, raw.Control(func(fd uintptr) { never(fd) }), net.ErrClosed, "%T: Control after Close", x)
			testenv.ErrorIs(t, raw.Read(never), want, "%T: Read after Close", x)
			testenv.ErrorIs(t, raw.Write(never), want, "%T: Write after Close", x)
			testenv.ErrorIs(t, testenv.Err(x.SyscallConn()), net.ErrClosed, "%T: SyscallConn after Close", x)
		}
	})
}

// A connection that is closed, or whose deadline passes, between two calls of the function
// does not call it again, whatever event has come meanwhile.
func TestRawConnClosedBetweenCalls(t *testing.T) {
	everywhere(t, func(t *testing.T, _ *engine.Runtime) {
		c, _ := connPair(t, "unix")
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
			testenv.True(t, calls == 1 && errors.Is(err, x.want),
				"Read called its function %d times and returned %v, want once and %v", calls, err, x.want)
		}
		must(t, closed())
	})
}
