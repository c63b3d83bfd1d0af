package stackchunk

import (
	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
)

// Bytes is a number of bytes of stack.
type Bytes uintptr

// Room reports whether the stack of the calling goroutine, as large as it is now, has room for frames of that many
// bytes. It takes 2 ns and allocates nothing. If Room returns false, use Call, also on a plain goroutine. With the
// portable stubs (build tag purego, or processors other than amd64 and arm64), where the size of the stack is not
// known, it returns true for any sensible need.
func Room(need Bytes) bool { return coro.Headroom() >= uintptr(need)+chunk.Reserve }

// Call calls f, which needs that many bytes of stack: directly if there is Room or if the caller is no task, else on a
// linked chunk. f acts as in a plain call: it may park; a panic goes on in the caller, with the same value;
// runtime.Goexit ends the task.
func Call(need Bytes, f func()) {
	left := coro.Headroom()
	if left >= uintptr(need)+chunk.Reserve {
		f()
		return
	}
	c := chunk.Begin(uintptr(need), f, left)
	if c == nil {
		f()
		return
	}
	// In here, as each function that returns after a switch costs 4 ns; see coro.Pass.
	from := c.From
	coro.Pass(&from.Party, &c.Coro.Party)
	coro.Settle(&from.Party)
	if c.Outcome != chunk.Returned {
		c.GoOn()
	}
}

// Call is Call with the need of the site.
func (s *Site) Call(f func()) {
	if s.Room() {
		f()
		return
	}
	left := coro.Headroom()
	c := chunk.Begin(uintptr(s.need), f, left)
	if c == nil {
		s.notLinked()
		f()
		return
	}
	s.linked(c, left)
	from := c.From
	coro.Pass(&from.Party, &c.Coro.Party)
	coro.Settle(&from.Party)
	if c.Outcome != chunk.Returned {
		c.GoOn()
	}
}
