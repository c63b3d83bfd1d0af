// Package coro makes one thing: a coroutine that can be switched to directly
// from any other coroutine of the same ring, built on iter.Pull; and it reads the
// few facts about the running goroutine that only assembly can read cheaply.
//
// A ring is the loop's own goroutine plus the coroutines made on it. Exactly one
// of them runs at any moment; each of the others is parked in exactly one slot.
// A slot is one iter.Pull. Its two ends, next and yield, must be called in turn,
// but nothing says by whom: to run the goroutine parked in a slot, the running one
// calls whichever end is due and is thereby parked in that slot itself. So any
// member of the ring reaches any other with one switch, not two through a loop:
//
//	 slot A      slot B      slot C                running: R
//	┌───────┐   ┌───────┐   ┌───────┐
//	│ loop  │   │ task2 │   │ task1 │
//	└───────┘   └───────┘   └───────┘
//
//	R wants task1 to run: it calls whichever end of slot C is due
//
//	 slot A      slot B      slot C                running: task1
//	┌───────┐   ┌───────┐   ┌───────┐
//	│ loop  │   │ task2 │   │   R   │
//	└───────┘   └───────┘   └───────┘
//
// The package knows no task, no queue and no clock. All functions that take a
// Party or a Coro may be called only by the running member of the ring.
package coro

import (
	"iter"
	"unsafe"
)

// A Party is a goroutine that takes part in a ring: the loop's own or a coroutine's.
// The zero value is a running member, ready to use.
type Party struct {
	at *slot // where it is parked; stale while it runs. Ring-private.
}

// A slot is one iter.Pull, a place where one goroutine of the ring waits.
//
//	  enter: next()                  enter: yield()
//	┌──────────────▶ yield due ─────────────────┐
//	next due ◀──────────────────────────────────┘
//
// The caller of next waits in next until another goroutine calls yield, and the reverse.
// Before the first call of next, the coroutine's own goroutine, not started, counts as waiting.
// All fields are ring-private.
type slot struct {
	ends   [2]func() bool // next and yield, see asEnds
	bounce *slot          // where the goroutine woken here must go on to at once; see Leave
	due    uint8          // which of the ends
	mark   uint8          // the user's, see Coro.Mark
	plain  bool           // see InitPlain
	stamp  uint32         // the user's, see Coro.Stamp
}

const (
	nextDue  = 0
	yieldDue = 1
)

// Pass is the first half of a Switch, small enough to be inlined: each function that
// returns on the way out of a switch costs a wrong prediction, about 4 ns, because the
// processor expects the returns of the goroutine that was left. Settle must follow.
func Pass(from, to *Party) {
	s := to.at
	from.at = s
	s.due ^= 1
	s.ends[s.due^1]()
}

// Settle is the second half of a Switch: what from, resumed, must do before it goes on.
func Settle(from *Party) {
	if from.at.bounce != nil {
		from.at.goOn(from)
	}
}

// enter runs the goroutine parked in s and parks from there in its place.
func (s *slot) enter(from *Party) {
	from.at = s
	s.due ^= 1
	s.ends[s.due^1]()
	Settle(from)
}

func (s *slot) goOn(from *Party) {
	to := s.bounce
	s.bounce = nil
	to.enter(from)
}

// Switch runs to until something switches back to from. The caller must be running
// as from, and to must be another, parked member of the same ring.
func Switch(from, to *Party) { to.at.enter(from) }

// LookAhead loads into the cache what a switch to two members will touch, each given with
// its value of G: of soon, the one that runs after the next, what the Go runtime keeps about
// it, and its slot; of next, whose turn has come to be read for that, the top of its stack
// and the end that resumes it. It pays with more coroutines than the caches hold. Both must
// have been parked before.
func LookAhead(soon, next *Party, soonG, nextG uintptr) {
	s := next.at
	lookAhead(soonG, nextG, soon.at, *(*unsafe.Pointer)(unsafe.Pointer(&s.ends[s.due&1])))
}

// A Coro is a goroutine of a ring with the slot that was made for it. Use Init.
type Coro struct {
	Party
	own slot
}

// Init makes c a new, parked member of the ring of the calling goroutine. The first
// switch to it calls body, which must call Enter with its argument before anything
// else. The goroutine ends when body returns, which it may do in two cases: the whole
// ring is being taken down (the one parked in the slot of c runs next, and must
// return in turn unless it is the ring's own goroutine), or it has called Leave. body
// must not let a panic escape.
func (c *Coro) Init(body func(yield func(struct{}) bool)) {
	next, _ := iter.Pull(body)
	c.own.ends[nextDue], _ = asEnds(next, nil)
	c.at = &c.own
}

// InitPlain is Init for a Go release with which Check fails: the ends of the pull are then
// called as what they are, which costs a call more, and only by the goroutine that each was
// made for if all switches are between a coroutine and its ring's own goroutine (except
// where Leave replaces a goroutine that runtime.Goexit ends).
func (c *Coro) InitPlain(body func(yield func(struct{}) bool)) {
	c.own.plain = true
	next, _ := iter.Pull(body)
	c.own.ends[nextDue], _ = plainEnds(next, nil)
	c.at = &c.own
}

// Plain reports whether c was made by InitPlain.
func (c *Coro) Plain() bool { return c.own.plain }

// Mark is a byte for the user of c; it costs no memory.
func (c *Coro) Mark() *uint8 { return &c.own.mark }

// Stamp is four bytes for the user of c; they cost no memory either.
func (c *Coro) Stamp() *uint32 { return &c.own.stamp }

// Enter is the first thing that the body of c calls.
func (c *Coro) Enter(yield func(struct{}) bool) {
	if c.own.plain {
		_, c.own.ends[yieldDue] = plainEnds(nil, yield)
	} else {
		_, c.own.ends[yieldDue] = asEnds(nil, yield)
	}
	if c.own.bounce != nil {
		c.own.goOn(&c.Party)
	}
}

// Leave prepares the end of the calling coroutine while the ring goes on: when it
// has returned, the goroutine must end without another switch, and to, another
// member, then runs. If the goroutine is being ended by runtime.Goexit (the call
// comes from a deferred function), goexit must be set and to must be a coroutine
// that has never run.
//
// The end of a goroutine resumes the one that is parked in its own slot, so Leave sees
// to it that this is to, and that the one that was there is parked where to was. Besides,
// iter.Pull passes a Goexit on to a goroutine that waits in next but not to one that
// waits in yield; if next is due, the leaving goroutine first takes that turn itself.
//
// With L for the leaving one, and Z for the one that waits in L's own slot:
//
//	                  own slot of L     slot q         running
//	at first               Z              to              L
//	L enters q             Z              L               to    finds a note (bounce) in q: on to own
//	to enters own          to             L               Z     finds a note in own: on to q
//	Z enters q             to             Z               L
//	L returns              ─              Z               to
func (c *Coro) Leave(to *Party, goexit bool) {
	q := to.at
	if q == &c.own {
		return
	}
	q.bounce, c.own.bounce = &c.own, q
	if goexit && c.own.due == nextDue {
		c.own.enter(&c.Party)
	} else {
		q.enter(&c.Party)
	}
}
