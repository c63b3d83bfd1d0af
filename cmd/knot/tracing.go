package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/metrics"
	"github.com/capriccio-go/capriccio/knot"
)

// A tracer makes spans of requests and sends them to a collector.
type tracer interface {
	metrics.Traces
	Prepare(x *knot.Ctx)
	Close()
}

// tracingSettings are what flags say of traces.
type tracingSettings struct {
	collector string // URL; "": nothing is traced
	sample    float64
}

func (t *tracingSettings) flags(flags *flag.FlagSet) {
	flags.StringVar(&t.collector, "otlp", "", "`URL` of a collector of OpenTelemetry, such as http://localhost:4318, that gets spans of requests by OTLP over HTTP; off by default, and only in a knot built with -tags otlp")
	flags.Float64Var(&t.sample, "otlp-sample", 1, "`part` of the traces beginning at this knot that is sent, from 0 to 1; a trace that a proxy of -trust has begun is sent if the proxy says so")
}

func (t *tracingSettings) check() error {
	var f faults
	f.addIf(!(t.sample >= 0 && t.sample <= 1), "-otlp-sample %v; want a number from 0 to 1", t.sample)
	f.addIf(t.sample != 1 && t.collector == "", "-otlp-sample needs -otlp, the URL of a collector")
	return errors.Join(f...)
}

// open makes what the settings ask for; nil: nothing.
func (t *tracingSettings) open(log *slog.Logger) (tracer, error) {
	if t.collector == "" {
		return nil, nil
	}
	of, err := newTracer(t.collector, t.sample, new(knot.Server).Stats().Durations.Limits, log)
	if err != nil {
		return nil, fmt.Errorf("-otlp: %w", err)
	}
	return of, nil
}

// traces are of the requests that are traced at the moment; nil: none are.
func (r *running) traces() metrics.Traces {
	if now := r.now.Load(); now != nil && now.tracer != nil {
		return now.tracer
	}
	return nil
}
