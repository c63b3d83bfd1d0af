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

// Tasks of several loops use connections of their own loops, never more than there may be.
func TestPool(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		const max = 16
		p, dials := poolOf(t, max)
		var foreign, out, most atomic.Int32
		var all []*engine.Task
		for i := range 8 * rt.Loops() {
			all = append(all, engine.GoOn(rt.Loop(i%rt.Loops()), func() {
				for range 20 {
					c := need(p.Get(context.Background()))(t)
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
			}))
		}
		for _, k := range all {
			must(t, k.Join())
		}
		if most.Load() > max || dials.Load() > max {
			t.Errorf("%d connections in use, %d dialled; want %d at most", most.Load(), dials.Load(), max)
		}
		if rt.Loops() <= 2 && foreign.Load() > 0 { // 8 tasks of each: enough for all
			t.Errorf("%d uses of another loop's connection", foreign.Load())
		}
		must(t, p.Close())
		testenv.ErrorIs(t, testenv.Err(p.Get(context.Background())), ErrPoolClosed, "Get after Close")
	})
}

func TestPoolLimits(t *testing.T) {
	both(t, func(t *testing.T) {
		p, dials := poolOf(t, 1)
		c := need(p.Get(context.Background()))(t)
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
		again := need(p.Get(context.Background()))(t)
		if again == c || dials.Load() != 2 {
			t.Errorf("a broken connection is used again; %d dials", dials.Load())
		}
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
		c = need(p.Get(context.Background()))(t)
		if c == again || p.open != 1 {
			t.Errorf("a connection that has rested for too long is used again; %d open", p.open)
		}
		must(t, p.Close())
		p.Put(c, false)
		testenv.ErrorIs(t, testenv.Err(c.Read(make([]byte, 1))), net.ErrClosed, "put back after Close")
		fails := &Pool{MaxConns: 1, Dial: func(context.Context) (net.Conn, error) { return nil, io.EOF }}
		for range 2 {
			if _, err := fails.Get(context.Background()); err != io.EOF {
				t.Errorf("Get: %v, want the error of Dial", err)
			}
		}
		nothing := &Pool{MaxConns: 1, Dial: func(context.Context) (net.Conn, error) { return nil, nil }}
		for range 2 {
			if c, err := nothing.Get(context.Background()); c != nil || err == nil || nothing.open != 0 {
				t.Errorf("Get with a Dial that returns nothing: %v, %v; %d are open", c, err, nothing.open)
			}
		}
	})
}

// With no descriptor left Get waits for what is put back, as long as Patience, first come, first served.
func TestPoolWithoutDescriptors(t *testing.T) {
	everywhere(t, func(t *testing.T, rt *engine.Runtime) {
		p, _ := poolOf(t, 0)
		p.Patience = time.Hour
		dial, left := p.Dial, atomic.Int32{}
		left.Store(2)
		p.Dial = func(ctx context.Context) (net.Conn, error) {
			if left.Add(-1) < 0 {
				left.Add(1)
				return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
			}
			return dial(ctx)
		}
		var all []*engine.Task
		for i := range 8 * rt.Loops() {
			all = append(all, engine.GoOn(rt.Loop(i%rt.Loops()), func() {
				for round := range 10 {
					c := need(p.Get(context.Background()))(t)
					talkOnce(t, c, c)
					broken := round == i%10
					if broken {
						c.Close()
						left.Add(1)
					}
					p.Put(c, broken)
				}
			}))
		}
		for _, k := range all {
			must(t, k.Join())
		}
		if p.lack != 0 || p.told != 0 || p.open > 2 {
			t.Errorf("in the end %d want one, %d of them are to look, %d are open", p.lack, p.told, p.open)
		}
		left.Store(0)
		for p.open > 0 { // nothing rests
			c := need(p.Get(context.Background()))(t)
			p.Put(c, true)
		}
		p.Patience = time.Millisecond
		testenv.Equal(t, testenv.Err(p.Get(context.Background())), context.DeadlineExceeded, "when it has waited long enough")
		p.Patience = 0
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
		c, err := p.Get(ctx)
		must(t, err)
		if p.open != 1 {
			t.Errorf("%d open, want 1", p.open)
		}
		p.Put(c, false)
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
		c, err := p.Get(context.Background())
		must(t, err)
		p.Put(c, false)
		for open(p) > 0 {
			must(t, engine.Sleep(time.Millisecond))
		}

		end := make(chan bool)
		addr := testenv.Serve(t, func(c net.Conn) { <-end })
		p = &Pool{IdleTimeout: -1, Dial: func(ctx context.Context) (net.Conn, error) { return DialContext(ctx, "tcp", addr) }}
		c, err = p.Get(context.Background())
		must(t, err)
		p.Put(c, false)
		if p.sweep(); open(p) != 1 {
			t.Error("a connection is closed that nothing has happened to")
		}
		close(end)
		for p.sweep(); open(p) > 0; p.sweep() {
			must(t, engine.Sleep(time.Millisecond))
		}
		_, err = c.Read(make([]byte, 1))
		testenv.ErrorIs(t, err, net.ErrClosed)
		must(t, p.Close())
	})
}
