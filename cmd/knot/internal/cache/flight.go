package cache

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
	"github.com/capriccio-go/capriccio/internal/peerwatch"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// A phase is how far a flight has come.
//
//	asking ─→ shared ─→ ended   the response can be kept: every waiter gets it
//	  │ │        ↓        ↑
//	  │ └─────→ sole ─────┤     it can't: only the client that began the flight gets it
//	  └───────────────────┘     it is that an entry is still right, or there is none
type phase uint8

const (
	asking phase = iota
	shared
	sole
	ended
)

// window is how much of the body of a sole response is held, in bytes: as much as knot writes at once.
const window = 256 << 10

// A flight is a request to the backend, and the requests of clients that wait for its response. It is an ownctx.Receiver.
type flight struct {
	s  *state
	id string // in state.flights
	requests
	req   rfc.Request
	old   *entry // that is being validated; nil: none
	stale bool   // old may be used if that fails
	kept  bool   // it refreshes old, and goes on without waiters
	// blames: that the response can't be kept is not for the sake of the request.
	blames bool
	began  time.Time

	outdated atomic.Bool // what it was made of was invalidated

	mu      sync.Mutex
	phase   phase // guarded by mu
	res     rfc.Response
	view    *rfc.Stored // of the response; nil: it has no head yet; guarded by mu
	length  int64       // of the body, -1: not known; guarded by mu
	body    []byte      // shared: all that has come; sole: what the client has not taken yet; guarded by mu
	taken   int         // shared: how much the client that began it has taken; guarded by mu
	entry   *entry      // ended: the answer; guarded by mu
	failed  bool        // ... in place of an error; guarded by mu
	valid   bool        // ... as it is still right; guarded by mu
	err     error       // ended: why there is none, or it is not whole; guarded by mu
	waiters []*waiter   // guarded by mu
	room    bell        // rung when the client has taken something, or has gone
	lonely  bool        // the client that began it has gone; guarded by mu
	sole    bool        // the response is, or was, in that phase; guarded by mu
	futile  bool        // it is being stopped; guarded by mu
	stop    func()      // ends its request; nil: that is about to begin; guarded by mu
}

// A waiter is a request that waits for a flight.
type waiter struct {
	wake  bell
	gone  atomic.Bool // its client has left
	watch peerwatch.Watch
	first bool // it began the flight
}

func newWaiter(x *knot.Ctx) *waiter {
	w := new(waiter)
	innerOf(x).WhenGone(&w.watch, func() {
		w.gone.Store(true)
		w.wake.ring()
	})
	return w
}

var (
	errOutdated = errors.New("cache: the backend says of another response that it is still right")
	errNobody   = errors.New("cache: no client waits for the response")
)

// admit has w wait for f, unless that is of no use.
func (f *flight) admit(w *waiter) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.futile || f.phase == ended || f.phase == sole {
		return false
	}
	f.waiters = append(f.waiters, w)
	return true
}

// leave ends the wait of w. A flight without waiters is stopped, unless its response will be kept. A second call changes nothing.
func (f *flight) leave(w *waiter) {
	w.watch.Stop()
	f.mu.Lock()
	f.waiters = slices.DeleteFunc(f.waiters, func(o *waiter) bool { return o == w })
	f.lonely = f.lonely || w.first
	futile := len(f.waiters) == 0 && !f.kept && f.phase == asking || f.phase == sole && f.lonely
	f.futile = f.futile || futile
	stop := f.stop
	f.mu.Unlock()
	if futile {
		f.s.land(f)
		stop()
		f.room.ring()
	}
}

// tellLocked wakes the waiters.
func (f *flight) tellLocked() {
	for _, w := range f.waiters {
		w.wake.ring()
	}
}

// Head implements ownctx.Receiver.
func (f *flight) Head(status int, length int64, each func(func(name, value []byte) bool)) error {
	f.res = rfc.Response{Status: status, Requested: f.began, Received: f.s.now()}
	each(func(name, value []byte) bool {
		f.res.Header = append(f.res.Header, rfc.Field{Name: string(name), Value: string(value)})
		return true
	})
	if f.old != nil && (status == 304 || f.stale && rfc.IsError(status)) {
		return f.keepOld(status)
	}
	stored, _ := rfc.Store(f.req, f.res, f.s.rules)
	if length > f.s.limits.entry || stored != nil && (isStream(stored.Header) || slices.ContainsFunc(stored.Key, namesClient)) {
		stored = nil
	}
	if stored == nil {
		f.separate()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.length = length
	f.phase, f.view = shared, stored
	if stored != nil && length > 0 {
		f.body = make([]byte, 0, length)
	}
	if stored == nil {
		f.phase, f.sole, f.view = sole, true, rfc.Restore(f.res, nil, false, f.s.rules)
		if f.lonely || f.kept {
			f.tellLocked()
			return errNobody
		}
	}
	f.tellLocked()
	return nil
}

// isStream reports whether a response is one that never ends: requests that wait for its end would wait for ever.
func isStream(h rfc.Header) bool {
	ctype, _ := h.Get("Content-Type")
	return len(ctype) >= len("text/event-stream") && is([]byte(ctype[:len("text/event-stream")]), "text/event-stream")
}

// namesClient reports whether l is a header line in which the proxy tells the backend the client's address. The cache sees the
// line of the request, not the proxy's. X-Forwarded-Proto and X-Forwarded-Host need no such rule: scheme and host are in the key.
func namesClient(l rfc.Field) bool {
	return l.Name == "x-forwarded-for" || l.Name == "x-real-ip" || l.Name == "forwarded"
}

// keepOld makes the old entry the answer.
func (f *flight) keepOld(status int) error {
	answer, body := f.old, []byte(nil)
	if status == 304 {
		fresh := f.old.Freshen(f.res, f.s.rules)
		body = f.s.bodyOf(f.old)
		if fresh == nil || body == nil {
			f.s.drop(f.old)
			f.finish(nil, errOutdated)
			return errOutdated
		}
		answer = newEntry(f.key, fresh, body)
		f.s.keep(answer, f.old, &f.outdated)
	}
	f.mu.Lock()
	f.failed, f.valid = status != 304, status == 304
	f.mu.Unlock()
	f.finish(answer, nil)
	if status == 304 {
		f.s.save(answer, body)
	}
	return errNobody // the body of an error is of no use
}

// Body implements ownctx.Receiver.
func (f *flight) Body(piece []byte) error {
	f.mu.Lock()
	if f.phase == shared && int64(len(f.body)+len(piece)) > f.s.limits.entry {
		f.phase, f.sole, f.body = sole, true, slices.Clone(f.body[f.taken:])
		f.mu.Unlock()
		f.separate()
		f.mu.Lock()
	}
	f.body = append(f.body, piece...)
	f.tellLocked()
	for f.phase == sole && len(f.body) > window && !f.lonely {
		f.mu.Unlock()
		if _, err := f.room.wait(0); err != nil {
			return err
		}
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	if f.phase == sole && (f.lonely || f.kept) {
		return errNobody
	}
	return nil
}

// End implements ownctx.Receiver.
func (f *flight) End(err error) {
	f.mu.Lock()
	over, view, body, whole := f.phase == ended, f.view, f.body, f.phase == shared && err == nil
	stale := f.phase == asking && f.stale && err != nil
	if over {
		f.mu.Unlock()
		return
	}
	f.mu.Unlock()
	switch {
	case whole:
		if cap(body) > len(body)+len(body)/8 {
			body = slices.Clone(body)
		}
		e := newEntry(f.key, view, body)
		f.s.keep(e, f.old, &f.outdated)
		f.finish(e, nil)
		f.s.save(e, body)
	case stale:
		f.mu.Lock()
		f.failed = true
		f.mu.Unlock()
		f.finish(f.old, nil)
	default:
		f.finish(nil, err)
	}
}

// finish ends the flight.
func (f *flight) finish(e *entry, err error) {
	f.s.land(f)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase, f.entry, f.err = ended, e, err
	f.tellLocked()
}

// keep is put, and deletes files. It may park.
func (s *state) keep(e, old *entry, outdated *atomic.Bool) {
	s.files.remove(s.put(e, old, outdated))
}

// save writes e to a file, if there is a folder with room for it. It parks.
func (s *state) save(e *entry, body []byte) {
	if s.files == nil || e.cost > s.limits.disk {
		return
	}
	var name string
	var err error
	task.Offload(func() { name, err = s.files.write(e, body) })
	if err != nil {
		s.log.Warn("knot: a response can't be kept on disk", "folder", s.files.folder, "error", err)
		return
	}
	s.attach(e, name)
}

// separate has no other request wait for f, nor, for a while, for another flight.
func (f *flight) separate() {
	f.s.land(f)
	if f.blames {
		f.s.setAlone(f.requests)
	}
}

// land has no other request begin to wait for f.
func (s *state) land(f *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flights[f.id] == f {
		delete(s.flights, f.id)
	}
}
