package main

import (
	"context"
	"errors"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/internal/metrics"
)

// A receiver takes metrics that are sent to it.
type receiver interface {
	Send(ctx context.Context, all []metrics.Family, at time.Time) error
	Close() error
}

// push sends the metrics of all programs every interval until ctx ends. That the receiver does not take them is told once,
// and again after it has taken some.
func (a *agent) push(ctx context.Context, to receiver) {
	defer to.Close()
	failing := false
	for {
		err := a.send(ctx, to)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			a.sur.say("metrics can't be sent to %s, and are tried again every %s: %s", printable(a.set.otlp), a.set.interval, printable(explain(err)))
		case err == nil && failing:
			a.sur.say("metrics are sent to %s again", printable(a.set.otlp))
		}
		failing = err != nil
		if wait(ctx, a.sur.clock, a.set.interval) != nil {
			return
		}
	}
}

// send sends the metrics once.
func (a *agent) send(ctx context.Context, to receiver) error {
	all, err := a.metrics(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, a.sur.clock, a.set.timeout)
	defer cancel()
	err = to.Send(ctx, all, a.sur.clock.Now())
	var late noAnswer
	if err != nil && errors.As(context.Cause(ctx), &late) {
		return late
	}
	return err
}
