package tracing

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/knottest"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/task"
)

const (
	server = tracepb.Span_SPAN_KIND_SERVER
	client = tracepb.Span_SPAN_KIND_CLIENT
	given  = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-"
)

// traced has a handler's requests traced.
func traced(tracer *Tracer, h knot.Handler) knot.Handler {
	return func(x *knot.Ctx) error {
		tracer.Prepare(x)
		tracer.Prepare(x)
		return h(x)
	}
}

// ask sends a request with lines and returns the status.
func ask(t *testing.T, url string, lines ...string) int {
	t.Helper()
	r := testenv.Need(http.NewRequest("GET", url, nil))(t)
	for i := 0; i < len(lines); i += 2 {
		r.Header.Add(lines[i], lines[i+1])
	}
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	resp := testenv.Need((&http.Client{Transport: transport}).Do(r))(t)
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestARequest: the span of a request says what it was and what became of it, also where clients send bytes that are no text, and
// collectors know the process by the environment.
func TestARequest(t *testing.T) {
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=secret")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
	c := &collector{t: t}
	tracer, _ := c.open(1)
	url := knottest.Serve(t, &knot.Server{Timed: true, Handler: traced(tracer, func(x *knot.Ctx) error {
		if strings.HasPrefix(x.Path(), "/bad") {
			return knot.Status(500)
		}
		return x.SendString(200, "text/plain", "ok")
	})})
	testenv.Equal(t, ask(t, url+"/a%20b?secret=1", "User-Agent", "caf\xe9"), 200)
	testenv.Equal(t, ask(t, url+"/bad%ff"+strings.Repeat("x", 2*maxText)), 500)
	resp := testenv.Need((&http.Client{}).Do(testenv.Need(http.NewRequest("BREW", url, nil))(t)))(t)
	resp.Body.Close()
	got := c.named(tracer, "GET")
	testenv.MustEqual(t, len(got), 2, "spans")
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(url, "http://"))
	has(t, got[0], "http.request.method=GET", "url.scheme=http", "url.path=/a b", "server.address=127.0.0.1", "server.port="+port,
		"network.protocol.version=1.1", "client.address=127.0.0.1", "user_agent.original=caf\ufffd", "http.response.status_code=200", "http.response.body.size=2")
	testenv.Equal(t, got[0].Kind, server, "the kind")
	testenv.True(t, !strings.Contains(strings.Join(texts(got[0].Attributes), " "), "secret"), "a query is in a span")
	has(t, got[1], "http.response.status_code=500", "error.type=500", "url.path=/bad\ufffd"+strings.Repeat("x", maxText-len("/bad?")))
	testenv.Equal(t, got[1].Status.GetCode(), tracepb.Status_STATUS_CODE_ERROR, "the status")
	odd := c.named(tracer, "HTTP")
	testenv.MustEqual(t, len(odd), 1, "spans of other methods")
	has(t, odd[0], "http.request.method=_OTHER")
	testenv.Equal(t, strings.Join(c.asked, ","), "/v1/traces secret", "requests to the collector")
	testenv.Equal(t, strings.Join(c.about, " "), "deployment.environment.name=test service.name=knot", "the process")
	ended, sent := tracer.Spans()
	testenv.True(t, ended == 3 && sent == 3, "ended: %d, sent: %d", ended, sent)
	exemplar := tracer.Exemplars()
	testenv.AtLeast(t, len(exemplar), 1, "exemplars")
	testenv.True(t, len(exemplar[0].Trace) == 32 && len(exemplar[0].Span) == 16 && exemplar[0].Took > 0, "exemplar %+v", exemplar[0])
}

// TestContext: whose traces a request belongs to. A proxy that is trusted says whether it is sampled; any other client's trace is
// only linked to.
func TestContext(t *testing.T) {
	for _, one := range []struct {
		name    string
		trusted bool
		sample  float64
		lines   []string
		parent  bool // the span is part of the given trace
		links   bool // ... or linked to it
		sampled bool
		state   string // that backends get
	}{
		{"own, sampled", true, 1, nil, false, false, true, ""},
		{"own, not sampled", true, 0, nil, false, false, false, ""},
		{"a proxy's, sampled", true, 0, []string{"traceparent", given + "01", "tracestate", "a=1", "tracestate", "b=2"}, true, false, true, "a=1,b=2"},
		{"a proxy's, not sampled", true, 1, []string{"traceparent", given + "00", "tracestate", "a=1"}, true, false, false, "a=1"},
		{"a client's", false, 1, []string{"traceparent", given + "01", "tracestate", "a=1"}, false, true, true, ""},
		{"a client's, not sampled here", false, 0, []string{"traceparent", given + "01"}, false, false, false, ""},
		{"malformed", true, 1, []string{"traceparent", "junk", "tracestate", "a=1"}, false, false, true, ""},
		{"twice", true, 1, []string{"traceparent", given + "00", "traceparent", given + "00"}, false, false, true, ""},
		{"a list that is malformed", true, 0, []string{"traceparent", given + "01", "tracestate", "=;"}, true, false, true, ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			seen := make(chan http.Header, 1)
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r.Header }))
			defer backend.Close()
			c := &collector{t: t}
			tracer, _ := c.open(one.sample)
			p := testenv.Need(proxy.New(proxy.Config{Backends: []string{backend.URL}}))(t)
			defer p.Close()
			s := &knot.Server{Handler: traced(tracer, p.Handle)}
			if one.trusted {
				s.Trust = testenv.Need(knot.ParseTrust("127.0.0.1"))(t)
			}
			testenv.Equal(t, ask(t, knottest.Serve(t, s), one.lines...), 200)
			got := <-seen
			testenv.MustEqual(t, len(got["Traceparent"]), 1, "lines to the backend: %v", got)
			line := got.Get("traceparent")
			testenv.Equal(t, strings.HasPrefix(line, given[:36]), one.parent, "%s is of the given trace", line)
			testenv.Equal(t, strings.HasSuffix(line, "-01"), one.sampled, "%s is sampled", line)
			testenv.True(t, !strings.HasPrefix(line, given), "the backend gets the client's span as its parent")
			testenv.Equal(t, strings.Join(got["Tracestate"], ","), one.state, "tracestate")
			spans := c.named(tracer, "GET")
			if !one.sampled {
				testenv.Equal(t, len(spans), 0, "spans of what is not sampled")
				return
			}
			testenv.MustEqual(t, len(spans), 2, "spans")
			request, try := kind(server, spans)[0], kind(client, spans)[0]
			isChild(t, try, request)
			testenv.Equal(t, line, parent(try), "the backend's parent")
			testenv.Equal(t, len(request.Links) > 0, one.links, "it has a link")
		})
	}
}

// TestTries: each try of a proxy has a span, which says which backend and what went wrong there, and so has the wait for a
// connection, with the node where the task has waited.
func TestTries(t *testing.T) {
	release, lines := make(chan bool), make(chan string, 3)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lines <- r.Header.Get("traceparent")
		<-release
	}))
	defer backend.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	c := &collector{t: t}
	tracer, _ := c.open(1)
	p := testenv.Need(proxy.New(proxy.Config{Backends: []string{gone.URL, backend.URL}, Balance: "hash path", MaxConns: 1, MaxFails: 1000, QueueTimeout: time.Hour, RetryShare: -1}))(t)
	defer p.Close()
	url := knottest.Serve(t, &knot.Server{Handler: traced(tracer, p.Handle)})
	path := ""
	for i := 0; ; i++ { // a path that the backend that has gone is for
		path = "/" + string(rune('a'+i))
		done := make(chan int)
		go func() { done <- ask(t, url+path) }()
		<-lines
		release <- true
		<-done
		if len(kind(client, c.named(tracer, "GET"))) > i+1 {
			break
		}
	}
	c.mu.Lock()
	c.spans = nil
	c.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() { ask(t, url+path) })
	first := <-lines
	all.Go(func() { ask(t, url+path) })
	testenv.Until(t, "a request that waits", func() bool {
		return slices.ContainsFunc((*engine.Runtime)(task.Default()).Tasks(), func(i engine.TaskInfo) bool {
			return i.State == "parked" && i.Reason == engine.ReasonSemaphore
		})
	})
	release <- true
	second := <-lines
	release <- true
	all.Wait()
	tries := kind(client, c.named(tracer, "GET"))
	testenv.MustEqual(t, len(tries), 4, "tries")
	var good []*tracepb.Span
	for _, try := range tries {
		if len(texts(try.Attributes)) > 0 && strings.Contains(strings.Join(texts(try.Attributes), " "), "error.type=connect") {
			has(t, try, "knot.backend="+gone.URL[len("http://"):], "server.address=127.0.0.1", "http.request.method=GET")
			testenv.Equal(t, try.Status.GetCode(), tracepb.Status_STATUS_CODE_ERROR, "the status of a try that fails")
			continue
		}
		has(t, try, "http.request.resend_count=1", "http.response.status_code=200")
		good = append(good, try)
	}
	testenv.MustEqual(t, len(good), 2, "tries that succeed")
	testenv.Equal(t, parent(good[0])+parent(good[1]), first+second, "what the backend got")
	waits := c.named(tracer, "wait for a connection")
	testenv.MustEqual(t, len(waits), 1, "waits")
	isChild(t, waits[0], good[1])
	has(t, waits[0], "capriccio.node=semaphore proxy.(*exchange).admit")
}

// A doorman admits one request at a time. Loop-private.
type doorman struct {
	admit.Open
	inside int
}

func (d *doorman) Next(time.Duration, int, *admit.QueueState) admit.Verdict {
	if d.inside > 0 {
		return admit.Defer
	}
	d.inside++
	return admit.Admit
}

func (d *doorman) Left(time.Duration, int) { d.inside-- }

// TestWaitsInLine: the span of a request begins when it has come, and the wait to be admitted is a span, with the node.
func TestWaitsInLine(t *testing.T) {
	c := &collector{t: t}
	tracer, _ := c.open(1)
	inside, release, listening := make(chan bool, 1), task.NewChan[bool](0), make(chan string, 1)
	s := &knot.Server{Addr: "127.0.0.1:0", Listening: func(a net.Addr) { listening <- a.String() }, Handler: traced(tracer, func(x *knot.Ctx) error {
		inside <- true
		release.Recv()
		return nil
	})}
	rt := testenv.Need(engine.New(engine.Config{
		Loops: 1, Graph: recorder.New(recorder.Config{}), NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() },
		NewAdmission: func(*engine.Loop) engine.Admission { return new(doorman) },
	}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- rt.Run(ctx, s.Run) }()
	url := "http://" + <-listening
	var all sync.WaitGroup
	all.Go(func() { ask(t, url) })
	<-inside
	all.Go(func() { ask(t, url) })
	testenv.Until(t, "a request that waits", func() bool { return rt.Loop(0).Unstarted() > 0 })
	release.Send(true)
	<-inside
	release.Send(true)
	all.Wait()
	cancel()
	testenv.Check(t, <-ended)
	requests, waits := c.named(tracer, "GET"), c.named(tracer, "wait to be admitted")
	testenv.MustEqual(t, len(requests), 2, "requests")
	testenv.MustEqual(t, len(waits), 1, "waits")
	isChild(t, waits[0], requests[1])
	has(t, waits[0], "capriccio.node=request")
	testenv.Equal(t, waits[0].StartTimeUnixNano, requests[1].StartTimeUnixNano, "when the request came")
	testenv.True(t, lasted(waits[0]) > 0 && lasted(requests[1]) > lasted(waits[0]), "%v of %v", lasted(waits[0]), lasted(requests[1]))
	found := false
	for _, n := range rt.Graph().Snapshot().Nodes {
		found = found || n.Name() == entranceNode
	}
	testenv.True(t, found, "the blocking graph calls no node %q", entranceNode)
}

// TestCollectorsThatFail: a collector that refuses, is away or does not answer costs a line in the log, and one when it is back. Spans
// that it does not take are dropped.
func TestCollectorsThatFail(t *testing.T) {
	c := &collector{t: t}
	tracer, log := c.open(1)
	url := knottest.Serve(t, &knot.Server{Handler: traced(tracer, func(x *knot.Ctx) error { return x.Send(204, "", nil) })})
	refuse := func(w http.ResponseWriter, r *http.Request) { http.Error(w, "go\naway", http.StatusServiceUnavailable) }
	for _, script := range []func(http.ResponseWriter, *http.Request){refuse, refuse, nil, nil, refuse} {
		c.script = script
		testenv.Equal(t, ask(t, url), 204)
		flush(t, tracer)
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	testenv.MustEqual(t, len(lines), 3, "lines of the log: %q", lines)
	testenv.Contains(t, lines[0], "level=WARN msg=\"knot: the collector does not take spans; they are dropped until it does\" collector=http://127.0.0.1")
	testenv.Contains(t, lines[1], "takes spans again")
	ended, sent := tracer.Spans()
	testenv.True(t, ended == 5 && sent == 2, "ended: %d, sent: %d", ended, sent)

	gone := httptest.NewServer(nil)
	gone.Close()
	tracer, log = open(t, gone.URL, 1)
	testenv.Equal(t, knottest.Do(t, traced(tracer, func(x *knot.Ctx) error { return nil }), httptest.NewRequest("GET", "/", nil)).StatusCode, 200)
	flush(t, tracer)
	testenv.Contains(t, log.String(), "refused")
}

// TestACollectorThatHangs: while a collector does not answer requests are served, and a bounded number of spans waits.
func TestACollectorThatHangs(t *testing.T) {
	hold, held := make(chan bool), make(chan bool, 1)
	c := &collector{t: t, script: func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case held <- true:
		default:
		}
		<-hold
	}}
	tracer, _ := c.open(1)
	handler := traced(tracer, func(x *knot.Ctx) error { return x.Send(204, "", nil) })
	url := knottest.Serve(t, &knot.Server{Handler: handler})
	transport := new(http.Transport)
	defer transport.CloseIdleConnections()
	const requests = 3300
	for range requests {
		resp := testenv.Need(transport.RoundTrip(testenv.Need(http.NewRequest("GET", url, nil))(t)))(t)
		resp.Body.Close()
	}
	<-held
	close(hold)
	flush(t, tracer)
	ended, sent := tracer.Spans()
	testenv.Equal(t, ended, requests, "spans")
	testenv.AtMost(t, sent, 2048+512+512, "spans that a queue of 2048 and batches of 512 held")
	testenv.AtLeast(t, sent, 2048, "spans that have waited")
}

// TestFaults: URLs that are none of a collector.
func TestFaults(t *testing.T) {
	for _, url := range []string{"", "localhost:4318", "ftp://h", "http://", "http://user:secret@h", "http://%"} {
		testenv.ErrorSays(t, testenv.Err(New(Config{Collector: url, Sample: 1}, testenv.Quiet())), "want a URL like http://localhost:4318", "%q", url)
	}
}
