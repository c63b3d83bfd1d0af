//go:build linux

package netpoll

import (
	"context"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// poolOf serves echoes and returns a pool of connections to that.
func poolOf(t *testing.T, max int) (p *Pool, dials *atomic.Int32) {
	addr := testenv.Serve(t, testenv.Echo)
	dials = new(atomic.Int32)
	p = &Pool{MaxConns: max, Dial: func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		return DialContext(ctx, "tcp", addr)
	}}
	return p, dials
}

func get(t *testing.T, p *Pool) net.Conn { return need(p.Get(context.Background()))(t) }

// eightOnEachLoop runs f as tasks with numbers, and waits for them.
func eightOnEachLoop(t *testing.T, rt *engine.Runtime, f func(i int)) {
	var all []*engine.Task
	for i := range 8 * rt.Loops() {
		all = append(all, engine.GoOn(rt.Loop(i%rt.Loops()), func() { f(i) }))
	}
	for _, k := range all {
		must(t, k.Join())
	}
}

// Tasks of several loops use connections of their own loops, never more than there may be.
func TestPool(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		const max = 16
		p, dials := poolOf(t, max)
		var foreign, out, most atomic.Int32
		eightOnEachLoop(t, rt, func(int) {
			for range 20 {
				c := get(t, p)
				if n := out.Add(1); n > most.Load() {
					most.Store(n)
				}
				if c.(*Conn).home() != engine.CurrentLoop() {
					foreign.Add(1)
				}
				talkOnce(t, c, c)
				out.Add(-1)
				p.Put(c, false)
			}
		})
		testenv.AtMost(t, most.Load(), max, "connections in use")
		testenv.AtMost(t, dials.Load(), max, "dialled")
		if rt.Loops() <= 2 { // then there is one for each of the 8 tasks of a loop
			testenv.Equal(t, foreign.Load(), 0, "uses of another loop's connection")
		}
		must(t, p.Close())
		testenv.ErrorIs(t, testenv.Err(p.Get(context.Background())), ErrPoolClosed, "Get after Close")
	})
}

func TestPoolLimits(t *testing.T) {
	both(t, func(t *testing.T) {
		p, dials := poolOf(t, 1)
		c := get(t, p)
		ctx, cancel := context.WithCancel(context.Background())
		waiting := spawn(func() {
			testenv.ErrorIs(t, testenv.Err(p.Get(ctx)), context.Canceled, "Get with all in use")
		})
		cancel()
		must(t, waiting())
		free, _ := poolOf(t, 0)
		free.Put(need(free.Get(context.Background()))(t), false)
		testenv.ErrorIs(t, testenv.Err(free.Get(ctx)), context.Canceled, "Get with one at rest, after the end of its context")
		must(t, free.Close())
		p.Put(c, true) // broken: the next is a new one
		again := get(t, p)
		testenv.True(t, again != c, "a broken connection is used again")
		testenv.Equal(t, dials.Load(), 2, "dials")
		refuses := func(by *Pool, what string) {
			defer func() {
				if recover() == nil {
					t.Errorf("%s does not panic", what)
				}
			}()
			by.Put(again, false)
		}
		refuses(new(Pool), "a Put into another pool")
		p.Put(again, false)
		refuses(p, "a second Put")
		p.IdleTimeout = time.Nanosecond
		c = get(t, p)
		testenv.True(t, c != again && p.open == 1, "a connection that has rested for too long is used again; %d open", p.open)
		must(t, p.Close())
		p.Put(c, false)
		readFails(t, c, net.ErrClosed, "put back after Close")
		for _, want := range []error{io.EOF, errNoConn} { // of a Dial that fails, and of one that returns nothing
			fails := &Pool{MaxConns: 1, Dial: func(context.Context) (net.Conn, error) {
				if want == errNoConn {
					return nil, nil
				}
				return nil, want
			}}
			for range 2 {
				testenv.Equal(t, testenv.Err(fails.Get(context.Background())), want, "Get")
				testenv.Equal(t, fails.open, 0, "open")
			}
		}
	})
}

// With no descriptor left Get waits for what is put back, as long as WaitTimeout, first come, first served.
func TestPoolWithoutDescriptors(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		p, _ := poolOf(t, 0)
		p.WaitTimeout = time.Hour
		dial, left := p.Dial, atomic.Int32{}
		left.Store(2)
		p.Dial = func(ctx context.Context) (net.Conn, error) {
			if left.Add(-1) < 0 {
				left.Add(1)
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
			}
			return dial(ctx)
		}
		eightOnEachLoop(t, rt, func(i int) {
			for round := range 10 {
				c := get(t, p)
				talkOnce(t, c, c)
				broken := round == i%10
				if broken {
					c.Close()
					left.Add(1)
				}
				p.Put(c, broken)
			}
		})
		testenv.True(t, p.starving == 0 && p.retries == 0 && p.open <= 2,
			"in the end %d want one, %d of them are to try again, %d are open", p.starving, p.retries, p.open)
		left.Store(0)
		for p.open > 0 { // nothing rests
			p.Put(get(t, p), true)
		}
		p.WaitTimeout = time.Millisecond
		testenv.Equal(t, testenv.Err(p.Get(context.Background())), context.DeadlineExceeded, "when it has waited long enough")
		p.WaitTimeout = 0
		testenv.ErrorIs(t, testenv.Err(p.Get(context.Background())), syscall.EMFILE, "without patience")
		must(t, p.Close())
	})
}

// A Dial that panics, or ends its task, leaves its place to others.
func TestPoolOfADialThatPanics(t *testing.T) {
	both(t, func(t *testing.T) {
		p, _ := poolOf(t, 1)
		dial := p.Dial
		p.Dial = func(context.Context) (net.Conn, error) { panic("in Dial") }
		func() {
			defer func() { recover() }()
			p.Get(context.Background())
		}()
		p.Dial = dial
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		p.Put(need(p.Get(ctx))(t), false)
		testenv.Equal(t, p.open, 1, "open")
		must(t, p.Close())
	})
}

// What rests is closed when its time is over, or its peer has closed it, without a Get.
func TestPoolAtRest(t *testing.T) {
	both(t, func(t *testing.T) {
		open := func(p *Pool) int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.open
		}
		p, _ := poolOf(t, 0)
		p.IdleTimeout = time.Millisecond
		p.Put(get(t, p), false)
		until(t, "the connection is closed", func() bool { return open(p) == 0 })

		end := make(chan bool)
		addr := testenv.Serve(t, func(c net.Conn) { <-end })
		p = &Pool{IdleTimeout: -1, Dial: func(ctx context.Context) (net.Conn, error) { return DialContext(ctx, "tcp", addr) }}
		c := get(t, p)
		p.Put(c, false)
		p.sweep()
		testenv.Equal(t, open(p), 1, "open when nothing has happened")
		close(end)
		until(t, "it is closed", func() bool { p.sweep(); return open(p) == 0 })
		readFails(t, c, net.ErrClosed)
		must(t, p.Close())
	})
}

// A plain goroutine has no loop, and uses what rests at any.
func TestPoolOfGoroutines(t *testing.T) {
	both(t, func(t *testing.T) {
		p, dials := poolOf(t, 0)
		use := func() {
			for range 3 {
				p.Put(get(t, p), false)
			}
		}
		use()
		task.Offload(use)
		testenv.Equal(t, dials.Load(), 1, "connections for one at a time")
		must(t, p.Close())
	})
}

// A connection that is not of this package belongs to no loop: a task uses it again as it does one of its own.
func TestPoolOfOtherConnections(t *testing.T) {
	both(t, func(t *testing.T) {
		p, dials := poolOf(t, 0)
		dial := p.Dial
		p.Dial = func(ctx context.Context) (net.Conn, error) {
			c, err := dial(ctx)
			return struct{ net.Conn }{c}, err
		}
		for range 3 {
			p.Put(get(t, p), false)
		}
		testenv.Equal(t, dials.Load(), 1, "connections for one at a time")
		testenv.Equal(t, p.open, 1, "open")
		must(t, p.Close())
	})
}
