package chunk

import (
	"runtime"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Chunk is a goroutine of a loop's ring whose stack has been grown once, and that runs
// one function after another for tasks that lack the room for it. It is for the engine.
//
//	seed ──▶ linked ◀──▶ idle ──▶ gone
//	  │         ╰─────────────────▲▲
//	  ╰───────────────────────────╯
//
// All fields are loop-private.
type Chunk struct {
	Member  Member
	Coro    *coro.Coro // of member
	pool    *Pool
	next    *Chunk // in Pool.idle
	class   int
	size    uintptr
	Room    uintptr      // that f finds at least
	counts  *classCounts // of pool
	least   uintptr      // headroom that the stack, grown, has at least
	most    uintptr      // and what it has had at most
	frame   uintptr      // where serve's was; another place if the stack has moved
	From    *coro.Coro   // what has linked it
	f       func()       // what it runs or is to run; nil: idle
	Outcome outcome
	value   any        // what f panicked with
	gone    bool       // its goroutine is ending
	leaveTo *coro.Coro // resumed idle: to end, and then this one runs
	fallen  *Chunk     // this seed takes the place of one that Goexit has ended
}

// An outcome says how f has ended.
type outcome uint8

const (
	running outcome = iota
	Returned
	panicked
	exited // by runtime.Goexit
)

// Size is the size of the stack.
func (c *Chunk) Size() uintptr { return c.size }

// body is the goroutine.
func (c *Chunk) body(yield func(struct{}) bool) {
	c.Coro.Enter(yield)
	p := c.pool
	if p.closing {
		p.alive--
		return
	}
	c.Member.Start()
	p.seed = p.make()
	goexit := true
	defer func() {
		c.gone = true
		c.Member.End()
		p.alive--
		if goexit {
			p.release(c.class)
			s := p.seed
			p.seed = nil
			s.fallen = c
			c.Coro.Leave(&s.Coro.Party, true)
		}
	}()
	if dead := c.fallen; dead != nil {
		c.fallen = nil
		dead.Outcome = exited
		c.Coro.Leave(&dead.unlink().Party, false)
	} else {
		for c.f != nil {
			c.serve()
		}
		p.release(c.class)
	}
	goexit = false
}

// serve runs the functions that the chunk is linked for until it is to end, or one panics; then serve is called again.
// Functions that return are fast: the deferred function is set up only once.
//
//go:noinline
func (c *Chunk) serve() {
	defer c.ended()
	for c.f != nil {
		p := c.pool
		if c.Outcome == running { // not, if f has panicked
			if frame := uintptr(unsafe.Pointer(&p)); frame != c.frame { // the stack has moved, so its size has changed
				c.adapt()
				c.frame = uintptr(unsafe.Pointer(&p))
			}
			c.f()
			c.Outcome = Returned
		}
		to, refusal := c.Member.Unlink() // first, as the task may be away from its loop
		c.f = nil
		c.counts.Unlinks++
		p.counts.InUse -= uint64(c.size)
		if refusal != "" && c.Outcome == Returned {
			c.Outcome = panicked
			c.value = refusal
		}
		if p.idleBytes() > uintptr(Settings.Idle.Load()) {
			c.Coro.Leave(&to.Party, false)
			return
		}
		c.next = p.idle[c.class]
		p.idle[c.class] = c
		coro.Pass(&c.Coro.Party, &to.Party)
		coro.Settle(&c.Coro.Party)
	}
	if to := c.leaveTo; to != nil {
		c.Coro.Leave(&to.Party, false)
	}
}

// adapt is called if the stack may not have the size that it had: the chunk is new, a
// collection has halved its stack, or the last function needed more.
func (c *Chunk) adapt() {
	room := coro.Headroom()
	if room < c.least {
		grow(c.class)
		c.counts.Regrown++
		c.most = c.size
	} else if room > c.most {
		c.counts.Grown++
		c.most = room
	}
}

// ended is deferred by serve. A Goexit goes on from there through body.
func (c *Chunk) ended() {
	if c.Outcome != running { // f has ended before
		return
	}
	if v := recover(); v != nil || !coro.ByGoexit() {
		c.Outcome = panicked
		c.value = v
		c.Member.Panicked(v)
	}
}

// unlink returns what runs next, in place of c, which Goexit has ended.
func (c *Chunk) unlink() (to *coro.Coro) {
	c.counts.Unlinks++
	c.pool.counts.InUse -= uint64(c.size)
	to, _ = c.Member.Unlink()
	return to
}

// GoOn ends the caller as f has ended: by the same panic, or by runtime.Goexit.
func (c *Chunk) GoOn() {
	switch c.Outcome {
	case panicked:
		v := c.value
		c.value = nil
		panic(v)
	case exited:
		runtime.Goexit()
	}
}
