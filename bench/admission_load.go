package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/people"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// How a row of the experiment admission is put to a client, and what its result says.

type extent struct {
	x        float64
	capacity float64 // requests a second; 0 if it was not asked for
	could    float64 // requests a second that could be served in the time measured
	most     float64 // highest rate that requests came at
}

type act struct {
	at time.Duration // after the load has begun
	do func(m *matrix, s *server) error
}

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

type phase struct {
	span   time.Duration
	rate   float64
	times  float64
	burst  int
	shares []float64 // in place of those of the classes; nil: those
}

type openLoad struct {
	classes  []class
	phases   []phase
	from     time.Duration // measured from here on
	patience time.Duration
	drain    time.Duration // 0: patience
	target   time.Duration // 0: latencyTarget
	retries  uint8
	steps    *load.Steps
}

// spec is what the row's client is told, and about how long it takes.
func (r *row) spec(s *server, e *extent, seed int) (spec clientSpec, span time.Duration) {
	target := s.target()
	if r.needs.counted {
		target = s.target(s.pids()...)
	}
	spec.Within = latencyTarget
	switch l := r.load.(type) {
	case openLoad:
		open := l.config(target, e, seed)
		spec.Open, spec.Steps, spec.Within = &open, l.steps, cmp.Or(l.target, latencyTarget)
		return spec, l.span() + l.waits()
	case people.Config:
		l.Addr, spec.People = s.addr, &l
		return spec, l.For + l.Drain
	case load.ClosedConfig:
		l.Target, l.Seed, spec.Closed = target, uint64(seed), &l
		return spec, l.Warm + l.For
	case load.CrowdConfig:
		l.Target, spec.Crowd = target, &l
		return spec, l.Limit
	}
	panic(r.unknownLoad())
}

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

// config also notes what of it could be served.
func (l openLoad) config(server load.Target, e *extent, seed int) load.OpenConfig {
	open := load.OpenConfig{
		Target: server, From: l.from, Patience: l.patience, Drain: l.waits(), Conns: load.MaxConns, Retries: l.retries, Seed: uint64(seed),
	}
	for _, c := range l.classes {
		open.Requests = append(open.Requests, c.text())
		if c.source > 0 {
			open.Sources = append(open.Sources, [4]byte{127, 0, 1, c.source})
		}
	}
	could, at := 0.0, time.Duration(0)
	for _, p := range l.phases {
		rate, scarce := p.rate+p.times*e.capacity, 0.0
		one := load.Phase{For: p.span, Burst: p.burst}
		for i, c := range l.classes {
			if p.shares != nil {
				c.share = p.shares[i]
			}
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
		open.Phases = append(open.Phases, one)
	}
	e.could = could / (at - l.from).Seconds()
	return open
}

// stepping has a load go up and down between multiples of capacity.
func (l openLoad) stepping(steps load.Steps, low, high float64) openLoad {
	l.steps, l.phases = &steps, []phase{{span: steps.Lead, times: low}}
	for range steps.Count {
		l.phases = append(l.phases, phase{span: steps.High, times: high}, phase{span: steps.Low, times: low})
	}
	return l
}

// mixed is the mix of requests of the classes, by their shares.
func mixed(classes ...class) (mix []load.Share) {
	for _, c := range classes {
		mix = append(mix, load.Share{Request: c.text(), Weight: c.share})
	}
	return mix
}

// capacityMix is the requests that a row's capacity is that of, none if it has none, and the
// clients that find it.
func (r *row) capacityMix() (mix []load.Share, clients int) {
	clients = cmp.Or(r.reference, capacityClients)
	switch l := r.load.(type) {
	case openLoad:
		if slices.ContainsFunc(l.phases, func(p phase) bool { return p.times > 0 }) {
			mix = mixed(slices.DeleteFunc(slices.Clone(l.classes), func(c class) bool { return c.aside })...)
		}
	case load.ClosedConfig:
		mix = l.Mix
	}
	return mix, clients
}

type known struct {
	at   time.Time
	last []float64
}

const (
	capacityFresh = 20 * time.Second
	// capacitySpan is how long one is measured.
	capacitySpan = 400 * time.Millisecond
)

// remember keeps a capacity, and returns the median of the last three of the same key.
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
func (m *matrix) capacity(ctx context.Context, system launcher, n needs, mix []load.Share, clients int) (float64, error) {
	base := plain(system.system)
	key := fmt.Sprint(base, n, mix, clients)
	if k, ok := m.known[key]; ok && time.Since(k.at) < capacityFresh {
		return report.Median(k.last), nil
	}
	unlimited, err := m.system(base)
	if err != nil {
		return 0, err
	}
	span := capacitySpan
	if clients != capacityClients { // they take turns, or long
		span *= 3
	}
	n.prioritized, n.limit = false, 0
	now, err := untilServed(span, func(span time.Duration) (served float64, err error) {
		s, err := unlimited.start(ctx, n)
		if err == nil {
			served, err = m.served(ctx, s, mix, clients, span)
			err = errors.Join(err, s.end())
		}
		return served, err
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

// served is what a server answers in a second to clients of a closed loop.
func (m *matrix) served(ctx context.Context, s *server, mix []load.Share, clients int, span time.Duration) (float64, error) {
	closed := load.ClosedConfig{Mix: mix, Clients: clients, Warm: span / 4, For: span}
	seen, err := m.runClient(ctx, s, row{load: closed}, &extent{}, 1)
	if err != nil {
		return 0, err
	}
	return seen.rate(seen.All.Served), nil
}

func (a *clientResult) rate(n int) float64 { return float64(n) / a.Span.Seconds() }

// percent is a processor time as a share of the time measured.
func (a *clientResult) percent(used time.Duration) float64 {
	return 100 * used.Seconds() / a.Span.Seconds()
}

// oracleLimits are the concurrency limits that the oracle may choose from.
var oracleLimits = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}

// bestLimit is the concurrency limit with which most requests are served in time.
func (m *matrix) bestLimit(ctx context.Context, system launcher, r row, e extent) (int64, error) {
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
func (a *clientResult) inTime(r row) int {
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

func (a *clientResult) unserved() int { return a.All.Refused + a.All.Failed + a.All.TimedOut }

// samples are what a row says of a server.
func (r *row) samples(s *server, seen *clientResult, e extent) (list []sample) {
	add := func(metric, unit string, value float64) { list = append(list, sample{metric, unit, e.x, value}) }
	count := func(metric string, n int) { add(metric, "1", float64(n)) }
	all := &seen.All
	if r.overload {
		r.addShares(s, seen, e, add)
	} else {
		if _, ok := r.load.(people.Config); ok && !r.bytes { // whom people still wait for at the end has timed out, unless the row ends in the middle
			all.TimedOut, all.Pending = all.TimedOut+all.Pending, 0
		}
		count("ordinary-refused", seen.unserved())
	}
	count("asked", all.Due)
	if !r.overload {
		add("refused-share", "%", share(seen.unserved(), all.Due))
	}
	count("refused-503", all.Refused)
	count("broken", all.Failed)
	count("timed-out", all.TimedOut)
	if !r.overload {
		count("unfinished", all.Pending)
		add("throughput", "/s", float64(choose(r.bytes, seen.Bytes, int64(all.Served)))/seen.Span.Seconds())
	}
	if all.Served > 0 && all.P99 > 0 {
		add("p99", "ms", milliseconds(all.P99))
	}
	if seen.Usage.Client > 0 {
		add("client-busy", "%", seen.percent(seen.Usage.Client))
		add("client-late", "ms", milliseconds(all.Late))
	}
	if s.others >= 0 {
		add("others", "%", s.others)
	}
	if r.extra != nil && !s.dead {
		list = append(list, r.extra(seen, e)...)
	}
	return list
}

// addShares adds how much of what could be served a server has served under overload.
func (r *row) addShares(s *server, seen *clientResult, e extent, add func(metric, unit string, value float64)) {
	if e.capacity > 0 {
		could, goodput := e.could, float64(seen.inTime(*r))/seen.Span.Seconds()
		if _, closed := r.load.(load.ClosedConfig); closed {
			could, goodput = e.capacity, seen.rate(seen.All.Served)
		}
		add("goodput-share", "%", choose(s.dead, 0, 100*goodput/could))
		if e.most > 0 && e.most <= mostUnrefused*e.capacity {
			add("false-refused", "%", share(seen.unserved(), seen.All.Due))
		}
		add("capacity", "/s", e.capacity)
	}
	if _, open := r.load.(openLoad); open { // requests that wait at the end of the load are served after it
		seen.All.P99 = seen.All.Loaded
	}
	if r.needs.memory > 0 || r.needs.watch > 0 {
		add("killed", "1", choose(s.dead, 1.0, 0))
	}
}

// mostUnrefused is the load up to which nothing is to be refused, as a multiple of capacity.
const mostUnrefused = 0.81

func share(part, of int) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(part) / float64(of)
}
