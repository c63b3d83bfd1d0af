package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestExpiryIsTold while knot runs, once a day, and at once when a certificate is over.
func TestExpiryIsTold(t *testing.T) {
	var log testenv.Buffer
	var mu sync.Mutex
	end := time.Date(2030, 4, 1, 12, 0, 0, 0, time.UTC) // guarded by mu
	e := &expiryLog{log: slog.New(slog.NewTextHandler(&log, nil)), expires: func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return end
	}}
	first, day := end, 24*time.Hour
	e.look(first.Add(-20*day), true) // at the start
	ctx, stop := context.WithCancel(t.Context())
	ticks := make(chan time.Time)
	var watch sync.WaitGroup
	watch.Go(func() { e.watch(ctx, ticks) })
	for at := first.Add(-20 * day); at.Before(first.Add(2 * day)); at = at.Add(time.Hour) {
		ticks <- at
	}
	mu.Lock()
	end = first.Add(80 * day)
	mu.Unlock()
	ticks <- first.Add(2 * day)
	stop()
	watch.Wait()
	got := log.String()
	if warned, expired := strings.Count(got, "expires soon"), strings.Count(got, "has expired"); warned != 14 || expired != 2 {
		t.Errorf("warned %d times, and %d times that it was too late: %s", warned, expired, got)
	}
	e.look(first.Add(70*day), true)
	e.look(first.Add(70*day), true) // others, as bad
	if more := strings.Count(log.String(), "expires soon") - strings.Count(got, "expires soon"); more != 2 {
		t.Errorf("%d warnings of new certificates", more)
	}
}
