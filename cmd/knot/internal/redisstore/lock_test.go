package redisstore

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestLock: one of two servers has it at a time, and one of two goroutines of a server.
func TestLock(t *testing.T) {
	socket, url := socketAndURL(t)
	testenv.Redis(t, socket)
	nodes := []*node{newNode(t, url), newNode(t, url)}
	var inside, done atomic.Int32
	over := make(chan error)
	for i := range 8 {
		n := nodes[i%2]
		go func() {
			for range 5 {
				if err := n.Lock(t.Context(), "l"); err != nil {
					over <- err
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two have the lock")
				}
				inside.Add(-1)
				if err := n.Unlock(t.Context(), "l"); err != nil {
					over <- err
					return
				}
				done.Add(1)
			}
			over <- nil
		}()
	}
	for left := 8; left > 0; {
		select {
		case err := <-over:
			testenv.Must(t, err)
			left--
		case nodes[0].ticks[poll] <- time.Time{}:
		case nodes[1].ticks[poll] <- time.Time{}:
		}
	}
	testenv.Equal(t, done.Load(), 40, "times that the lock was had")
	testenv.Equal(t, testenv.Need(nodes[0].client.Exists(t.Context(), nodes[0].lockKey("l")).Result())(t), 0, "locks that are left")
	testenv.ErrorSays(t, nodes[0].Unlock(t.Context(), "l"), "lock l is not held")
}

// TestLockOfHolder: the lock is renewed, taken again by its holder only where no other server has it, and not released for another.
func TestLockOfHolder(t *testing.T) {
	socket, url := socketAndURL(t)
	testenv.Redis(t, socket)
	a, b, ctx := newNode(t, url), newNode(t, url), t.Context()
	testenv.Must(t, a.Lock(ctx, "l"))
	key := a.lockKey("l")
	lasts := func() time.Duration { return testenv.Need(a.client.PTTL(ctx, key).Result())(t) }
	testenv.True(t, lasts() > lease/2 && lasts() <= lease, "the lock of a holder that dies lasts for %v; want %v", lasts(), lease)
	testenv.Must(t, a.client.Expire(ctx, key, 5*time.Second).Err())
	a.ticks[lease/3] <- time.Time{}
	testenv.Until(t, "the lock is renewed", func() bool { return lasts() > lease/2 })

	testenv.Must(t, a.client.Del(ctx, key).Err()) // Redis was started anew
	a.ticks[lease/3] <- time.Time{}
	testenv.Until(t, "the lock is taken again", func() bool { return lasts() > lease/2 })
	got, err := b.TryLock(ctx, "l")
	testenv.Must(t, err)
	testenv.Equal(t, got, false, "the lock was free for another")

	testenv.Must(t, a.client.Del(ctx, key).Err()) // a was away for too long
	testenv.Must(t, b.Lock(ctx, "l"))
	a.ticks[lease/3] <- time.Time{}
	testenv.Until(t, "the log has it", func() bool { return strings.Contains(a.log.String(), "another server has taken a lock") })
	testenv.Must(t, a.Unlock(ctx, "l"))
	testenv.Equal(t, lasts() > 0, true, "the other's lock is there")
	b.Close()
	testenv.Equal(t, testenv.Need(a.client.Exists(ctx, key).Result())(t), 0, "locks after Close")
	testenv.Must(t, b.Unlock(ctx, "l"), "after Close")
}

// TestDeadHolder: its lock ends by itself. Who waits can give up.
func TestDeadHolder(t *testing.T) {
	socket, url := socketAndURL(t)
	testenv.Redis(t, socket)
	a, b := newNode(t, url), newNode(t, url)
	a.lease = 300 * time.Millisecond // and nothing renews it: its channel of ticks is that of another time
	testenv.Must(t, a.Lock(t.Context(), "l"))
	ctx, cancel := context.WithCancel(t.Context())
	gaveUp := make(chan error)
	go func() { gaveUp <- b.Lock(ctx, "l") }()
	cancel()
	testenv.ErrorIs(t, <-gaveUp, context.Canceled, "giving up")
	testenv.ErrorIs(t, b.Lock(testenv.Cancelled(), "l"), context.Canceled, "a context that has ended")
	locked := make(chan error)
	go func() { locked <- b.Lock(t.Context(), "l") }()
	for {
		select {
		case err := <-locked:
			testenv.Must(t, err)
			return
		case b.ticks[poll] <- time.Time{}:
		}
	}
}
