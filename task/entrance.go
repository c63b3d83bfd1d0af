package task

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// ErrRefused is what Enter returns when the program has more work than it can do in
// time, and this piece of it should be turned away, as cheaply as possible.
var ErrRefused = errors.New("task: refused: the program is overloaded")

// An Entrance is a place where work comes into the program: a request, a connection, a
// job from a queue. Who has passed it is going to take resources, so it is here that a
// program has to be protected from more work than it can do (Capriccio, section 4.2:
// admission control). Whether anybody has to wait, or is refused, is decided by the
// runtime's Admission; without one everybody is let in at once.
//
// Make one with NewEntrance, once, for the whole process. Its methods may be called from
// any goroutine.
type Entrance struct {
	name    string
	index   int
	clients atomic.Int64
}

// MaxEntrances is how many entrances a process may have.
const MaxEntrances = 64

var entrances struct {
	mu  sync.Mutex
	all []*Entrance // guarded by mu; replaced, not changed
}

// NewEntrance declares an entrance, under the name by which the blocking graph shows it.
// The entrance of that name is returned if there is one. It is an error if the name is
// empty, and when there are MaxEntrances.
func NewEntrance(name string) (*Entrance, error) {
	s := &entrances
	s.mu.Lock()
	defer s.mu.Unlock()
	if name == "" {
		return nil, errors.New("task: an entrance needs a name")
	}
	for _, e := range s.all {
		if e.name == name {
			return e, nil
		}
	}
	if len(s.all) == MaxEntrances {
		return nil, fmt.Errorf("task: entrance %q: there are %d entrances, more are not possible", name, MaxEntrances)
	}
	e := &Entrance{name: name, index: len(s.all)}
	s.all = append(s.all[:len(s.all):len(s.all)], e)
	return e, nil
}

// Entrances returns those declared so far; the index that an Admission is given is the
// position in this list, and does not change.
func Entrances() []*Entrance {
	entrances.mu.Lock()
	defer entrances.mu.Unlock()
	return entrances.all
}

// AddClients says that n more clients use the entrance, or fewer if n is less than 0: each of
// them waits until its request is done before it comes with the next, like an HTTP connection. So no
// more than all of them can ever be in line, which an Admission may use to tell clients that
// return from work that comes by itself. Without it nothing is known about that. It may
// be called from any goroutine, and never parks.
func (e *Entrance) AddClients(n int) { e.clients.Add(int64(n)) }

// Clients is how many clients there are now according to AddClients.
func (e *Entrance) Clients() int { return int(max(e.clients.Load(), 0)) }

// Name is what the entrance was declared with.
func (e *Entrance) Name() string { return e.name }

// Enter asks to be let in. It returns nil when the calling task is in, at once or after
// it has parked until there was room; then it must call Leave when its work is done. It
// returns ErrRefused if the work is to be turned away, and the context's error if the
// task is cancelled while it waits. A plain goroutine is let in at once.
//
// How long the task has waited already, since it was started, counts: a task that has
// just been started should enter before it does anything else.
func (e *Entrance) Enter() error {
	l := here()
	if l == nil || l.cur == nil || l.admission == nil {
		return nil
	}
	return l.enter(e)
}

// Leave says that the work of a task that Enter has let in is done. It is called by that
// task, or by another of its loop. It never parks.
func (e *Entrance) Leave() {
	l := here()
	if l == nil || l.admission == nil {
		return
	}
	l.admission.Left(e.index)
	if e.index < len(l.lines) && l.lines[e.index].head != nil {
		l.serve(&l.lines[e.index])
	}
}

// SetPriority says how important the calling task is from now on, see Options.Priority.
// On a plain goroutine it does nothing. It never parks.
func SetPriority(p int) {
	if l := here(); l != nil && l.cur != nil {
		l.cur.extend().priority = clampPriority(p)
	}
}

// WithPriority calls fn with the priority of the calling task set to p, see
// Options.Priority; when fn has returned, or panicked, it is what it was. It never parks itself.
func WithPriority(p int, fn func()) {
	if l := here(); l != nil && l.cur != nil {
		x := l.cur.extend()
		was := x.priority
		x.priority = clampPriority(p)
		defer func() { x.priority = was }()
	}
	fn()
}

func clampPriority(p int) int8 { return int8(min(max(p, -32), 31)) }

// A line is where tasks of one loop wait to be let in at an entrance. Loop-private.
type line struct {
	index      int
	starting   int // tasks that StartAt has started and that have not called Enter yet
	head, tail *inLine
	free       *inLine // to use again
}

// An inLine is a task in a line. It is the withdrawer of the task's wait.
type inLine struct {
	w       *Waiter // nil: t has not started
	t       *Task
	index   int // of the line
	since   time.Duration
	verdict Verdict
	queued  bool
	next    *inLine
}

// enter is Enter for the running task of l. The entrance is a node of the blocking graph
// also for who does not wait at it.
func (l *Loop) enter(e *Entrance) error {
	t := l.cur
	early := int(t.startsAt) == e.index+1 // then it came before all those who are in line
	if early {
		l.arrived(t)
	}
	began := l.births.of(t, l.now)
	l.passEntrance(t, e)
	if l.line(e).head == nil || early {
		switch l.admission.Decide(l.now, e.index, l.now-began, int(t.extra().priority)) {
		case VerdictAdmit:
			return nil
		case VerdictRefuse:
			return ErrRefused
		}
	}
	return l.waitInLine(e, began, early)
}

// passEntrance shows the observer that t comes to e.
func (l *Loop) passEntrance(t *Task, e *Entrance) {
	if !l.observed {
		return
	}
	l.label = e.name
	l.observeLabel(t, ReasonEntrance)
	l.observer.Ready(t)
	l.observer.Resumed(t)
}

func (l *Loop) line(e *Entrance) *line {
	for e.index >= len(l.lines) {
		l.lines = append(l.lines, line{index: len(l.lines)})
	}
	return &l.lines[e.index]
}

// StartAt is Start for a task that is going to call e.Enter before anything else. As long
// as there is no room for it, it is not started, and takes no more than a little memory.
// It is called like Start.
func (l *Loop) StartAt(e *Entrance, fn func()) {
	t := l.newStart(fn)
	if l.admission == nil || l.cancelAll {
		l.enqueueNew(t)
		return
	}
	q := l.line(e)
	if q.head == nil && l.admission.Room(e.index, q.starting+1) {
		l.startAt(q, t, l.now)
		return
	}
	q.push(nil, t, l.now, false)
}

func (l *Loop) waitInLine(e *Entrance, began time.Duration, first bool) error {
	w := selfOn(l)
	x := l.line(e).push(w, w.task, began, first)
	err := w.Park(ReasonEntrance, x)
	q := l.line(e)
	if err != nil && !x.withdraw(w) { // decided in the same moment
		w.Absorb()
		err = nil
	}
	verdict := x.verdict
	x.next, q.free = q.free, x
	switch {
	case err != nil:
		return err
	case verdict == VerdictRefuse:
		return ErrRefused
	}
	return nil
}

// push puts a task at the end of the line, or at its front.
func (q *line) push(w *Waiter, t *Task, since time.Duration, first bool) *inLine {
	x := q.free
	if x != nil {
		q.free = x.next
	} else {
		x = new(inLine)
	}
	*x = inLine{w: w, t: t, index: q.index, since: since, queued: true}
	switch {
	case q.tail == nil:
		q.head, q.tail = x, x
	case first:
		x.next, q.head = q.head, x
	default:
		q.tail.next, q.tail = x, x
	}
	return x
}

// withdraw implements withdrawer.
func (x *inLine) withdraw(*Waiter) bool {
	if !x.queued {
		return false
	}
	q := &x.t.loop.lines[x.index]
	var before *inLine
	for y := q.head; y != x; y = y.next {
		before = y
	}
	if before == nil {
		q.head = x.next
	} else {
		before.next = x.next
	}
	if q.tail == x {
		q.tail = before
	}
	x.queued = false
	return true
}

// DescribeWait implements WaitDescriber.
func (x *inLine) DescribeWait() string { return Entrances()[x.index].name }

// serveLines decides about those who wait at the entrances.
func (l *Loop) serveLines() {
	for i := range l.lines {
		if l.lines[i].head != nil {
			l.serve(&l.lines[i])
		}
	}
}

// startAt starts t, which is going to enter at q and came at the given time.
func (l *Loop) startAt(q *line, t *Task, since time.Duration) {
	q.starting++
	t.startsAt = int16(q.index + 1)
	t.wait.tag = ^int64(since) // see births
	l.enqueue(t)
}

// arrived is called when t, which startAt has started, enters, or ends without that.
func (l *Loop) arrived(t *Task) {
	l.lines[t.startsAt-1].starting--
	t.startsAt = 0
}

// serve lets those in who wait in q, from the front, until one has to wait on. Those who
// have not started are decided about when they have, and how long they have waited can
// be told; here it is only seen to that no more start than there is room for. In a shutdown
// nobody waits for that.
func (l *Loop) serve(q *line) {
	for x := q.head; x != nil; x = q.head {
		v := VerdictAdmit
		switch {
		case x.w != nil:
			v = l.admission.Decide(l.now, q.index, l.now-x.since, int(x.t.extra().priority))
		case !l.cancelAll && !l.admission.Room(q.index, q.starting+1):
			v = VerdictDefer
		}
		if v == VerdictDefer {
			return
		}
		q.head = x.next
		if q.head == nil {
			q.tail = nil
		}
		x.queued, x.verdict, x.next = false, v, nil
		if x.w != nil {
			l.notify(x.t)
			continue
		}
		l.startAt(q, x.t, x.since)
		x.next, q.free = q.free, x
	}
}

// births says when the tasks of the start queue became ready: those with the numbers
// (by startQueue.came) of one mark and above, below the next, at its time. Loop-private.
type births struct {
	marks []birth
	born  time.Duration // of last
	last  *Task         // the task last taken from the queue; it is running, or has run
}

type birth struct {
	upTo int64 // number
	at   time.Duration
}

const maxBirths = 1024 // older marks are then merged, two into the later one

// came notes that the task with that number became ready.
func (b *births) came(number int64, now time.Duration) {
	if n := len(b.marks); n > 0 && b.marks[n-1].at == now {
		b.marks[n-1].upTo = number
		return
	}
	if len(b.marks) == maxBirths {
		for i := range maxBirths / 2 {
			b.marks[i] = b.marks[2*i+1]
		}
		b.marks = b.marks[:maxBirths/2]
	}
	b.marks = append(b.marks, birth{upTo: number, at: now})
}

// took notes that t, with that number, is about to start.
func (b *births) took(number int64, t *Task) {
	i := 0
	for i < len(b.marks) && b.marks[i].upTo < number {
		i++
	}
	if i > 0 {
		b.marks = append(b.marks[:0], b.marks[i:]...)
	}
	b.last = t
	if len(b.marks) > 0 {
		b.born = b.marks[0].at
	}
}

// of returns when t became ready; now if that is not known. It is for tasks that have
// not waited since they started.
func (b *births) of(t *Task, now time.Duration) time.Duration {
	switch {
	case t.why != ReasonNone:
		return now
	case t.wait.tag < 0: // from enqueueNew
		return time.Duration(^t.wait.tag)
	case b.last != t:
		return now
	}
	return b.born
}
