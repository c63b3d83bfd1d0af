package testenv

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"testing"
)

// MustPanic calls fn and returns what it panicked with.
func MustPanic(t testing.TB, what string, fn func()) (v any) {
	t.Helper()
	defer func() {
		if v = recover(); v == nil {
			t.Errorf("no panic: %s", what)
		}
	}()
	fn()
	return nil
}

// Cancelled returns a context that has ended.
func Cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// Quiet is a log that nothing reads.
func Quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// Pass waits for l and goes on.
func Pass(l sync.Locker) {
	l.Lock()
	defer l.Unlock()
}
