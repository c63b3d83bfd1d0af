package stackchunk

import (
	"runtime"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Chunk is a goroutine of a loop's ring whose stack has been grown once, and that runs
// one function after another for tasks that lack the room for it. It is for package task.
//
//	seed ──▶ linked ◀──▶ idle ──▶ gone
//	  │         ╰─────────────────▲▲
//	  ╰───────────────────────────╯
//
// All fields are loop-private.
type Chunk struct {
	member  Member
	coro    *coro.Coro // of member
	pool    *Pool
	next    *Chunk // in Pool.idle
	class   int
	size    Bytes
	from    *coro.Coro // who has linked it
	f       func()     // what it runs or is to run; nil: idle
	outcome outcome
	value   any        // what f panicked with
	gone    bool       // its goroutine is ending
	leaveTo *coro.Coro // resumed idle: to end, and then this one runs
	fallen  *Chunk     // this seed takes the place of one that Goexit has ended
}

// An outcome says how f has ended.
type outcome uint8

const (
	running outcome = iota
	returned
	panicked
	exited // by runtime.Goexit
)

// Size is the size of the stack.
func (c *Chunk) Size() Bytes { return c.size }

// body is the goroutine.
func (c *Chunk) body(yield func(struct{}) bool) {
	c.coro.Enter(yield)
	p := c.pool
	if p.closing {
		p.alive--
		return
	}
	c.member.Start()
	p.seed = p.make()
	goexit := true
	defer func() {
		c.gone = true
		c.member.End()
		p.alive--
		if goexit {
			p.release(c.class)
			s := p.seed
			p.seed = nil
			s.fallen = c
			c.coro.Leave(&s.coro.Party, true)
		}
	}()
	if dead := c.fallen; dead != nil {
		c.fallen = nil
		dead.outcome = exited
		c.coro.Leave(&dead.unlink().Party, false)
	} else {
		c.serve()
		p.release(c.class)
	}
	goexit = false
}

// serve runs what the chunk is linked for until it is to end.
//
//go:noinline
func (c *Chunk) serve() {
	least, most := uintptr(c.size)-overhead, uintptr(c.size)
	for c.f != nil {
		if room := coro.Headroom(); room < least { // it is new, or a collection has halved its stack
			grow(c.class)
			c.pool.counts.class[c.class].regrown++
			most = uintptr(c.size)
		} else if room > most { // the last function needed more
			c.pool.counts.class[c.class].grown++
			most = room
		}
		c.run()
		c.f = nil
		to := c.unlink()
		p := c.pool
		if p.idleBytes() > Bytes(settings.idle.Load()) {
			c.coro.Leave(&to.Party, false)
			return
		}
		c.next = p.idle[c.class]
		p.idle[c.class] = c
		coro.Pass(&c.coro.Party, &to.Party)
		coro.Settle(&c.coro.Party)
	}
	if to := c.leaveTo; to != nil {
		c.coro.Leave(&to.Party, false)
	}
}

// run calls f. A Goexit goes on from here through body.
func (c *Chunk) run() {
	defer c.ended()
	c.f()
	c.outcome = returned
}

// ended is deferred by run.
func (c *Chunk) ended() {
	if c.outcome == returned {
		return
	}
	if v := recover(); v != nil {
		c.outcome = panicked
		c.value = v
		c.member.Panicked(v)
	}
}

// count counts that c is linked.
func (c *Chunk) count(internal, external uint64) {
	n := &c.pool.counts
	k := &n.class[c.class]
	k.links++
	k.internal += internal
	k.external += external
	if k.inUse++; k.inUse > k.peak {
		k.peak = k.inUse
	}
	if n.inUse += uint64(c.size); n.inUse > n.peak {
		n.peak = n.inUse
	}
}

// unlink returns who runs next.
func (c *Chunk) unlink() (to *coro.Coro) {
	n := &c.pool.counts
	n.class[c.class].inUse--
	n.inUse -= uint64(c.size)
	to, refusal := c.member.Unlink()
	if refusal != "" && c.outcome == returned {
		c.outcome = panicked
		c.value = refusal
	}
	return to
}

// goOn lets the caller end as f has ended.
func (c *Chunk) goOn() {
	switch c.outcome {
	case panicked:
		v := c.value
		c.value = nil
		panic(v)
	case exited:
		runtime.Goexit()
	}
}
