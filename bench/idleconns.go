package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
)

// idleSample gives a fresh server idle connections and compares its memory, after letting it settle both times.
func (r *run) idleSample(ctx context.Context, s *server, p point, settle time.Duration) ([]sample, error) {
	// What serving takes at all is not a connection's.
	if _, err := r.load(ctx, s, 1, 1, 0, settle/4); err != nil {
		return nil, err
	}
	before, err := proc.Memory(s.child.PID())
	if err != nil {
		return nil, err
	}
	after, opened, err := r.holding(ctx, s, int(p.x), settle/2, "hold")
	if err != nil {
		return nil, err
	}
	return []sample{
		{"bytes-per-conn", "B", p.x, float64(after-before) / p.x},
		{"process-bytes", "B", p.x, float64(after)},
		{"open-and-request", "µs", p.x, float64(opened.Microseconds()) / p.x},
	}, nil
}

// holding has a worker hold connections to a server, and returns what the server's process holds, after letting it
// settle, and how long it took to open them.
func (r *run) holding(ctx context.Context, s *server, conns int, settle time.Duration, worker string) (bytes int64, opened time.Duration, err error) {
	opened, err = whileHeld(ctx, r.ownClient(worker, "-addr", s.addr, "-conns", strconv.Itoa(conns)), func() (err error) {
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		bytes, err = proc.Memory(s.child.PID())
		return err
	})
	return bytes, opened, err
}

// whileHeld runs f while a worker holds connections, and returns how long it took to open them.
func whileHeld(ctx context.Context, worker proc.Command, f func() error) (opened time.Duration, err error) {
	client, err := proc.Start(worker)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	began := time.Now()
	opening, cancel := within(ctx, sampleTimeout)
	defer cancel()
	if line, err := client.Line(opening); err != nil || line != "holding" {
		return 0, fmt.Errorf("opening connections: %q, %w", line, err)
	}
	opened = time.Since(began)
	return opened, f()
}
