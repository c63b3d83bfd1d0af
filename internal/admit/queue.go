package admit

import (
	"math/bits"
	"time"
)

// An EntryQueue holds the tasks of one loop that wait at an entrance, or before a bottleneck: the most important first, and
// among equals in the order that the Admission wants. A task is an opaque item. The queue also counts the tasks that have
// left it and are on their way to their first step.
//
//	       Push             Admit           Started                Left
//	asked ──────▶ queued ─────────▶ starting ──────▶ inside ───────────▶ finished
//	                │    Refuse           Started
//	                ├──────────▶ refusing ──────▶ finished
//	                ╰──────────▶ finished
//	                   Remove
//
// Loop-private. The zero value is the empty queue of entrance 0.
type EntryQueue[T any] struct {
	Index int // what the Decider is told: of an entrance, or from MaxEntrances on of a bottleneck

	n            int           // entries in it
	state        QueueState    // what the Decider is shown
	starting     int           // tasks that were admitted and have not run since
	refusing     int           // tasks that were refused and have not run since
	unfinished   int           // see startingOrUnfinished
	admittedAt   time.Duration // when a task was last admitted
	disconnected int           // see QueueState.Disconnected
	// With that number starting, the Decider admitted no more during the iteration that began at enoughAt; 0: no limit was given.
	enough   int
	enoughAt time.Duration
	used     uint64
	levels   [levels]level[T]     // by priority, from MinPriority; those with a bit in used are not empty
	shares   [clientShares]uint32 // tasks admitted lately, by client
	shared   int                  // sum of shares
}

// An Entry is an item in an EntryQueue. The user of the queue keeps it; the exported fields are set before Push.
type Entry[T any] struct {
	Item         T
	Since        time.Duration // when the task began to wait, here or elsewhere before
	Client       uint32        // whose share it counts for; 0: unknown
	Priority     int8          // MinPriority to MaxPriority
	Elsewhere    bool          // it has waited before it came to the queue
	Disconnected bool          // its client has closed its side of the connection

	prev, next *Entry[T]
	queued     bool
}

// The least and the most important.
const (
	MinPriority = -32
	MaxPriority = 31
)

// A Decider decides about the tasks of an EntryQueue. An Admission is one.
type Decider interface {
	// Next says what becomes of one of the tasks that wait at the entrance, or before the bottleneck, with that index. q is
	// the queue's.
	Next(now time.Duration, index int, q *QueueState) Verdict
}

// Open is a Decider that admits all tasks, and lets them wait while the queue is Full.
type Open struct{}

// Left does nothing.
func (Open) Left(time.Duration, int) {}

// Limit sets none.
func (Open) Limit(time.Duration, int, BacklogState) int { return 0 }

// Next is part of Decider.
func (Open) Next(_ time.Duration, _ int, q *QueueState) Verdict {
	switch {
	case q.Abandoned:
		return Refuse
	case q.Full:
		return Defer
	}
	return Admit
}

// A Moment is what the loop knows when it asks a queue.
type Moment struct {
	Now    time.Duration
	Idle   bool // all that was ready has run
	Full   bool // none can be admitted: there is no room at the node, or too many tasks are detached
	Inside int  // of a bottleneck: tasks there or on the way
}

// Len is how many entries are in the queue.
func (q *EntryQueue[T]) Len() int { return q.n }

// UnderWay is how many tasks were admitted or refused and have not run since.
func (q *EntryQueue[T]) UnderWay() int { return q.starting + q.refusing }

// Arriving asks about a task that comes while none waits. If the verdict is Defer or Enough it is to be pushed.
func (q *EntryQueue[T]) Arriving(m Moment, d Decider) Verdict {
	q.state = QueueState{Waiting: 1, Starting: q.startingOrUnfinished(m), Refusing: q.refusing, Full: m.Full}
	return d.Next(m.Now, q.Index, &q.state)
}

// Next takes out the next entry that is decided, with the verdict Admit, AdmitNewest or Refuse; nil if no entry is
// decided now.
func (q *EntryQueue[T]) Next(m Moment, d Decider) (*Entry[T], Verdict) {
	if q.n == 0 || q.enough > 0 && q.starting >= q.enough && q.enoughAt == m.Now {
		return nil, Defer
	}
	oldest := q.oldest()
	abandoned := oldest.Disconnected && m.Now-oldest.Since > disconnectedAfter
	q.state = QueueState{
		Waiting: q.n, Inside: m.Inside, Starting: q.startingOrUnfinished(m), Refusing: q.refusing,
		Oldest: m.Now - oldest.Since, Front: m.Now - q.top().oldest().Since,
		Full: m.Full, Disconnected: q.disconnected, Abandoned: abandoned,
	}
	v := d.Next(m.Now, q.Index, &q.state)
	q.disconnected = 0
	switch v {
	case Defer:
		return nil, v
	case Enough:
		q.enough, q.enoughAt = q.starting, m.Now
		return nil, v
	case Refuse:
		if abandoned {
			q.disconnected = 1
		}
		q.Remove(oldest)
		return oldest, v
	}
	return q.take(v == AdmitNewest), v
}

// Pop takes out the entry that has waited longest of the most important; nil if the queue is empty.
func (q *EntryQueue[T]) Pop() *Entry[T] {
	if q.n == 0 {
		return nil
	}
	return q.take(false)
}

func (q *EntryQueue[T]) take(newest bool) *Entry[T] {
	x := q.admittedFirst(newest)
	q.Remove(x)
	q.count(x.Client)
	return x
}

// Starts records that a task is on its way to its first step, with that verdict.
func (q *EntryQueue[T]) Starts(now time.Duration, v Verdict) {
	if v == Refuse {
		q.refusing++
		return
	}
	q.starting++
	q.Admitted(now)
}

// Started records that a task that Starts was called for runs, or has ended.
func (q *EntryQueue[T]) Started(admitted bool) {
	if admitted {
		q.starting--
		return
	}
	q.refusing--
	q.enough = 0 // more may be refused
}

// Admitted records that a task was admitted.
func (q *EntryQueue[T]) Admitted(now time.Duration) {
	q.unfinished++
	q.admittedAt = now
}

// Finished records that an admitted task has finished.
func (q *EntryQueue[T]) Finished() { q.unfinished = max(q.unfinished-1, 0) }

// startingOrUnfinished is how many tasks were admitted lately and have not run yet; or if that is more, and the loop has had something
// to do since, how many more were admitted than have finished. So a busy loop finishes what it has admitted before it
// admits more: if the two shared the processor, as many tasks would be admitted as the first steps of their work allow,
// and each would wait inside until it is too late. Of work that is cut into steps by waits none was served in time under
// overload, for ever. Tasks admitted before the loop was last idle, such as streams of events, are not counted.
func (q *EntryQueue[T]) startingOrUnfinished(m Moment) int {
	if q.Index >= MaxEntrances {
		return q.starting
	}
	if m.Idle {
		q.unfinished = 0
	}
	if m.Now-q.admittedAt >= longestHold {
		return q.starting
	}
	return max(q.starting, q.unfinished)
}

// A level holds the entries of one priority in two lists: the entries that came straight here, and the entries that had
// waited elsewhere before. Both lists have the oldest first.
type level[T any] struct{ here, elsewhere list[T] }

// A list is of entries in a queue.
type list[T any] struct{ head, tail *Entry[T] }

// list is the one that x is in, or is to be put into.
func (v *level[T]) list(x *Entry[T]) *list[T] {
	if x.Elsewhere {
		return &v.elsewhere
	}
	return &v.here
}

// oldest is the entry that has waited longest.
func (v *level[T]) oldest() *Entry[T] {
	x, y := v.here.head, v.elsewhere.head
	if x == nil || y != nil && y.Since < x.Since {
		return y
	}
	return x
}

// newest is the list with the entry that has waited least, at its end.
func (v *level[T]) newest() *list[T] {
	x, y := v.here.tail, v.elsewhere.tail
	if x == nil || y != nil && y.Since > x.Since {
		return &v.elsewhere
	}
	return &v.here
}

func (q *EntryQueue[T]) level(x *Entry[T]) (*level[T], int) {
	i := int(x.Priority) - MinPriority
	return &q.levels[i], i
}

// Push puts x at the end of its list.
func (q *EntryQueue[T]) Push(x *Entry[T]) {
	at, i := q.level(x)
	v := at.list(x)
	if x.prev = v.tail; v.tail == nil {
		v.head = x
		q.used |= 1 << i
	} else {
		v.tail.next = x
	}
	v.tail = x
	x.queued = true
	q.n++
}

// Remove takes x out of the queue, and reports whether it was there.
func (q *EntryQueue[T]) Remove(x *Entry[T]) bool {
	if !x.queued {
		return false
	}
	at, i := q.level(x)
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
		q.used &^= 1 << i
	}
	q.n--
	x.queued, x.prev, x.next = false, nil, nil
	return true
}

// oldest is the entry that has waited longest, of equals the least important. The more important are admitted first, so it
// is hardly ever one of them.
func (q *EntryQueue[T]) oldest() *Entry[T] {
	used := q.used
	x := q.levels[bits.TrailingZeros64(used)].oldest()
	for used &= used - 1; used != 0; used &= used - 1 {
		if y := q.levels[bits.TrailingZeros64(used)].oldest(); y.Since < x.Since {
			x = y
		}
	}
	return x
}

// top holds the most important entries.
func (q *EntryQueue[T]) top() *level[T] { return &q.levels[bits.Len64(q.used)-1] }

// admittedFirst is, of the most important entries, the oldest; or the newest. If some of the newest are of clients that
// had clearly more admitted lately than others, it is the oldest of the others.
func (q *EntryQueue[T]) admittedFirst(newest bool) *Entry[T] {
	if !newest {
		return q.top().oldest()
	}
	v := q.top().newest()
	share := func(x *Entry[T]) uint32 { return q.shares[x.Client%clientShares] }
	first, least := v.tail, share(v.tail)
	for i := 1; i < fairLookBack && first.prev != nil; i++ {
		first = first.prev
		least = min(least, share(first))
	}
	fair, unequal := least+least/2+shareChance, false
	var oldest *Entry[T]
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

// count records that a task of that client was admitted.
func (q *EntryQueue[T]) count(client uint32) {
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
