//go:build linux && otlp

package main

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A collector takes spans.
type collector struct {
	mu    sync.Mutex
	spans []*tracepb.Span // guarded by mu
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := gzip.NewReader(r.Body)
	if err != nil {
		http.Error(w, err.Error(), 400)
		return
	}
	var got collectorpb.ExportTraceServiceRequest
	if text, err := io.ReadAll(body); err != nil || proto.Unmarshal(text, &got) != nil {
		http.Error(w, "no spans", 400)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range got.ResourceSpans {
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// TestOTLPSpans: spans of requests and of the tries that a cache makes for them, with the id of the request; metrics name a trace where
// OpenMetrics is asked for. What has not been sent is, when sites are replaced and at the end.
func TestOTLPSpans(t *testing.T) {
	seen := make(chan string, 10)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.URL.Path + " " + r.Header.Get("traceparent")
		w.Header().Set("Cache-Control", "max-age=60")
	}))
	defer backend.Close()
	c := new(collector)
	sink := httptest.NewServer(c)
	defer sink.Close()
	file := configFile(t, `
otlp = %q
otlp-sample = 1
[[site]]
request-id = "X-Request-Id"
[[site.header]]
match = "/own"
backend-set = { traceparent = "x" }
[[site.cache]]
[[site.proxy]]
to = [%q]
`, sink.URL, backend.URL)
	p := start(t, "-config", file, "-admin", "127.0.0.1:0")
	ids := make(map[string]string) // of requests, by path
	for _, path := range []string{"/a", "/a", "/own"} {
		resp, _ := testenv.Get(t, http.DefaultClient, p.url+path)
		ids[path] = resp.Header.Get("X-Request-Id")
	}
	fetched := <-seen
	testenv.Equal(t, <-seen, "/own x", "a line of the configuration")
	r := testenv.Need(http.NewRequest("GET", httpURL.FindString(p.printed[1])+"/metrics", nil))(t)
	r.Header.Set("Accept", "application/openmetrics-text")
	resp := testenv.Need(http.DefaultClient.Do(r))(t)
	text := string(testenv.Need(io.ReadAll(resp.Body))(t))
	resp.Body.Close()
	testenv.Contains(t, text, `# {trace_id="`)
	testenv.Contains(t, text, `knot_trace_spans_total{what="ended"}`)
	p.end()
	c.mu.Lock()
	defer c.mu.Unlock()
	requests, tries := 0, 0
	for _, s := range c.spans {
		switch s.Kind {
		case tracepb.Span_SPAN_KIND_SERVER:
			requests++
			all := s.String()
			testenv.True(t, strings.Contains(all, ids["/a"]) || strings.Contains(all, ids["/own"]) || requests == 1, "no id of the request is in %s", all)
		case tracepb.Span_SPAN_KIND_CLIENT:
			tries++
			if tries == 1 {
				testenv.Equal(t, fetched, "/a 00-"+hex.EncodeToString(s.TraceId)+"-"+hex.EncodeToString(s.SpanId)+"-01", "what the backend got for the cache")
			}
		}
	}
	testenv.Equal(t, requests, 3, "spans of requests")
	testenv.Equal(t, tries, 2, "spans of tries: one request was answered by the cache")
}

// TestOTLPFaults: what is wrong with keys, with their lines.
func TestOTLPFaults(t *testing.T) {
	file := configFile(t, "root = %q\notlp = \"localhost:4318\"\n", t.TempDir())
	fails(t, exitFailed, file+":2: -otlp: want a URL like http://localhost:4318", "-config", file)
}
