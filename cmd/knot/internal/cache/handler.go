package cache

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

// none is a Control without directives.
var none = rfc.ParseControl("")

// An ask is a request that is being answered.
type ask struct {
	c    *Cache
	x    *knot.Ctx
	next knot.Handler
	target
	trust      knot.Trust
	control    rfc.Control
	authorized bool
	cookies    bool
	partly     bool // it wants a range
	head       bool // it wants the head only
	apart      bool // it is to wait for no other any more
	vary       []string
}

// handle answers a request, by what is kept if that may be.
func (c *Cache) handle(x *knot.Ctx, next knot.Handler, trust knot.Trust, bypasses func(x *knot.Ctx) bool) error {
	method := x.Method()
	var room [512]byte
	t, ok := c.appendTarget(room[:0], x, trust)
	if method != "GET" && method != "HEAD" {
		err := next(x)
		if ok && (err == nil || x.ResponseBegun()) && rfc.Invalidates(method, x.Status()) { // the rest of it may be lost
			c.invalidate(urls{string(t.key), false}, nil)
		}
		return err
	}
	if !ok || passes(x) || bypasses(x) {
		c.counts.passed.Add(1)
		return next(x)
	}
	a := ask{c: c, x: x, next: next, target: t, trust: trust, control: none, head: method == "HEAD"}
	if c.obeys {
		if text := a.list("cache-control"); text != "" {
			a.control = rfc.ParseControl(text)
		}
	}
	a.authorized = x.HeaderBytes("authorization") != nil
	a.cookies = x.HeaderBytes("cookie") != nil
	a.partly = x.HeaderBytes("range") != nil
	return a.serve()
}

// list is the list that all lines of the request with a name make.
func (a *ask) list(lower string) string {
	first := a.x.HeaderBytes(lower)
	if first == nil {
		return ""
	}
	var list []byte
	a.x.EachHeader(func(name, value []byte) bool {
		if is(name, lower) {
			if list != nil {
				list = append(list, ", "...)
			}
			list = append(list, value...)
		}
		return true
	})
	return string(list)
}

// rounds is how often a request may look anew, for what another one has fetched.
const rounds = 3

func (a *ask) serve() error {
	for round := 0; ; round++ {
		now := a.c.now()
		e := a.c.find(a.key, a.forBackend)
		if e != nil && a.authorized && !e.ForAll() {
			e = nil
		}
		if e != nil {
			switch use := e.Use(&a.control, now); use {
			case rfc.Validate:
			case rfc.Refresh:
				a.refresh(e)
				fallthrough
			default:
				if body := a.c.bodyOf(e); body != nil {
					counter := &a.c.counts.hits
					if use != rfc.Fresh {
						counter = &a.c.counts.stale
					}
					counter.Add(1)
					return a.send(e, body, "hit")
				}
				continue
			}
		}
		if a.control.OnlyIfCached {
			return a.x.SendError(504) // RFC 9111, 5.2.1.7
		}
		if e == nil && (a.head || a.partly && a.isAlone()) {
			a.c.counts.passed.Add(1)
			return a.next(a.x)
		}
		a.apart = a.apart || round >= rounds
		f, w := a.join(e)
		again, err := a.follow(f, w, e)
		f.leave(w)
		if !again {
			return err
		}
	}
}

// forBackend is list for what Vary names: lines that don't reach the backend don't count.
func (a *ask) forBackend(lower string) string {
	if !goesOn([]byte(lower)) {
		return ""
	}
	return a.list(lower)
}

// id is what a flight is found by: the key, with the lines that Vary names, as far as is known.
func (a *ask) id() string {
	names := a.vary
	if names == nil {
		a.c.mu.Lock()
		if r := a.c.resources[string(a.key)]; r != nil {
			names = r.vary
		}
		a.c.mu.Unlock()
	}
	if len(names) == 0 {
		return string(a.key)
	}
	id := bytes.Clone(a.key)
	for _, name := range names {
		id = append(append(append(append(id, '\n'), name...), ": "...), a.forBackend(name)...)
	}
	return string(id)
}

// join waits with others for the response, or begins a flight for it. A request with credentials waits for no other.
func (a *ask) join(old *entry) (*flight, *waiter) {
	s, id, now := a.c.state, a.id(), a.c.now()
	w := newWaiter(a.x)
	s.mu.Lock()
	if a.aloneLocked() {
		s.apart++
		id = "\n" + strconv.FormatUint(s.apart, 10) // no other request finds it
	} else if f := s.flights[id]; f != nil {
		if f.admit(w) {
			s.mu.Unlock()
			return f, w
		}
	}
	f := a.newFlight(id, old, now)
	s.flights[id] = f
	w.first = true
	f.waiters = append(f.waiters, w)
	s.mu.Unlock()
	a.begin(f)
	return f, w
}

// isAlone reports whether the request would fetch a response for itself only.
func (a *ask) isAlone() bool {
	s := a.c.state
	s.mu.Lock()
	defer s.mu.Unlock()
	return a.aloneLocked()
}

func (a *ask) aloneLocked() bool {
	return a.authorized || a.control.NoStore || a.apart || a.c.alone[requests{string(a.key), a.cookies}].After(a.c.now())
}

func (a *ask) newFlight(id string, old *entry, now time.Time) *flight {
	f := &flight{s: a.c.state, id: id, requests: requests{string(a.key), a.cookies}, old: old, began: now}
	f.stale = old != nil && old.IfError(&a.control, now)
	f.blames = !a.authorized && !a.control.NoStore
	return f
}

// begin sends the request.
func (a *ask) begin(f *flight) {
	var also []rfc.Field
	if f.old != nil && (a.cookies || a.authorized || !f.old.LacksDefaults(a.c.state.rules)) {
		also = f.old.Validators()
	}
	var head []byte
	head, f.req = a.request(a.x, a.trust, also)
	f.req.NoStore = a.control.NoStore
	next, rewritten := a.next, a.rewritten
	handler := next
	if rewritten != "" {
		handler = func(x *knot.Ctx) error {
			if err := x.Rewrite(rewritten); err != nil {
				return err
			}
			return next(x)
		}
	}
	stop := innerOf(a.x).Fetch(head, handler, f)
	f.mu.Lock()
	f.stop = stop
	f.mu.Unlock()
}

// refresh revalidates e in the background.
func (a *ask) refresh(e *entry) {
	s, id := a.c.state, a.id()
	s.mu.Lock()
	if s.flights[id] != nil {
		s.mu.Unlock()
		return
	}
	f := a.newFlight(id, e, s.now())
	f.kept = true
	s.flights[id] = f
	s.mu.Unlock()
	a.begin(f)
}

// follow waits for f, and answers with what comes. again: the request is to look anew.
func (a *ask) follow(f *flight, w *waiter, old *entry) (again bool, err error) {
	by := time.Now().Add(a.c.wait)
	for {
		f.mu.Lock()
		phase, view, length, own := f.phase, f.view, f.length, f.sole
		e, failed, valid, ferr := f.entry, f.failed, f.valid, f.err
		f.mu.Unlock()
		switch {
		case w.first && own && a.partly: // the backend may send the part alone
			a.c.counts.misses.Add(1)
			f.leave(w) // it may have the only connection to the backend
			return false, a.next(a.x)
		case w.first && view != nil && !a.partly && !a.head, w.first && own:
			a.c.counts.misses.Add(1)
			return false, a.stream(f, w, view, length)
		case phase == ended && e != nil:
			return a.arrived(f, w, e, failed, valid, old)
		case phase == ended && errors.Is(ferr, errOutdated):
			return true, nil
		case phase == ended && view == nil:
			return false, a.broken(w, ferr)
		case w.first && phase == ended:
			return false, a.broken(w, ferr)
		case phase == sole, phase == ended:
			return a.alone(old)
		case phase == shared && !w.first:
			switch {
			case !view.Matches(a.forBackend):
				a.vary = []string{}
				for _, f := range view.Key {
					a.vary = append(a.vary, f.Name)
				}
				return true, nil // another variant
			case view.Use(&a.control, a.c.now()) != rfc.Fresh:
				return a.alone(old)
			case length >= 0 && !a.partly && !a.head:
				a.c.counts.joined.Add(1)
				return false, a.stream(f, w, view, length)
			}
		}
		if w.gone.Load() {
			return false, knot.Status(ownctx.StatusGone)
		}
		left := time.Duration(0)
		if !w.first {
			if left = time.Until(by); left <= 0 {
				return a.alone(old)
			}
		}
		if _, err := w.wake.wait(left); err != nil {
			return false, err
		}
	}
}

// alone answers without others, as their flight was of no use for the request.
func (a *ask) alone(old *entry) (again bool, err error) {
	if old != nil {
		a.apart = true
		return true, nil
	}
	a.c.counts.misses.Add(1)
	return false, a.next(a.x)
}

// broken is the error of a flight for w. It is logged for the request that has begun the flight.
func (a *ask) broken(w *waiter, err error) error {
	var status knot.Status
	if w.first {
		return err
	}
	if errors.As(err, &status) && status >= 400 {
		return status
	}
	return knot.Status(502)
}

// arrived answers with the entry that f has led to.
func (a *ask) arrived(f *flight, w *waiter, e *entry, failed, valid bool, old *entry) (again bool, err error) {
	s := a.c.state
	if !w.first && !e.Matches(a.forBackend) {
		return true, nil
	}
	if !w.first && !failed && e.Use(&a.control, s.now()) != rfc.Fresh {
		return a.alone(old)
	}
	if !w.first && failed && !e.IfError(&a.control, s.now()) {
		return a.alone(old)
	}
	body := s.bodyOf(e)
	if body == nil {
		return true, nil
	}
	if w.first && !failed {
		for _, l := range rfc.OfOneClient(f.res.Header) {
			innerOf(a.x).CopyHeader([]byte(l.Name), []byte(l.Value))
		}
	}
	switch {
	case failed:
		s.counts.stale.Add(1)
		return false, a.send(e, body, "hit; detail=stale-if-error")
	case valid:
		s.counts.revalidated.Add(1)
		return false, a.send(e, body, "hit; fwd=stale; fwd-status=304")
	case w.first:
		s.counts.misses.Add(1)
		return false, a.send(e, body, "fwd="+a.reason(old)+"; stored")
	}
	s.counts.joined.Add(1)
	return false, a.send(e, body, "fwd="+a.reason(old)+"; collapsed")
}

// reason is why a request was forwarded (RFC 9211, 2.2).
func (a *ask) reason(old *entry) string {
	switch {
	case old != nil && old.Left(a.c.now()) > 0:
		return "request"
	case old != nil:
		return "stale"
	}
	return "miss"
}

// stream sends the response of f as it comes.
func (a *ask) stream(f *flight, w *waiter, view *rfc.Stored, length int64) error {
	x, now := a.x, a.c.now()
	f.mu.Lock()
	kept, from := !f.sole, view.Header
	if f.phase == ended && f.err == nil && kept {
		length = int64(len(f.body))
	}
	f.mu.Unlock()
	status := "fwd=" + a.reason(f.old)
	switch {
	case !w.first:
		status += "; collapsed"
	case kept:
		status += "; stored"
	}
	if w.first {
		from = f.res.Header // with cookies
	}
	modified := !view.NotModified(a.list("if-none-match"), a.list("if-modified-since"))
	if !modified {
		a.start(304, from, view.Age(now), status, !w.first)
		return innerOf(x).SendHead()
	}
	a.start(view.Status, from, view.Age(now), status, !w.first)
	if length >= 0 {
		x.SetContentLength(length)
	}
	if view.Status == 204 || view.Status == 304 || a.head {
		return innerOf(x).SendHead()
	}
	for at := 0; ; {
		f.mu.Lock()
		piece, over, err := f.body, f.phase == ended, f.err
		if f.sole {
			f.body = nil
		} else {
			piece, at = f.body[at:], len(f.body)
			if w.first {
				f.taken = at
			}
		}
		f.mu.Unlock()
		if len(piece) > 0 {
			f.room.ring()
			if _, err := x.Write(piece); err != nil {
				return err
			}
			continue
		}
		if over {
			return err
		}
		if err := x.Flush(); err != nil {
			return err
		}
		if w.gone.Load() {
			return knot.Status(ownctx.StatusGone)
		}
		if _, err := w.wake.wait(0); err != nil {
			return err
		}
	}
}

// start sets the head of a response that was forwarded, for this request or, if joined, for another one.
func (a *ask) start(status int, header rfc.Header, age time.Duration, how string, joined bool) {
	a.x.SetStatus(status)
	for _, f := range header {
		if name := []byte(f.Name); !is(name, "age") && !(status == 304 && describesBody(name)) {
			innerOf(a.x).CopyHeader(name, []byte(f.Value))
		}
	}
	a.end(age, how, joined)
}

// end adds the lines that the cache writes. A response that was not asked for by this request has an Age, even of 0 (RFC 9111, 4).
func (a *ask) end(age time.Duration, how string, kept bool) {
	var room [96]byte
	if kept || age >= time.Second {
		innerOf(a.x).CopyHeader([]byte("Age"), strconv.AppendInt(room[:0], int64(age/time.Second), 10))
	}
	innerOf(a.x).CopyHeader([]byte("Cache-Status"), append(append(room[:0], "knot; "...), how...))
}

// describesBody reports whether a line is about the body, and left out of a 304 (RFC 9110, 15.4.5).
func describesBody(name []byte) bool {
	return len(name) >= 8 && is(name[:8], "content-") && !is(name, "content-location")
}

// send answers with what is kept.
func (a *ask) send(e *entry, body []byte, how string) error {
	x, now := a.x, a.c.now()
	status, from, to := e.Status, int64(0), int64(len(body))
	match, since := "", ""
	if x.HeaderBytes("if-none-match") != nil || x.HeaderBytes("if-modified-since") != nil {
		match, since = a.list("if-none-match"), a.list("if-modified-since")
	}
	switch {
	case e.NotModified(match, since):
		status = 304
	case a.partly && status == 200 && !a.head && e.RangeApplies(a.list("if-range")):
		if first, end, ok := rfc.Range(a.list("range"), to); ok {
			status, from, to = 206, first, end
			if first == end {
				status = 416
			}
		}
	}
	x.SetStatus(status)
	for i := range e.lines {
		if l := &e.lines[i]; !(status == 304 && describesBody(l.name)) {
			innerOf(x).CopyHeader(l.name, l.value)
		}
	}
	a.end(e.Age(now), how+"; ttl="+strconv.FormatInt(int64(e.Left(now)/time.Second), 10), true)
	size := strconv.Itoa(len(body))
	switch {
	case status == 206:
		x.AddHeader("Content-Range", "bytes "+strconv.FormatInt(from, 10)+"-"+strconv.FormatInt(to-1, 10)+"/"+size)
	case status == 416:
		x.AddHeader("Content-Range", "bytes */"+size)
	}
	body = body[from:to]
	if status == 304 || status == 204 || a.head {
		if status != 304 && status != 204 {
			x.SetContentLength(int64(len(body)))
		}
		return innerOf(x).SendHead()
	}
	a.c.counts.bytes.Add(uint64(len(body)))
	return x.Send(status, "", body)
}
