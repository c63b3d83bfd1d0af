package engine

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
)

// ErrRefused is what Enter returns when the program has more work than it can do in
// time, and this piece of it should be turned away, as cheaply as possible.
var ErrRefused = errors.New("task: refused: the program is overloaded")

// An Entrance is a place where work comes into the program: a request, a connection, a
// job from a queue. What has passed it is going to take resources, so it is here that a
// program has to be protected from more work than it can do (Capriccio, section 4.2:
// admission control). Whether anybody has to wait, or is refused, is decided by the
// runtime's Admission; without one everybody is let in, and waits only while too many
// tasks are detached, see Config.DetachLimit.
//
// Make one with NewEntrance, once. Its methods may be called from any goroutine.
type Entrance struct {
	name  string
	index int
}

// entrances are of the process: they are declared in package variables, before there is a
// runtime. What waits and what is let in there is the loops' own.
var entrances struct {
	mu  sync.Mutex
	all []*Entrance // guarded by mu; replaced, not changed
}

// NewEntrance declares an entrance, under the name by which the blocking graph shows it.
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
	if len(s.all) == admit.MaxEntrances {
		return nil, fmt.Errorf("task: entrance %q: there are %d entrances, more are not possible", name, admit.MaxEntrances)
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

// Name is what the entrance was declared with.
func (e *Entrance) Name() string { return e.name }

// Enter asks to be let in.
func (e *Entrance) Enter() error { return e.EnterFrom(0) }

// EnterFrom is Enter for work that comes from the given client: a number, like a hash of its
// address; 0 if it is unknown.
func (e *Entrance) EnterFrom(client uint32) error {
	l := comeBack()
	if l == nil || l.cur == nil || l.cur.startsAt == 0 && l.isOpen() {
		return nil
	}
	return l.enter(e, client)
}

// Leave records that the work of a task that Enter has let in is done. It is called by that
// task, or by another of its loop. It never parks.
func (e *Entrance) Leave() {
	if l := comeBack(); l != nil && l.admission != nil {
		if l.piles != nil && l.cur != nil {
			if x := l.cur.extra(); x.heading != 0 {
				l.headsNowhere(x)
			}
		}
		l.left(e.index)
	}
}

func (l *Loop) left(entrance int) {
	l.admission.Left(l.now, entrance)
	if entrance < len(l.lines) {
		q := l.lines[entrance]
		q.left()
		if q.n > 0 {
			l.serve(q)
		}
	}
}

// SetPriority says how important the calling task is from now on, see Options.Priority.
// On a plain goroutine it does nothing. It never parks.
func SetPriority(p int) {
	if l := comeBack(); l != nil && l.cur != nil {
		l.cur.extend().priority = clampPriority(p)
	}
}

// WithPriority calls fn with the priority of the calling task set to p, see
// Options.Priority; when fn has returned, or panicked, it is what it was. It never parks itself.
func WithPriority(p int, fn func()) {
	if l := comeBack(); l != nil && l.cur != nil {
		x := l.cur.extend()
		was := x.priority
		x.priority = clampPriority(p)
		defer func() { x.priority = was }()
	}
	Outside(CallPlain, fn)
}

func clampPriority(p int) int8 { return int8(min(max(p, -32), 31)) }

// doors are where tasks of a loop wait to be let in. Loop-private.
type doors struct {
	lines   []*line       // at the entrances, by index
	piles   []*pile       // nodes that are watched; nil: none
	piledAt time.Duration // when the piles were last looked at
	addedAt time.Duration // when a node with one was last looked at for another
}

// isOpen reports whether everybody is let in, without being asked: there is no Admission, and nobody has to wait
// for tasks that are away.
func (l *Loop) isOpen() bool { return l.admission == nil && !l.manyAway() && !l.anyInLine() }

// verdict is what becomes of the next one in q, whose state is up to date. Without an Admission nobody is refused.
func (l *Loop) verdict(q *line) admit.Verdict {
	if l.admission != nil {
		return l.admission.Next(l.now, q.index, &q.state)
	}
	switch {
	case q.state.Left:
		return admit.Refuse
	case q.state.Full:
		return admit.Defer
	}
	return admit.Admit
}

// verdictAtOnce is verdict for one that comes where nobody is in line.
func (l *Loop) verdictAtOnce(q *line) admit.Verdict {
	q.state = admit.Queue{Waiting: 1, Starting: q.underWay(l), Refusing: q.refusing, Full: l.manyAway()}
	return l.verdict(q)
}

// enter is EnterFrom for the running task of l. The entrance is a node of the blocking graph
// also for a task that does not wait at it.
func (l *Loop) enter(e *Entrance, client uint32) error {
	t := l.cur
	l.pass(t, ReasonEntrance, e.name)
	if at, in := t.start(); at == e.index { // StartAt has started it, and it is decided
		l.arrived(t)
		if !in {
			return ErrRefused
		}
		return nil
	}
	q := l.line(e)
	// Others that are ready may come here too: the order among all of them is the line's.
	if q.n == 0 && !l.anyReady() {
		switch l.verdictAtOnce(q) {
		case admit.Admit, admit.AdmitNewest:
			q.letIn(l)
			return nil
		case admit.Refuse:
			return ErrRefused
		}
	}
	return l.waitInLine(q, client)
}

// pass shows the observer that t, which runs, comes to a place with that name, and goes on.
func (l *Loop) pass(t *Task, why Reason, name string) {
	if !l.observed {
		return
	}
	l.label = name
	l.observe(t, why)
	if l.overrun.Load() != 0 { // by what led here, not by what comes next
		l.reportOverrun()
	}
	l.observer.Ready(t)
	l.resumed(t)
}

func (l *Loop) line(e *Entrance) *line {
	for e.index >= len(l.lines) {
		l.lines = append(l.lines, &line{index: len(l.lines)})
	}
	return l.lines[e.index]
}

// A Ticket stands for a task that StartAt was called for and that has not been started yet.
// The zero value stands for none. It belongs to one loop.
type Ticket struct{ at *inLine }

// GiveUp starts the task at once if it has not started, but lets it not in: no matter which client it was to
// serve is gone, or its time is over. It may be called on the loop of StartAt only, and
// never parks.
func (k *Ticket) GiveUp() {
	if x := k.at; x != nil {
		l := x.t.loop
		l.letGo(x, admit.Refuse)
	}
}

// Hangup records that the client that the task is to serve has closed the connection, or at least its half of
// it: unless it is its turn soon, it is refused when it is. It may be called on the loop of StartAt
// only, and never parks.
func (k *Ticket) Hangup() {
	if x := k.at; x != nil {
		x.gone = true
	}
}

// StartAt is Start for a task that is going to call e.Enter before anything else. As long
// as it is not its turn it is not started, and takes no more than a little memory. client is
// what it is for EnterFrom, waited how long the work has waited before it came here; k, if not nil, stands
// for the task until it starts. It is called like Start.
func (l *Loop) StartAt(e *Entrance, client uint32, waited time.Duration, k *Ticket, fn func()) {
	t := l.newStart(fn)
	if l.cancelAll || l.isOpen() {
		l.enqueue(t)
		return
	}
	t.loop = l
	q := l.line(e)
	if q.n == 0 {
		if v := l.verdictAtOnce(q); v != admit.Defer && v != admit.Enough {
			l.startAt(q, t, v)
			return
		}
	}
	x := q.push(nil, t, client, l.now-waited, waited > 0)
	l.unstarted++
	if x.ticket = k; k != nil {
		k.at = x
	}
}

// InLine is how many wait at that entrance. It is called like Start.
func (l *Loop) InLine(e *Entrance) int {
	if e.index < len(l.lines) {
		return l.lines[e.index].n
	}
	return 0
}

func (l *Loop) waitInLine(q *line, client uint32) error {
	w := SelfOn(l)
	x := q.push(w, w.task, client, l.now, false)
	err := w.Wait(ReasonEntrance, x)
	t := l.cur
	v := x.verdict
	q.recycle(x)
	if err != nil {
		return err
	}
	l.arrived(t)
	if v == admit.Refuse {
		return ErrRefused
	}
	return nil
}

// serveLines decides about the tasks that wait at the entrances.
func (l *Loop) serveLines() {
	for _, q := range l.lines {
		if q.n > 0 {
			l.serve(q)
		}
	}
}

// serve lets in the tasks whose turn it is, and turns away those that it has to. In a shutdown none
// waits for that.
func (l *Loop) serve(q *line) {
	for q.n > 0 && !l.enough(q) {
		v := admit.Admit
		oldest := q.oldest()
		if !l.cancelAll {
			left := oldest.gone && l.now-oldest.since > goneAfter
			s := &q.state
			s.Waiting, s.Starting, s.Refusing = q.n, q.underWay(l), q.refusing
			s.Oldest, s.Front = l.now-oldest.since, l.now-q.top().oldest().since
			s.Inside, s.Full, s.Gone, s.Left = 0, l.noRoom(q.index), q.gone, left
			if q.index >= doorIndex {
				s.Inside = l.piles[q.index-doorIndex].inside()
			}
			v = l.verdict(q)
			q.gone = 0
			if left && v == admit.Refuse {
				q.gone = 1
			}
		}
		switch v {
		case admit.Defer:
			return
		case admit.Enough:
			q.enough, q.enoughAt = q.starting, l.now
			return
		case admit.Refuse:
			l.letGo(oldest, v)
		default:
			l.letGo(q.admittedFirst(v == admit.AdmitNewest), v)
		}
	}
}

// enough reports whether the Admission has said that no more of q are to be let in for now. In a new turn it is
// asked again.
func (l *Loop) enough(q *line) bool {
	return q.enough > 0 && q.starting >= q.enough && q.enoughAt == l.now && !l.cancelAll
}

// noRoom reports whether nobody is to be let in at that entrance, or door of a pile.
func (l *Loop) noRoom(entrance int) bool {
	if entrance >= doorIndex {
		return !l.piles[entrance-doorIndex].room()
	}
	return l.manyAway()
}

// goneAfter is how long a client may still be interested in an answer after it has said that it will
// send no more: some say so right after their request.
const goneAfter = 500 * time.Millisecond

// letGo lets x go on, with the verdict v.
func (l *Loop) letGo(x *inLine, v admit.Verdict) {
	q := x.line
	q.remove(x)
	x.verdict = v
	if v != admit.Refuse {
		q.count(x.client)
	}
	if x.w == nil {
		l.unstarted--
		l.startAt(q, x.t, v)
		q.recycle(x)
		return
	}
	q.starts(x.t, v)
	if q.index >= doorIndex && v != admit.Refuse {
		i := q.index - doorIndex
		l.piles[i].heads(i, x.t.extend())
	}
	l.inLine = true
	l.notify(x.t)
	l.inLine = false
}

// startAt starts t, which is going to enter at q with the verdict v.
func (l *Loop) startAt(q *line, t *Task, v admit.Verdict) {
	q.starts(t, v)
	l.enqueue(t)
}

// arrived is called when t, which was let in or refused in a line, runs, or when it ends without
// having asked.
func (l *Loop) arrived(t *Task) {
	at, in := t.start()
	q := l.lineAt(at)
	t.startsAt = 0
	if in {
		q.starting--
	} else {
		q.refusing--
		q.enough = 0 // more may be refused
	}
	if q.n > 0 {
		l.serve(q)
	}
}

// neverEntered is called when t, which StartAt has started, has ended without Enter.
func (l *Loop) neverEntered(t *Task) {
	entrance, in := t.start()
	l.arrived(t)
	if in && l.admission != nil && entrance < doorIndex {
		l.left(entrance)
	}
}
