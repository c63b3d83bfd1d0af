package tracing

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// A sender sends batches of spans. That the collector does not take them is logged once, and that it does again.
type sender struct {
	sdktrace.SpanExporter
	log  *slog.Logger
	to   string
	sent atomic.Uint64

	ended   endings
	failing bool // of the goroutine that sends: the SDK has one
}

// ExportSpans is part of sdktrace.SpanExporter.
func (s *sender) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := s.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err == nil:
		s.sent.Add(uint64(len(spans)))
		if s.failing {
			s.log.Info("knot: the collector takes spans again", "collector", s.to)
		}
	case !s.failing:
		s.log.Warn("knot: the collector does not take spans; they are dropped until it does", "collector", s.to, "error", err)
	}
	s.failing = err != nil
	return nil
}

// endings counts the sampled spans that have ended. It is a span processor that does nothing else.
type endings struct{ n atomic.Uint64 }

func (e *endings) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (e *endings) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() {
		e.n.Add(1)
	}
}

func (e *endings) Shutdown(context.Context) error   { return nil }
func (e *endings) ForceFlush(context.Context) error { return nil }
