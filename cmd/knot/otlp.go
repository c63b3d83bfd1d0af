//go:build otlp

package main

import (
	"log/slog"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/tracing"
)

func newTracer(collector string, sample float64, limits []time.Duration, log *slog.Logger) (tracer, error) {
	return tracing.New(tracing.Config{Collector: collector, Sample: sample, Limits: limits}, log)
}
