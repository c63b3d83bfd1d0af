package stackchunk

import (
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// Bytes is a number of bytes of stack.
type Bytes uintptr

// Room reports whether the stack of the calling goroutine, as large as it is now, has room
// for frames of that many bytes. It takes 2 ns and allocates nothing. If it says no, Call
// does what is right, also on a plain goroutine. With the portable stubs (build tag
// purego, or processors other than amd64 and arm64), where the size of the stack is not
// known, the answer is yes for any sensible need.
func Room(need Bytes) bool { return coro.Headroom() >= uintptr(need)+reserve }

// Call calls f, which needs that many bytes of stack: directly if there is Room or if the
// caller is no task, else on a linked chunk. What f does, it does to the caller: it may
// park; a panic goes on in the caller, with the same value; runtime.Goexit ends the task.
func Call(need Bytes, f func()) {
	left := coro.Headroom()
	if left >= uintptr(need)+reserve {
		f()
		return
	}
	c := begin(need, f, left)
	if c == nil {
		f()
		return
	}
	// In here, as each function that returns after a switch costs 4 ns; see coro.Pass.
	from := c.from
	coro.Pass(&from.Party, &c.coro.Party)
	coro.Settle(&from.Party)
	if c.outcome != returned {
		c.goOn()
	}
}

// Call is Call with the need of the site.
func (s *Site) Call(f func()) {
	if s.Room() {
		f()
		return
	}
	left := coro.Headroom()
	c := begin(s.need, f, left)
	if c == nil {
		s.notLinked()
		f()
		return
	}
	s.linked(c, left)
	from := c.from
	coro.Pass(&from.Party, &c.coro.Party)
	coro.Settle(&from.Party)
	s.unlinks.Add(1)
	if c.outcome != returned {
		c.goOn()
	}
}

// outside counts the calls without room of goroutines that are no tasks.
var outside atomic.Uint64

// begin links a chunk for f; a switch from c.from to the chunk must follow. It returns nil
// if f is to run in place. left is the headroom of the caller, so this must do with little
// stack.
func begin(need Bytes, f func(), left uintptr) *Chunk {
	p, free := current()
	if p == nil {
		outside.Add(1)
		return nil
	}
	var c *Chunk
	if free {
		room := max(need, Bytes(settings.minChunk.Load()))
		class := classOf(room)
		if class < classes {
			if c = p.idle[class]; c != nil {
				p.idle[class] = c.next
			} else {
				c = p.takeNew(class)
			}
		}
	}
	if c == nil {
		p.counts.inPlace++
		return nil
	}
	c.f = f
	c.outcome = running
	c.from = c.member.Link()
	n, k := &p.counts, c.counts
	k.links++
	k.internal += internalWaste(left)
	k.external += uint64(c.room - need)
	if n.inUse += uint64(c.size); n.inUse > n.peak {
		n.peak = n.inUse
	}
	return c
}

// internalWaste is what of the caller's headroom would have been for frames.
func internalWaste(left uintptr) uint64 { return uint64(max(left, reserve) - reserve) }
