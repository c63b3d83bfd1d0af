//go:build linux

package netpoll

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
