package engine

import (
	"math/bits"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// A line is where tasks of one loop wait to be let in at an entrance: the most important
// first, and among equals in the order that the Admission wants. Loop-private.
type line struct {
	index    int
	n        int           // tasks in it
	state    admit.Queue   // what the Admission is shown
	starting int           // tasks that were let in and have not run since
	refusing int           // tasks that were refused and have not run since
	surplus  int           // see underWay
	letInAt  time.Duration // when one was last let in
	gone     int           // see Queue.Gone
	// With that number starting, the Admission let no more in during the turn that began at enoughAt; 0: no limit was given.
	enough   int
	enoughAt time.Duration
	used     uint64
	levels   [64]level // by priority, from -32; those with a bit in used are not empty
	free     *inLine   // to use again
	frees    int
	shares   [clientShares]uint32 // tasks let in lately, by client
	shared   int                  // sum of shares
}

// longestHold is for tasks that compute for long and yield now and then: a newcomer need not wait until one of them is done.
const longestHold = 10 * time.Millisecond

// underWay is how many tasks were let in lately and have not run yet; or if that is more, and the loop has had something to do
// since, how many more were let in than have left. So while the loop is busy what has begun is finished before more is:
// if the two shared the processor, as many would get in as the first steps of their work allow, and wait inside for a
// turn until they are too late. Of work that is cut into steps by waits none was served in time under overload, for ever.
// Those that were there when it last had nothing to do, such as streams of events, do not count, however many they are.
func (q *line) underWay(l *Loop) int {
	if q.index >= doorIndex {
		return q.starting
	}
	if l.backlog() == 0 {
		q.surplus = 0
	}
	if l.now-q.letInAt >= longestHold {
		return q.starting
	}
	return max(q.starting, q.surplus)
}

// letIn is called when a task is let in.
func (q *line) letIn(l *Loop) {
	q.surplus++
	q.letInAt = l.now
}

// left is called when a task leaves that was let in.
func (q *line) left() { q.surplus = max(q.surplus-1, 0) }

// A level is the tasks that are equally important: those in the order in which they came here, and those
// that had waited elsewhere before. Both lists have the oldest first.
type level struct{ here, before list }

// A list is of tasks in a line.
type list struct{ head, tail *inLine }

// list is the one that x is in, or is to be put into.
func (v *level) list(x *inLine) *list {
	if x.before {
		return &v.before
	}
	return &v.here
}

// oldest is the one that has waited longest.
func (v *level) oldest() *inLine {
	x, y := v.here.head, v.before.head
	if x == nil || y != nil && y.since < x.since {
		return y
	}
	return x
}

// newest is the list with the one that has waited least, at its end.
func (v *level) newest() *list {
	x, y := v.here.tail, v.before.tail
	if x == nil || y != nil && y.since > x.since {
		return &v.before
	}
	return &v.here
}

// An inLine is a task in a line. It is what the task waits on.
type inLine struct {
	line       *line
	w          *Waiter // nil: t has not started
	t          *Task
	prev, next *inLine
	ticket     *Ticket // nil: none
	since      time.Duration
	client     uint32
	level      uint8
	verdict    admit.Verdict
	queued     bool
	gone       bool // see Ticket.Hangup
	before     bool // it waited before it came here
}

const (
	clientShares  = 256     // clients are told apart by this many numbers
	sharesHalved  = 1 << 12 // tasks let in, after which old ones count half
	fairLookBack  = 32      // newest tasks among which clients with small shares are looked for
	shareChance   = 16      // by how much equal shares may differ
	maxFreeInLine = 1024
)

// push puts a task in the line that has waited since then, before it came here if before is set.
func (q *line) push(w *Waiter, t *Task, client uint32, since time.Duration, before bool) *inLine {
	x := q.free
	if x != nil {
		q.free = x.next
		q.frees--
	} else {
		x = new(inLine)
	}
	x.line, x.w, x.t, x.next = q, w, t, nil // the rest is zero
	x.since, x.client, x.level = since, client, uint8(t.extra().priority+32)
	x.queued, x.before = true, before
	v := q.levels[x.level].list(x)
	if x.prev = v.tail; v.tail == nil {
		v.head = x
		q.used |= 1 << x.level
	} else {
		v.tail.next = x
	}
	v.tail = x
	q.n++
	return x
}

// remove takes x out of the line.
func (q *line) remove(x *inLine) {
	at := &q.levels[x.level]
	v := at.list(x)
	if x.prev == nil {
		v.head = x.next
	} else {
		x.prev.next = x.next
	}
	if x.next == nil {
		v.tail = x.prev
	} else {
		x.next.prev = x.prev
	}
	if at.oldest() == nil {
		q.used &^= 1 << x.level
	}
	q.n--
	x.queued, x.prev, x.next = false, nil, nil
	if x.ticket != nil {
		x.ticket.at = nil
		x.ticket = nil
	}
}

// recycle keeps x, which is in no list any more, to use it again.
func (q *line) recycle(x *inLine) {
	if q.frees < maxFreeInLine {
		*x = inLine{next: q.free}
		q.free = x
		q.frees++
	}
}

// starts marks t as on its way to Enter.
func (q *line) starts(t *Task, v admit.Verdict) {
	if v != admit.Refuse {
		q.letIn(t.loop)
	}
	t.startsAt = int8(q.index + 1)
	if v == admit.Refuse {
		t.startsAt = -t.startsAt
		q.refusing++
		return
	}
	q.starting++
}

// oldest is the one that has waited longest, of equals the least important. The more important
// are let in first, so it is hardly ever one of them.
func (q *line) oldest() *inLine {
	used := q.used
	x := q.levels[bits.TrailingZeros64(used)].oldest()
	for used &= used - 1; used != 0; used &= used - 1 {
		if y := q.levels[bits.TrailingZeros64(used)].oldest(); y.since < x.since {
			x = y
		}
	}
	return x
}

// top are the most important.
func (q *line) top() *level { return &q.levels[bits.Len64(q.used)-1] }

// admittedFirst is, of those that matter most, the oldest; or the newest. If some of those that came
// last are of clients that had clearly more let in lately than others, it is the oldest of the others.
func (q *line) admittedFirst(newest bool) *inLine {
	if !newest {
		return q.top().oldest()
	}
	v := q.top().newest()
	share := func(x *inLine) uint32 { return q.shares[x.client%clientShares] }
	first, least := v.tail, share(v.tail)
	for i := 1; i < fairLookBack && first.prev != nil; i++ {
		first = first.prev
		least = min(least, share(first))
	}
	fair, unequal := least+least/2+shareChance, false
	var oldest *inLine
	for x := first; x != nil; x = x.next {
		switch {
		case share(x) > fair:
			unequal = true
		case oldest == nil:
			oldest = x
		}
	}
	if unequal {
		return oldest
	}
	return v.tail
}

// count notes that one of that client was let in.
func (q *line) count(client uint32) {
	q.shares[client%clientShares]++
	if q.shared++; q.shared < sharesHalved {
		return
	}
	q.shared = 0
	for i := range q.shares {
		q.shares[i] /= 2
		q.shared += int(q.shares[i])
	}
}

// Withdraw implements WaitPoint.
func (x *inLine) Withdraw(*Waiter) bool {
	if !x.queued {
		return false
	}
	x.line.remove(x)
	return true
}

// DescribeWait implements WaitDescriber.
func (x *inLine) DescribeWait() string {
	if x.line.index >= doorIndex {
		return "a place inside where too many wait"
	}
	return Entrances()[x.line.index].name
}
