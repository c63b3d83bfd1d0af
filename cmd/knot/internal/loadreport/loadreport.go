// Package loadreport has a server tell its clients how loaded it is, as the key load-report of command knot says: by a line of the
// responses, and by the gRPC service xds.service.orca.v3.OpenRcaService. Balancers go by it: Envoy, gRPC, package knot/proxy.
package loadreport

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

const (
	// sampleEvery is how old the figures of the whole server may become. Admission reads its own as often, or less.
	sampleEvery = 100 * time.Millisecond
	// smoothOver is the time over which rates are averaged: balancers divide one by another.
	smoothOver = time.Second
)

// A Source is where a Reporter has its figures from. Its functions must not park.
type Source struct {
	Stats     func() knot.Stats    // of the server
	Resources func() []orca.Value  // utilisations, as admission sees them
	Queued    func() int           // requests that wait to be admitted
	CPU       func() time.Duration // that the process has used
	Procs     func() int           // processors that it has
	Now       func() time.Duration // a clock that never goes back
}

// names of resources with a field of their own, and of figures that are no utilisation, as internal/feed has them.
const (
	memory     = "memory"
	readyDelay = "ready to running"
)

// A Reporter knows the load of a server. Made by NewReporter. Safe from anywhere; it never parks.
type Reporter struct {
	ctx      context.Context // ends the streams
	from     Source
	inFlight atomic.Int64
	took     latencies
	streams  atomic.Int64 // of the gRPC service
	sampling sync.Mutex   // held while a sample is taken
	last     atomic.Pointer[sample]
}

// A sample is the load of the whole server at a time. It is not changed.
type sample struct {
	report          orca.Report
	at, cpu         time.Duration
	requests, fails uint64
}

// NewReporter returns a Reporter, whose streams end with ctx.
func NewReporter(ctx context.Context, from Source) *Reporter { return &Reporter{ctx: ctx, from: from} }

// report returns the load now.
func (r *Reporter) report() orca.Report {
	s := r.last.Load()
	if now := r.from.Now(); s == nil || now-s.at >= sampleEvery {
		if r.sampling.TryLock() { // else another request does it
			s = r.sample(now, s)
			r.last.Store(s)
			r.sampling.Unlock()
		}
	}
	var of orca.Report
	if s != nil {
		of = s.report
	}
	n := r.inFlight.Load()
	of.Named = []orca.Value{
		{Name: orca.InFlight, Value: float64(n + int64(r.from.Queued()))},
		{Name: orca.Latency, Value: r.took.at(n).Seconds()},
	}
	return of
}

// sample is taken after before, which is nil the first time.
func (r *Reporter) sample(now time.Duration, before *sample) *sample {
	stats := r.from.Stats()
	s := &sample{at: now, cpu: r.from.CPU(), fails: stats.Responses[5]}
	for _, n := range stats.Responses {
		s.requests += n
	}
	of := &s.report
	if before != nil {
		of.RPS, of.EPS, of.CPU, of.Cost = before.report.RPS, before.report.EPS, before.report.CPU, before.report.Cost
		seconds := (now - before.at).Seconds()
		part := seconds / (seconds + smoothOver.Seconds())
		smooth := func(v *float64, fresh float64) { *v += (fresh - *v) * part }
		done := float64(s.requests - before.requests)
		used := (s.cpu - before.cpu).Seconds()
		smooth(&of.RPS, done/seconds)
		smooth(&of.EPS, float64(s.fails-before.fails)/seconds)
		smooth(&of.CPU, used/seconds/float64(max(r.from.Procs(), 1)))
		if done > 0 {
			of.Cost = []orca.Value{{Name: "cpu_seconds", Value: used / done}}
		}
	}
	of.Application = min(of.CPU, 1)
	for _, v := range r.from.Resources() {
		switch v.Name {
		case readyDelay:
			continue
		case memory:
			of.Memory = v.Value
		}
		of.Utilisation = append(of.Utilisation, v)
		of.Application = max(of.Application, v.Value)
	}
	return s
}

// A Site reports the load to the clients of a site. Made by New.
type Site struct {
	always bool
	of     atomic.Pointer[Reporter] // nil: not yet; atomic
}

// New reads the key load-report: "on-request" or "always". nil, with "" and "off": it does not report.
func New(mode string) (*Site, error) {
	switch mode {
	case "", "off":
		return nil, nil
	case "on-request", "always":
		return &Site{always: mode == "always"}, nil
	}
	return nil, fmt.Errorf("%q is unknown; want on-request, always or off", mode)
}

// Begin has s report what r knows. Until then it reports nothing.
func (s *Site) Begin(r *Reporter) { s.of.Store(r) }

// Prepare is one of site.Site.Prepare.
func (s *Site) Prepare(x *knot.Ctx) {
	if s.of.Load() != nil && (s.always || x.HeaderBytes(orca.FormatHeader) != nil) {
		x.Filter(s)
	}
}

// isProbe reports whether the request is OPTIONS * with the line FormatHeader, by which balancers probe.
func isProbe(x *knot.Ctx) bool {
	return string(x.PathBytes()) == "*" && x.HeaderBytes(orca.FormatHeader) != nil
}

// isStream reports whether the request is for the gRPC service.
func isStream(x *knot.Ctx) bool { return string(x.PathBytes()) == streamPath }

// Around is site.Site.Around: it counts the request, unless it is only about the load, and how long it takes.
func (s *Site) Around(x *knot.Ctx, rest knot.Handler) error {
	r := s.of.Load()
	if r == nil || isProbe(x) || isStream(x) {
		return rest(x)
	}
	n, began := r.inFlight.Add(1), r.from.Now()
	defer func() {
		r.inFlight.Add(-1)
		now := r.from.Now()
		r.took.add(n, now-began, now)
	}()
	err := rest(x)
	if s.always && strings.HasPrefix(x.Header("Content-Type"), "application/grpc") {
		of := r.report()
		x.AddTrailer(orca.BinaryHeader, string(of.AppendBase64(nil))) // where clients of gRPC look for it; no harm if there is no trailer
	}
	return err
}

// FilterHead implements knot.Filter: the line takes the place of a backend's.
func (s *Site) FilterHead(x *knot.Ctx, h knot.ResponseHead) {
	r := s.of.Load()
	if r == nil {
		return
	}
	of := r.report()
	if ownctx.Of(x).(innerCtx).TurnedAway() { // what was too much for this request is too much for the next
		of.Application = max(of.Application, 1)
	}
	h.Del(orca.BinaryHeader)
	switch form := x.Header(orca.FormatHeader); {
	case strings.EqualFold(form, "JSON"):
		h.Set(orca.Header, string(of.AppendJSON(nil)))
	case strings.EqualFold(form, "BIN"):
		h.Del(orca.Header)
		h.Set(orca.BinaryHeader, string(of.AppendBase64(nil)))
	default:
		h.Set(orca.Header, string(of.AppendText(nil)))
	}
}

// Handle answers what is only about the load: probes and the gRPC service. It is a site.Step, and parks.
func (s *Site) Handle(x *knot.Ctx) (answered bool, err error) {
	r := s.of.Load()
	switch {
	case r == nil:
	case isProbe(x):
		return true, x.Send(204, "", nil)
	case isStream(x):
		return true, r.stream(x)
	}
	return false, nil
}

var _ site.Step = (*Site)(nil).Handle
