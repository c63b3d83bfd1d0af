package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// lease is how long a lock outlives a holder that has crashed. It is renewed three times in that.
	lease = 15 * time.Second
	// poll is how often a lock is tried that another has.
	poll = time.Second
)

var (
	// renew takes the lock again if it is lost, as when Redis was started anew, and no other server has it.
	renew = redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)
	release = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`)
)

// A lock is one that this Storage has.
//
//	TryLock ─→ renewed ─→ Unlock: over ─→ the last renewal has ended ─→ released
//	              └─ another has it ─→ left to it
type lock struct {
	token string
	over  chan struct{} // closed: Unlock
	ended chan struct{} // closed: it is not renewed any more
}

func (s *Storage) lockKey(name string) string { return s.prefix + "lock:" + name }

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
	l := &lock{rand.Text(), make(chan struct{}), make(chan struct{})}
	err = s.call(ctx, func(ctx context.Context) error {
		err := s.client.SetArgs(ctx, s.lockKey(name), l.token, redis.SetArgs{Mode: "NX", TTL: s.lease}).Err()
		if got = err == nil; errors.Is(err, redis.Nil) {
			err = nil
		}
		return err
	})
	if err != nil || !got {
		return false, err
	}
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
		mine := true
		err := s.call(context.Background(), func(ctx context.Context) (err error) {
			mine, err = renew.Run(ctx, s.client, []string{s.lockKey(name)}, l.token, s.lease.Milliseconds()).Bool()
			return err
		})
		if err == nil && !mine {
			s.log.Warn("knot: another server has taken a lock in Redis that this one had", "lock", name)
			return
		}
	}
}

// Unlock implements certmagic.Locker. Where Redis can't be asked, the lock ends by itself.
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
	return s.once(ctx, func(ctx context.Context) error {
		return release.Run(ctx, s.client, []string{s.lockKey(name)}, l.token).Err()
	})
}
