package engine

import (
	"math"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// A pile is what is watched of a node of the blocking graph, as tasks pile up there: how many wait,
// which kinds of work come there, and how many may wait at a time. Those that would be too many
// wait in the door, a line as at an entrance. Loop-private.
//
//	node to be watched ── most wait for one thing ──▶ that thing, a lock of many
//	       │
//	       ▼
//	    unclear ── it is known what more than half do ──▶ the whole node
//	       │                                                    │
//	       ╰────── and many of these do the same ───────────────┤ as long as there is no limit
//	                                                            ▼
//	                                                  that kind of work
//
// A quick kind and one that sleeps look like a pile if they are taken together: tasks become ever more, wait
// ever longer on average, and no more go on, as most of these are quick. And if one kind piles up, as what
// it asks for is slow, the others are not to be limited with it.
//
// Those that wait there when the limit is set are mostly too late to be of use, and may be the work of
// seconds. They are not counted, and those that come later go first (WaiterList.Turn).
type pile struct {
	node     NodeID
	point    WaitPoint // what of the node; nil: all
	kind     uint32    // or the kind of work, or detail of one; 0: any
	unclear  bool      // what to watch
	most     uint32    // what many have lately been seen to do, as long as kind is 0
	waiting  int       // tasks there that are watched
	known    int       // tasks there of which it is known what they do
	late     int       // of those that wait, those that came before since
	since    time.Duration
	turns    uint8 // tasks that have gone on
	heading  int   // tasks that were let in at the door and have not got there yet
	limit    int   // of both, without the late; 0: none, below 0: nobody may come
	departed int   // since the last look
	lateGone int   // of the late, since then
	waited   time.Duration
	quickest time.Duration
	quiet    time.Duration // since when few wait
	door     line
	kinds    kinds
}

// MaxPiles is how many nodes a loop watches at most.
const MaxPiles = 4

const (
	pileEvery = 10 * time.Millisecond // looks at piles
	pileEnd   = 10 * time.Second      // a node where few wait for so long is not watched any more
	pileFew   = 8
	lateTurns = 64                 // turns, of which the one that has waited longest gets one
	doorIndex = admit.MaxEntrances // index of the first door for an Admission, after the entrances
)

// A Bottlenecks is an Admission that limits how many tasks wait at a node inside the program.
type Bottlenecks interface {
	Admission
	// Piled is told, every few milliseconds, how it is at a watched node. It returns how many may wait
	// there, 0 if any number, below 0 if nobody. Next is called with index admit.MaxEntrances+pile for those
	// that are kept out.
	Piled(now time.Duration, pile int, q admit.PileQueue) (limit int)
}

// Watched reports whether As matters on the loop of the caller: it has watched nodes. It never parks.
func Watched() bool {
	l := here()
	return l != nil && l.piles != nil
}

// As says what kind of work the calling task does, which e has let in: a number, like a hash of
// the route of a request.
func (e *Entrance) As(kind, detail uint32) error {
	l := comeBack()
	if l == nil || l.cur == nil || l.piles == nil {
		return nil
	}
	x := l.cur.extend()
	if detail == 0 {
		detail = kind
	}
	x.kind, x.detail = kind, detail
	return l.passDoors(x)
}

func (l *Loop) passDoors(x *extension) error {
	for i, p := range l.piles {
		if p.limit == 0 || !p.leads(x) || x.heading&(1<<i) != 0 { // the last: it has been let in before
			p.goes(x)
			continue
		}
		p.door.state = admit.Queue{Waiting: 1, Inside: p.inside()}
		if p.door.n == 0 && p.room() && l.admission.Next(l.now, doorIndex+i, &p.door.state) != admit.Refuse {
			p.heads(i, x)
			continue
		}
		if err := l.waitInLine(&p.door, 0); err != nil {
			return err
		}
	}
	return nil
}

// leads reports whether the task of x is likely to come to where there is a limit.
func (p *pile) leads(x *extension) bool {
	return (p.limit < 0 || p.does(x)) && p.kinds.lead(x)
}

// does reports whether the task of x does what is watched, as far as is known: one of which nothing is
// known counts as one of the most.
func (p *pile) does(x *extension) bool {
	return p.kind == 0 || x.kind == 0 || p.kind == x.kind || p.kind == x.detail
}

// room reports whether one more may come to the node.
func (p *pile) room() bool { return p.limit == 0 || p.waiting-p.late+p.heading < p.limit }

// inside is how many are at the node, or on the way.
func (p *pile) inside() int { return p.waiting + p.heading }

// goes notes that the task of x was let in.
func (p *pile) goes(x *extension) {
	p.kinds.goes(x.kind)
	p.kinds.goes(x.detail)
}

// heads notes that the task of x is on its way to pile i.
func (p *pile) heads(i int, x *extension) {
	x.heading |= 1 << i
	p.heading++
	p.goes(x)
}

// headsNowhere is called when the task of x will come to no pile any more.
func (l *Loop) headsNowhere(x *extension) {
	for i, p := range l.piles {
		if x.heading&(1<<i) != 0 {
			p.heading--
		}
	}
	x.heading = 0
}

// pileUp is called when t begins to wait.
func (l *Loop) pileUp(t *Task) {
	for i, p := range l.piles {
		if !p.at(t) {
			continue
		}
		x := t.extra()
		if x.kind != 0 {
			p.kinds.comes(x.kind)
			p.kinds.comes(x.detail)
		}
		*t.worker.Stamp() = stamp(l.now)
		p.add(x)
		if x.heading&(1<<i) != 0 {
			x.heading &^= 1 << i
			p.heading--
		}
	}
}

// add counts a task at p.
func (p *pile) add(x *extension) {
	if p.does(x) {
		p.waiting++
	}
	if x.kind == 0 || !p.isAll() {
		return
	}
	p.known++
	kind, detail := p.kinds.waits(x, 1)
	switch {
	case manyOf*detail > p.known && (p.most == x.kind || detail > p.kinds.wait(p.most, 0) || !p.isMost()):
		p.most = x.detail
	case manyOf*kind > p.known && !p.isMost():
		p.most = x.kind
	}
}

// manyOf is the part of those that wait of which a kind has to be to be watched by itself.
const manyOf = 4

// isMost reports whether p.most still is what many do.
func (p *pile) isMost() bool { return p.most != 0 && manyOf*p.kinds.wait(p.most, 0) > p.known }

// pileDown is called when the wait of t is over.
func (l *Loop) pileDown(t *Task) {
	for _, p := range l.piles {
		if !p.at(t) {
			continue
		}
		x := t.extra()
		if x.kind != 0 && p.isAll() && p.known > 0 {
			p.known--
			p.kinds.waits(x, -1)
		}
		if p.waiting == 0 || !p.does(x) {
			continue
		}
		p.waiting--
		p.turns++
		if at := *t.worker.Stamp(); p.late > 0 && int32(at-stamp(p.since)) < 0 {
			p.late--
			p.lateGone++
		} else {
			p.departed++
			d := time.Duration(stamp(l.now)-at) << stampBits
			p.waited += d
			p.quickest = min(p.quickest, d)
		}
	}
}

// stampBits make a time small enough for the Stamp of a worker, which says when a wait at a pile began:
// its unit is 66 µs, and it comes round after 78 hours. A wait of that length may be taken for a short one.
const stampBits = 16

func stamp(t time.Duration) uint32 { return uint32(t >> stampBits) }

// at reports whether t, which waits, does so where p is.
func (p *pile) at(t *Task) bool { return p.node == t.node && (p.point == nil || p.point == t.on) }

// has reports whether t, which waits, is of what is watched.
func (p *pile) has(t *Task) bool { return p.at(t) && p.does(t.extra()) }

// Turn returns the Waiter of q to serve next, nil if q is empty: the one that has waited
// longest. Only while there are some that had to wait too long is it the newest that is served, in time, and
// one turn in lateTurns is left to the former. The caller runs on l, nil for a plain goroutine.
func (q *WaiterList) Turn(l *Loop) *Waiter {
	if l == nil || l.piles == nil || q.tail == nil || q.tail.task == nil || q.tail.task.loop != l {
		return q.head
	}
	for _, p := range l.piles {
		if p.late > 0 && p.has(q.tail.task) {
			if p.turns%lateTurns != 0 {
				return q.tail
			}
		}
	}
	return q.head
}

// Watch has l watch node n: as tasks pile up there, it may be what limits the program. If most of them
// wait for the same thing, only that is watched: one lock of many. It is to be called on l, by Post. It
// does nothing if that is watched already, if there are MaxPiles, and without an Admission that is a
// Bottlenecks.
func (l *Loop) Watch(n NodeID) {
	if l.bottlenecks == nil || len(l.piles) == MaxPiles {
		return
	}
	p := &pile{node: n, quiet: l.now, quickest: math.MaxInt64}
	again := slices.ContainsFunc(l.piles, func(q *pile) bool { return q.node == n })
	switch {
	case !again:
	case slices.ContainsFunc(l.piles, func(q *pile) bool { return q.node == n && q.isAll() }), l.now-l.addedAt < addEvery:
		return
	default:
		l.addedAt = l.now
	}
	p.point = majority(l, p, func(t *Task) WaitPoint { return t.on })
	if p.point == nil && again {
		all := 0
		l.eachOf(p, lookedAt, func(t *Task) {
			if !slices.ContainsFunc(l.piles, func(q *pile) bool { return q.has(t) }) {
				all++
				p.add(t.extra())
			}
		})
		if !p.isMost() || 2*p.known <= all {
			return
		}
		p.kind, p.waiting = p.most, 0
	}
	p.unclear = p.isAll()
	p.door.index = doorIndex + len(l.piles)
	l.eachOf(p, math.MaxInt, func(t *Task) {
		if !slices.ContainsFunc(l.piles, func(q *pile) bool { return q.at(t) }) {
			*t.worker.Stamp() = stamp(l.now)
		}
		p.add(t.extra())
	})
	l.piles = append(l.piles, p)
}

// isAll reports whether all of the node is watched.
func (p *pile) isAll() bool { return p.point == nil && p.kind == 0 }

// eachOf calls do for each of the tasks that wait at p, as far as they are among the given number of tasks
// that were made last.
func (l *Loop) eachOf(p *pile, left int, do func(*Task)) {
	for t := l.tasks; t != nil && left > 0; t, left = t.allNext, left-1 {
		if t.state == stateParked && p.has(t) {
			do(t)
		}
	}
}

const (
	// lookedAt is how many tasks are looked at to see what most of them have in common: there may be a million.
	lookedAt = 1 << 14
	// addEvery is how often it is seen whether a node of which a part is watched has another one.
	addEvery = 100 * time.Millisecond
)

// majority is what more than half of the tasks at p have in common that are in no pile yet; nil or 0: nothing.
func majority[T comparable](l *Loop, p *pile, of func(*Task) T) (most T) {
	votes, ayes, all := 0, 0, 0 // Boyer and Moore's majority vote, then a count
	each := func(do func(T)) {
		l.eachOf(p, lookedAt, func(t *Task) {
			if !slices.ContainsFunc(l.piles, func(q *pile) bool { return q.has(t) }) {
				do(of(t))
			}
		})
	}
	each(func(v T) {
		if votes == 0 {
			most = v
		}
		if votes--; v == most {
			votes += 2
		}
	})
	each(func(v T) {
		if all++; v == most {
			ayes++
		}
	})
	if 2*ayes > all {
		return most
	}
	var none T
	return none
}

// clarify finds out whether many of the tasks at p do the same, and reports whether what has been counted
// is of no use, as it is not clear yet or only they count from now on.
func (l *Loop) clarify(p *pile) (afresh bool) {
	if !p.isAll() || p.limit > 0 {
		return false
	}
	if 2*p.known <= p.waiting {
		return p.unclear
	}
	afresh, p.unclear = p.unclear, false
	if !p.isMost() {
		return afresh
	}
	p.kind, p.waiting, p.late = p.most, 0, 0 // late are of all kinds, from a limit before
	l.eachOf(p, math.MaxInt, func(*Task) { p.waiting++ })
	return true
}

// lookAtPiles asks how many may wait at each pile, and lets those in for which there is room.
func (l *Loop) lookAtPiles() {
	if l.now-l.piledAt >= pileEvery {
		l.piledAt = l.now
		for i, p := range l.piles {
			afresh := l.clarify(p)
			limit := l.bottlenecks.Piled(l.now, i, admit.PileQueue{
				Afresh: afresh, Waiting: p.waiting - p.late, Departed: p.departed, Late: p.lateGone, Waited: p.waited, Quickest: p.quickest, Out: p.door.n,
			})
			if limit > 0 && p.limit == 0 {
				p.since, p.late = l.now, p.waiting
			}
			p.limit, p.departed, p.lateGone, p.waited, p.quickest = limit, 0, 0, 0, math.MaxInt64
			if p.waiting > pileFew || p.limit != 0 || p.door.n > 0 {
				p.quiet = l.now
			}
		}
		if last := l.piles[len(l.piles)-1]; l.now-last.quiet > pileEnd && last.heading == 0 && last.door.starting == 0 && last.door.refusing == 0 {
			l.piles = l.piles[:len(l.piles)-1] // those before it keep their numbers
			if len(l.piles) == 0 {
				l.piles = nil
			}
		}
	}
	for _, p := range l.piles {
		if p.door.n > 0 {
			l.serve(&p.door)
		}
	}
}

// start is the index of the line that t has left and not arrived from, -1 if there is none, and
// whether it was let in there.
func (t *Task) start() (index int, in bool) {
	if t.startsAt < 0 {
		return int(-t.startsAt) - 1, false
	}
	return int(t.startsAt) - 1, true
}

// lineAt is the line of that index.
func (l *Loop) lineAt(index int) *line {
	if index < doorIndex {
		return l.lines[index]
	}
	return &l.piles[index-doorIndex].door
}
