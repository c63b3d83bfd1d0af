package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A message is something that another thread wants a loop to do.
type message struct {
	kind messageKind
	loop int16           // of what woke or started t, see wakeBy
	from recorder.NodeID // likewise
	t    *Task
	fn   func()
}

type messageKind uint8

const (
	msgWake      messageKind = iota // Waiter.Wake of t
	msgWakeAhead                    // Waiter.WakeAhead of t
	msgStart                        // t, which has not started, is to run here
	msgStartHere                    // and on no other loop
	msgCancel                       // the context of t has ended
	msgCall                         // run fn on the loop's own goroutine
	msgReattach                     // t, which is detached, wants to reattach
)

// An inbox carries messages into a loop. It has no limit of its own: each message
// stands for a task that exists, or for a call whose number its sender bounds.
type inbox struct {
	pending  atomic.Bool // there are messages; set and cleared under mu
	sleeping atomic.Bool // the loop is in, or about to enter, a Poll that waits
	mu       sync.Mutex
	closed   bool      // guarded by mu: the loop has ended
	in       []message // guarded by mu
	out      []message // loop-private: being worked off; swapped with in
}

// wakeBy is the message by which loop l, nil for a plain goroutine, wakes or starts t, a task of
// another loop. A loop of another runtime counts as a plain goroutine.
func wakeBy(l *Loop, kind messageKind, t *Task, on *Loop) message {
	m := message{kind: kind, loop: -1, from: recorder.NodeNone, t: t}
	if l != nil && l.rt == on.rt {
		m.loop = int16(l.index)
		if l.cur != nil {
			m.from = l.cur.rec.Node()
		}
	}
	return m
}

// send delivers m to l, from any thread. It returns false if the loop has ended.
func (l *Loop) send(m message) bool {
	b := &l.inbox
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return false
	}
	b.in = append(b.in, m)
	if !b.pending.Load() {
		b.pending.Store(true)
	}
	b.mu.Unlock()
	l.nudge()
	return true
}

// nudge ends the loop's wait in the poller, if it is in one.
func (l *Loop) nudge() {
	if l.inbox.sleeping.Load() && l.inbox.sleeping.CompareAndSwap(true, false) {
		l.reportPoll(l.poller.Wake())
	}
}

// drainInbox does what the messages say, on the loop's own goroutine.
func (l *Loop) drainInbox() {
	b := &l.inbox
	if !b.pending.Load() {
		return
	}
	b.mu.Lock()
	b.in, b.out = b.out[:0], b.in
	b.pending.Store(false)
	b.mu.Unlock()
	for i := range b.out {
		m := b.out[i]
		b.out[i] = message{}
		if l.rec != nil && m.kind <= msgStartHere && (m.t.state == stateParked || m.kind >= msgStart) { // else it ends no wait yet
			l.rec.Cross(&m.t.rec, m.from, int(m.loop))
		}
		switch m.kind {
		case msgWake:
			l.notify(m.t)
		case msgWakeAhead:
			l.notifyAhead(m.t)
		case msgStart:
			l.enqueueStart(m.t)
		case msgStartHere:
			l.enqueue(m.t)
		case msgCancel:
			l.cancel(m.t)
		case msgCall:
			m.fn()
		case msgReattach:
			m.t.on.(*detachment).back = true
			if m.t.state == stateParked { // it is in the middle of something, and may hold what others wait for
				l.leaves(m.t)
				l.goAhead(m.t)
			}
		}
	}
	const keep = 4096
	if cap(b.out) > keep {
		b.out = nil
	}
}

// takeWake takes a Wake of t, which is running, out of the inbox. It reports whether
// there was one.
func (b *inbox) takeWake(t *Task) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, m := range b.in {
		if (m.kind == msgWake || m.kind == msgWakeAhead) && m.t == t {
			b.in = slices.Delete(b.in, i, i+1)
			t.notified = true
			return true
		}
	}
	return false
}

// cancel marks t, a task of l whose context has ended, and wakes it if it waits where
// it can be cancelled.
func (l *Loop) cancel(t *Task) {
	shielded := t.extra().under != nil && t.endedContext() == nil // what has ended is outside of a Shield
	if t.state == stateFinished || t.cancelled || shielded {
		return
	}
	t.cancelled = true
	if t.state == stateParked && !t.fixed {
		l.makeReady(t)
	}
}

// Post runs fn on the loop's own goroutine, between two tasks. fn must be short and
// must not park. It returns false, and fn does not run, if the loop has ended.
func (l *Loop) Post(fn func()) bool {
	return l.send(message{kind: msgCall, fn: fn})
}
