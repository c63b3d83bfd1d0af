package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/people"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// How a row of the experiment admission is put to a client, and what its result says.

// extent is what a load was measured against.
type extent struct {
	x        float64
	capacity float64 // requests a second; 0 if it was not asked for
	could    float64 // requests a second that could be served in the time measured
	most     float64 // highest rate that requests came at
}

// act is something that happens to a server while it is loaded.
type act struct {
	at time.Duration // after the load has begun
	do func(m *matrix, s *site) error
}

// class is a kind of request.
type class struct {
	path    string
	urgency string  // of the Priority header
	share   float64 // of the rate
	source  byte    // last byte of the address that it comes from; 0: any
	aside   bool    // it does not use what is scarce: neither capacity nor goodput has it
}

func (c class) text() []byte {
	method, target, ok := strings.Cut(c.path, " ")
	if !ok {
		method, target = "GET", c.path
	}
	urgency := ""
	if c.urgency != "" {
		urgency = "Priority: " + c.urgency + "\r\n"
	}
	return []byte(method + " " + target + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + urgency + "\r\n")
}

// phase is a time with one rate: per second, or in multiples of capacity.
type phase struct {
	span  time.Duration
	rate  float64
	times float64
	burst int
}

// openLoad is an open loop.
type openLoad struct {
	classes  []class
	phases   []phase
	from     time.Duration // measured from here on
	patience time.Duration
	drain    time.Duration // 0: patience
	target   time.Duration // 0: latencyTarget
	retries  uint8
	steps    *load.Steps
	clients  int // of the closed loop that finds the capacity; 0: capacityClients
}

// peopleLoad is clients that take their time.
type peopleLoad struct {
	groups      []people.Group
	span, drain time.Duration
}

// closedLoad is a closed loop of impatient or patient clients.
type closedLoad struct {
	classes    []class
	clients    int
	warm, span time.Duration
	patient    bool
	reference  int // clients of the closed loop that finds the capacity
}

// spec is what the row's client is told, which kind of client it is, and about how long it takes.
func (m *matrix) spec(s *site, r row, e *extent, seed int) (kind string, spec any, span time.Duration) {
	switch l := r.load.(type) {
	case openLoad:
		return "open", l.spec(s.target(), e, seed), l.span() + l.waits()
	case peopleLoad:
		return "people", admissionPeople{
			Config: people.Config{Addr: s.addr, Groups: l.groups, For: l.span, Drain: l.drain}, Within: latencyTarget,
		}, l.span + l.drain
	case closedLoad:
		closed := closedSpec(s.target(), l.classes, l.clients, seed)
		closed.Warm, closed.For, closed.Patient = l.warm, l.span, l.patient
		if r.needs.counted {
			closed.PIDs = s.pids()
		}
		return "closed", closed, l.warm + l.span
	}
	panic(fmt.Sprintf("row %s has a load of type %T", r.name, r.load))
}

// span is how long requests are due.
func (l openLoad) span() time.Duration {
	total := time.Duration(0)
	for _, p := range l.phases {
		total += p.span
	}
	return total
}

func (l openLoad) waits() time.Duration {
	return cmp.Or(l.drain, l.patience)
}

// spec also notes what of it could be served.
func (l openLoad) spec(server load.Target, e *extent, seed int) admissionOpen {
	spec := admissionOpen{OpenConfig: load.OpenConfig{
		Target: server, From: l.from, Patience: l.patience, Drain: l.waits(), Conns: load.MaxConns, Retries: l.retries, Seed: uint64(seed),
	}, Within: cmp.Or(l.target, latencyTarget), Steps: l.steps}
	for _, c := range l.classes {
		spec.Requests = append(spec.Requests, c.text())
		if c.source > 0 {
			spec.Sources = append(spec.Sources, [4]byte{127, 0, 1, c.source})
		}
	}
	could, at := 0.0, time.Duration(0)
	for _, p := range l.phases {
		rate, scarce := p.rate+p.times*e.capacity, 0.0
		one := load.Phase{For: p.span, Burst: p.burst}
		for _, c := range l.classes {
			one.Rates = append(one.Rates, rate*c.share)
			if !c.aside {
				scarce += rate * c.share
			}
		}
		at += p.span
		e.most = max(e.most, scarce)
		if at > l.from {
			could += min(scarce, e.capacity) * min(p.span, at-l.from).Seconds()
		}
		spec.Phases = append(spec.Phases, one)
	}
	e.could = could / (at - l.from).Seconds()
	return spec
}

func closedSpec(server load.Target, classes []class, clients, seed int) admissionClosed {
	spec := admissionClosed{load.ClosedConfig{Target: server, Clients: clients, Seed: uint64(seed)}, latencyTarget}
	for _, c := range classes {
		spec.Mix = append(spec.Mix, load.Share{Request: c.text(), Weight: c.share})
	}
	return spec
}

// capacityMix is the requests that a row's capacity is that of, none if it has none, and the
// clients that find it.
func (r *row) capacityMix() (mix []class, clients int) {
	switch l := r.load.(type) {
	case openLoad:
		relative := false
		for _, p := range l.phases {
			relative = relative || p.times > 0
		}
		for _, c := range l.classes {
			if relative && !c.aside {
				mix = append(mix, c)
			}
		}
		return mix, max(l.clients, capacityClients)
	case closedLoad:
		if l.reference > 0 {
			return l.classes, l.reference
		}
	}
	return nil, 0
}

// known is what is known of a capacity.
type known struct {
	at   time.Time
	last []float64
}

const (
	// capacityFresh is how long a capacity is believed: the machine's speed changes.
	capacityFresh = 20 * time.Second
	// capacitySpan is how long one is measured.
	capacitySpan = 400 * time.Millisecond
)

// remember notes a capacity, and returns the median of the last ones of the same key.
func (m *matrix) remember(key string, now float64) float64 {
	if m.known == nil {
		m.known = map[string]known{}
	}
	last := append(m.known[key].last, now)
	last = last[max(0, len(last)-3):]
	m.known[key] = known{time.Now(), last}
	return report.Median(last)
}

// capacity is what fifo, or net/http, serves a few clients of a closed loop.
func (m *matrix) capacity(ctx context.Context, system admissionSystem, n needs, mix []class, clients int) (float64, error) {
	key := fmt.Sprint(system.family, n, mix, clients)
	if k, ok := m.known[key]; ok && time.Since(k.at) < capacityFresh {
		return report.Median(k.last), nil
	}
	base := "capriccio-fifo"
	if system.family == httpFamily {
		base = "net-http"
	}
	plain, err := m.system(base)
	if err != nil {
		return 0, err
	}
	span := capacitySpan
	if clients != capacityClients { // they take turns, or long
		span *= 3
	}
	now, err := untilServed(span, func(span time.Duration) (float64, error) {
		return m.capacityOf(ctx, plain, n, mix, clients, span)
	})
	if err != nil {
		return 0, err
	}
	return m.remember(key, now), nil
}

// capacityAttempts are made, each four times as long as the one before, as the kernel may
// let a server wait for longer than one takes when the machine has much else to do.
const capacityAttempts = 4

// capacityClients keep a server busy without letting it queue for long.
const capacityClients = 16

// untilServed measures for longer and longer until something was served.
func untilServed(span time.Duration, measure func(time.Duration) (float64, error)) (float64, error) {
	for range capacityAttempts {
		now, err := measure(span)
		if err != nil {
			return 0, fmt.Errorf("capacity: %w", err)
		}
		if now > 0 {
			return now, nil
		}
		span *= 4
	}
	return 0, errors.New("capacity: nothing was served")
}

func (m *matrix) capacityOf(ctx context.Context, plain admissionSystem, n needs, mix []class, clients int, span time.Duration) (float64, error) {
	n.prioritized, n.limit = false, 0
	s, err := plain.start(ctx, n)
	if err != nil {
		return 0, err
	}
	now, err := m.served(ctx, s, mix, clients, span)
	return now, errors.Join(err, s.close())
}

// served is what a server answers in a second to clients of a closed loop.
func (m *matrix) served(ctx context.Context, s *site, mix []class, clients int, span time.Duration) (float64, error) {
	spec := closedSpec(s.target(), mix, clients, 1)
	spec.Warm, spec.For = span/4, span
	seen, err := m.runClient(ctx, s, "closed", spec, 2*span, nil)
	if err != nil {
		return 0, err
	}
	return seen.rate(seen.All.Served), nil
}

// rate is a number of requests a second.
func (a *admissionResult) rate(n int) float64 { return float64(n) / a.Span.Seconds() }

// percent is a processor time as a share of the time measured.
func (a *admissionResult) percent(used time.Duration) float64 {
	return 100 * used.Seconds() / a.Span.Seconds()
}

// oracleLimits are those that the oracle may choose from.
var oracleLimits = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}

// bestLimit is the limit with which most is served in time.
func (m *matrix) bestLimit(ctx context.Context, system admissionSystem, r row, e extent) (int64, error) {
	if limit, ok := m.limits[r.name]; ok {
		return limit, nil
	}
	best, most := int64(0), -1.0
	for _, limit := range oracleLimits {
		r.needs.limit = limit
		seen, s, err := m.loaded(ctx, system, r, &e, 1)
		if err != nil {
			return 0, err
		}
		if good := float64(seen.inTime(r)); !s.dead && good > most {
			best, most = limit, good
		}
	}
	m.limits[r.name] = best
	return best, nil
}

// inTime counts what was served in time, of the requests that use what is scarce.
func (a *admissionResult) inTime(r row) int {
	l, ok := r.load.(openLoad)
	if !ok {
		return a.All.InTime
	}
	n := 0
	for i, c := range l.classes {
		if !c.aside && i < len(a.Classes) {
			n += a.Classes[i].InTime
		}
	}
	return n
}

func (a *admissionResult) unserved() int { return a.All.Refused + a.All.Failed + a.All.TimedOut }

// hung has requests count as timed out that people still waited for at the end, unless the
// row ends in the middle of what it does.
func (r *row) hung(seen *admissionResult) {
	if _, ok := r.load.(peopleLoad); ok && !r.bytes {
		seen.All.TimedOut += seen.All.Pending
		seen.All.Pending = 0
	}
}

// inOrdinaryLife makes samples of a row of the left half.
func (r *row) inOrdinaryLife(s *site, seen *admissionResult, e extent) []sample {
	r.hung(seen)
	all := &seen.All
	samples := []sample{
		{"ordinary-refused", "1", e.x, float64(seen.unserved())},
		{"asked", "1", e.x, float64(all.Due)},
		{"refused-share", "%", e.x, share(seen.unserved(), all.Due)},
		{"refused-503", "1", e.x, float64(all.Refused)},
		{"broken", "1", e.x, float64(all.Failed)},
		{"timed-out", "1", e.x, float64(all.TimedOut)},
		{"unfinished", "1", e.x, float64(all.Pending)},
		{"throughput", "/s", e.x, float64(choose(r.bytes, seen.Bytes, int64(all.Served))) / seen.Span.Seconds()},
	}
	return append(samples, r.furtherSamples(s, seen, e)...)
}

// underOverload makes samples of a row of the right half.
func (r *row) underOverload(s *site, seen *admissionResult, e extent) []sample {
	samples := []sample{}
	if e.capacity > 0 {
		could, goodput := e.could, float64(seen.inTime(*r))/seen.Span.Seconds()
		if _, closed := r.load.(closedLoad); closed {
			could, goodput = e.capacity, float64(seen.All.Served)/seen.Span.Seconds()
		}
		if s.dead {
			goodput = 0
		}
		samples = append(samples, sample{"goodput-share", "%", e.x, 100 * goodput / could})
		if e.most > 0 && e.most <= mostUnrefused*e.capacity {
			samples = append(samples, sample{"false-refused", "%", e.x, share(seen.unserved(), seen.All.Due)})
		}
		samples = append(samples, sample{"capacity", "/s", e.x, e.capacity})
	}
	if _, open := r.load.(openLoad); open { // what waits at the end is served when nobody else comes any more
		seen.All.P99 = seen.All.Loaded
	}
	if r.needs.memory > 0 || r.needs.watch > 0 {
		samples = append(samples, sample{"killed", "1", e.x, choose(s.dead, 1.0, 0)})
	}
	samples = append(samples,
		sample{"asked", "1", e.x, float64(seen.All.Due)},
		sample{"refused-503", "1", e.x, float64(seen.All.Refused)},
		sample{"broken", "1", e.x, float64(seen.All.Failed)},
		sample{"timed-out", "1", e.x, float64(seen.All.TimedOut)})
	return append(samples, r.furtherSamples(s, seen, e)...)
}

// mostUnrefused is the load up to which nothing is to be refused, as a multiple of capacity.
const mostUnrefused = 0.81

// furtherSamples are of both halves.
func (r *row) furtherSamples(s *site, seen *admissionResult, e extent) []sample {
	var samples []sample
	if seen.All.Served > 0 && seen.All.P99 > 0 {
		samples = append(samples, sample{"p99", "ms", e.x, milliseconds(seen.All.P99)})
	}
	if seen.Usage.Client > 0 {
		samples = append(samples,
			sample{"client-busy", "%", e.x, seen.percent(seen.Usage.Client)},
			sample{"client-late", "ms", e.x, milliseconds(seen.All.Late)})
	}
	if s.others >= 0 {
		samples = append(samples, sample{"others", "%", e.x, s.others})
	}
	if r.extra != nil && !s.dead {
		samples = append(samples, r.extra(s, seen, e)...)
	}
	return samples
}

func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}
