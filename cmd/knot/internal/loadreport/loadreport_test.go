package loadreport

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/site"
	"github.com/capriccio-go/capriccio/internal/orca"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
)

// A scene is a server whose figures a test sets.
type scene struct {
	now, cpu atomic.Int64 // nanoseconds
	stats    knot.Stats
	use      []orca.Value
	queued   int
}

func (s *scene) reporter(t *testing.T) *Reporter {
	return NewReporter(t.Context(), Source{
		Stats: func() knot.Stats { return s.stats }, Resources: func() []orca.Value { return s.use }, Queued: func() int { return s.queued },
		CPU: func() time.Duration { return time.Duration(s.cpu.Load()) }, Procs: func() int { return 2 },
		Now: func() time.Duration { return time.Duration(s.now.Load()) },
	})
}

// TestFigures: after some seconds under the same load the report says that load; the application's utilisation is that of the
// scarcest resource.
func TestFigures(t *testing.T) {
	s := &scene{use: []orca.Value{{Name: "heap", Value: 0.3}, {Name: memory, Value: 0.2}, {Name: readyDelay, Value: 1}}, queued: 3}
	r := s.reporter(t)
	for range 100 { // 10 s: 740 requests a second, 10 of them fail, on one of two processors
		r.report()
		s.now.Add(int64(sampleEvery))
		s.cpu.Add(int64(sampleEvery))
		s.stats.Responses[2] += 73
		s.stats.Responses[5]++
	}
	of := r.report()
	near := func(got, want float64, what string) {
		t.Helper()
		testenv.True(t, got > 0.99*want && got < 1.01*want, "%s is %v; want %v", what, got, want)
	}
	near(of.RPS, 740, "rps")
	near(of.EPS, 10, "eps")
	near(of.CPU, 0.5, "cpu")
	near(of.Application, 0.5, "application")
	near(of.Memory, 0.2, "memory")
	near(of.Cost[0].Value, 0.1/74, "seconds of the processor for a request")
	testenv.Equal(t, len(of.Utilisation), 2, "resources")
	waiting, _ := orca.Find(of.Named, orca.InFlight)
	testenv.Equal(t, waiting, 3, "requests in flight")
	s.use[0].Value = 0.97
	s.now.Add(int64(sampleEvery))
	near(r.report().Application, 0.97, "application once the heap is scarce")
}

// TestLatencyByLoad: a latency is that of requests beside as many others; what is old gives way.
func TestLatencyByLoad(t *testing.T) {
	var l latencies
	testenv.Equal(t, l.at(0), 0, "of an idle server")
	for range 200 {
		l.add(1, time.Millisecond, time.Second)
		l.add(40, 20*time.Millisecond, time.Second)
	}
	for n, want := range map[int64]time.Duration{0: time.Millisecond, 5: time.Millisecond, 31: 20 * time.Millisecond, 1 << 40: 20 * time.Millisecond} {
		testenv.Equal(t, l.at(n), want, "beside %d others", n)
	}
	l.add(1, 4*time.Millisecond, time.Second)
	testenv.Equal(t, l.at(0), 1150*time.Microsecond, "after one that took longer")
	l.add(1, 4*time.Millisecond, time.Second+latencyKeep+1)
	testenv.Equal(t, l.at(0), 4*time.Millisecond, "after a pause")
}

// TestHeaders: who gets a report, in which form; a backend's is not passed on, and a probe gets nothing else.
func TestHeaders(t *testing.T) {
	ask := func(mode, method, path, form string) *http.Response {
		s, err := New(mode)
		testenv.MustEqual(t, err, nil, "mode %s", mode)
		s.Begin((&scene{queued: 2}).reporter(t))
		request := httptest.NewRequest(method, "http://example.org"+path, nil)
		if path == "*" {
			request.URL.Opaque = "*"
		}
		if form != "" {
			request.Header.Set(orca.FormatHeader, form)
		}
		return knottest.Do(t, func(x *knot.Ctx) error {
			s.Prepare(x)
			s.Prepare(x)
			if answered, err := s.Handle(x); answered {
				return err
			}
			return s.Around(x, func(x *knot.Ctx) error {
				x.AddHeader(orca.Header, "TEXT eps=7")
				return x.SendError(404)
			})
		}, request)
	}
	const text = "TEXT named_metrics.in_flight=3,named_metrics.latency_seconds=0"
	for _, c := range []struct{ mode, form, want string }{
		{"always", "", text}, {"on-request", "TEXT", text}, {"on-request", "text", text}, {"on-request", "", "TEXT eps=7"},
		{"always", "JSON", `JSON {"named_metrics":{"in_flight":3,"latency_seconds":0}}`}, {"always", "XML", text}, {"always", "BIN", ""},
	} {
		got := ask(c.mode, "GET", "/", c.form)
		testenv.Equal(t, got.Header.Get(orca.Header), c.want, "%s, %s", c.mode, c.form)
		if c.form == "BIN" {
			r, err := orca.Parse(got.Header.Get(orca.BinaryHeader), true)
			n, _ := orca.Find(r.Named, orca.InFlight)
			testenv.Equal(t, n, 3, "in the message: %v", err)
		}
	}
	probe := ask("on-request", "OPTIONS", "*", "TEXT")
	testenv.Equal(t, probe.StatusCode, 204, "status of a probe")
	testenv.Equal(t, probe.Header.Get(orca.Header), "TEXT named_metrics.in_flight=2,named_metrics.latency_seconds=0", "report of a probe")
	testenv.Equal(t, ask("always", "POST", streamPath, "").StatusCode, 415, "status of the stream over HTTP/1.1")
	_, err := New("sometimes")
	testenv.True(t, err != nil, "an unknown mode")
	off, err := New("off")
	testenv.True(t, off == nil && err == nil, "off")
	before := &Site{always: true} // before Begin
	knottest.Do(t, func(x *knot.Ctx) error {
		before.Prepare(x)
		return before.Around(x, func(x *knot.Ctx) error { return x.Send(204, "", nil) })
	}, httptest.NewRequest("GET", "/", nil))
}

// TestProbesAreNoRequests: probes and streams of reports count neither as requests in flight nor in how long requests take.
func TestProbesAreNoRequests(t *testing.T) {
	of := &scene{}
	r := of.reporter(t)
	s := testenv.Need(New("on-request"))(t)
	s.Begin(r)
	web := site.Site{Prepare: []func(*knot.Ctx){s.Prepare}, Steps: []site.Step{s.Handle, func(x *knot.Ctx) (bool, error) {
		of.now.Add(int64(10 * time.Millisecond))
		return true, x.Send(204, "", nil)
	}}, Around: s.Around}
	ask := func(method, path string) *http.Response {
		request := httptest.NewRequest(method, "http://example.org"+path, nil)
		if path == "*" {
			request.URL.Opaque = "*"
		}
		request.Header.Set(orca.FormatHeader, "TEXT")
		return knottest.Do(t, web.Handle, request)
	}
	ask("GET", "/")
	for range 100 {
		probe := ask("OPTIONS", "*")
		testenv.Equal(t, probe.Header.Get(orca.Header), "TEXT named_metrics.in_flight=0,named_metrics.latency_seconds=0.01", "report of a probe")
		ask("POST", streamPath)
	}
	testenv.Equal(t, r.took.at(0), 10*time.Millisecond, "time that a request takes")
}
