//go:build linux

package netpoll

import (
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// holding runs on every loop but the first a task that holds it until the test is over, and
// runs f as a task of the first, which may wait natively, as libraries do, for goroutines
// that use connections.
func holding(t *testing.T, f func(t *testing.T, rt *engine.Runtime)) {
	for _, s := range settings() {
		if s.loops > 2 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			rt := s.start(t)
			release := make(chan struct{})
			var held sync.WaitGroup
			for i := 1; i < rt.Loops(); i++ {
				held.Add(1)
				engine.GoOn(rt.Loop(i), func() { held.Done(); <-release })
			}
			held.Wait()
			done := make(chan struct{})
			engine.GoOn(rt.Loop(0), func() { defer close(done); f(t, rt) })
			<-done
			close(release)
		})
	}
}

// natively runs f on a goroutine, and has its caller wait for it without parking.
func natively(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}

// pairHere is connPair with a connection of package net at the other end.
func pairHere(t *testing.T) (ours *Conn, theirs net.Conn) {
	ln := testenv.Listen(t)
	return dial(t, ln.Addr()), closing(t, need(ln.Accept())(t))
}

// What a goroutine reads, writes, dials, accepts or waits for until a deadline does not need
// the loop, which its task holds.
func TestGoroutinesDoNotNeedHeldLoops(t *testing.T) {
	holding(t, func(t *testing.T, rt *engine.Runtime) {
		c, peer := pairHere(t)
		t.Run("bytes that come later", func(t *testing.T) {
			natively(func() {
				reader := spawn(func() { reads(t, c, "x") })
				awaitWaiter(&c.d.read)
				peer.Write([]byte("x"))
				must(t, reader())
			})
		})
		t.Run("bytes that are there", func(t *testing.T) {
			peer.Write([]byte("x"))
			natively(func() { reads(t, c, "x") })
		})
		t.Run("deadline", func(t *testing.T) {
			must(t, c.SetReadDeadline(time.Now().Add(5*time.Millisecond))) // by the task
			natively(func() {
				readFails(t, c, os.ErrDeadlineExceeded)
				must(t, c.SetReadDeadline(time.Now().Add(5*time.Millisecond)))
				readFails(t, c, os.ErrDeadlineExceeded, "again")
			})
			must(t, c.SetReadDeadline(time.Time{}))
		})
		t.Run("write", func(t *testing.T) {
			const size = 8 << 20
			read := spawn(func() { readSize(t, peer, size) })
			natively(func() { need(c.Write(make([]byte, size)))(t); must(t, read()) })
		})
		t.Run("pipe", func(t *testing.T) {
			r, w := pipe(t)
			natively(func() {
				const size = 1 << 20
				read := spawn(func() { readSize(t, r, size) })
				awaitWaiter(&r.d.read)
				need(w.Write(make([]byte, size)))(t)
				must(t, read())
			})
		})
		t.Run("close", func(t *testing.T) {
			natively(func() {
				reader := spawn(func() { readFails(t, c, net.ErrClosed) })
				awaitWaiter(&c.d.read)
				must(t, c.Close())
				must(t, reader())
			})
		})
	})
}

func TestGoroutinesDialAndAcceptOnHeldLoops(t *testing.T) {
	holding(t, func(t *testing.T, rt *engine.Runtime) {
		ln := listen(t, "tcp")
		natively(func() {
			for range 4 { // each loop has its turn
				accepted := spawn(func() {
					s := need(ln.AcceptConn())(t)
					s.Write([]byte("x"))
					must(t, s.Close())
				})
				awaitWaiter(&ln.d.read)
				reads(t, dial(t, ln.Addr()), "x")
				must(t, accepted())
			}
			full := fullListener(t)
			testenv.ErrorIs(t, testenv.Err(DialTimeout("tcp", full, 10*time.Millisecond)), os.ErrDeadlineExceeded, "DialTimeout")
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(10*time.Millisecond, cancel)
			testenv.ErrorIs(t, testenv.Err(DialContext(ctx, "tcp", full)), context.Canceled, "DialContext")
		})
	})
}

// Tasks and goroutines take turns on a connection: it gets loose and is bound again, and no
// event is lost.
func TestTasksAndGoroutinesTakeTurns(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		c, s := connPair(t, "tcp")
		const rounds = 200
		echo := rt.Go(func() {
			for range rounds {
				reads(t, s, "word")
				need(s.Write([]byte("word")))(t)
			}
		})
		talk := func() { talkOnce(t, c, c) }
		var looseSeen, boundSeen bool
		for i := range rounds {
			if i%2 == 0 {
				must(t, engine.GoOn(c.d.loop, talk).Join())
				boundSeen = boundSeen || c.d.flags.Load()&flagLoose == 0
			} else {
				talk()
				looseSeen = looseSeen || c.d.flags.Load()&flagLoose != 0
			}
		}
		must(t, echo.Join())
		// A ring gives a socket back only when its loop asks for it.
		testenv.True(t, (looseSeen || c.d.requests != nil) && boundSeen, "it was loose: %v, bound: %v; want both", looseSeen, boundSeen)
	})
}

// As long as a goroutine waits to read, a task that waits to write does not bind the
// connection, and one in the middle of a write learns that it has got loose meanwhile.
func TestGoroutineReadsWhileATaskWrites(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		for _, readerFirst := range []bool{true, false} {
			c, peer := pairHere(t)
			const size = 8 << 20
			var reader func() error
			read := func() {
				reader = spawn(func() { reads(t, c, "x") })
				awaitWaiter(&c.d.read)
			}
			if readerFirst {
				read()
			}
			writer := engine.GoOn(c.d.loop, func() { need(c.Write(make([]byte, size)))(t) })
			awaitWaiter(&c.d.write)
			if !readerFirst {
				read()
			} else {
				c.d.mu.Lock() // while it finds out that there is a reader, bind takes the flag away
				testenv.True(t, c.d.flags.Load()&flagLoose != 0, "the task has bound the connection, whose reader then needs the loop")
				c.d.mu.Unlock()
			}
			readSize(t, peer, size)
			must(t, writer.Join())
			peer.Write([]byte("x"))
			must(t, reader())
		}
	})
}

// readSize reads that many bytes.
func readSize(t *testing.T, r io.Reader, size int64) {
	need(io.CopyN(io.Discard, r, size))(t)
}

// tableOf returns the table of the loop's poller.
func tableOf(l *engine.Loop) *table {
	switch p := l.Poller().(type) {
	case *epoll:
		return &p.table
	case restingEpoll:
		return &p.table
	}
	return &l.Poller().(*uringPoller).table
}

// A poller that closes finds no descriptor in its table that is half registered: the table is locked for all of it.
func TestRegisteringIsOneStep(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		in := tableOf(rt.Loop(0))
		d, done := new(desc), make(chan error)
		fd, _ := bareSocketpair(t)
		loose.mu.Lock()
		go func() { done <- d.init(fd, kindStream, rt.Loop(0), true) }()
		testenv.Until(t, "the table has the descriptor", func() (has bool) {
			in.each(func(x *desc) { has = has || x == d })
			return has
		})
		for range 1000 {
			if in.mu.TryLock() {
				in.mu.Unlock()
				t.Error("the poller may close although looseSet does not have the descriptor yet")
				break
			}
			runtime.Gosched()
		}
		loose.mu.Unlock()
		must(t, <-done)
		must(t, d.close())
	})
}
