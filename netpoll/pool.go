//go:build linux

package netpoll

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A Pool keeps connections to use again, those of each loop apart: a task gets one of its own loop, as
// long as there may be more. A connection of another loop costs a wake-up of that loop for each wait,
// and with it two switches of threads; that is what makes a pool dear that all loops share.
//
// The zero value with Dial set is ready. It must not be copied, nor its fields be changed after the
// first Get. It may be used by tasks and plain goroutines.
type Pool struct {
	// Dial makes a connection, on the caller's loop.
	Dial func(ctx context.Context) (net.Conn, error)
	// MaxConns is how many connections there may be at once, those at rest included; 0: any number.
	MaxConns int
	// MaxIdle is how many may rest on each loop; 0: 64.
	MaxIdle int
	// IdleTimeout is after how long at rest a connection is not used again; 0: 60 s; negative: never.
	IdleTimeout time.Duration

	mu     sync.Mutex
	units  *engine.Semaphore           // guarded by mu, fixed by the first Get; nil: no limit
	idle   map[*engine.Loop][]idleConn // guarded by mu: the last used at the end
	out    map[net.Conn]bool           // guarded by mu: in use
	open   int                         // guarded by mu: at rest, in use, and being dialled
	closed bool                        // guarded by mu
}

type idleConn struct {
	c     net.Conn
	since time.Time
}

// ErrPoolClosed is what Get returns after Close.
var ErrPoolClosed = errors.New("netpoll: the pool is closed")

const (
	defaultMaxIdle     = 64
	defaultIdleTimeout = 60 * time.Second
)

// Get returns a connection, which is the caller's until Put: one of the caller's loop that rests, or a new
// one, or, if there may be no more, one of another loop. A plain goroutine gets one of any loop. With MaxConns in use it waits for
// one, first come, first served, until ctx ends. A peer may have closed a connection that
// has rested: if the first thing that is done with it fails, Put it as broken and Get another. It parks.
func (p *Pool) Get(ctx context.Context) (net.Conn, error) {
	units := p.limit()
	if units != nil {
		if err := units.AcquireContext(ctx, 1); err != nil {
			return nil, err
		}
	}
	c, err := p.get(ctx)
	if err != nil && units != nil {
		units.Release(1)
	}
	return c, err
}

func (p *Pool) limit() *engine.Semaphore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.units == nil && p.MaxConns > 0 {
		p.units = engine.NewSemaphore(int64(p.MaxConns))
	}
	if p.idle == nil {
		p.idle, p.out = make(map[*engine.Loop][]idleConn), make(map[net.Conn]bool)
	}
	return p.units
}

func (p *Pool) get(ctx context.Context) (net.Conn, error) {
	c, old, err := p.take(engine.CurrentLoop())
	for _, o := range old {
		o.c.Close()
	}
	if c != nil || err != nil {
		return c, err
	}
	c, err = p.Dial(ctx)
	p.mu.Lock()
	closed := p.closed
	switch {
	case err != nil || closed:
		p.open--
	default:
		p.out[c] = true
	}
	p.mu.Unlock()
	if err == nil && closed {
		c.Close()
		return nil, ErrPoolClosed
	}
	return c, err
}

// take returns a connection that rests, or none if the caller is to dial one. old are to be closed.
func (p *Pool) take(l *engine.Loop) (c net.Conn, old []idleConn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrPoolClosed
	}
	for at := range p.idle {
		old = append(old, p.expired(at)...)
	}
	from, full := l, p.MaxConns > 0 && p.open >= p.MaxConns
	if len(p.idle[from]) == 0 && (l == nil || full) { // if full, there is one: fewer than MaxConns are in use
		for at, list := range p.idle {
			if len(list) > 0 {
				from = at
				break
			}
		}
	}
	list := p.idle[from]
	if len(list) == 0 {
		p.open++
		return nil, old, nil
	}
	last := len(list) - 1
	c = list[last].c
	list[last] = idleConn{}
	p.idle[from] = list[:last]
	p.out[c] = true
	return c, old, nil
}

// expired takes out the connections of a loop that have rested for too long. Caller holds mu.
func (p *Pool) expired(at *engine.Loop) (old []idleConn) {
	timeout := p.IdleTimeout
	if timeout == 0 {
		timeout = defaultIdleTimeout
	}
	list, n := p.idle[at], 0
	for timeout > 0 && n < len(list) && time.Since(list[n].since) > timeout {
		n++
	}
	if n == 0 {
		return nil
	}
	old = append(old, list[:n]...)
	p.idle[at] = append(list[:0], list[n:]...)
	p.open -= n
	return old
}

// Put gives back a connection that Get has returned. If it is broken, or in the middle of something,
// it is closed. Another connection panics. It does not park, but to close one.
func (p *Pool) Put(c net.Conn, broken bool) {
	var at *engine.Loop
	below := c
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok { // as a tls.Conn
		below = outer.NetConn()
	}
	if own, ok := below.(interface{ home() *engine.Loop }); ok {
		at = own.home()
	}
	maxIdle := p.MaxIdle
	if maxIdle <= 0 {
		maxIdle = defaultMaxIdle
	}
	p.mu.Lock()
	if !p.out[c] {
		p.mu.Unlock()
		panic("netpoll: Pool.Put of a connection that is not out: it was put back before, or comes from elsewhere")
	}
	delete(p.out, c)
	drop := broken || p.closed || len(p.idle[at]) >= maxIdle
	if drop {
		p.open--
	} else {
		p.idle[at] = append(p.idle[at], idleConn{c, time.Now()})
	}
	units := p.units
	p.mu.Unlock()
	if drop {
		c.Close()
	}
	if units != nil {
		units.Release(1)
	}
}

// Close closes the connections that rest, and those in use when they are put back. Get fails from
// now on.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = make(map[*engine.Loop][]idleConn)
	p.mu.Unlock()
	for _, list := range idle {
		for _, o := range list {
			o.c.Close()
		}
	}
	return nil
}
