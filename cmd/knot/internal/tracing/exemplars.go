package tracing

import (
	"slices"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/metrics"
)

// exemplars are the last sampled requests, one for each bucket of the histogram.
type exemplars struct {
	limits []time.Duration
	last   []atomic.Pointer[metrics.Exemplar] // by bucket; the last is for what took longer than all limits
}

func newExemplars(limits []time.Duration) exemplars {
	return exemplars{limits, make([]atomic.Pointer[metrics.Exemplar], len(limits)+1)}
}

// note takes up a request that took so long.
func (e *exemplars) note(took time.Duration, of trace.SpanContext) {
	at, _ := slices.BinarySearch(e.limits, took)
	e.last[at].Store(&metrics.Exemplar{Took: took, At: time.Now(), Trace: of.TraceID().String(), Span: of.SpanID().String()})
}

// Exemplars returns a request of each bucket that has had one.
func (t *Tracer) Exemplars() (all []metrics.Exemplar) {
	for i := range t.exemplars.last {
		if one := t.exemplars.last[i].Load(); one != nil {
			all = append(all, *one)
		}
	}
	return all
}
