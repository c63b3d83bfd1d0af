package main

import (
	"context"
	"fmt"
	"time"
)

// A clock is where the time comes from; tests have one of their own.
type clock interface {
	Now() time.Time
	// After sends the time once d is over.
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

// noAnswer is the cause with which withTimeout ends a context.
type noAnswer struct{ within time.Duration }

func (e noAnswer) Error() string {
	return fmt.Sprintf("no answer within %s; -timeout sets how long to wait", e.within)
}

// withTimeout ends the context, with a noAnswer as its cause, when d is over. The
// function that it returns must be called.
func withTimeout(ctx context.Context, c clock, d time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	over := c.After(d)
	go func() {
		select {
		case <-over:
			cancel(noAnswer{d})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// wait returns after d, or earlier with the cause of the end of ctx.
func wait(ctx context.Context, c clock, d time.Duration) error {
	select {
	case <-c.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
