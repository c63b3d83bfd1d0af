//go:build linux

package netpoll

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// spawn runs f as a task if the caller is one, else as a goroutine.
func spawn(f func()) (join func() error) {
	if engine.Current() != nil {
		return engine.Go(f).Join
	}
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	return func() error { <-done; return nil }
}

// both runs the test in tasks and in goroutines, in every setting.
func both(t *testing.T, f func(t *testing.T)) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		t.Run("tasks", func(t *testing.T) { inTask(t, rt, func() { f(t) }) })
		t.Run("goroutines", f)
	})
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
}

func TestCloseWakesReader(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			var err error
			reader := spawn(func() { _, err = c.Read(make([]byte, 1)) })
			second := spawn(func() { c.Read(make([]byte, 1)) }) // queues for the lock
			awaitWaiter(&c.d.read)
			must(t, c.Close())
			must(t, reader())
			must(t, second())
			testenv.ErrorIs(t, err, net.ErrClosed, "Read during Close")
			must(t, s.Close())
			if network == "tcp" && (c.LocalAddr().String() != s.RemoteAddr().String() || c.RemoteAddr().String() != s.LocalAddr().String()) {
				t.Errorf("after Close the addresses %v, %v and %v, %v do not agree", c.LocalAddr(), c.RemoteAddr(), s.LocalAddr(), s.RemoteAddr())
			}
		}
	})
}

// awaitWaiter returns when somebody is parked on s.
func awaitWaiter(s *slot) {
	for {
		if p := s.p.Load(); p != drained && p != ready {
			return
		}
		rest(100 * time.Microsecond)
	}
}

// rest lets others run, in a task or a goroutine.
func rest(d time.Duration) {
	if engine.Current() != nil {
		engine.Sleep(d)
	} else {
		breathe(d)
	}
}

// CloseRead ends a Read that waits. All else that half a connection does is compared with package net's, see
// TestStreamsAreLikeNets.
func TestHalfClose(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			buf := make([]byte, 20)
			reader := spawn(func() {
				testenv.Equal(t, testenv.Err(c.Read(buf)), io.EOF, "Read during CloseRead")
			})
			awaitWaiter(&c.d.read)
			must(t, c.CloseRead())
			must(t, reader())
			must(t, c.Close())
			must(t, s.Close())
		}
	})
}

func TestDeadlines(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		defer c.Close()
		defer s.Close()
		buf := make([]byte, 10)
		timedOut := func(err error) {
			t.Helper()
			var ne net.Error
			if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
				t.Errorf("got %v, want a timeout that is os.ErrDeadlineExceeded", err)
			}
		}
		_, err := s.Write([]byte("hello"))
		must(t, err)
		must(t, c.SetReadDeadline(time.Now().Add(-time.Second)))
		_, err = c.Read(buf) // although bytes are there
		timedOut(err)
		must(t, c.SetReadDeadline(time.Time{}))
		n := need(io.ReadFull(c, buf[:5]))(t)
		testenv.Equal(t, string(buf[:n]), "hello", "after the deadline")
		start := time.Now()
		must(t, c.SetReadDeadline(start.Add(time.Hour)))
		must(t, c.SetReadDeadline(start.Add(20*time.Millisecond)))
		_, err = c.Read(buf)
		timedOut(err)
		if d := time.Since(start); d < 20*time.Millisecond || d > time.Minute {
			t.Errorf("a deadline of 20ms was met after %v", d)
		}
		// A deadline that is moved away while somebody waits.
		must(t, c.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
		must(t, c.SetReadDeadline(time.Now().Add(time.Hour)))
		reader := spawn(func() { _, err = c.Read(buf) })
		awaitWaiter(&c.d.read)
		must(t, c.SetReadDeadline(time.Unix(1, 0)))
		must(t, reader())
		timedOut(err)
		must(t, c.SetWriteDeadline(time.Now().Add(20*time.Millisecond)))
		const size = 32 << 20 // more than the buffers of both ends
		sent, err := c.Write(make([]byte, size))
		timedOut(err)
		if sent == size {
			t.Errorf("%d bytes sent to a peer that does not read", sent)
		}
	})
}

func TestReset(t *testing.T) {
	both(t, func(t *testing.T) {
		c, s := connPair(t, "tcp")
		defer s.Close()
		var err error
		reader := spawn(func() { _, err = s.Read(make([]byte, 1)) })
		awaitWaiter(&s.d.read)
		must(t, c.SetLinger(0))
		must(t, c.Close())
		must(t, reader())
		testenv.ErrorIs(t, err, syscall.ECONNRESET, "Read")
	})
}

// The peer of a connection that is closed with bytes unread is told that they were not.
func TestCloseWithUnreadBytesResets(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, takeSome := range []bool{false, true} {
			c, s := connPair(t, "tcp")
			need(c.Write([]byte("for nobody")))(t)
			ran := make(chan bool, 1)
			must(t, s.OnReadable(func() { ran <- true }))
			for len(ran) == 0 {
				rest(100 * time.Microsecond)
			}
			if takeSome {
				need(s.Read(make([]byte, 3)))(t)
			}
			must(t, s.Close())
			testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), syscall.ECONNRESET, "the peer reads")
			must(t, c.Close())
		}
	})
}

// Connections that close with unsent data, and were told to linger, take neither the loop's
// time nor threads.
func TestLingerDoesNotBlockTheLoop(t *testing.T) {
	const conns = 30
	rt := onOne(t, 1).start(t)
	inTask(t, rt, func() {
		var clients, servers []*Conn
		much := make([]byte, 32<<20)
		for range conns {
			c, s := connPair(t, "tcp")
			must(t, c.SetLinger(60))
			must(t, c.SetWriteDeadline(time.Now().Add(10*time.Millisecond)))
			c.Write(much) // more than the kernel takes
			clients, servers = append(clients, c), append(servers, s)
		}
		before, start := runtime.NumGoroutine(), time.Now()
		for _, c := range clients {
			must(t, c.Close())
		}
		if n := runtime.NumGoroutine(); n > before+conns/2 {
			t.Errorf("%d goroutines after %d lingering connections were closed, %d before", n, conns, before)
		}
		if d := time.Since(start); d > conns/2*time.Minute { // each was told to linger for a minute
			t.Errorf("closing took %v", d)
		}
		n, err := io.Copy(io.Discard, servers[0])
		if n < 64<<10 || err != nil {
			t.Errorf("%d bytes came of a connection that was closed, %v", n, err)
		}
		for _, s := range servers {
			must(t, s.SetLinger(0))
			must(t, s.Close())
		}
	})
}

// Close does not wait for data either if SO_LINGER was set past SetLinger; a reset stays one.
func TestLingerThatWasSetPastUsIsTakenBack(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		inTask(t, rt, func() {
			for _, seconds := range []int32{60, 0} {
				c, s := connPair(t, "tcp")
				raw, err := c.SyscallConn()
				must(t, err)
				kept := -1 // while it is open, close(2) of the other does not linger
				must(t, raw.Control(func(fd uintptr) {
					if kept, err = unix.Dup(int(fd)); err == nil {
						err = unix.SetsockoptLinger(kept, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1, Linger: seconds})
					}
				}))
				must(t, err)
				must(t, c.Close())
				l := need(unix.GetsockoptLinger(kept, unix.SOL_SOCKET, unix.SO_LINGER))(t)
				if want := int32(boolInt(seconds == 0)); l.Onoff != want {
					t.Errorf("SO_LINGER of %d s: it is %+v when the connection is closed, want %d", seconds, *l, want)
				}
				must(t, unix.Close(kept))
				must(t, s.Close())
			}
		})
	})
}

func TestContextEndsWait(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		ctx, cancel := context.WithCancel(context.Background())
		var c, s *Conn
		inTask(t, rt, func() { c, s = connPair(t, "tcp") })
		reader, err := rt.Spawn(engine.Options{Context: ctx}, func() {
			buf := make([]byte, 10)
			testenv.ErrorIs(t, testenv.Err(c.Read(buf)), context.Canceled, "Read")
			// What needs no wait still works.
			need(s.Write([]byte("x")))(t)
			must(t, c.Close())
			must(t, s.Close())
		})
		must(t, err)
		awaitWaiter(&c.d.read)
		cancel()
		must(t, reader.Join())
	})
}
