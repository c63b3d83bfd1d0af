package metrics

import (
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

type someTraces struct{}

func (someTraces) Spans() (ended, sent uint64) { return 5, 4 }

func (someTraces) Exemplars() []Exemplar {
	return []Exemplar{
		{Took: 300 * time.Millisecond, At: time.Unix(1234, 0), Trace: "0af7651916cd43dd8448eb211c80319c", Span: "b7ad6b7169203331"},
		{Took: time.Minute, At: time.Unix(1235, 0), Trace: "1af7651916cd43dd8448eb211c80319c", Span: "c7ad6b7169203331"},
	}
}

// TestExemplars: buckets name traces in OpenMetrics, which is only there while requests are traced.
func TestExemplars(t *testing.T) {
	source, traces := sample(), Traces(nil)
	source.Traces = func() Traces { return traces }
	handler := Handler(source)
	get := func(accept string) (ctype, text string) {
		r, w := httptest.NewRequest("GET", "/metrics", nil), httptest.NewRecorder()
		r.Header.Set("Accept", accept)
		handler.ServeHTTP(w, r)
		return w.Header().Get("Content-Type"), w.Body.String()
	}
	const open = "application/openmetrics-text"
	ctype, text := get(open)
	testenv.True(t, strings.HasPrefix(ctype, "text/plain") && !strings.Contains(text, "knot_trace_spans"), "without traces: %s, %s", ctype, text)
	traces = someTraces{}
	ctype, text = get("text/plain")
	testenv.True(t, strings.HasPrefix(ctype, "text/plain") && !strings.Contains(text, "trace_id"), "in the old format: %s, %s", ctype, text)
	ctype, text = get(open)
	testenv.Contains(t, ctype, open)
	// The client library writes an exemplar's labels in any order.
	text = regexp.MustCompile(`{(span_id="\w+"),(trace_id="\w+")}`).ReplaceAllString(text, "{$2,$1}")
	for _, line := range []string{
		`knot_request_duration_seconds_bucket{le="1.0"} 13 # {trace_id="0af7651916cd43dd8448eb211c80319c",span_id="b7ad6b7169203331"} 0.3 1234.0`,
		`knot_request_duration_seconds_bucket{le="+Inf"} 14 # {trace_id="1af7651916cd43dd8448eb211c80319c",span_id="c7ad6b7169203331"} 60.0 1235.0`,
		`knot_trace_spans_total{what="ended"} 5.0`, `knot_trace_spans_total{what="sent"} 4.0`,
	} {
		testenv.Contains(t, text, line+"\n")
	}
}
