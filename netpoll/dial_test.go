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
		const limit = 50 * time.Millisecond
		for name, dial := range map[string]func() (net.Conn, error){
			"DialTimeout":     func() (net.Conn, error) { return DialTimeout("tcp", address, limit) },
			"Dialer.Timeout":  func() (net.Conn, error) { return (&Dialer{Timeout: limit}).Dial("tcp", address) },
			"Dialer.Deadline": func() (net.Conn, error) { return (&Dialer{Deadline: time.Now().Add(limit)}).Dial("tcp", address) },
		} {
			start := time.Now()
			_, err := dial()
			var ne net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("%s: %v, want a timeout", name, err)
			}
			if d := time.Since(start); d < limit || d > time.Minute {
				t.Errorf("%s of %v took %v", name, limit, d)
			}
		}
	})
}

// A unix listener with a full queue tells a connecting socket EAGAIN.
func TestDialFullUnix(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := need(ListenConfig{Backlog: 1}.Listen(context.Background(), "unix", testAddress(t, "unix")))(t)
		var queued []net.Conn
		for {
			c, err := DialTimeout("unix", ln.Addr().String(), 10*time.Millisecond)
			if err != nil {
				testenv.ErrorIs(t, err, os.ErrDeadlineExceeded, "Dial with a full queue")
				break
			}
			queued = append(queued, c)
		}
		dialer := spawn(func() {
			c := need(Dial("unix", ln.Addr().String()))(t)
			must(t, c.Close())
		})
		for range len(queued) + 1 {
			s := need(ln.Accept())(t)
			must(t, s.Close())
		}
		must(t, dialer())
		for _, c := range queued {
			must(t, c.Close())
		}
		must(t, ln.Close())
	})
}

func TestDialName(t *testing.T) {
	both(t, func(t *testing.T) {
		ln := need(Listen("tcp4", "127.0.0.1:0"))(t)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		c, err := Dial("tcp", "localhost:"+port) // ::1 refuses first
		must(t, err)
		must(t, c.Close())
		must(t, ln.Close())
	})
}

func TestShareOfDeadline(t *testing.T) {
	if d, err := shareOf(time.Time{}, 3); !d.IsZero() || err != nil {
		t.Errorf("no deadline: %v, %v", d, err)
	}
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
		d, err := shareOf(began.Add(x.left), x.n)
		if got := d.Sub(began); err != nil || got < x.want || got > x.want+time.Since(began) {
			t.Errorf("a share of %v among %d is %v, %v, want %v", x.left, x.n, got, err, x.want)
		}
	}
}

// What a context has ended does not wait for its turn to be offloaded.
func TestEndedWhileNothingCanBeOffloaded(t *testing.T) {
	rt := onOne(t, 1).start(t, func(c *engine.Config) { c.OffloadLimit = 1 })
	inTask(t, rt, func() {
		hold, held := make(chan struct{}), task.NewChan[bool](1)
		holder := engine.Go(func() { engine.Offload(func() { held.Send(true); <-hold }) })
		held.Recv()
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		ended := 0
		var all []*engine.Task
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
		testenv.Equal(t, ended, len(all), "of %d have ended", len(all))
		close(hold)
		for _, k := range append(all, holder) {
			must(t, k.Join())
		}
	})
}

// An address that failed before does not hide that the context has ended.
func TestDialEndsAtALaterAddress(t *testing.T) {
	both(t, func(t *testing.T) {
		loop := need(ownLoop())(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		tries := 0
		x := &dialing{loop: loop, network: "tcp", Dialer: &Dialer{Control: func(string, string, syscall.RawConn) error {
			if tries++; tries == 2 {
				cancel()
			}
			return nil
		}}}
		refused, mute := sockaddr.FromAddrPort(netip.MustParseAddrPort(boundAddress(t))), silent(t)
		if c, failed, err := x.inTurn(ctx, []sockaddr.Addr{refused, mute}); !errors.Is(err, context.Canceled) || *failed != mute {
			t.Errorf("%v, %v of %v; want context.Canceled of the second", c, err, failed)
		}
	})
}

// The zone of an address counts, without which a link-local one is of no use.
func TestZones(t *testing.T) {
	withEpoll(t)
	all := need(net.Interfaces())(t)
	for _, i := range all {
		for zone, address := range map[string]string{i.Name: "[fe80::1%" + i.Name + "]:80", strconv.Itoa(i.Index): fmt.Sprintf("[fe80::1%%%d]:80", i.Index)} {
			for _, network := range []string{"tcp", "udp6"} {
				addrs, err := sockaddr.Resolve(context.Background(), network, address, time.Time{})
				if want := fmt.Sprintf("[fe80::1%%%s]:80", i.Name); err != nil || len(addrs) != 1 || addrs[0].Scope != uint32(i.Index) || addrs[0].String() != want {
					t.Errorf("%s in zone %s: %v, %v; want %s", network, zone, addrs, err, want)
				}
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
		if c, err := Dial(network, "name.invalid.:1"); err == nil {
			t.Errorf("%s: connected to %v", network, c)
		}
		mu.Lock()
		if ipv4 == 0 || (ipv6 > 0) != (network == "tcp") {
			t.Errorf("%s: asked for %d IPv4 and %d IPv6 addresses", network, ipv4, ipv6)
		}
		mu.Unlock()
	}
}
