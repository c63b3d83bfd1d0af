//go:build !otlp

package main

import (
	"errors"
	"log/slog"
	"time"
)

// newTracer fails: the exporter of OpenTelemetry would add a tenth to the size of knot.
func newTracer(string, float64, []time.Duration, *slog.Logger) (tracer, error) {
	return nil, errors.New("this knot is built without OpenTelemetry; build it with -tags otlp")
}
