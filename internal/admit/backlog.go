package admit

import (
	"math"
	"time"
)

// A Backlog counts the tasks of one loop that wait at a node of the blocking graph, or for one thing there, and of those
// that are on their way: how many tasks, which kinds of work, for how long. It knows how many may wait there at a time; the
// others wait in an EntryQueue before it.
//
//	one thing, such as a lock of many, for which most of the tasks wait
//
//	unclear ── it is known what more than half of them do ──▶ the whole node
//	   │                                                          │
//	   ╰─────── and many of these do the same ────────────────────┤ as long as there is no limit
//	                                                              ▼
//	                                                     that kind of work
//
// Quick work and work that sleeps look like a bottleneck if they are taken together: tasks become ever more, wait ever
// longer on average, and no more depart, as most of these are quick. And if one kind piles up, as what it asks for is slow,
// the others are not to be limited with it.
//
// Tasks that wait there when the limit is set are mostly too late to be of use, and may be the work of seconds. These late
// tasks are not counted, and later ones go first (NewestFirst). Loop-private.
type Backlog struct {
	bit        uint8         // of Work.Heading
	whole      bool          // the whole node counts, not one thing at it
	kind       uint32        // or the kind of work that counts, or detail of one; 0: any
	unclear    bool          // what is to count; always before the first Look
	most       uint32        // the kind of work, or detail, of many of the tasks lately, as long as kind is 0
	waiting    int           // tasks there that count
	known      int           // tasks there whose kind of work is known
	late       int           // tasks that wait, and came before limitedAt
	limitedAt  time.Duration // when the limit was set
	turns      uint8         // tasks that have departed
	heading    int           // tasks that were admitted and have not got there yet
	limit      int           // of waiting and heading, without the late; 0: none, below 0: no task may come
	quietSince time.Duration // since when few wait

	// Since the last Look:
	departed int
	lateGone int // of the late
	waited   time.Duration
	quickest time.Duration

	kinds kinds
}

// Work is what a Backlog knows of a task.
type Work struct {
	Kind    uint32 // a number, like a hash of the route of a request; 0: unknown
	Detail  uint32 // likewise, of a part of the kind
	Heading uint8  // bits of the backlogs that it was admitted to and has not reached
}

// MaxBacklogs is how many a loop has at most.
const MaxBacklogs = 4

// NewBacklog makes the Backlog with that number, which is below MaxBacklogs. whole: all tasks that wait at the node count, not
// only the tasks that wait for one thing.
func NewBacklog(number int, now time.Duration, whole bool) *Backlog {
	return &Backlog{bit: 1 << number, whole: whole, unclear: true, quietSince: now, quickest: math.MaxInt64}
}

// OnlyMost has only the most frequent kind of work count, if many of the tasks that Add was called for are of one kind: it
// reports whether they are. Tasks that were added before do not count any more.
func (b *Backlog) OnlyMost() bool {
	if !b.hasMost() {
		return false
	}
	b.kind, b.waiting = b.most, 0
	return true
}

// Known is how many tasks there are whose kind of work is known.
func (b *Backlog) Known() int { return b.known }

// Kind is the kind of work that counts, 0: any.
func (b *Backlog) Kind() uint32 { return b.kind }

// All reports whether all tasks at the node count.
func (b *Backlog) All() bool { return b.whole && b.kind == 0 }

// Counts reports whether a task that does w counts, as far as is known: a task of unknown kind counts as one of the
// most common kind.
func (b *Backlog) Counts(w *Work) bool {
	return b.kind == 0 || w.Kind == 0 || b.kind == w.Kind || b.kind == w.Detail
}

// Limits reports whether a task that does w has to ask whether there is room: it is likely to come to the node, and was
// not admitted before.
func (b *Backlog) Limits(w *Work) bool {
	return b.limit != 0 && w.Heading&b.bit == 0 && (b.limit < 0 || b.Counts(w)) && b.kinds.likelyToVisit(w)
}

// HasRoom reports whether one more task may come to the node.
func (b *Backlog) HasRoom() bool { return b.limit == 0 || b.waiting-b.late+b.heading < b.limit }

// Inside is how many tasks are at the node, or on the way.
func (b *Backlog) Inside() int { return b.waiting + b.heading }

// Admitted records that a task that does w was admitted to the program.
func (b *Backlog) Admitted(w *Work) {
	b.kinds.admitted(w.Kind)
	b.kinds.admitted(w.Detail)
}

// Heads records that the task of w was admitted, and is on its way to the node.
func (b *Backlog) Heads(w *Work) {
	w.Heading |= b.bit
	b.heading++
	b.Admitted(w)
}

// TurnedAway records that the task of w will not come to the node any more, if it was on its way.
func (b *Backlog) TurnedAway(w *Work) {
	if w.Heading&b.bit != 0 {
		w.Heading &^= b.bit
		b.heading--
	}
}

// Arrived records that the task of w begins to wait at the node.
func (b *Backlog) Arrived(w *Work) {
	if w.Kind != 0 {
		b.kinds.visited(w.Kind)
		b.kinds.visited(w.Detail)
	}
	b.Add(w)
	b.TurnedAway(w)
}

// Add counts a task that waits at the node.
func (b *Backlog) Add(w *Work) {
	if b.Counts(w) {
		b.waiting++
	}
	if w.Kind == 0 || !b.All() {
		return
	}
	b.known++
	kind, detail := b.kinds.addWaiting(w, 1)
	switch {
	case manyOf*detail > b.known && (b.most == w.Kind || detail > b.kinds.waiting(b.most) || !b.hasMost()):
		b.most = w.Detail
	case manyOf*kind > b.known && !b.hasMost():
		b.most = w.Kind
	}
}

// hasMost reports whether many tasks still do the work of kind most.
func (b *Backlog) hasMost() bool { return b.most != 0 && manyOf*b.kinds.waiting(b.most) > b.known }

// Departed records that the wait of the task of w at the node is over, which began at the time of stamp.
func (b *Backlog) Departed(now time.Duration, w *Work, stamp uint32) {
	if w.Kind != 0 && b.All() && b.known > 0 {
		b.known--
		b.kinds.addWaiting(w, -1)
	}
	if b.waiting == 0 || !b.Counts(w) {
		return
	}
	b.waiting--
	b.turns++
	if b.late > 0 && int32(stamp-Stamp(b.limitedAt)) <= 0 { // it may have begun to wait in the unit of time in which the limit was set
		b.late--
		b.lateGone++
		return
	}
	b.departed++
	d := time.Duration(Stamp(now)-stamp) << stampBits
	b.waited += d
	b.quickest = min(b.quickest, d)
}

// Stamp is a time as 32 bits. The unit is 66 µs, and it comes round after 78 hours: a wait of that length may be taken for
// a short one.
func Stamp(t time.Duration) uint32 { return uint32(t >> stampBits) }

const stampBits = 16

// NewestFirst reports whether the newest of the waiting tasks is to be served next: some wait since before the limit
// was set, and their turn, one in lateTurns, has not come.
func (b *Backlog) NewestFirst() bool { return b.late > 0 && b.turns%lateTurns != 0 }

// Look returns what has happened since the last Look; out is how many tasks wait before the node. SetLimit follows.
func (b *Backlog) Look(out int) BacklogState {
	afresh := b.clarify()
	s := BacklogState{
		Afresh: afresh, Several: b.whole, Waiting: b.waiting - b.late, Departed: b.departed, Late: b.lateGone,
		Waited: b.waited, Quickest: b.quickest, Out: out,
	}
	b.departed, b.lateGone, b.waited, b.quickest = 0, 0, 0, math.MaxInt64
	return s
}

// clarify finds out whether many of the tasks at the node do the same, and reports whether what has been counted is of no
// use, as it is the first Look, or not clear yet what is to count, or only these count from now on.
func (b *Backlog) clarify() (afresh bool) {
	if !b.All() || b.limit > 0 {
		afresh, b.unclear = b.unclear, false
		return afresh
	}
	if 2*b.known <= b.waiting {
		return b.unclear
	}
	afresh, b.unclear = b.unclear, false
	if !b.hasMost() {
		return afresh
	}
	b.late = 0 // of all kinds, from a limit before
	b.waiting += b.kinds.waiting(b.most) - b.known
	b.kind = b.most
	return true
}

// SetLimit sets how many tasks may be at the node or on the way; 0: any number, below 0: none. out is how many wait before
// it.
func (b *Backlog) SetLimit(now time.Duration, limit, out int) {
	if limit > 0 && b.limit == 0 {
		b.limitedAt, b.late = now, b.waiting
	}
	b.limit = limit
	if b.waiting > quietTasks || limit != 0 || out > 0 {
		b.quietSince = now
	}
}

// Quiet reports whether so few tasks have waited for so long that the node need not be watched any more.
func (b *Backlog) Quiet(now time.Duration) bool { return now-b.quietSince > quietEnd && b.heading == 0 }

// A BacklogState is what has happened at a watched node since it was last looked at. Late tasks waited there when the limit
// was set.
type BacklogState struct {
	Afresh   bool          // earlier states were about other tasks
	Several  bool          // the tasks wait for several things, as connections, and not for one, as a lock
	Waiting  int           // tasks there, without the late
	Departed int           // tasks whose wait is over, without the late
	Late     int           // late tasks whose wait is over
	Waited   time.Duration // by the departed tasks in all
	Quickest time.Duration // by one of these
	Out      int           // tasks that wait before the node
}
