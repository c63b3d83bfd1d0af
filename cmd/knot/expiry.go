package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

const (
	// soon is how long before its end a certificate is warned of: authorities that give them for 90 days
	// renew them 30 days before.
	soon = 14 * 24 * time.Hour
	// expiryEvery is how often it is looked whether one has come that near.
	expiryEvery = time.Hour
	// expiryAgain is after how long the same is said again.
	expiryAgain = 24 * time.Hour
)

// An expiryLog tells the error log that a certificate expires soon, or has expired. Safe from anywhere.
//
//	fine ──two weeks left──▶ told ──a day later, or at its end──▶ told again
//	                         told ──another certificate───────▶ fine
type expiryLog struct {
	expires func() time.Time // when the first certificate does; fixed
	log     *slog.Logger     // fixed

	mu      sync.Mutex
	told    time.Time // when something was told last; zero: fine; guarded by mu
	expired bool      // what was told; guarded by mu
}

// look logs that a certificate expires soon, or has expired, unless it has logged that within a day. fresh: the certificates
// are new, and nothing was logged of them.
func (e *expiryLog) look(now time.Time, fresh bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := e.expires()
	left := end.Sub(now)
	if left >= soon {
		e.told = time.Time{}
		return
	}
	expired := left < 0
	if !fresh && !e.told.IsZero() && expired == e.expired && now.Sub(e.told) < expiryAgain {
		return
	}
	e.told, e.expired = now, expired
	if expired {
		e.log.Error("knot: a certificate has expired", "at", end)
	} else {
		e.log.Warn("knot: a certificate expires soon", "at", end)
	}
}

// watch looks at each tick until ctx ends.
func (e *expiryLog) watch(ctx context.Context, tick <-chan time.Time) {
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick:
			e.look(now, false)
		}
	}
}
