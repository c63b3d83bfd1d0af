package proxy

import (
	"errors"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
)

// Lines of W3C Trace Context.
const (
	parentHeader = "traceparent"
	stateHeader  = "tracestate"
)

// A trace is what an exchange knows of the trace that its request belongs to. The zero value is of a request without one.
type trace struct {
	span     ownctx.Span // of the request
	step     ownctx.Try  // of the present try
	parentAt int         // which of exchange.lines has the parent; below 0: none, a line of Config.Header has
}

// beginTrace adds the lines that name the trace. A parent of Config.Header stays as it is.
func (e *exchange) beginTrace(span ownctx.Span) {
	e.trace.span, e.trace.parentAt = span, -1
	passed := e.inner.Passed()
	lines := slices.DeleteFunc(slices.Clone(e.lines), func(h knot.Header) bool {
		return (h.Name == parentHeader || h.Name == stateHeader) && slices.Contains(passed, h)
	})
	if !hasName(lines, []byte(parentHeader)) {
		parent, state := span.Context()
		e.trace.parentAt = len(lines)
		lines = append(lines, knot.Header{Name: parentHeader, Value: parent}, knot.Header{Name: stateHeader, Value: state})
	}
	e.lines = lines
}

// queued is called when a try has waited for its backend.
func (t *trace) queued(since time.Time) {
	t.step.Queued(since, engine.LastPlace(engine.ReasonSemaphore))
}

// tryTraced is tryOnce with a span of its own.
func (e *exchange) tryTraced(b *backend) error {
	step, parent := e.trace.span.Try(b.name)
	if e.trace.parentAt >= 0 {
		e.lines[e.trace.parentAt].Value = parent
	}
	e.trace.step = step
	err := e.tryOnce(b)
	e.trace.step = nil
	status, cause := 0, ""
	var f *failure
	switch {
	case e.taken:
		status = 101
	case err == nil || e.x.ResponseBegun():
		status = e.x.Status()
	}
	if errors.As(err, &f) {
		cause = f.cause.String()
	} else if err != nil && err != errRemoved {
		cause = "client" // its body
	}
	step.End(status, cause)
	return err
}
