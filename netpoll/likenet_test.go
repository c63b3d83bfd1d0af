//go:build linux

package netpoll

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
)

// A library is package net or this one, for what both are to do alike.
type library struct {
	name         string
	dial         func(ctx context.Context, network, address string) (net.Conn, error)
	listen       func(network, address string) (net.Listener, error)
	listenPacket func(network, address string) (net.PacketConn, error)
}

var (
	packageNet = library{"net", (&net.Dialer{}).DialContext, net.Listen, net.ListenPacket}
	ours       = library{"netpoll", DialContext,
		func(network, address string) (net.Listener, error) {
			return orNil[net.Listener](Listen(network, address))
		},
		func(network, address string) (net.PacketConn, error) {
			return orNil[net.PacketConn](ListenPacket(network, address))
		}}
)

// orNil does not make an interface of a nil pointer.
func orNil[I any, P any](p P, err error) (i I, _ error) {
	if err == nil {
		i = any(p).(I)
	}
	return i, err
}

// likeNet runs do with both, and compares what it writes down.
func likeNet(t *testing.T, name string, do func(n library, note func(format string, args ...any))) {
	t.Helper()
	var got [2]strings.Builder
	for i, n := range []library{packageNet, ours} {
		do(n, func(format string, args ...any) { fmt.Fprintf(&got[i], format+"\n", args...) })
	}
	if want, got := got[0].String(), got[1].String(); got != want {
		t.Errorf("%s: package net:\n%s\nthis one:\n%s", name, want, got)
	}
}

// resolverPort hides from which port a resolver was asked that does not answer.
var resolverPort = regexp.MustCompile(`udp \S+->\S+`)

// shape describes an error as far as it must be that of package net, without what it is
// besides: ports, which differ, are left out by hide.
func shape(err error, hide ...string) string {
	if err == nil {
		return "no error"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q canceled=%v exceeded=%v", err, errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded))
	var ne net.Error
	if errors.As(err, &ne) {
		//lint:ignore SA1019 programs use it
		fmt.Fprintf(&b, " timeout=%v temporary=%v", ne.Timeout(), ne.Temporary())
	}
	if oe, ok := err.(*net.OpError); ok {
		fmt.Fprintf(&b, " op=%s net=%s source=%v addr=%v", oe.Op, oe.Net, oe.Source, oe.Addr)
		switch inner := oe.Err.(type) {
		case *os.SyscallError, *net.DNSError, *net.AddrError, net.UnknownNetworkError:
			fmt.Fprintf(&b, " in it %T", inner)
		}
	}
	s := resolverPort.ReplaceAllString(b.String(), "udp _")
	for _, h := range hide {
		s = strings.ReplaceAll(s, h, "_")
	}
	return s
}

// Dials that fail, or that a deadline or their context ends, say what those of package net say.
func TestFailedDialsAreLikeNets(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		full, closed := fullListener(t), boundAddress(t)
		always := func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }
		past := func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), -time.Minute)
		}
		soon := func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), 5*time.Millisecond)
		}
		canceled := func() (context.Context, context.CancelFunc) {
			ctx, cancel := always()
			cancel()
			return ctx, cancel
		}
		canceledSoon := func() (context.Context, context.CancelFunc) {
			ctx, cancel := always()
			time.AfterFunc(5*time.Millisecond, cancel)
			return ctx, cancel
		}
		check := func() {
			for name, x := range map[string]struct {
				ctx              func() (context.Context, context.CancelFunc)
				network, address string
			}{
				"refused":                     {always, "tcp", closed},
				"refused, tcp4":               {always, "tcp4", closed},
				"refused, unix":               {always, "unix", "@nobody listens here"},
				"refused, unixgram":           {always, "unixgram", "@nobody listens here"},
				"no file":                     {always, "unix", "/does/not/exist"},
				"broadcast":                   {always, "tcp", "255.255.255.255:1"},
				"IPv4 for tcp6":               {always, "tcp6", "127.0.0.1:1"},
				"IPv4 for udp6":               {always, "udp6", "127.0.0.1:1"},
				"no such name":                {always, "tcp", "name.invalid:1"},
				"no such name, udp":           {always, "udp", "name.invalid:1"},
				"unknown network":             {always, "ip", "127.0.0.1"},
				"past deadline":               {past, "tcp", full},
				"past deadline, unix":         {past, "unix", "/does/not/exist"},
				"past deadline, udp":          {past, "udp", "127.0.0.1:1"},
				"past deadline, name":         {past, "tcp", "name.invalid:1"},
				"past deadline, bad address":  {past, "tcp", "127.0.0.1"},
				"past deadline, bad network":  {past, "nonsense", "127.0.0.1:1"},
				"deadline":                    {soon, "tcp", full},
				"canceled before":             {canceled, "tcp", full},
				"canceled before, unixgram":   {canceled, "unixgram", "/does/not/exist"},
				"canceled before, udp":        {canceled, "udp", "127.0.0.1:1"},
				"canceled before, name":       {canceled, "tcp", "name.invalid:1"},
				"canceled before, no address": {canceled, "tcp", ""},
				"no unix address":             {canceled, "unix", ""},
				"no address, bad network":     {canceled, "nonsense", ""},
				"canceled":                    {canceledSoon, "tcp", full},
			} {
				likeNet(t, name, func(n library, note func(string, ...any)) {
					ctx, cancel := x.ctx()
					defer cancel()
					c, err := n.dial(ctx, x.network, x.address)
					for tries := 0; tries < 20 && ctx.Err() != nil && err != nil && strings.Contains(err.Error(), "no such host"); tries++ {
						c, err = n.dial(ctx, x.network, x.address) // chance decides which of the two package net sees first
					}
					what := shape(err)
					if name == "deadline" { // chance decides if package net says so
						what = strings.Replace(what, "exceeded=true", "exceeded=false", 1)
					}
					note("%v, %v", c, what)
				})
			}
		}
		check()
		inTask(t, rt, check)
	})
}

// The context of the task ends a dial like the one that it is given, a cause being kept.
func TestDialOfACancelledTask(t *testing.T) {
	rt := withEpoll(t)
	full := fullListener(t)
	cause := errors.New("no more")
	ctx, cancel := context.WithCancelCause(context.Background())
	dialer, err := rt.Spawn(engine.Options{Context: ctx}, func() {
		_, err := Dial("tcp", full)
		testenv.True(t, errors.Is(err, context.Canceled) && errors.Is(err, cause) && strings.HasSuffix(err.Error(), full+": operation was canceled"),
			"Dial in a task that is cancelled: %v, want context.Canceled and the cause", err)
		for _, address := range []string{full, "name.invalid:1"} {
			_, err = Dial("tcp", address)
			testenv.True(t, errors.Is(err, context.Canceled), "Dial of %s in a cancelled task: %v, want context.Canceled", address, err)
		}
	})
	must(t, err)
	time.AfterFunc(5*time.Millisecond, func() { cancel(cause) })
	must(t, dialer.Join())
}

// An empty host, and an IPv4 wildcard in any notation, mean what they mean to package net.
func TestWildcardsAreLikeNets(t *testing.T) {
	withEpoll(t)
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", ":0", "0.0.0.0:0", "[::]:0", "[::ffff:0.0.0.0]:0", "[::ffff:127.0.0.1]:0", ""} {
		for _, dial := range []string{"", "127.0.0.1", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"} {
			if !sockaddr.HaveIPv6() && strings.Contains(listen+dial, "::") {
				continue
			}
			for _, network := range []string{"tcp", "tcp4", "tcp6"} {
				likeNet(t, fmt.Sprintf("%s: listen on %s, dial %s", network, listen, dial), func(n library, note func(string, ...any)) {
					dialWildcard(n, network, listen, dial, note)
				})
			}
		}
	}
}

// dialWildcard listens on one address, and dials another with the same port. That may be a port of another program, which listens on
// the address dialled, or the very port that the dial comes from: then nothing is accepted, and another port is tried.
func dialWildcard(n library, network, listen, dial string, note func(string, ...any)) {
	for try := 1; ; try++ {
		var said []string
		if accepted := dialPort(n, network, listen, dial, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }); accepted || try == 3 {
			note("%s", strings.Join(said, "; "))
			return
		}
	}
}

// dialPort does that once. It reports whether the connection was accepted, if there was one.
func dialPort(n library, network, listen, dial string, note func(string, ...any)) (accepted bool) {
	ln, err := n.listen(network, listen)
	if err != nil {
		note("listen: %s", shape(err))
		return true
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	note("listens on %s", strings.TrimSuffix(ln.Addr().String(), port))
	c, err := n.dial(context.Background(), network, net.JoinHostPort(dial, port))
	if err != nil {
		note("dial: %s", shape(err, port))
		return true
	}
	defer c.Close()
	note("connects to %s", strings.TrimSuffix(c.RemoteAddr().String(), port))
	defer time.AfterFunc(3*time.Second, func() { ln.Close() }).Stop()
	s, err := ln.Accept()
	if err != nil {
		note("accept: %s", shape(err))
		return false
	}
	s.Close()
	return true
}

// What Listen and ListenPacket can't have they name, as package net does.
func TestListenErrorsAreLikeNets(t *testing.T) {
	withEpoll(t)
	ln := testenv.Listen(t)
	for _, x := range [][2]string{
		{"tcp", ln.Addr().String()}, {"tcp", "192.0.2.77:0"}, {"tcp6", "127.0.0.1:0"}, {"tcp", "127.0.0.1"}, {"tcp", "127.0.0.1:nonsense"},
		{"nonsense", "127.0.0.1:0"}, {"unix", strings.Repeat("x", 200)}, {"unix", "/does/not/exist"},
	} {
		likeNet(t, x[0]+" "+x[1], func(n library, note func(string, ...any)) {
			ln, err := n.listen(x[0], x[1])
			note("%v %s", ln, shape(err))
		})
	}
	taken := need(net.ListenPacket("udp4", "127.0.0.1:0"))(t)
	defer taken.Close()
	for _, x := range [][2]string{
		{"udp", taken.LocalAddr().String()}, {"udp4", "192.0.2.1:0"}, {"unixgram", "/does/not/exist"}, {"nonsense", "127.0.0.1:0"},
	} {
		likeNet(t, x[0]+" "+x[1], func(n library, note func(string, ...any)) {
			c, err := n.listenPacket(x[0], x[1])
			note("%v %s", c, shape(err))
		})
	}
}

// Several may listen to one port of a multicast group, as with package net.
func TestMulticastIsLikeNets(t *testing.T) {
	withEpoll(t)
	for _, network := range networks("udp", "udp4", "udp6") {
		group := map[string]string{"udp": "224.0.0.251", "udp4": "224.0.0.251", "udp6": "ff02::fb"}[network]
		likeNet(t, network, func(n library, note func(string, ...any)) {
			first := need(n.listenPacket(network, net.JoinHostPort(group, "0")))(t)
			defer first.Close()
			host, port, err := net.SplitHostPort(first.LocalAddr().String())
			must(t, err)
			second, err := n.listenPacket(network, net.JoinHostPort(group, port))
			note("on %s; a second one: %s", host, shape(err, port))
			if err == nil {
				second.Close()
			}
		})
	}
}

// A socket connected to a peer reads, writes and fails as that of package net.
func TestConnectedPacketsAreLikeNets(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		check := func() {
			for _, network := range networks("udp", "udp4", "udp6", "unixgram") {
				likeNet(t, network, func(n library, note func(string, ...any)) { talk(t, n, network, note) })
			}
		}
		check()
		inTask(t, rt, check)
	})
}

// talk connects to a peer and does what can be done with the connection.
func talk(t *testing.T, n library, network string, note func(string, ...any)) {
	peer := need(n.listenPacket(network, testAddress(t, network)))(t)
	defer peer.Close()
	to := peer.LocalAddr()
	c := need(n.dial(context.Background(), network, to.String()))(t)
	hide := []string{to.String(), c.LocalAddr().String()}
	errorOf := func(what string) func(n int, err error) {
		return func(n int, err error) { note("%s: %d %s", what, n, shape(err, hide...)) }
	}
	note("%s %s, peer %v %v", c.LocalAddr().Network(), c.RemoteAddr().Network(), c.RemoteAddr().String() == to.String(), peer.(net.Conn).RemoteAddr())
	for _, message := range []string{"hello", ""} {
		errorOf("write")(c.Write([]byte(message)))
		buf := make([]byte, 10)
		k, from, err := peer.ReadFrom(buf)
		errorOf("peer reads")(k, err)
		note("%q, from the connection %v", buf[:k], from == nil || from.String() == c.LocalAddr().String())
	}
	pc := c.(net.PacketConn)
	errorOf("write to")(pc.WriteTo([]byte("x"), to))
	errorOf("write to another kind of address")(pc.WriteTo([]byte("x"), &net.IPAddr{}))
	errorOf("the peer, which is not connected, writes")(peer.(net.Conn).Write([]byte("x")))
	if network != "unixgram" { // the connection has no name there that the peer could send to
		converse(c, peer, errorOf, note)
	}
	must(t, c.SetReadDeadline(time.Now().Add(time.Millisecond)))
	errorOf("read until the deadline")(c.Read(make([]byte, 1)))
	_, _, err := pc.ReadFrom(make([]byte, 1))
	errorOf("read from after the deadline")(0, err)
	errorOf("read nothing")(c.Read(nil))
	must(t, c.SetDeadline(time.Time{}))
	must(t, c.Close())
	errorOf("read after close")(c.Read(make([]byte, 1)))
	errorOf("read nothing after close")(c.Read(nil))
	errorOf("write after close")(c.Write(nil))
	errorOf("second close")(0, c.Close())
	// One of package net, whose socket is gone when Close returns.
	peer = need(net.ListenPacket(network, testAddress(t, network)))(t)
	defer peer.Close()
	c = need(n.dial(context.Background(), network, peer.LocalAddr().String()))(t)
	defer c.Close()
	must(t, peer.Close())
	hide = []string{peer.LocalAddr().String(), c.LocalAddr().String()}
	if network == "unixgram" {
		errorOf("write")(c.Write([]byte("nobody listens any more")))
	} else {
		refusals(c, errorOf)
	}
}

// converse has the peer send to the connection, and a stranger, which is not heard.
func converse(c net.Conn, peer net.PacketConn, errorOf func(string) func(int, error), note func(string, ...any)) {
	for _, message := range []string{"", "answer", "cut off", "last"} {
		errorOf("peer writes")(peer.WriteTo([]byte(message), c.LocalAddr()))
	}
	errorOf("read nothing")(c.Read(nil)) // takes none
	errorOf("read an empty datagram")(c.Read(make([]byte, 5)))
	buf := make([]byte, 6)
	k, from, err := c.(net.PacketConn).ReadFrom(buf)
	errorOf("read from")(k, err)
	note("%q from the peer %v", buf[:k], from != nil && from.String() == c.RemoteAddr().String())
	errorOf("read a part")(c.Read(buf[:3]))
	errorOf("read the next")(c.Read(buf))
	note("%q", buf[:k])
}

// refusals meets the answer to a datagram that nobody takes (ICMP, port unreachable): the
// next call has the error, whichever it is, and the one after that has not.
func refusals(c net.Conn, errorOf func(string) func(int, error)) {
	errorOf("write to nobody")(c.Write([]byte("nobody listens any more")))
	errorOf("read the refusal")(c.Read(make([]byte, 1)))
	errorOf("write to nobody again")(c.Write([]byte("nobody")))
	errorOf("write meets the refusal")(c.Write([]byte("nobody")))
	errorOf("write once more")(c.Write([]byte("nobody")))
	_, _, err := c.(net.PacketConn).ReadFrom(make([]byte, 1))
	errorOf("read from meets the refusal")(0, err)
}

// Reading waits, and a refusal or Close ends that.
func TestConnectedPacketWaits(t *testing.T) {
	both(t, func(t *testing.T) {
		peer, err := net.ListenPacket("udp", "127.0.0.1:0") // gone at once when it is closed
		must(t, err)
		c := dialPacket(t, peer.LocalAddr())
		for _, x := range []struct {
			end  func()
			want error
		}{
			{func() { need(peer.WriteTo([]byte("x"), c.LocalAddr()))(t) }, nil},
			{func() { must(t, peer.Close()); need(c.Write(nil))(t) }, unix.ECONNREFUSED},
			{func() { must(t, c.Close()) }, net.ErrClosed},
		} {
			reader := spawn(func() {
				n, err := c.Read(make([]byte, 2))
				testenv.True(t, errors.Is(err, x.want) && (x.want != nil || n == 1), "Read returned %d, %v, want %v", n, err, x.want)
			})
			awaitWaiter(&c.d.read)
			x.end()
			must(t, reader())
		}
	})
}

// No address at all in a UDPAddr is this machine, as for package net; no UDPAddr is an error.
func TestWriteToNoAddress(t *testing.T) {
	withEpoll(t)
	for _, network := range networks("udp4", "udp6", "udp") {
		likeNet(t, network, func(n library, note func(string, ...any)) {
			c := need(n.listenPacket(network, ":0"))(t)
			defer c.Close()
			port := c.LocalAddr().(*net.UDPAddr).Port
			k, err := c.WriteTo([]byte("x"), &net.UDPAddr{Port: port})
			note("%d, %s", k, shape(err))
			must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
			k, from, err := c.ReadFrom(make([]byte, 2))
			note("%d, from itself %v, %s", k, from.(*net.UDPAddr).Port == port, shape(err))
			_, err = c.WriteTo([]byte("x"), nil)
			note("to nil: an error %v", err != nil)
			_, err = c.WriteTo([]byte("x"), (*net.UDPAddr)(nil))
			note("to a nil address: an error %v", err != nil)
			_, err = c.WriteTo([]byte("x"), (*net.UnixAddr)(nil))
			note("to a nil address: an error %v", err != nil)
		})
	}
}
