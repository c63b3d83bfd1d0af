package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/wheel"
)

// ErrRefused is what Enter returns when the program has more work than it can do in
// time, and this piece of it should be turned away, as cheaply as possible.
var ErrRefused = errors.New("task: refused: the program is overloaded")

// An Entrance is a place where work comes into the program: a request, a connection, a job from a queue. Admitted work
// is going to take resources, so it is here that a program has to be protected from more work than it can do
// (Capriccio, section 4.2: admission control). The runtime's Admission decides which tasks wait and which are refused;
// without one all are admitted, and wait only while too many tasks are detached, see Config.DetachLimit.
//
// Make one with NewEntrance, once. Its methods may be called from any goroutine.
type Entrance struct {
	name  string
	index int
}

// entrances are of the process: they are declared in package variables, before there is a runtime. Each loop keeps its
// own tasks that wait there.
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

// Enter asks to be admitted.
func (e *Entrance) Enter() error { return e.EnterFrom(0) }

// EnterFrom is Enter for work that comes from the given client: a number, like a hash of its
// address; 0 if it is unknown.
func (e *Entrance) EnterFrom(client uint32) error {
	l := reattach()
	if l == nil || l.cur == nil || l.cur.startsAt == 0 && l.isOpen() {
		return nil
	}
	return l.enter(e, client)
}

// Leave records that the work of a task that Enter has admitted is done. It is called by that
// task, or by another of its loop. It never parks.
func (e *Entrance) Leave() {
	if l := reattach(); l != nil && l.admission != nil {
		if l.entry.bottlenecks != nil && l.cur != nil {
			if w := &l.cur.extra().work; w.Heading != 0 {
				l.comesNowhere(w)
			}
		}
		l.left(e.index)
	}
}

func (l *Loop) left(entrance int) {
	l.admission.Left(l.now, entrance)
	if entrance < len(l.entry.queues) {
		q := l.entry.queues[entrance]
		q.Finished()
		l.serve(q)
	}
}

// SetPriority says how important the calling task is from now on, see Options.Priority.
// On a plain goroutine it does nothing. It never parks.
func SetPriority(p int) {
	if l := reattach(); l != nil && l.cur != nil {
		l.cur.extend().priority = clampPriority(p)
	}
}

// SetEntryPatience bounds the waits of the calling task in entry queues, at entrances and before bottlenecks, to d from now on: a
// wait that is over then returns context.DeadlineExceeded. 0: no bound. On a plain goroutine it does nothing. It never parks.
func SetEntryPatience(d time.Duration) {
	l := reattach()
	if l == nil || l.cur == nil {
		return
	}
	by := time.Duration(0)
	if d > 0 {
		by = After(l.rt.clock.Now(), d)
	} else if l.cur.extra().enterBy == 0 {
		return
	}
	l.cur.extend().enterBy = by
}

func clampPriority(p int) int8 { return int8(min(max(p, admit.MinPriority), admit.MaxPriority)) }

// An entryQueue is where tasks of a loop wait to be admitted.
type entryQueue = admit.EntryQueue[*entering]

// An entering is a task in an entryQueue. It is what the task waits on.
type entering struct {
	admit.Entry[*entering]
	queue   *entryQueue
	w       *Waiter // nil: t has not started
	t       *Task
	ticket  *Ticket // nil: none
	verdict admit.Verdict
	timer   *wheel.Timer // nil: the wait has no bound
	late    bool         // it has come to its bound
}

// Expire implements wheel.Expirer: the task has waited for as long as it may.
func (x *entering) Expire() {
	if x.queue.Remove(&x.Entry) {
		x.late = true
		x.t.loop.decided(x, admit.Refuse)
	}
}

// Withdraw implements WaitPoint.
func (x *entering) Withdraw(*Waiter) bool { return x.queue.Remove(&x.Entry) }

// DescribeWait implements WaitDescriber.
func (x *entering) DescribeWait() string {
	if x.queue.Index >= admit.MaxEntrances {
		return "a place inside where too many wait"
	}
	return Entrances()[x.queue.Index].name
}

// An entry holds the entry queues of a loop. Loop-private.
type entry struct {
	queues      []*entryQueue // at the entrances, by index
	bottlenecks []*bottleneck // nil: none
	lookedAt    time.Duration // when the bottlenecks were last looked at
	addedAt     time.Duration // when a node with a bottleneck was last looked at for another
}

// isOpen reports whether all tasks are admitted at once: there is no Admission, and no task has to wait for detached ones.
func (l *Loop) isOpen() bool { return l.admission == nil && !l.manyAway() && !l.AnyWaitsToEnter() }

// decider returns the Decider of the entry queues.
func (l *Loop) decider() admit.Decider {
	if l.admission == nil {
		return admit.Open{}
	}
	return l.admission
}

// moment returns what q needs to know of the loop to decide.
func (l *Loop) moment(q *entryQueue) admit.Moment {
	m := admit.Moment{Now: l.now, Idle: l.backlog() == 0}
	if i := q.Index - admit.MaxEntrances; i >= 0 {
		b := l.entry.bottlenecks[i].backlog
		m.Full, m.Inside = !b.HasRoom(), b.Inside()
		return m
	}
	m.Full = l.manyAway()
	return m
}

// enter is EnterFrom for the running task of l. The entrance is a node of the blocking graph
// also for a task that does not wait at it.
func (l *Loop) enter(e *Entrance, client uint32) error {
	t := l.cur
	l.pass(t, ReasonEntrance, e.name)
	if at, in := t.start(); at == e.index { // StartAt has started t, and the verdict is known
		l.arrived(t)
		if !in {
			return ErrRefused
		}
		return nil
	}
	q := l.queueAt(e)
	// Other tasks that are ready may come here too: the order among all of them is the queue's.
	if q.Len() == 0 && !l.anyReady() {
		switch q.Arriving(l.moment(q), l.decider()) {
		case admit.Admit, admit.AdmitNewest:
			q.Admitted(l.now)
			return nil
		case admit.Refuse:
			return ErrRefused
		}
	}
	return l.waitToEnter(q, client)
}

// pass records that t, which runs, comes to a place with that name, and goes on.
func (l *Loop) pass(t *Task, why Reason, name string) {
	if l.rec == nil {
		return
	}
	l.label = name
	l.record(t, why)
	if l.overrun.step.Load() != 0 { // caused by the step that ends here, not by the next
		l.reportOverrun()
	}
	l.rec.Wake(t.worker.note)
	l.resumed(t)
}

func (l *Loop) queueAt(e *Entrance) *entryQueue {
	for e.index >= len(l.entry.queues) {
		l.entry.queues = append(l.entry.queues, &entryQueue{Index: len(l.entry.queues)})
	}
	return l.entry.queues[e.index]
}

// A Ticket stands for a task that StartAt was called for and that has not been started yet.
// The zero value stands for none. It belongs to one loop.
type Ticket struct{ at *entering }

// GiveUp starts the task at once if it has not started, in the refused state: its client has gone, or its time is over. It
// may be called on the loop of StartAt only, and never parks.
func (k *Ticket) GiveUp() {
	if x := k.at; x != nil && x.queue.Remove(&x.Entry) {
		x.t.loop.decided(x, admit.Refuse)
	}
}

// Hangup records that the client that the task is to serve has closed the connection, or at least its half of it: if it
// still waits half a second after it came, it is refused when it is the oldest in its queue. It may be called on the
// loop of StartAt only, and never parks.
func (k *Ticket) Hangup() {
	if x := k.at; x != nil {
		x.Disconnected = true
	}
}

// StartAt is Start for a task that is going to call e.Enter before anything else. Until its turn comes the task is not
// started, and takes little memory. client is that of EnterFrom, waited how long the work has waited before this call;
// k, if not nil, stands for the task until it starts. Own loop only.
func (l *Loop) StartAt(e *Entrance, client uint32, waited time.Duration, k *Ticket, fn func()) {
	t := l.newStart(fn)
	if l.end.cancelAll || l.isOpen() {
		l.enqueue(t)
		return
	}
	t.loop = l
	q := l.queueAt(e)
	if q.Len() == 0 {
		if v := q.Arriving(l.moment(q), l.decider()); v != admit.Defer && v != admit.Enough {
			l.startAt(q, t, v)
			return
		}
	}
	x := l.push(q, nil, t, client, l.now-waited, waited > 0)
	l.roster.unstarted++
	if x.ticket = k; k != nil {
		k.at = x
	}
}

// push puts t into q; w is nil if it has not started.
func (l *Loop) push(q *entryQueue, w *Waiter, t *Task, client uint32, since time.Duration, elsewhere bool) *entering {
	x := &entering{queue: q, w: w, t: t}
	x.Item, x.Client, x.Since, x.Elsewhere = x, client, since, elsewhere
	x.Priority = t.extra().priority
	q.Push(&x.Entry)
	return x
}

// QueuedAt is how many tasks wait at that entrance. Own loop only.
func (l *Loop) QueuedAt(e *Entrance) int {
	if e.index < len(l.entry.queues) {
		return l.entry.queues[e.index].Len()
	}
	return 0
}

// waitToEnter has the running task wait in q.
func (l *Loop) waitToEnter(q *entryQueue, client uint32) error {
	w := SelfOn(l)
	x := l.push(q, w, w.task, client, l.now, false)
	if by := w.task.extra().enterBy; by != 0 {
		x.timer = &wheel.Timer{Of: x}
		l.AddTimer(x.timer, by)
	}
	err := w.Wait(ReasonEntrance, x)
	if x.timer != nil {
		l.RemoveTimer(x.timer)
	}
	if err != nil {
		return err
	}
	l.arrived(l.cur)
	switch {
	case x.late:
		return context.DeadlineExceeded
	case x.verdict == admit.Refuse:
		return ErrRefused
	}
	return nil
}

// serve admits or refuses the tasks of q whose turn it is. In a shutdown it admits all, so that they can end.
func (l *Loop) serve(q *entryQueue) {
	for q.Len() > 0 {
		if l.end.cancelAll {
			l.decided(q.Pop().Item, admit.Admit)
			continue
		}
		x, v := q.Next(l.moment(q), l.decider())
		if x == nil {
			return
		}
		l.decided(x.Item, v)
	}
}

// decided lets x, which has left its queue, go on with the verdict v.
func (l *Loop) decided(x *entering, v admit.Verdict) {
	q := x.queue
	x.verdict = v
	if notesWaits.Load() {
		l.noteWait(x)
	}
	if x.ticket != nil {
		x.ticket.at = nil
	}
	if x.w == nil {
		l.roster.unstarted--
		l.startAt(q, x.t, v)
		return
	}
	l.markStart(q, x.t, v)
	if i := q.Index - admit.MaxEntrances; i >= 0 && v != admit.Refuse {
		l.entry.bottlenecks[i].backlog.Heads(&x.t.extend().work)
	}
	l.inOrder = true
	l.notify(x.t)
	l.inOrder = false
}

// startAt starts t, which is going to enter at q with the verdict v.
func (l *Loop) startAt(q *entryQueue, t *Task, v admit.Verdict) {
	l.markStart(q, t, v)
	l.enqueue(t)
}

// markStart notes that t has left q with the verdict v and has not run since, see arrived.
func (l *Loop) markStart(q *entryQueue, t *Task, v admit.Verdict) {
	q.Starts(l.now, v)
	t.startsAt = int8(q.Index + 1)
	if v == admit.Refuse {
		t.startsAt = -t.startsAt
	}
}

// start is the index of the queue that t has left and not arrived from, -1 if there is none, and
// whether it was admitted there.
func (t *Task) start() (index int, admitted bool) {
	if t.startsAt < 0 {
		return int(-t.startsAt) - 1, false
	}
	return int(t.startsAt) - 1, true
}

// arrived is called when t, which was admitted or refused in a queue, runs, or when it ends without
// having asked.
func (l *Loop) arrived(t *Task) {
	at, admitted := t.start()
	t.startsAt = 0
	var q *entryQueue
	if i := at - admit.MaxEntrances; i >= 0 {
		q = &l.entry.bottlenecks[i].queue
	} else {
		q = l.entry.queues[at]
	}
	q.Started(admitted)
	l.serve(q)
}

// neverEntered is called when t, which StartAt has started, has ended without Enter.
func (l *Loop) neverEntered(t *Task) {
	entrance, admitted := t.start()
	l.arrived(t)
	if admitted && l.admission != nil && entrance < admit.MaxEntrances {
		l.left(entrance)
	}
}
