//go:build linux

package netpoll

import (
	"context"
	"errors"
	"flag"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/uring"
	"github.com/capriccio-go/capriccio/task"
)

var churn = flag.Int("churn", testenv.Rounds(1500, 5_000), "how many connections TestUringChurn opens and closes in turn")

// onUring runs the test as a task of one loop with the given options, with and without the
// kernel's limit of multishot receives.
func onUring(t *testing.T, o uringOptions, f func(t *testing.T, p *uringPoller)) {
	limited, err := uring.MultishotReceive()
	skipRefused(t, err)
	must(t, err)
	for _, x := range []struct {
		name   string
		capped bool
	}{{"capped", true}, {"cancelled", false}} {
		t.Run(x.name, func(t *testing.T) {
			if x.capped && !limited {
				t.Skip("multishot receives can't be limited before Linux 6.17")
			}
			var p *uringPoller
			rt := setting{"uring", func() (engine.Poller, error) {
				q, err := newUring(o)
				if err == nil {
					p = q.(*uringPoller)
					p.capped = x.capped
				}
				return q, err
			}, 1}.start(t)
			inTask(t, rt, func() { f(t, p) })
		})
	}
}

// aheadListener makes a listener from which the kernel accepts before anybody asks.
func aheadListener(t *testing.T) *Listener {
	ln := listen(t, "tcp")
	until(t, "the kernel accepts ahead", func() bool { // an Accept whose deadline has passed at once asks for nothing
		must(t, ln.SetDeadline(time.Now().Add(time.Millisecond)))
		testenv.ErrorIs(t, testenv.Err(ln.Accept()), os.ErrDeadlineExceeded, "Accept")
		return acceptsAhead(ln)
	})
	must(t, ln.SetDeadline(time.Time{}))
	return ln
}

// until waits for what comes some time after the call that brings it about: a stalled
// machine may take long for it.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for n := 0; !holds(); n++ {
		if n == 20_000 {
			t.Errorf("it does not come about that %s", what)
			return
		}
		rest(time.Millisecond)
	}
}

func (r *requests) holds() (buffers, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := r.head
	for range r.held {
		h := r.p.buffers.chain[i]
		bytes += int(h.end - h.start)
		i = h.next
	}
	return int(r.held), bytes
}

// awaitHeld returns when n bytes have been received for s, which nobody has read.
func awaitHeld(s *Conn, n int) {
	for got := 0; got < n; _, got = s.d.requests.holds() {
		rest(time.Millisecond)
	}
}

// A reader that does not read holds a few buffers, and its peer can't send on and on.
// What has been sent arrives, in order.
func TestUringSlowConsumer(t *testing.T) {
	const size, buffers = 1 << 10, 1024
	onUring(t, uringOptions{buffers: buffers, bufferSize: size}, func(t *testing.T, p *uringPoller) {
		c, s := connPair(t, "tcp")
		must(t, s.SetReadBuffer(64<<10))
		must(t, c.SetWriteBuffer(64<<10))
		hook := task.NewChan[bool](1)
		must(t, s.OnReadable(func() { hook.Send(true) }))
		want := pattern(4 << 20)
		var sent int
		var err error
		for sent == 0 { // on a slow machine the deadline may pass before the write begins
			must(t, c.SetWriteDeadline(time.Now().Add(150*time.Millisecond)))
			sent, err = c.Write(want)
		}
		testenv.True(t, errors.Is(err, os.ErrDeadlineExceeded), "wrote %d bytes to a peer that does not read, %v; want a time-out", sent, err)
		hook.Recv()
		most := 2*receiveCap/size + 1
		if !p.capped {
			most = buffers / 2 // what comes until the loop's next turn
		}
		if n, bytes := s.d.requests.holds(); n == 0 || n > most {
			t.Errorf("the connection holds %d buffers with %d bytes; want some, and at most %d", n, bytes, most)
		}
		must(t, c.SetWriteDeadline(time.Time{}))
		writer := engine.Go(func() {
			need(c.Write(want[sent:]))(t)
			must(t, c.Close())
		})
		sameBytes(t, need(io.ReadAll(s))(t), want, "the slow reader")
		must(t, writer.Join())
		must(t, s.Close())
		testenv.Equal(t, p.buffers.Free, buffers, "buffers are free after all is closed")
	})
}

// Bytes that come one by one to a task that does not read share a buffer.
func TestUringFewBytesShareBuffers(t *testing.T) {
	onUring(t, uringOptions{bufferSize: 100}, func(t *testing.T, p *uringPoller) {
		c, s := connPair(t, "tcp")
		must(t, s.OnReadable(func() {}))
		want := pattern(150)
		for i := range want {
			need(c.Write(want[i : i+1]))(t)
			engine.Yield()
		}
		awaitHeld(s, len(want))
		buffers, _ := s.d.requests.holds()
		testenv.AtMost(t, buffers, 3, "buffers of 100 for 150 bytes")
		got := make([]byte, len(want))
		for at := 0; at < len(got); at += 10 { // a part of a buffer at a time
			need(io.ReadFull(s, got[at:at+10]))(t)
		}
		sameBytes(t, got, want, "what lay in buffers")
	})
}

// Two buffers, and fifty connections that hold bytes which nobody reads: another one
// works all the same, and in the end everybody gets what was sent.
func TestUringOutOfBuffers(t *testing.T) {
	onUring(t, uringOptions{buffers: 2, bufferSize: 64}, func(t *testing.T, p *uringPoller) {
		var clients, servers []*Conn
		want := pattern(1000)
		readable := 0
		for range 50 {
			c, s := connPair(t, "tcp")
			must(t, s.OnReadable(func() { readable++ }))
			clients, servers = append(clients, c), append(servers, s)
		}
		for _, c := range clients {
			need(c.Write(want))(t)
		}
		until(t, "none of the buffers is free", func() bool { return p.buffers.Free == 0 })
		until(t, "all connections are readable, and may be read", func() bool { return readable == len(servers) })
		c, s := connPair(t, "tcp")
		pingPong(t, c, s, 100)
		clients, servers = append(clients, c), append(servers, s)
		need(c.Write(want))(t)
		for i, s := range servers {
			got := make([]byte, len(want))
			need(io.ReadFull(s, got))(t)
			sameBytes(t, got, want, "a connection")
			must(t, clients[i].Close())
			must(t, s.Close())
		}
		testenv.Equal(t, p.buffers.Free, 2, "buffers are free after all is closed")
	})
}

// When Close returns the peer has been told, although a request in the ring held the
// file, and what still completes does not reach the connection that has the number now.
func TestUringCloseAndReuse(t *testing.T) {
	test := func(t *testing.T) {
		ln := listen(t, "tcp")
		for range testenv.Rounds(40, 100) {
			d, old := dial(t, ln.Addr()), accept(t, ln)
			reader := spawn(func() { old.Read(make([]byte, 1)) })
			awaitWaiter(&old.d.read)
			rest(20 * time.Microsecond) // the request may be in the ring by now
			number, token := old.d.fd, old.d.token
			need(d.Write([]byte("for the dead")))(t)
			must(t, old.Close())
			must(t, reader())
			// Closed with bytes that nobody has read or not: the end, or a reset.
			must(t, d.SetReadDeadline(time.Now().Add(time.Minute)))
			_, err := d.Read(make([]byte, 1))
			testenv.MustEqual(t, err == io.EOF || errors.Is(err, unix.ECONNRESET), true, "the peer of a closed connection reads its end, %v", err)
			must(t, d.Close())
			c, s := connPair(t, "tcp")
			for _, x := range []*Conn{c, s} {
				testenv.MustEqual(t, x.d.token == token, false, "token %#x was given twice", token)
				if x.d.fd == number {
					must(t, x.SetReadDeadline(time.Now().Add(time.Millisecond)))
					readFails(t, x, os.ErrDeadlineExceeded, "a connection that nobody writes to")
				}
			}
			must(t, c.Close())
			must(t, s.Close())
		}
	}
	onUring(t, uringOptions{}, func(t *testing.T, p *uringPoller) {
		test(t)
		engine.Offload(func() { test(t) }) // as a goroutine
	})
}

// Connections opened and closed in turn leave no request in flight, no descriptor and
// no buffer.
func TestUringChurn(t *testing.T) {
	const buffers = 16
	onUring(t, uringOptions{buffers: buffers}, func(t *testing.T, p *uringPoller) {
		before := len(testenv.OpenFiles())
		ln := need(Listen("tcp", "127.0.0.1:0"))(t)
		buf := make([]byte, 8)
		for i := range *churn {
			c := need(Dial("tcp", ln.Addr().String()))(t).(*Conn)
			s := need(ln.AcceptConn())(t)
			must(t, c.SetLinger(0)) // no TIME_WAIT, of which there is room for few
			must(t, s.SetLinger(0))
			switch i % 4 {
			case 0: // bytes in a buffer
				must(t, s.OnReadable(func() {}))
				need(c.Write(buf))(t)
				engine.Yield()
			case 1: // a receive in flight
				must(t, s.OnReadable(func() {}))
			case 2: // a reader
				need(c.Write(buf))(t)
				need(s.Read(buf))(t)
			}
			if i%2 == 0 {
				c, s = s, c
			}
			must(t, c.Close())
			must(t, s.Close())
		}
		must(t, ln.Close())
		until(t, "no request is in flight but that of the waker, and none to submit", func() bool {
			return p.driver.InFlight() == 1 && p.driver.Pending() == 0
		})
		until(t, "no descriptor is registered", func() bool { return p.table.active.Load() == 0 })
		until(t, "all buffers are free", func() bool { return p.buffers.Free == buffers })
		n := uint32(len(p.table.free))
		testenv.True(t, n == p.table.used && n <= 10, "%d of %d slots are free; want all of a handful", n, p.table.used)
		until(t, "as many descriptors are open as before", func() bool { return len(testenv.OpenFiles()) <= before })
	})
}

// Code that reads the descriptor itself gets what has not been received yet, and is
// not let past what has.
func TestUringSurrender(t *testing.T) {
	onUring(t, uringOptions{}, func(t *testing.T, p *uringPoller) { // in a task: for goroutines the kernel does not stream
		c, s := connPair(t, "tcp")
		raw := need(s.SyscallConn())(t)
		rawRead := func() (string, error) {
			buf, n := make([]byte, 10), 0
			err := raw.Read(func(fd uintptr) bool {
				var err error
				n, err = unix.Read(int(fd), buf)
				return err != unix.EAGAIN
			})
			return string(buf[:max(n, 0)]), err
		}
		pingPong(t, c, s, 3) // the kernel streams by now
		must(t, s.SetReadDeadline(time.Now().Add(time.Millisecond)))
		readFails(t, s, os.ErrDeadlineExceeded)
		must(t, s.SetReadDeadline(time.Time{}))
		need(c.Write([]byte("ab")))(t)
		awaitHeld(s, 2)
		testenv.ErrorIs(t, testenv.Err(rawRead()), errUnread, "raw read past bytes that were not read")
		reads(t, s, "ab")
		for _, word := range []string{"one", "two", "three"} {
			reader := spawn(func() { testenv.Got(rawRead())(t, word, "raw read") })
			awaitWaiter(&s.d.read)
			need(c.Write([]byte(word)))(t)
			must(t, reader())
		}
		pingPong(t, c, s, 10) // Read still works
		must(t, c.Close())
		readFails(t, s, io.EOF, "the peer has closed")
	})
}

// Connections that the kernel has accepted and nobody has taken are reset by Close.
func TestUringListenerClose(t *testing.T) {
	onUring(t, uringOptions{}, func(t *testing.T, p *uringPoller) {
		ln := aheadListener(t)
		var clients []*Conn
		for range 10 {
			clients = append(clients, dial(t, ln.Addr()))
		}
		rest(time.Millisecond)
		must(t, ln.Close())
		for _, c := range clients {
			must(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
			readFails(t, c, unix.ECONNRESET)
		}
	})
}

// acceptsAhead reports whether the kernel accepts before anybody asks.
func acceptsAhead(ln *Listener) bool {
	r := ln.d.requests
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.streaming
}

// What is accepted ahead would be lost to another process that gets the socket.
func TestUringSocketsForOthers(t *testing.T) {
	onUring(t, uringOptions{}, func(t *testing.T, p *uringPoller) {
		ln := aheadListener(t)
		other := closing(t, need(ListenOn(handedOver(t, ln), true))(t))
		until(t, "the kernel accepts nothing ahead", func() bool { return !acceptsAhead(ln) })
		dial(t, ln.Addr())
		must(t, ln.Close())
		must(t, other.SetDeadline(time.Now().Add(time.Minute)))
		accept(t, other)
	})
}

// What the kernel has accepted while the loop computes has not been seen by the loop, and is in no backlog any more:
// Drain waits for it nevertheless.
func TestUringDrainWaitsForTheLoop(t *testing.T) {
	onUring(t, uringOptions{}, func(t *testing.T, p *uringPoller) {
		ln := listen(t, "tcp") // in a task: for goroutines the kernel accepts nothing ahead
		drained := make(chan error, 1)
		engine.Offload(func() { // as a goroutine
			rt := ln.d.loop.Runtime()
			end := make(chan error, 1)
			rt.Go(func() { end <- Serve(ln, func(c *Conn) { io.WriteString(c, "hello"); c.Close() }) })
			testenv.Until(t, "the kernel accepts ahead", func() bool { return acceptsAhead(ln) })
			var held, free atomic.Bool
			rt.Go(func() {
				for held.Store(true); !free.Load(); {
				}
			})
			testenv.Until(t, "the loop is held", held.Load)
			c := client(t, ln.Addr())
			testenv.Until(t, "the kernel has accepted", func() bool {
				return p.driver.Ring().CQReady() > 0 && ln.d.backlogEmpty()
			})
			go func() { drained <- ln.Drain(context.Background()) }()
			for n := 0; n < 50 && ln.d.life.Load()&lifeClosed == 0; n++ {
				breathe(time.Millisecond)
			}
			free.Store(true)
			readsAll(t, c, "hello", "what was accepted before")
			testenv.Check(t, <-drained)
			testenv.ErrorIs(t, <-end, net.ErrClosed, "Serve")
		})
	})
}

func TestUringOptionsAreChecked(t *testing.T) {
	for _, o := range []uringOptions{{buffers: 3}, {buffers: -1}, {buffers: 1 << 16}, {bufferSize: 1 << 16}, {bufferSize: -1}} {
		testenv.Fails(t, testenv.Err(newUring(o)), "%+v", o)
	}
}
