package proxy

import (
	"errors"
	"os"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/task"
)

// A hedge is a request that is sent once more, to another backend, as the first one has not answered for long. It is a task of its
// own; the exchange whose request it is takes its connection, or cancels it.
//
//	first:  sent ─▶ no answer for long ─▶ waits for either ─▶ it answers: cancel
//	                     │                     ▲      ╰─────▶ the hedge answers sooner, or it fails: adopt
//	                     ▼                     │
//	hedge:             run ─▶ sent ─▶ a good answer
type hedge struct {
	b                *backend
	out              []byte    // the request
	deadline         time.Time // for all of it; zero: no limit
	isClientDeadline bool      // deadline is when the client waits no longer
	done             task.WaitGroup

	waits    *interrupter // its lock guards what both tasks use
	first    *interrupter // is woken by the answer; nil: it waits for done; guarded by the lock of waits
	answered bool         // what follows is the exchange's; guarded by the lock of waits
	u        *upstream
	in       []byte // the head of the answer at least, or as much of it as there is room for
	sentAt   int64  // when the request was sent, see elapsed
	isStale  bool   // the backend had closed a connection at rest; the exchange's after done
}

var errHedgeAnswered = errors.New("another backend has answered sooner")

// mayHedge reports whether the request may be sent to two backends at a time.
func (e *exchange) mayHedge() bool {
	return e.p.Hedge > 0 && e.p.Sticky == nil && e.repeatable && e.ready && len(e.content) == 0 && !e.upgrade
}

// awaitEither waits for the beginning of an answer. If that takes longer than most lately took it sends the request to another backend,
// and e goes on with the one that answers first.
func (e *exchange) awaitEither() (err error) {
	began, limit := e.sentAt, e.p.ResponseTimeout
	defer func() {
		if err == nil { // the time of the first backend, also if the hedge was sooner: without these times ever more requests would be hedged
			e.p.took.Add(time.Duration(elapsed() - began))
		}
	}()
	wait, known := e.p.took.Quantile(e.p.Hedge)
	if known && (limit <= 0 || wait < limit) {
		e.armed = false
		if err = e.fill(began, max(wait, 1)); err == nil {
			return nil
		}
		if e.waits.attach(e.u) != nil || e.late() || !errors.Is(err, os.ErrDeadlineExceeded) {
			return e.broken(err, false, true)
		}
		if h := e.startHedge(); h != nil {
			return e.race(h)
		}
	}
	if err = e.fill(began, limit); err != nil {
		return e.broken(err, false, true)
	}
	return nil
}

// startHedge sends the request to another backend; nil: there is none that has room for it, or the budget of retries is used up.
func (e *exchange) startHedge() *hedge {
	first := e.b
	b := e.pick(e.tried | first.bit)
	if b == nil {
		return nil
	}
	if !e.p.mayRetry() {
		first.counts.overBudget.Add(1)
		return nil
	}
	if room, _ := b.enter(); !room {
		return nil
	}
	if b.slots != nil && !b.slots.TryAcquire(1) {
		b.exit()
		return nil
	}
	first.counts.retries.Add(1)
	e.b, e.out = b, e.out[:0]
	e.p.wire.request(e, e.content, e.ready)
	e.b = first
	h := &hedge{b: b, out: slices.Clone(e.out), deadline: e.deadline, isClientDeadline: e.isClientDeadline, waits: newInterrupter(), first: e.waits}
	h.done.Add(1)
	spawn(h.run)
	return h
}

// race waits for the first answer, that of e.u or of h.
func (e *exchange) race(h *hedge) error {
	err := e.fill(e.sentAt, e.p.ResponseTimeout)
	var own error // of the first backend, and not of an answer of h
	if err != nil && err != errHedgeAnswered && !e.late() {
		h.waits.mu.Lock()
		if h.first = nil; !h.answered {
			own = err
		}
		h.waits.mu.Unlock()
		if e.waits.attach(h) == nil {
			h.done.Wait()
			if !h.isStale {
				e.tried |= h.b.bit
			}
		}
	}
	h.waits.interrupt(errOver)
	switch {
	case !h.answered: // which is so for good
	case err == nil:
		h.b.leave(h.u, false)
	default:
		if own != nil {
			e.noteMended(own)
		}
		e.b.leave(e.u, false)
		e.b, e.u, e.used, e.sentAt = h.b, h.u, h.u.used, h.sentAt
		e.in, e.r, e.w = h.in[:cap(h.in)], 0, len(h.in)
		err = nil
	}
	if why := e.waits.attach(e.u); err == nil {
		err = why
	}
	if err != nil {
		return e.broken(err, false, e.w == 0)
	}
	return nil
}

// noteMended counts a failure of e.b that a hedge has mended, as serve counts those that another try mends.
func (e *exchange) noteMended(err error) {
	var f *failure
	if errors.As(e.broken(err, false, e.w == 0), &f) && f.cause != causeGone {
		e.b.counts.failures[f.cause].Add(1)
		if !f.silent || !e.used { // else the backend had closed a connection at rest
			e.b.failed(0)
		}
	}
}

// SetDeadline ends h; the client has gone.
func (h *hedge) SetDeadline(time.Time) error {
	h.waits.interrupt(errGone)
	return nil
}

// run sends the request, and hands a good answer over.
func (h *hedge) run() {
	defer h.done.Done()
	u, err := h.b.get(h.waits.ctx, h.deadline)
	if err != nil {
		h.b.leave(nil, false)
		if h.waits.ctx.Err() == nil {
			h.failed()
		}
		return
	}
	if h.waits.attach(u) != nil { // nothing was sent
		h.b.leave(u, true)
		return
	}
	good, err := h.ask(u)
	if !good && err == nil {
		h.b.measured(time.Duration(elapsed()-h.sentAt), true, false)
	}
	h.waits.mu.Lock()
	defer h.waits.mu.Unlock()
	h.waits.u = nil
	if h.waits.why == nil && good {
		h.answered, h.u = true, u
		if h.first != nil {
			h.first.hedgeAnswered()
		}
		return
	}
	h.isStale = u.used && len(h.in) == 0 && err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	if h.b.leave(u, false); h.waits.why == nil && err != nil && !h.isStale {
		h.failed()
	}
}

// failed counts a failure of the backend, unless the time of the client was over.
func (h *hedge) failed() {
	if !h.isClientDeadline || now().Before(h.deadline) {
		h.b.failed(0)
	}
}

// ask sends the request, and reports whether the answer is of use: a server that refuses is none to turn to.
func (h *hedge) ask(u *upstream) (good bool, err error) {
	h.sentAt = elapsed()
	h.waits.mu.Lock()
	if h.waits.why == nil {
		u.SetDeadline(sooner(h.deadline, h.sentAt, h.b.p.ResponseTimeout))
	}
	h.waits.mu.Unlock()
	if _, err := u.Write(h.out); err != nil {
		return false, err
	}
	h.in = make([]byte, 0, firstBuffer)
	var head h1.ResponseHead
	for len(h.in) < cap(h.in) {
		n, err := u.Read(h.in[len(h.in):cap(h.in)])
		if n == 0 {
			return false, errors.Join(err, errOver)
		}
		h.in = h.in[:len(h.in)+n]
		if whole, err := head.Parse(h.in); whole || err != nil {
			return head.Status != 502 && head.Status != 503 && head.Status != 504, err
		}
	}
	return true, nil // of a long head
}
