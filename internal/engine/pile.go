package engine

import (
	"slices"
	"time"
)

// A pile is a node of the blocking graph that is watched, as tasks pile up there: how many wait,
// which kinds of work come there, and how many may wait at a time. Those that would be too many
// wait in the door, a line as at an entrance. Loop-private.
//
// Those that wait there when the limit is set are mostly too late to be of use, and may be the work of
// seconds. They are not counted, and those that come later go first (turnOf).
type pile struct {
	node     NodeID
	point    WaitPoint // what of the node; nil: all
	waiting  int       // tasks there
	late     int       // of these, those that came before since
	since    time.Duration
	turns    uint8 // tasks that have gone on
	heading  int   // tasks that were let in at the door and have not got there yet
	limit    int   // of both, without the late; 0: none, below 0: nobody may come
	departed int   // since the last look
	waited   time.Duration
	quiet    time.Duration // since when few wait
	door     line
	kinds    kinds
}

// kinds say of each kind of work how many of those tasks have come in, and how many have come to
// the node. A kind has a place in each of two tables, so that it is hardly ever taken for another.
type kinds [2][1 << kindBits]struct{ came, visited uint16 }

func (k *kinds) each(kind uint32, do func(came, visited *uint16)) {
	for i, m := range [...]uint32{0x9e3779b1, 0x85ebca6b} {
		x := &k[i][kind*m>>(32-kindBits)]
		do(&x.came, &x.visited)
	}
}

// lead reports whether the task of x is likely to come to the node. What is known of the detail
// counts more.
func (k *kinds) lead(x *extension) bool {
	likely, known := k.likely(x.detail)
	if !known {
		likely, _ = k.likely(x.kind)
	}
	return likely
}

func (k *kinds) likely(kind uint32) (likely, known bool) {
	likely, known = true, true
	k.each(kind, func(came, visited *uint16) {
		likely = likely && *visited > 0 && 2*int(*visited) >= int(*came)
		known = known && *came >= knownFrom
	})
	return likely, known
}

// goes notes that one of the kind was let in.
func (k *kinds) goes(kind uint32) {
	k.each(kind, func(came, visited *uint16) {
		if *came++; *came == 1<<15 {
			*came /= 2
			*visited /= 2
		}
	})
}

// comes notes that one of the kind has come to the node.
func (k *kinds) comes(kind uint32) {
	k.each(kind, func(_, visited *uint16) { *visited = min(*visited+1, 1<<15) })
}

// MaxPiles is how many nodes a loop watches at most.
const MaxPiles = 4

const (
	kindBits  = 10                    // of a place in a table of kinds
	pileEvery = 10 * time.Millisecond // looks at piles
	pileEnd   = 10 * time.Second      // a node where few wait for so long is not watched any more
	pileFew   = 8
	knownFrom = 4            // tasks of a kind
	lateTurns = 16           // turns, of which the one that has waited longest gets one
	doorIndex = MaxEntrances // index of the first door for an Admission, after the entrances
)

// A Bottlenecks is an Admission that limits how many tasks wait at a node inside the program.
type Bottlenecks interface {
	Admission
	// Piled says, every few milliseconds, how many tasks wait at a watched node, how many have gone
	// on from there since, which had waited so long in all, and how many are kept out. It returns how
	// many may wait there, 0 if any number, below 0 if nobody. Who waited there when the limit was set
	// is not counted. Next is called with index MaxEntrances+pile for those that are kept out.
	Piled(now time.Duration, pile, waiting, departed int, waited time.Duration, out int) (limit int)
}

// As says what kind of work the calling task does, which e has let in: a number, like a hash of
// the route of a request.
func (e *Entrance) As(kind, detail uint32) error {
	l := comeBack()
	if l == nil || l.cur == nil {
		return nil
	}
	if l.piles == nil {
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
		if p.limit == 0 || !p.kinds.lead(x) {
			p.goes(x)
			continue
		}
		if p.door.n == 0 && p.room() && l.admission.Next(l.now, doorIndex+i, Queue{Waiting: 1}) != VerdictRefuse {
			p.heads(i, x)
			continue
		}
		if err := l.waitInLine(&p.door, 0); err != nil {
			return err
		}
	}
	return nil
}

// room reports whether one more may come to the node.
func (p *pile) room() bool { return p.limit == 0 || p.waiting-p.late+p.heading < p.limit }

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
		if !p.has(t) {
			continue
		}
		*t.worker.Stamp() = stamp(l.now)
		p.waiting++
		x := t.extra()
		if x.kind != 0 {
			p.kinds.comes(x.kind)
			p.kinds.comes(x.detail)
		}
		if x.heading&(1<<i) != 0 {
			x.heading &^= 1 << i
			p.heading--
		}
	}
}

// pileDown is called when the wait of t is over.
func (l *Loop) pileDown(t *Task) {
	for _, p := range l.piles {
		if !p.has(t) || p.waiting == 0 {
			continue
		}
		p.waiting--
		p.departed++
		p.turns++
		if at := *t.worker.Stamp(); p.late > 0 && int32(at-stamp(p.since)) < 0 {
			p.late--
		} else {
			p.waited += time.Duration(stamp(l.now)-at) << stampBits
		}
	}
}

// stampBits make a time small enough for the Stamp of a worker, which says when a wait at a pile began:
// its unit is 66 µs, and it comes round after 78 hours. A wait of that length may be taken for a short one.
const stampBits = 16

func stamp(t time.Duration) uint32 { return uint32(t >> stampBits) }

// has reports whether t, which waits, does so at p.
func (p *pile) has(t *Task) bool { return p.node == t.node && (p.point == nil || p.point == t.on) }

// turnOf is the one whose turn it is of those that wait in q, nil if none does: the one that has waited
// longest. Only while there are some that had to wait too long is it the newest that is served, in time, and
// one turn in lateTurns is left to the former. The caller runs on l, nil for a plain goroutine.
func (l *Loop) turnOf(q *waiterList) *Waiter {
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
	watched := func(q *pile) bool { return q.node == n }
	if slices.ContainsFunc(l.piles, func(q *pile) bool { return watched(q) && q.point == nil }) {
		return // all of it
	}
	p := &pile{node: n, quiet: l.now}
	p.point = l.mostOn(p)
	if p.point == nil && slices.ContainsFunc(l.piles, watched) {
		return
	}
	p.door.index = doorIndex + len(l.piles)
	for t := l.tasks; t != nil; t = t.allNext {
		if t.state == stateParked && p.has(t) {
			*t.worker.Stamp() = stamp(l.now)
			p.waiting++
		}
	}
	l.piles = append(l.piles, p)
}

// lookedAt is how many tasks mostOn looks at: it is asked ten times a second while a node grows, and there
// may be a million tasks.
const lookedAt = 1 << 14

// mostOn is what more than half of the tasks at p wait for that are in no pile yet, as far as the tasks
// that were made last tell; nil: no such thing.
func (l *Loop) mostOn(p *pile) WaitPoint {
	var most WaitPoint
	votes, on, all := 0, 0, 0 // Boyer and Moore's majority vote, then a count
	each := func(do func(WaitPoint)) {
		for t, left := l.tasks, lookedAt; t != nil && left > 0; t, left = t.allNext, left-1 {
			if t.state == stateParked && p.has(t) && !slices.ContainsFunc(l.piles, func(q *pile) bool { return q.has(t) }) {
				do(t.on)
			}
		}
	}
	each(func(w WaitPoint) {
		if votes == 0 {
			most = w
		}
		if votes--; w == most {
			votes += 2
		}
	})
	each(func(w WaitPoint) {
		if all++; w == most {
			on++
		}
	})
	if 2*on > all {
		return most
	}
	return nil
}

// lookAtPiles asks how many may wait at each pile, and lets those in for which there is room.
func (l *Loop) lookAtPiles() {
	if l.now-l.piledAt >= pileEvery {
		l.piledAt = l.now
		for i, p := range l.piles {
			limit := l.bottlenecks.Piled(l.now, i, p.waiting-p.late, p.departed, p.waited, p.door.n)
			if limit > 0 && p.limit == 0 {
				p.since, p.late = l.now, p.waiting
			}
			p.limit, p.departed, p.waited = limit, 0, 0
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
