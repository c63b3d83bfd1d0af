package sharedstore

import (
	"context"
	"fmt"
	"time"
)

const (
	// lease is how long a lock outlives a holder that has crashed. It is renewed three times in that.
	lease = 15 * time.Second
	// poll is how often a lock is tried that another has.
	poll = time.Second
)

// A lock is one that this Storage has.
//
//	TryLock ─→ renewed ─→ Unlock: over ─→ the last renewal has ended ─→ released
//	              └─ another has it ─→ left to it
type lock struct {
	token string        // of goroutine keep until ended is closed
	over  chan struct{} // closed: Unlock
	ended chan struct{} // closed: it is not renewed any more
}

// Lock implements certmagic.Locker.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		if got, err := s.TryLock(ctx, name); got || err != nil {
			return err
		}
		select {
		case <-s.after(poll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (s *Storage) TryLock(ctx context.Context, name string) (got bool, err error) {
	s.mu.Lock()
	mine := s.held[name] != nil
	s.mu.Unlock()
	if mine {
		return false, ctx.Err()
	}
	var token string
	err = s.call(ctx, patience, func(ctx context.Context) (err error) {
		token, err = s.store.acquire(ctx, name, s.lease)
		return err
	})
	if err != nil || token == "" {
		return false, err
	}
	l := &lock{token, make(chan struct{}), make(chan struct{})}
	s.mu.Lock()
	s.held[name] = l
	s.mu.Unlock()
	go s.keep(name, l)
	return true, nil
}

// keep renews a lock until Unlock.
func (s *Storage) keep(name string, l *lock) {
	defer close(l.ended)
	for {
		select {
		case <-s.after(s.lease / 3):
		case <-l.over:
			return
		}
		next := l.token
		err := s.call(context.Background(), patience, func(ctx context.Context) (err error) {
			next, err = s.store.renew(ctx, name, l.token, s.lease)
			return err
		})
		if err == nil && next == "" {
			s.log.Warn("knot: another server has taken a lock in "+s.kind+" that this one had", "lock", name)
			return
		}
		if err == nil {
			l.token = next
		}
	}
}

// Unlock implements certmagic.Locker. Where the store can't be asked, the lock ends by itself.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l, closed := s.held[name], s.closed
	delete(s.held, name)
	s.mu.Unlock()
	switch {
	case l == nil && closed: // by Close
		return nil
	case l == nil:
		return fmt.Errorf("lock %s is not held", name)
	}
	close(l.over)
	<-l.ended // a renewal behind the release would take it again
	return s.once(ctx, patience, func(ctx context.Context) error { return s.store.release(ctx, name, l.token) })
}
