//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll/internal/sockaddr"
)

// TestDrain: what was in the backlog is served, and nothing after.
func TestDrain(t *testing.T) {
	const clients = 32
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			everywhere(t, func(t *testing.T, rt *engine.Runtime) {
				address := "127.0.0.1:0"
				if network == "unix" {
					address = filepath.Join(t.TempDir(), "s")
				}
				ln := testenv.Need(Listen(network, address))(t)
				address = ln.Addr().String()
				var all []net.Conn
				for range clients {
					nc := testenv.Need(net.Dial(network, address))(t)
					defer nc.Close()
					all = append(all, nc)
				}
				drained, served := make(chan error, 1), make(chan error, 1)
				go func() { drained <- ln.Drain(context.Background()) }()
				go func() {
					served <- Serve(ln, func(c *Conn) {
						defer c.Close()
						io.WriteString(c, "hello")
					})
				}()
				for _, nc := range all {
					nc.SetDeadline(time.Now().Add(time.Minute))
					if got, err := io.ReadAll(nc); string(got) != "hello" {
						t.Errorf("%q, %v", got, err)
					}
				}
				testenv.Check(t, <-drained, "Drain")
				testenv.ErrorIs(t, <-served, net.ErrClosed, "Serve")
				if nc, err := net.Dial(network, address); err == nil {
					nc.Close()
					t.Error("a client after Drain")
				}
			})
		})
	}
}

// TestDrainKeepsNewClientsOut while those in the backlog wait.
func TestDrainKeepsNewClientsOut(t *testing.T) {
	settings()[0].start(t)
	if !testenv.SocketFilters() {
		t.Skip("no socket filter can be had here")
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		if address[0] == '[' && !sockaddr.HaveIPv6() {
			continue
		}
		ln := testenv.Need(Listen("tcp", address))(t)
		to := ln.Addr().String()
		if address == ":0" {
			_, port, _ := net.SplitHostPort(to)
			to = net.JoinHostPort("127.0.0.1", port)
		}
		first := testenv.Need(net.Dial("tcp", to))(t)
		defer first.Close()
		testenv.Until(t, "the first is in the backlog", func() bool { return !ln.d.backlogEmpty() })
		ctx, cancel := context.WithCancel(context.Background())
		drained := make(chan error, 1)
		go func() { drained <- ln.Drain(ctx) }()
		for kept := false; !kept; { // until the filter is there
			nc, err := net.DialTimeout("tcp", to, 100*time.Millisecond)
			var late net.Error
			kept = errors.As(err, &late) && late.Timeout()
			if err == nil {
				nc.Close()
			} else if !kept {
				t.Fatal(err)
			}
		}
		cancel()
		testenv.Equal(t, <-drained, context.Canceled, "Drain")
		// Nobody has accepted the first, which is reset.
		testenv.ErrorIs(t, testenv.Err(first.Read(make([]byte, 1))), syscall.ECONNRESET, "a client whom nobody accepts")
	}
}

// TestUnread on every poller, as some receive before anybody reads.
func TestUnread(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, reset := range []bool{false, true} { // which counts too: the connection must not be used again
			unread(t, reset)
		}
	})
}

func unread(t *testing.T, reset bool) {
	ours, theirs := connPair(t, "tcp")
	if ours.Unread() {
		t.Error("nothing was sent")
	}
	buf := make([]byte, 10)
	for _, text := range []string{"a", "bc"} {
		testenv.Need(io.WriteString(theirs, text))(t)
		for !ours.Unread() {
			breathe(time.Millisecond)
		}
		if n, err := ours.Read(buf); string(buf[:n]) != text {
			t.Errorf("%q, %v", buf[:n], err)
		}
		if ours.Unread() {
			t.Error("all was read")
		}
	}
	if reset {
		must(t, theirs.SetLinger(0))
	}
	theirs.Close()
	for !ours.Unread() {
		breathe(time.Millisecond)
	}
	ours.Close()
	if ours.Unread() {
		t.Error("closed")
	}
}
