package tracing

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A collector takes spans, or does what its script says.
type collector struct {
	t      *testing.T
	script func(w http.ResponseWriter, r *http.Request) // nil: it takes them

	mu    sync.Mutex
	asked []string // paths, with the header api-key; guarded by mu
	about []string // attributes of the process; guarded by mu
	spans []*tracepb.Span
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.script != nil {
		c.script(w, r)
		return
	}
	var got collectorpb.ExportTraceServiceRequest
	body := testenv.Need(gzip.NewReader(r.Body))(c.t)
	testenv.Check(c.t, proto.Unmarshal(testenv.Need(io.ReadAll(body))(c.t), &got))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, r.URL.Path+" "+r.Header.Get("api-key"))
	for _, of := range got.ResourceSpans {
		c.about = texts(of.Resource.Attributes)
		for _, scope := range of.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

// texts are attributes as name=value, in the order of names.
func texts(all []*commonpb.KeyValue) (out []string) {
	for _, a := range all {
		text := a.Value.GetStringValue()
		if _, isInt := a.Value.Value.(*commonpb.AnyValue_IntValue); isInt {
			text = fmt.Sprint(a.Value.GetIntValue())
		}
		out = append(out, a.Key+"="+text)
	}
	slices.Sort(out)
	return out
}

// open returns a Tracer that sends to c, which both end with the test.
func (c *collector) open(sample float64) (*Tracer, *testenv.Buffer) {
	server := httptest.NewServer(c)
	c.t.Cleanup(server.Close)
	return open(c.t, server.URL, sample)
}

func open(t *testing.T, url string, sample float64) (*Tracer, *testenv.Buffer) {
	log := new(testenv.Buffer)
	tracer := testenv.Need(New(Config{Collector: url, Sample: sample, Limits: []time.Duration{time.Millisecond, time.Second}}, slog.New(slog.NewTextHandler(log, nil))))(t)
	t.Cleanup(tracer.Close)
	return tracer, log
}

// flush sends what there is.
func flush(t *testing.T, tracer *Tracer) {
	t.Helper()
	testenv.Check(t, tracer.provider.ForceFlush(t.Context()))
}

// named returns the spans with this name that the collector has got, the first to end first.
func (c *collector) named(tracer *Tracer, name string) (all []*tracepb.Span) {
	flush(c.t, tracer)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

// kind returns those of a kind.
func kind(k tracepb.Span_SpanKind, all []*tracepb.Span) (some []*tracepb.Span) {
	for _, s := range all {
		if s.Kind == k {
			some = append(some, s)
		}
	}
	return some
}

// parent is the traceparent that names s.
func parent(s *tracepb.Span) string {
	return "00-" + hex.EncodeToString(s.TraceId) + "-" + hex.EncodeToString(s.SpanId) + "-01"
}

func isChild(t *testing.T, child, of *tracepb.Span) {
	t.Helper()
	testenv.Equal(t, hex.EncodeToString(child.ParentSpanId), hex.EncodeToString(of.SpanId), "the parent of %s", child.Name)
	testenv.Equal(t, hex.EncodeToString(child.TraceId), hex.EncodeToString(of.TraceId), "the trace of %s", child.Name)
}

func lasted(s *tracepb.Span) time.Duration {
	return time.Duration(s.EndTimeUnixNano - s.StartTimeUnixNano)
}

// has checks some attributes.
func has(t *testing.T, s *tracepb.Span, want ...string) {
	t.Helper()
	all := texts(s.Attributes)
	for _, one := range want {
		testenv.True(t, slices.Contains(all, one), "%s has no %s: %s", s.Name, one, strings.Join(all, " "))
	}
}
