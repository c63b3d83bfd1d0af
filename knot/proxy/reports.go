package proxy

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/balance"
	"github.com/capriccio-go/capriccio/internal/logwriter"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

const (
	// probeEvery is the shortest time between two probes of a backend: that many requests cost it little.
	probeEvery = 5 * time.Millisecond
	// probeTimeout is how long the answer to a probe may take: older reports are not used.
	probeTimeout = time.Second
	// probeAgain is when a backend that does not report is asked anew.
	probeAgain = 10 * time.Second
	// latencyPart is the weight of a new latency in the mean of a backend.
	latencyPart = 0.05
)

// A loadReports takes up what a backend says of its load. A request whose backend is chosen by load asks for a report, and has a
// random backend probed, so that backends that get few requests are known too.
//
//	response ─→ useReport ─→ signal ─→ fill ─→ balance.HotCold
//	probe ────────↑
type loadReports struct {
	signal  balance.Signal
	probes  chan string // hosts that probes are to be for
	reports atomic.Bool // its last response had a report; else it counts by what was sent there; atomic
	warned  atomic.Bool // the log has said that its reports can't be true; atomic
}

func newLoadReports() *loadReports { return &loadReports{probes: make(chan string, 1)} }

// fill puts what is known of the load of b into l.
func (b *backend) fill(now int64, l *balance.Load) {
	if s := b.heard; s.reports.Load() {
		s.signal.Fill(now, l)
	} else {
		l.InFlight, l.Latency = float64(l.Out), time.Duration(b.latency.Load())
		l.Known = l.Latency > 0 || !b.failures.Any() // else it has only failed, and 0 would be the shortest
	}
}

// byLoad returns the index in all of the backend for e by what the backends say.
func (e *exchange) byLoad(all []balance.Load, backends []*backend, turn uint32) (at int) {
	now := e.p.clock()
	for i := range all {
		backends[all[i].Of].fill(now, &all[i])
	}
	at, e.room = balance.HotCold(all, turn, e.room)
	backends[all[at].Of].heard.signal.Use()
	if b := backends[balance.Mix(uint64(turn))%uint64(len(backends))]; len(b.heard.probes) == 0 {
		host := string(e.x.HostBytes())
		if e.p.Host != "" && e.p.Host != "backend" {
			host = e.p.Host
		}
		select {
		case b.heard.probes <- host:
		default:
		}
	}
	return at
}

// asksForReport reports whether a line of the request is the client's own wish for a report.
func asksForReport(x *knot.Ctx) bool { return x.HeaderBytes(orca.FormatHeader) != nil }

// isReport reports whether a line is a load report; binary: in that form.
func isReport(name []byte) (is, binary bool) {
	switch len(name) {
	case len(orca.Header):
		return h1.TextIs(name, orca.Header), false
	case len(orca.BinaryHeader):
		return h1.TextIs(name, orca.BinaryHeader), true
	}
	return false, false
}

// takeReport takes up a line of the response, and reports whether it is a report that the client has not asked for.
func (e *exchange) takeReport(name, value []byte) bool {
	is, binary := isReport(name)
	if !is {
		return false
	}
	e.hasReport = true
	e.b.useReport(string(value), binary)
	return !asksForReport(e.x)
}

// useReport takes up a report. A report that can't be true is ignored.
func (b *backend) useReport(value string, binary bool) {
	s := b.heard
	r, err := orca.Parse(value, binary)
	if err != nil {
		if !s.warned.Swap(true) {
			b.p.Log.Warn("knot: a backend's load report can't be true, and is not gone by", "backend", b.name, "error", logwriter.OneLine(err.Error()))
		}
		return
	}
	n, ok := orca.Find(r.Named, orca.InFlight)
	if !ok {
		return
	}
	latency, _ := orca.Find(r.Named, orca.Latency)
	if r.Application >= 1 {
		n = max(n, math.MaxInt32) // it can do no more: hot
	}
	s.signal.Report(b.p.clock(), n, time.Duration(min(latency, 3600)*float64(time.Second)))
	s.reports.Store(true)
	s.warned.Store(false)
}

// measured records how long it took to the head of a response. failed: it is an error of the server. hasReport: it had a report.
// An error that comes sooner than answers do has no part in the latency. A later error has one where backends are chosen by
// latency: the backend would else be taken for the fastest.
func (b *backend) measured(took time.Duration, failed, hasReport bool) {
	if failed {
		usual := b.usual()
		if took < usual {
			b.failures.Add(b.p.clock(), usual-took)
		}
		if took < usual || usual == 0 || b.heard == nil {
			return
		}
	} else if b.heard != nil && !hasReport {
		b.heard.reports.Store(false)
	}
	mean := b.latency.Load()
	if mean == 0 {
		mean = int64(took)
	}
	b.latency.Store(mean + int64(latencyPart*float64(int64(took)-mean)))
}

// usual is how long it usually takes to the head of a response: of b, or on average of its group while b has only failed. 0: unknown.
func (b *backend) usual() time.Duration {
	if own := b.latency.Load(); own > 0 {
		return time.Duration(own)
	}
	sum, n := int64(0), int64(0)
	for _, o := range b.group.backends() {
		if latency := o.latency.Load(); latency > 0 {
			sum, n = sum+latency, n+1
		}
	}
	return time.Duration(sum / max(n, 1))
}

// probeOn sends probes until ctx ends. It runs on a goroutine of its own.
func (b *backend) probeOn(ctx context.Context) {
	var by http.RoundTripper = b.http2
	if b.http2 == nil {
		t := &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, b.network, b.address)
			},
			TLSClientConfig: b.tls, MaxIdleConns: 1, DisableCompression: true, MaxResponseHeaderBytes: headBuffer,
		}
		defer t.CloseIdleConnections()
		by = t
	}
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-ctx.Done():
			return
		}
		select {
		case host := <-b.heard.probes:
			if pause.Reset(probeEvery); !b.probe(ctx, by, host) {
				pause.Reset(probeAgain)
			}
		case <-ctx.Done():
			return
		}
	}
}

// probe asks once, and reports whether another probe is worthwhile soon: OPTIONS *, which is about no resource (RFC 9110, 9.3.7).
func (b *backend) probe(ctx context.Context, by http.RoundTripper, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	scheme := "http"
	if b.tls != nil {
		scheme = "https"
	}
	r := (&http.Request{
		Method: "OPTIONS", URL: &url.URL{Scheme: scheme, Host: b.host(), Opaque: "*"}, Host: host,
		Header: http.Header{"User-Agent": {"knot-probe"}, http.CanonicalHeaderKey(orca.FormatHeader): {"TEXT"}},
	}).WithContext(ctx)
	resp, err := by.RoundTrip(r)
	if err != nil {
		return true // it may be well the next time
	}
	resp.Body.Close()
	if value := resp.Header.Get(orca.Header); value != "" {
		b.useReport(value, false)
		return true
	}
	return resp.StatusCode == http.StatusServiceUnavailable // it refuses all, and may report when it has room
}

// zoneFaults are what is wrong with the fields about zones and the panic threshold.
func (c *Config) zoneFaults() (errs []error) {
	if c.Zones != nil && len(c.Zones) != len(c.Backends) {
		errs = append(errs, &FieldError{"Zones", fmt.Errorf("there are %d; want one for each of %d backends", len(c.Zones), len(c.Backends))})
	}
	if (c.Zone == "") != (c.Zones == nil) {
		errs = append(errs, &FieldError{"Zone", fmt.Errorf("%q; want the zone of this server and the zones of the backends, or none of both", c.Zone)})
	}
	if !(c.PanicThreshold >= 0 && c.PanicThreshold <= 1) {
		errs = append(errs, &FieldError{"PanicThreshold", fmt.Errorf("%v is not from 0 to 1", c.PanicThreshold)})
	}
	return errs
}
