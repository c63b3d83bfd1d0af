//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/task"
)

func TestDialerLocalAddress(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		defer ln.Close()
		d := &Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Minute}
		c := need(d.Dial("tcp", ln.Addr().String()))(t)
		defer c.Close()
		s := need(ln.Accept())(t)
		defer s.Close()
		if got := s.RemoteAddr().String(); !strings.HasPrefix(got, "127.0.0.2:") || got != c.LocalAddr().String() {
			t.Errorf("connected from %v, its own address is %v; want 127.0.0.2", got, c.LocalAddr())
		}
		udp := need((&Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 3)}}).Dial("udp", "127.0.0.1:9"))(t)
		defer udp.Close()
		if got := udp.LocalAddr().String(); !strings.HasPrefix(got, "127.0.0.3:") {
			t.Errorf("udp from %v, want 127.0.0.3", got)
		}
	})
}

// A local address that does not fit fails as with package net.
func TestDialerMismatchIsLikeNets(t *testing.T) {
	withEpoll(t)
	for _, x := range []struct {
		network string
		local   net.Addr
		address string
	}{
		{"tcp", &net.UDPAddr{}, "127.0.0.1:1"},
		{"udp", &net.TCPAddr{}, "127.0.0.1:1"},
		{"unix", &net.TCPAddr{}, "/nowhere"},
		{"tcp", &net.TCPAddr{IP: net.ParseIP("::1")}, "127.0.0.1:1"},
	} {
		_, want := (&net.Dialer{LocalAddr: x.local}).Dial(x.network, x.address)
		_, got := (&Dialer{LocalAddr: x.local}).Dial(x.network, x.address)
		if got == nil || want.Error() != got.Error() {
			t.Errorf("%s from %T: %v; with package net %v", x.network, x.local, got, want)
		}
	}
}

func TestDialerControl(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		defer ln.Close()
		seen := ""
		no := errors.New("no")
		var fail error
		d := &Dialer{NoKeepAlive: true, Control: func(network, address string, c syscall.RawConn) error {
			seen = network + " " + address
			must(t, c.Control(func(fd uintptr) { must(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, 3)) }))
			return fail
		}}
		c := need(d.DialContext(context.Background(), "tcp", ln.Addr().String()))(t)
		defer c.Close()
		testenv.Equal(t, seen, "tcp4 "+ln.Addr().String(), "Control was called")
		raw := need(c.(*Conn).SyscallConn())(t)
		must(t, raw.Control(func(fd uintptr) {
			priority, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY)
			alive, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
			if priority != 3 || alive != 0 {
				t.Errorf("priority %d, keep-alive %d; want 3 and 0", priority, alive)
			}
		}))
		for _, network := range []string{"tcp", "udp"} {
			fail = no
			if c, err := d.Dial(network, ln.Addr().String()); !errors.Is(err, no) {
				t.Errorf("%s: %v, %v; want the error of Control", network, c, err)
			}
		}
	})
}

// silent is an address where a connect gets no answer: the backlog of a listener is full. It is
// no Listener, as a uring poller accepts ahead.
func silent(t *testing.T) sockaddr.Addr {
	fd := need(newSocket(unix.AF_INET, unix.SOCK_STREAM))(t)
	t.Cleanup(func() { unix.Close(fd) })
	sa := sockaddr.FromAddrPort(netip.MustParseAddrPort("127.0.0.1:0"))
	must(t, sockaddr.Bind(fd, &sa, unix.AF_INET))
	must(t, unix.Listen(fd, 1))
	sa = need(sockaddr.Local(int32(fd)))(t)
	var queued []int
	for range 4 {
		c := need(newSocket(unix.AF_INET, unix.SOCK_STREAM))(t)
		t.Cleanup(func() { unix.Close(c) })
		unix.Connect(c, &unix.SockaddrInet4{Port: int(sa.Port), Addr: sa.IP.As4()})
		queued = append(queued, c)
	}
	testenv.Until(t, "two connections, which are more than the backlog", func() bool {
		connected := 0
		for _, c := range queued {
			if _, err := unix.Getpeername(c); err == nil {
				connected++
			}
		}
		return connected >= 2
	})
	return sa
}

// fullListener is silent as text.
func fullListener(t *testing.T) string {
	sa := silent(t)
	return sa.String()
}

// The addresses of the other IP version have their turn when the first ones do not answer, or fail.
func TestDialerFallsBack(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		defer ln.Close()
		gone := need(Listen("tcp", "127.0.0.1:0"))(t)
		must(t, gone.Close())
		good, refused := []sockaddr.Addr{ln.local}, []sockaddr.Addr{gone.local}
		mute := []sockaddr.Addr{silent(t)}
		for _, x := range []struct {
			name          string
			first, second []sockaddr.Addr
			delay         time.Duration
			want          error
		}{
			{"the first answers", good, refused, time.Hour, nil},
			{"the first is refused", refused, good, time.Hour, nil},
			{"the first is silent", mute, good, time.Millisecond, nil},
			{"the second is refused", good, refused, time.Nanosecond, nil},
			{"both are refused", refused, refused, time.Hour, unix.ECONNREFUSED},
		} {
			loop := need(ownLoop())(t)
			d := &dialing{Dialer: &Dialer{FallbackDelay: x.delay}, loop: loop, network: "tcp"}
			c, failed, err := d.race(context.Background(), x.first, x.second)
			if !errors.Is(err, x.want) || err != nil && failed == nil {
				t.Errorf("%s: %v, want %v", x.name, err, x.want)
			}
			if c != nil {
				testenv.Equal(t, c.RemoteAddr().String(), ln.Addr().String(), "%s: connected to", x.name)
				c.Close()
			}
		}
		// The end of the context ends it.
		ctx, cancel := context.WithCancel(context.Background())
		loop := need(ownLoop())(t)
		d := &dialing{Dialer: &Dialer{FallbackDelay: time.Millisecond}, loop: loop, network: "tcp"}
		stop := task.AfterFunc(5*time.Millisecond, cancel)
		defer stop.Stop()
		if c, _, err := d.race(ctx, mute, mute); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v, %v", c, err)
		}
	})
}

func TestFileAndFileConn(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			f := need(c.File())(t)
			must(t, c.Close())
			again := need(FileConn(f))(t)
			must(t, f.Close())
			if again.RemoteAddr().String() != s.LocalAddr().String() || again.RemoteAddr().Network() != network {
				t.Errorf("%s: connected to %v, want %v", network, again.RemoteAddr(), s.LocalAddr())
			}
			talkOnce(t, again, s)
			must(t, again.Close())
			must(t, s.Close())
		}
		p := need(ListenPacket("udp", "127.0.0.1:0"))(t)
		f := need(p.File())(t)
		must(t, p.Close())
		again := need(FileConn(f))(t)
		must(t, f.Close())
		c := need(Dial("udp", again.LocalAddr().String()))(t)
		talkOnce(t, c, again)
		must(t, c.Close())
		must(t, again.Close())

		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		f = need(ln.File())(t)
		must(t, ln.Close())
		testenv.Fails(t, testenv.Err(FileConn(f)), "FileConn takes a listener")
		nets := need(net.FileListener(f))(t)
		must(t, f.Close())
		must(t, nets.Close())
		if f, err := ln.File(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("File after Close: %v, %v", f, err)
		}
		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		defer w.Close()
		testenv.ErrorIs(t, testenv.Err(FileConn(r)), unix.ENOTSOCK, "FileConn of a pipe")
	})
}

func talkOnce(t *testing.T, from io.Writer, to io.Reader) {
	t.Helper()
	need(from.Write([]byte("word")))(t)
	buf := make([]byte, 10)
	if n, err := to.Read(buf); string(buf[:n]) != "word" || err != nil {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

func TestMessages(t *testing.T) {
	both(t, func(t *testing.T) {
		a, err := ListenPacket("udp4", "127.0.0.1:0")
		must(t, err)
		defer a.Close()
		b := need(ListenPacket("udp4", "127.0.0.1:0"))(t)
		defer b.Close()
		must(t, b.SetReadBuffer(100_000))
		must(t, b.SetWriteBuffer(100_000))
		raw := need(b.SyscallConn())(t)
		must(t, raw.Control(func(fd uintptr) {
			must(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1))
			if n, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF); n != 200_000 {
				t.Errorf("the buffer has %d bytes, want 200,000 (the kernel doubles it)", n)
			}
		}))
		to := netip.MustParseAddrPort(b.LocalAddr().String())
		reader := spawn(func() {
			buf, oob := make([]byte, 4), make([]byte, 100)
			n, oobn, flags, from, err := b.ReadMsg(buf, oob)
			if n != 4 || oobn == 0 || flags&unix.MSG_TRUNC == 0 || from.String() != a.LocalAddr().String() || err != nil {
				t.Errorf("ReadMsg: %d, %d, %x, %v, %v", n, oobn, flags, from, err)
			}
		})
		if n, _, err := a.WriteMsg([]byte("longer"), nil, to); n != 6 || err != nil {
			t.Errorf("WriteMsg: %d, %v", n, err)
		}
		must(t, reader())
		c := need(Dial("udp4", b.LocalAddr().String()))(t)
		defer c.Close()
		if _, _, err := c.(*PacketConn).WriteMsg([]byte("x"), nil, to); !errors.Is(err, net.ErrWriteToConnected) {
			t.Errorf("WriteMsg to an address on a connected socket: %v", err)
		}
		_, _, err = c.(*PacketConn).WriteMsg([]byte("x"), nil, netip.AddrPort{})
		must(t, err)
		if n, _, _, from, err := b.ReadMsg(make([]byte, 4), nil); n != 1 || from.String() != c.LocalAddr().String() || err != nil {
			t.Errorf("ReadMsg: %d, %v, %v", n, from, err)
		}
		passDescriptor(t)
	})
}

// passDescriptor sends a descriptor over a unix socket.
func passDescriptor(t *testing.T) {
	in, err := ListenPacket("unixgram", testAddress(t, "unixgram"))
	must(t, err)
	defer in.Close()
	out := need(Dial("unixgram", in.LocalAddr().String()))(t)
	defer out.Close()
	_, _, err = out.(*PacketConn).WriteMsg([]byte("fd"), unix.UnixRights(0), netip.AddrPort{})
	must(t, err)
	oob := make([]byte, 100)
	_, oobn, _, _, err := in.ReadMsg(make([]byte, 10), oob)
	must(t, err)
	all := need(unix.ParseSocketControlMessage(oob[:oobn]))(t)
	fds, err := unix.ParseUnixRights(&all[0])
	if len(fds) != 1 || err != nil {
		t.Errorf("received descriptors %v, %v", fds, err)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
}
