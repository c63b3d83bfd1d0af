//go:build linux

package netpoll

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// A Pool keeps connections to use again, those of each loop apart: a task gets one of its own loop, as long as there
// may be more. A connection of another loop costs a wake-up of that loop, with two switches of threads, for each wait.
// That is why the loops do not share their idle connections.
//
// The zero value with Dial set is ready. It must not be copied, nor its fields be changed after the
// first Get. It may be used by tasks and plain goroutines.
type Pool struct {
	// Dial makes a connection, on the caller's loop. It may wait natively. Get fails if it returns neither a connection
	// nor an error.
	Dial func(ctx context.Context) (net.Conn, error)
	// MaxConns is how many connections there may be at once, those at rest included; 0: any number.
	MaxConns int
	// MaxIdle is how many idle connections each loop keeps; 0: 64.
	MaxIdle int
	// IdleTimeout is how long an idle connection is kept; 0: 60 s; negative: for ever. A connection that the peer has
	// closed is dropped within 5 s.
	IdleTimeout time.Duration
	// WaitTimeout is how long Get waits for a connection that is put back, if the process or the system has no
	// descriptor left for another one (EMFILE, ENFILE); then it fails with context.DeadlineExceeded. 0: it fails at once.
	WaitTimeout time.Duration

	mu         sync.Mutex
	units      *task.Semaphore       // guarded by mu, fixed by the first Get; nil: no limit
	short      *task.Semaphore       // fixed before starving is first above 0; has retries units
	starving   int                   // guarded by mu: Gets that found no connection, and all Gets after them
	retries    int                   // guarded by mu: of these, the Gets that are to try again
	idle       []*restingConns       // guarded by mu: of each loop that has had some
	out        map[net.Conn]struct{} // guarded by mu: in use, without those of this package, see connAddrs.lender
	open       int                   // guarded by mu: at rest, in use, and being dialled
	closed     bool                  // guarded by mu
	sweepTimer *time.Timer           // calls sweep; guarded by mu
	sweepSet   bool                  // sweepTimer is set; guarded by mu
}

// restingConns are the connections of a loop that are at rest, the last used at the end.
type restingConns struct {
	at    *engine.Loop // nil: of no loop, as they are not of this package
	conns []idleConn
}

type idleConn struct {
	c     net.Conn
	since time.Duration // epoch
}

// ErrPoolClosed is returned by Get after Close.
var ErrPoolClosed = errors.New("netpoll: the pool is closed")

var errNoConn = errors.New("netpoll: Pool.Dial returned neither a connection nor an error")

const (
	defaultMaxIdle     = 64
	defaultIdleTimeout = 60 * time.Second
	sweepEvery         = 5 * time.Second
)

// Get returns a connection, which is the caller's until Put: an idle connection of the caller's loop, or a new one, or,
// at MaxConns, an idle connection of another loop. A plain goroutine gets a connection of any loop. A connection that is
// not of this package, nor above one of it (NetConn), belongs to no loop: any caller gets it. With MaxConns in use Get
// waits, first come, first served, until ctx ends. The peer may have closed an idle connection: if the first operation on
// it fails, Put it as broken and Get another. It parks.
func (p *Pool) Get(ctx context.Context) (c net.Conn, err error) {
	if ctx.Err() != nil { // also for a connection that rests
		return nil, context.Cause(ctx)
	}
	units := p.limit()
	if units != nil && !units.TryAcquire(1) {
		if err := units.AcquireContext(ctx, 1); err != nil {
			return nil, err
		}
	}
	defer func() {
		if c == nil && units != nil { // Dial may have panicked
			units.Release(1)
		}
	}()
	c, err = p.get(ctx, false)
	if err == errShort || p.WaitTimeout > 0 && scarce(err) {
		c, err = p.getFreed(ctx)
	}
	return c, err
}

func (p *Pool) limit() *task.Semaphore {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.units == nil && p.MaxConns > 0 {
		p.units = task.NewSemaphore(int64(p.MaxConns))
	}
	return p.units
}

// of returns the connections at rest of loop l. Caller holds mu.
func (p *Pool) of(l *engine.Loop) *restingConns {
	for _, r := range p.idle {
		if r.at == l {
			return r
		}
	}
	r := &restingConns{at: l}
	p.idle = append(p.idle, r)
	return r
}

// lend notes that c is in use. Caller holds mu.
func (p *Pool) lend(c net.Conn) {
	if own := lentConn(c); own != nil {
		own.addresses().lender.Store(p)
		return
	}
	if p.out == nil {
		p.out = make(map[net.Conn]struct{})
	}
	p.out[c] = struct{}{}
}

// takeBack ends what lend has begun, and reports whether c was in use. own is lentConn(c). Caller holds mu.
func (p *Pool) takeBack(c net.Conn, own *Conn) bool {
	if own != nil {
		return own.addresses().lender.CompareAndSwap(p, nil)
	}
	_, out := p.out[c]
	delete(p.out, c)
	return out
}

// lentConn is the Conn of this package below c; nil if there is none.
func lentConn(c net.Conn) *Conn {
	if outer, ok := c.(interface{ NetConn() net.Conn }); ok { // as a tls.Conn
		c = outer.NetConn()
	}
	own, _ := c.(*Conn)
	return own
}

// errShort is the error of get while others wait for a descriptor.
var errShort = errors.New("netpoll: others wait for a connection")

// scarce reports whether a connection could not be made as no descriptor was left.
func scarce(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// maxStarving is more than the Gets that can wait at once.
const maxStarving = 1 << 30

// getFreed is get if no descriptor is left: it waits until a connection is put back, behind earlier
// callers, and looks from time to time whether a descriptor has become free elsewhere.
func (p *Pool) getFreed(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.WaitTimeout)
	defer cancel()
	p.mu.Lock()
	if p.short == nil {
		p.short = task.NewSemaphore(maxStarving)
		p.short.TryAcquire(maxStarving)
	}
	short, pause := p.short, minPause
	if p.starving > 0 {
		pause = maxPause
	}
	p.starving++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.starving--
		none := max(p.retries-p.starving, 0) // no caller is left to try again
		p.retries -= none
		p.mu.Unlock()
		for range none {
			short.TryAcquire(1) // if it comes only now, a caller tries once more than needed
		}
	}()
	for ; ; pause = longer(pause) {
		soon, end := context.WithTimeout(ctx, pause)
		err := short.AcquireContext(soon, 1)
		late := soon.Err() != nil
		end()
		switch {
		case err == nil:
			p.mu.Lock()
			p.retries = max(p.retries-1, 0)
			p.mu.Unlock()
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case !late:
			return nil, err
		}
		if c, err := p.get(ctx, true); !scarce(err) {
			return c, err
		}
	}
}

// get takes a connection or dials. With any, a connection of another loop will do.
func (p *Pool) get(ctx context.Context, any bool) (net.Conn, error) {
	c, old, err := p.take(engine.CurrentLoop(), any)
	for _, o := range old {
		o.c.Close()
	}
	if c != nil || err != nil {
		return c, err
	}
	return p.dial(ctx)
}

// dial makes the connection that take has counted.
func (p *Pool) dial(ctx context.Context) (net.Conn, error) {
	d, lent := poolDial{p: p, ctx: ctx}, false
	defer func() {
		if !lent { // Dial may have panicked
			p.mu.Lock()
			p.open--
			p.mu.Unlock()
		}
	}()
	if err := engine.Outside(callDial, &d); err != nil {
		return nil, err
	}
	if d.c == nil {
		return nil, errNoConn
	}
	p.mu.Lock()
	if lent = !p.closed; lent {
		p.lend(d.c)
	}
	p.mu.Unlock()
	if !lent {
		d.c.Close()
		return nil, ErrPoolClosed
	}
	return d.c, nil
}

// A poolDial is a call of Dial.
type poolDial struct {
	p   *Pool
	ctx context.Context
	c   net.Conn
}

// callDial is for engine.Outside.
func callDial(d *poolDial) (err error) {
	d.c, err = d.p.Dial(d.ctx)
	return err
}

// take returns a connection that rests, or none if the caller is to dial one. The caller closes old.
func (p *Pool) take(l *engine.Loop, any bool) (c net.Conn, old []idleConn, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, ErrPoolClosed
	}
	if p.starving > 0 && !any {
		return nil, nil, errShort
	}
	now := time.Since(epoch())
	for _, r := range p.idle {
		old = append(old, p.expired(r, now)...)
	}
	from, full := p.of(l), p.MaxConns > 0 && p.open >= p.MaxConns
	if len(from.conns) == 0 {
		from = p.of(nil) // connections that belong to no loop
	}
	if len(from.conns) == 0 && (l == nil || full || any) { // if full, there is one: fewer than MaxConns are in use
		for _, r := range p.idle {
			if len(r.conns) > 0 {
				from = r
				break
			}
		}
	}
	last := len(from.conns) - 1
	if last < 0 {
		p.open++
		return nil, old, nil
	}
	c = from.conns[last].c
	from.conns[last] = idleConn{}
	from.conns = from.conns[:last]
	p.lend(c)
	return c, old, nil
}

// expired takes out the connections of a loop that have rested for too long. Caller holds mu.
func (p *Pool) expired(r *restingConns, now time.Duration) (old []idleConn) {
	timeout := p.idleTimeout()
	list, n := r.conns, 0
	for timeout > 0 && n < len(list) && now-list[n].since > timeout {
		n++
	}
	if n == 0 {
		return nil
	}
	old = append(old, list[:n]...)
	r.conns = slices.Delete(list, 0, n)
	p.open -= n
	return old
}

func (p *Pool) idleTimeout() time.Duration {
	if p.IdleTimeout == 0 {
		return defaultIdleTimeout
	}
	return p.IdleTimeout
}

// watch has sweep called later. Caller holds mu.
func (p *Pool) watch() {
	every := sweepEvery
	if timeout := p.idleTimeout(); timeout > 0 {
		every = min(every, timeout)
	}
	if p.sweepTimer == nil {
		p.sweepTimer = time.AfterFunc(every, p.sweep)
	} else if !p.sweepSet {
		p.sweepTimer.Reset(every)
	}
	p.sweepSet = true
}

// sweep closes connections that have rested for too long or that the peer has closed, and runs again later while some
// rest. It asks the kernel without mu, which Get and Put wait for.
func (p *Pool) sweep() {
	p.mu.Lock()
	p.sweepSet = false
	var old []idleConn
	var look []*Conn
	now := time.Since(epoch())
	for _, r := range p.idle {
		old = append(old, p.expired(r, now)...)
		for _, o := range r.conns {
			if own := lentConn(o.c); own != nil {
				look = append(look, own)
			}
		}
	}
	p.mu.Unlock()
	gone := hungUp(look)
	p.mu.Lock()
	for _, r := range p.idle {
		if len(gone) > 0 {
			r.conns = slices.DeleteFunc(r.conns, func(o idleConn) bool {
				ended := gone[lentConn(o.c)]
				if ended {
					old = append(old, o)
					p.open--
				}
				return ended
			})
		}
		if len(r.conns) > 0 {
			p.watch()
		}
	}
	p.mu.Unlock()
	for _, o := range old {
		o.c.Close()
	}
}

// Put gives back a connection that Get has returned. A connection that is broken, or in the middle of an exchange, is
// closed. Deadlines of the connection stay set for the next user, who has to set other ones. Put panics with any other
// connection. It parks only to close a connection.
func (p *Pool) Put(c net.Conn, broken bool) {
	var at *engine.Loop
	own := lentConn(c)
	if own != nil {
		at = own.home()
	}
	maxIdle := p.MaxIdle
	if maxIdle <= 0 {
		maxIdle = defaultMaxIdle
	}
	p.mu.Lock()
	if !p.takeBack(c, own) {
		p.mu.Unlock()
		panic("netpoll: Pool.Put of a connection that is not out: it was put back before, or comes from elsewhere")
	}
	rest := p.of(at)
	drop := broken || p.closed || len(rest.conns) >= maxIdle
	if drop {
		p.open--
	} else {
		rest.conns = append(rest.conns, idleConn{c, time.Since(epoch())})
		p.watch()
	}
	units, retry := p.units, !drop && p.addRetry()
	p.mu.Unlock()
	if drop {
		c.Close()
		p.mu.Lock()
		retry = p.addRetry()
		p.mu.Unlock()
	}
	if retry { // not with mu, which other loops wait for natively: it may park
		p.short.Release(1)
	}
	if units != nil {
		units.Release(1)
	}
}

// addRetry reports whether a Get that found no descriptor is to try again, and counts it. Caller holds mu.
func (p *Pool) addRetry() bool {
	if p.retries >= p.starving {
		return false
	}
	p.retries++
	return true
}

// Close closes the idle connections, and those in use when they are put back. Get fails with ErrPoolClosed from now on.
// The error is nil. It parks only to close a connection.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, r := range idle {
		for _, o := range r.conns {
			o.c.Close()
		}
	}
	return nil
}
