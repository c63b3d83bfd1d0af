package proxy

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/knot"
)

// A Proxy passes requests on to backends. Made by New. Handle may be called by any number of tasks and goroutines.
type Proxy struct {
	Config      // with the defaults; not to be changed
	wire        wire
	stable      group
	canary      group // empty: there is none
	budget      *balance.Budget
	took        balance.Times // times until answers began, of requests that may be hedged
	mirror      *mirror       // nil: there is none
	copies      bool          // requests are copies, of a Mirror
	byReports   bool          // backends are chosen by what they say of their load, see loadReports
	hasAffinity bool          // the choice of a backend depends on the request, see findAffinity

	key                        key
	canaryHeader, canaryCookie named
	newcomers                  atomic.Uint32                       // requests that a canary may have by its share
	byToken                    atomic.Pointer[map[string]*backend] // by the values of the cookie of Sticky; nil: without Sticky
	noBackend                  atomic.Uint64                       // requests that no backend was there for, since Stats was called last
	dropped                    atomic.Uint64                       // copies that were not made, likewise

	began  time.Time // by Config.now
	ctx    context.Context
	cancel context.CancelFunc
	checks sync.WaitGroup // goroutines that Start begins

	mu      sync.Mutex // held while backends are replaced
	started bool       // guarded by mu
	leaving []*backend // those removed that may have requests; guarded by mu
}

// clock is Config.now as nanoseconds since the beginning: the system's clock may be set.
func (p *Proxy) clock() int64 { return int64(p.now().Sub(p.began)) }

// loaded is what elapsed counts from.
var loaded = time.Now()

// elapsed is like clock, by the system.
func elapsed() int64 { return int64(time.Since(loaded)) }

// now is the time for deadlines: one reading of the clock, where time.Now takes two.
func now() time.Time { return loaded.Add(time.Since(loaded)) }

// Handle is the handler. An error of it is for the server to answer and log: 502 if a backend can't be reached, breaks
// off or says what is no response, 503 if no backend is healthy or too many requests wait for one, 504 if a backend is
// too slow. It parks.
func (p *Proxy) Handle(x *knot.Ctx) error {
	if handled, err := refuse(x); handled {
		return err
	}
	e := exchanges.Get().(*exchange)
	e.begin(p, x)
	e.inner.WhenGone(&e.waits.watch, e.waits.fn)
	err := e.serve()
	if !e.waits.watch.Stop() || e.waits.ctx.Err() != nil {
		e.waits = newInterrupter() // a watcher may still call the old one, or its context has ended
	}
	e.end()
	exchanges.Put(e)
	return err
}

// allow are the methods that a backend may know.
const allow = "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"

// refuse answers requests that are not for backends.
func refuse(x *knot.Ctx) (handled bool, err error) {
	if hidesDots(x.PathBytes()) {
		return true, knot.Status(400)
	}
	switch x.Method() {
	case "CONNECT":
		return true, x.SendError(501)
	case "TRACE": // it would show what was added on the way
		x.AddHeader("Allow", allow)
		return true, x.SendError(405)
	case "OPTIONS": // RFC 9110, 7.6.2
		if text := x.HeaderBytes("Max-Forwards"); text != nil {
			if n, err := strconv.ParseUint(string(text), 10, 31); err == nil && n == 0 {
				return true, x.Send(204, "", nil)
			}
		}
	}
	return false, nil
}

// mayRetry takes a further try from the budget.
func (p *Proxy) mayRetry() bool {
	return p.budget.Take(p.clock(), p.stable.turn.Load()+p.canary.turn.Load())
}

// serve tries backends until one has answered, or no other may be tried.
func (e *exchange) serve() error {
	p := e.p
	if err := p.wire.prepare(e); err != nil {
		return err
	}
	if p.hasAffinity {
		e.findAffinity()
	}
	if p.mirror != nil {
		if err := p.mirror.copy(e); err != nil {
			return err
		}
	}
	b := e.pick(e.tried)
	if b == nil {
		p.noBackend.Add(1)
		return &failure{status: 503, cause: causeNoBackend, err: errNoBackend}
	}
	for try := 1; ; try++ {
		err := errRemoved
		if room, gone := b.enter(); room {
			err = e.try(b)
		} else if !gone {
			b.counts.failures[causeQueue].Add(1)
			return &failure{status: 503, cause: causeQueue, backend: b.name, err: errQueueFull}
		}
		switch err {
		case nil:
			return nil
		case errRemoved:
			if b = e.pick(e.tried); b == nil {
				p.noBackend.Add(1)
				return &failure{status: 503, cause: causeNoBackend, err: errNoBackend}
			}
			try--
			continue
		}
		b = e.b // a hedge may have taken its place
		var f *failure
		if !errors.As(err, &f) {
			return err // the client's
		}
		if e.isClientsTimeout(f) {
			b.counts.failures[causeLate].Add(1)
			return statusLate
		}
		b.counts.failures[f.cause].Add(1)
		switch f.cause {
		case causeGone:
			return f.status
		case causeQueue: // it has waited for as long as it may
			return f
		}
		stale := f.silent && e.used
		if !stale {
			b.failed(e.endedFailures)
		}
		if try >= p.Tries || e.late() || e.x.ResponseBegun() || e.bodyTaken || !f.unsent && !(f.silent && e.repeatable) {
			return f
		}
		if !stale {
			e.tried |= b.bit
		}
		other := e.pick(e.tried)
		if other == nil {
			return f
		}
		if !stale && !p.mayRetry() {
			b.counts.overBudget.Add(1)
			return f
		}
		b.counts.retries.Add(1)
		b = other
	}
}
