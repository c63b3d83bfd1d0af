package stackchunk

import (
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// Bytes is a number of bytes of stack.
type Bytes uintptr

// Room says whether the stack of the calling goroutine, as large as it is now, has room
// for frames of so many bytes. It takes 2 ns and allocates nothing. If it says no, Call
// does what is right, also on a plain goroutine. With the portable stubs (build tag
// purego, or processors other than amd64 and arm64), where the size of the stack is not
// known, the answer is yes for any sensible need.
func Room(need Bytes) bool { return coro.Headroom() >= uintptr(need)+reserve }

// Call calls f, which needs so many bytes of stack: directly if there is Room or if the
// caller is no task, else on a linked chunk. What f does, it does to the caller: it may
// park; a panic goes on in the caller, with the same value; runtime.Goexit ends the task.
func Call(need Bytes, f func()) {
	left := coro.Headroom()
	if left >= uintptr(need)+reserve {
		f()
		return
	}
	c := begin(need, f, nil, left)
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
	c := begin(s.need, f, s, coro.Headroom())
	if c == nil {
		f()
		return
	}
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

// begin links a chunk for f, at site s or nil; a switch from c.from to the chunk must
// follow. It returns nil if f is to run in place. left is the headroom of the caller, so
// this must do with little stack.
func begin(need Bytes, f func(), s *Site, left uintptr) *Chunk {
	p, free := current()
	if p == nil {
		outside.Add(1)
		if s != nil {
			s.outside.Add(1)
		}
		return nil
	}
	var c *Chunk
	if free {
		c = p.take(need)
	}
	if c == nil {
		p.counts.inPlace++
		if s != nil {
			s.inPlace.Add(1)
		}
		return nil
	}
	c.f = f
	c.outcome = running
	internal, external := uint64(max(left, reserve)-reserve), uint64(c.size-overhead-reserve-need)
	c.count(internal, external)
	if s != nil {
		s.links.Add(1)
		s.internal.Add(internal)
		s.external.Add(external)
	}
	c.from = c.member.Link()
	if s != nil && c.member.Nested() {
		s.nested.Add(1)
		s.nestedRoom.Add(internal)
	}
	return c
}
