//go:build linux

package netpoll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
	"github.com/capriccio-go/capriccio/task"
)

// boundAddress returns an address that nobody listens on and nobody else can get.
func boundAddress(t *testing.T) string {
	fd := need(newSocket(unix.AF_INET, unix.SOCK_STREAM))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	at := need(unix.Getsockname(fd))(t)
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(at.(*unix.SockaddrInet4).Port))
}

func TestDialTimeout(t *testing.T) {
	both(t, func(t *testing.T) {
		address := fullListener(t)
		const limit = 20 * time.Millisecond
		for name, dial := range map[string]func() (net.Conn, error){
			"DialTimeout":    func() (net.Conn, error) { return DialTimeout("tcp", address, limit) },
			"Dialer.Timeout": func() (net.Conn, error) { return (&Dialer{Timeout: limit}).Dial("tcp", address) },
		} {
			start := time.Now()
			_, err := dial()
			var ne net.Error
			testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, name)
			testenv.True(t, errors.As(err, &ne) && ne.Timeout(), "%s: %v, want a timeout", name, err)
			testenv.AtLeast(t, time.Since(start), limit, name)
			testenv.AtMost(t, time.Since(start), time.Minute, name)
		}
	})
}

// A unix listener with a full queue tells a connecting socket EAGAIN.
func TestDialFullUnix(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := closing(t, need(ListenConfig{Backlog: 1}.Listen(context.Background(), "unix", testAddress(t, "unix")))(t))
		queued, err := 0, error(nil)
		for err == nil {
			var c net.Conn
			if c, err = DialTimeout("unix", ln.Addr().String(), 10*time.Millisecond); err == nil {
				queued++
				defer c.Close()
			}
		}
		testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "Dial with a full queue")
		dialer := spawn(func() { dial(t, ln.Addr()) })
		for range queued + 1 {
			closing(t, need(ln.Accept())(t))
		}
		must(t, dialer())
	})
}

// A task that the end of the runtime meets asleep, before the full queue of a listener, leaves no socket.
func TestTheEndOfTheRuntimeClosesASocketThatConnects(t *testing.T) {
	address := testAddress(t, "unix")
	socket := func() int {
		fd := need(newSocket(unix.AF_UNIX, unix.SOCK_STREAM))(t)
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	to, server := &unix.SockaddrUnix{Name: address}, socket()
	must(t, unix.Bind(server, to))
	must(t, unix.Listen(server, 0))
	for unix.Connect(socket(), to) == nil {
	}
	before := len(testenv.OpenFiles())
	rt := onOne(t, 1).start(t, func(c *engine.Config) { c.Grace = 100 * time.Millisecond })
	rt.Go(func() { Dial("unix", address) })
	held, release := make(chan struct{}), make(chan struct{})
	rt.Go(func() { close(held); <-release }) // the dialing task does not run to hear that it is cancelled
	<-held
	closed := make(chan error)
	go func() { closed <- rt.Close() }()
	testenv.Until(t, "the grace is over", func() bool {
		in := tableOf(rt.Loop(0))
		in.mu.Lock()
		defer in.mu.Unlock()
		return in.ending
	})
	close(release)
	<-closed
	testenv.Until(t, "no descriptor is left", func() bool { return len(testenv.OpenFiles()) == before })
}

func TestDialName(t *testing.T) {
	both(t, func(t *testing.T) {
		_, port, _ := net.SplitHostPort(listen(t, "tcp4").Addr().String())
		closing(t, need(Dial("tcp", "localhost:"+port))(t)) // ::1 refuses first
	})
}

func TestShareOfDeadline(t *testing.T) {
	testenv.Got(shareOf(time.Time{}, 3))(t, time.Time{}, "no deadline")
	testenv.Equal(t, testenv.Err(shareOf(time.Now().Add(-time.Second), 3)), sockaddr.ErrTimeout, "passed")
	for _, x := range []struct {
		left, want time.Duration
		n          int
	}{
		{30 * time.Second, 10 * time.Second, 3},
		{30 * time.Second, 30 * time.Second, 1},
		{3 * time.Second, 2 * time.Second, 3}, // at least 2 s
		{time.Second, time.Second, 3},         // but no more than there is
	} {
		began := time.Now()
		d := need(shareOf(began.Add(x.left), x.n))(t)
		testenv.AtLeast(t, d.Sub(began), x.want, "a share of %v among %d", x.left, x.n)
		testenv.AtMost(t, d.Sub(began), x.want+time.Since(began), "a share of %v among %d", x.left, x.n)
	}
}

// What a context has ended does not wait for its turn to be offloaded.
func TestEndedWhileNothingCanBeOffloaded(t *testing.T) {
	rt := onOne(t, 1).start(t, func(c *engine.Config) { c.OffloadLimit = 1 })
	inTask(t, rt, func() {
		hold, held := make(chan struct{}), task.NewChan[bool](1)
		holder := engine.Go(func() { engine.Offload(func() { held.Send(true); <-hold }) })
		held.Recv()
		ln := listen(t, "tcp")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		ended, all := 0, []*engine.Task{holder}
		for name, call := range map[string]func() error{
			"Dial":  func() error { _, err := DialContext(ctx, "tcp", "localhost:1"); return err },
			"Drain": func() error { return ln.Drain(ctx) },
		} {
			all = append(all, engine.Go(func() {
				testenv.ErrorIs(t, call(), context.Canceled, name)
				ended++
			}))
		}
		for range 100 {
			engine.Yield()
		}
		testenv.Equal(t, ended, 2, "calls have ended")
		close(hold)
		for _, k := range all {
			must(t, k.Join())
		}
	})
}

// An address that failed before does not hide that the context has ended.
func TestDialEndsAtALaterAddress(t *testing.T) {
	both(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		tries := 0
		x := &dialing{loop: need(ownLoop())(t), network: "tcp", Dialer: &Dialer{Control: func(string, string, syscall.RawConn) error {
			if tries++; tries == 2 {
				cancel()
			}
			return nil
		}}}
		refused, mute := sockaddr.FromAddrPort(netip.MustParseAddrPort(boundAddress(t))), silent(t)
		_, failed, err := x.inTurn(ctx, []sockaddr.Addr{refused, mute})
		testenv.ErrorIs(t, err, context.Canceled)
		testenv.Equal(t, *failed, mute, "the address that failed")
	})
}

// The zone of an address counts, without which a link-local one is of no use.
func TestZones(t *testing.T) {
	withEpoll(t)
	for _, i := range need(net.Interfaces())(t) {
		for _, zone := range []string{i.Name, strconv.Itoa(i.Index)} {
			for _, network := range []string{"tcp", "udp6"} {
				addrs, err := sockaddr.Resolve(context.Background(), network, "[fe80::1%"+zone+"]:80", time.Time{})
				want := fmt.Sprintf("[fe80::1%%%s]:80", i.Name)
				testenv.True(t, err == nil && len(addrs) == 1 && addrs[0].Scope == uint32(i.Index) && addrs[0].String() == want,
					"%s in zone %s: %v, %v; want %s", network, zone, addrs, err, want)
			}
		}
	}
}

// A silentServer of names notes what it is asked, and hangs up.
type silentServer struct {
	net.Conn
	asked func(query []byte)
}

func (s *silentServer) Write(b []byte) (int, error)   { s.asked(b); return len(b), nil }
func (s *silentServer) Read([]byte) (int, error)      { return 0, io.EOF }
func (s *silentServer) Close() error                  { return nil }
func (s *silentServer) SetDeadline(t time.Time) error { return nil }

// Only IPv4 addresses are asked for where no other will do: a server may not answer about IPv6.
func TestNamesOfIPv4(t *testing.T) {
	withEpoll(t)
	defer func(r *net.Resolver) { net.DefaultResolver = r }(net.DefaultResolver)
	var mu sync.Mutex
	var ipv4, ipv6 int
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return &silentServer{asked: func(query []byte) {
			mu.Lock()
			defer mu.Unlock()
			ipv4 += bytes.Count(query, []byte("\x07invalid\x00\x00\x01")) // the type that is asked for, RFC 1035
			ipv6 += bytes.Count(query, []byte("\x07invalid\x00\x00\x1c"))
		}}, nil
	}}
	for _, network := range []string{"tcp4", "udp4", "tcp"} {
		mu.Lock()
		ipv4, ipv6 = 0, 0
		mu.Unlock()
		c, err := Dial(network, "name.invalid.:1")
		testenv.True(t, err != nil, "%s: connected to %v", network, c)
		mu.Lock()
		testenv.True(t, ipv4 != 0 && (ipv6 > 0) == (network == "tcp"), "%s: asked for %d IPv4 and %d IPv6 addresses", network, ipv4, ipv6)
		mu.Unlock()
	}
}

func TestDialerLocalAddress(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := listen(t, "tcp")
		d := &Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Minute}
		c := closing(t, need(d.Dial("tcp", ln.Addr().String()))(t))
		s := closing(t, need(ln.Accept())(t))
		testenv.Equal(t, s.RemoteAddr().String(), c.LocalAddr().String(), "connected from")
		testenv.Contains(t, c.LocalAddr().String(), "127.0.0.2:")
		udp := closing(t, need((&Dialer{LocalAddr: &net.UDPAddr{IP: net.IPv4(127, 0, 0, 3)}}).Dial("udp", "127.0.0.1:9"))(t))
		testenv.Contains(t, udp.LocalAddr().String(), "127.0.0.3:")
	})
}

// A local address that does not fit fails as with package net.
func TestDialerMismatchIsLikeNets(t *testing.T) {
	withEpoll(t)
	for _, x := range []struct {
		network, address string
		local            net.Addr
	}{
		{"tcp", "127.0.0.1:1", &net.UDPAddr{}},
		{"udp", "127.0.0.1:1", &net.TCPAddr{}},
		{"unix", "/nowhere", &net.TCPAddr{}},
		{"tcp", "127.0.0.1:1", &net.TCPAddr{IP: net.ParseIP("::1")}},
	} {
		_, want := (&net.Dialer{LocalAddr: x.local}).Dial(x.network, x.address)
		_, got := (&Dialer{LocalAddr: x.local}).Dial(x.network, x.address)
		testenv.Equal(t, fmt.Sprint(got), fmt.Sprint(want), "%s from %T", x.network, x.local)
	}
}

func TestDialerControl(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := listen(t, "tcp")
		seen, no, fail := "", errors.New("no"), error(nil)
		d := &Dialer{NoKeepAlive: true, Control: func(network, address string, c syscall.RawConn) error {
			seen = network + " " + address
			must(t, c.Control(func(fd uintptr) { must(t, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PRIORITY, 3)) }))
			return fail
		}}
		c := closing(t, need(d.DialContext(context.Background(), "tcp", ln.Addr().String()))(t).(*Conn))
		testenv.Equal(t, seen, "tcp4 "+ln.Addr().String(), "Control was called")
		testenv.Got(unix.GetsockoptInt(int(c.d.fd), unix.SOL_SOCKET, unix.SO_PRIORITY))(t, 3, "priority")
		testenv.Got(unix.GetsockoptInt(int(c.d.fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE))(t, 0, "keep-alive")
		fail = no
		for _, network := range []string{"tcp", "udp"} {
			testenv.ErrorIs(t, testenv.Err(d.Dial(network, ln.Addr().String())), no, network)
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
func fullListener(t *testing.T) string { sa := silent(t); return sa.String() }

// The addresses of the other IP version have their turn when the first ones do not answer, or fail.
func TestDialerFallsBack(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := listen(t, "tcp")
		gone := listen(t, "tcp")
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
			d := &dialing{Dialer: &Dialer{FallbackDelay: x.delay}, loop: need(ownLoop())(t), network: "tcp"}
			c, failed, err := d.race(context.Background(), x.first, x.second)
			testenv.True(t, errors.Is(err, x.want) && (err == nil || failed != nil), "%s: %v, want %v", x.name, err, x.want)
			if c != nil {
				testenv.Equal(t, c.RemoteAddr().String(), ln.Addr().String(), "%s: connected to", x.name)
				c.Close()
			}
		}
		// The end of the context ends it.
		ctx, cancel := context.WithCancel(context.Background())
		d := &dialing{Dialer: &Dialer{FallbackDelay: time.Millisecond}, loop: need(ownLoop())(t), network: "tcp"}
		defer task.AfterFunc(5*time.Millisecond, cancel).Stop()
		_, _, err := d.race(ctx, mute, mute)
		testenv.ErrorIs(t, err, context.Canceled, "cancelled")
	})
}
