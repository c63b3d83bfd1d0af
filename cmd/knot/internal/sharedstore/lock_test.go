package sharedstore

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestLock: one of two servers has it at a time, and one of two goroutines of a server.
func TestLock(t *testing.T) { each(t, testLock) }

func testLock(t *testing.T, r *rig) {
	r.start(t)
	nodes := []*node{newNode(t, r), newNode(t, r)}
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
	testenv.Equal(t, r.isHeld(t, nodes[0], "l"), false, "the lock is left")
	testenv.ErrorSays(t, nodes[0].Unlock(t.Context(), "l"), "lock l is not held")
}

// TestLockOfHolder: the lock is renewed, taken again by its holder only where no other server has it, and not released for another.
func TestLockOfHolder(t *testing.T) { each(t, testLockOfHolder) }

func testLockOfHolder(t *testing.T, r *rig) {
	r.start(t)
	a, b, ctx := newNode(t, r), newNode(t, r), t.Context()
	testenv.Must(t, a.Lock(ctx, "l"))
	r.lose(t, a, "l")
	a.ticks[lease/3] <- time.Time{}
	testenv.Until(t, "the lock is taken again", func() bool { return r.isHeld(t, a, "l") })
	got, err := b.TryLock(ctx, "l")
	testenv.Must(t, err)
	testenv.Equal(t, got, false, "the lock was free for another")

	r.lose(t, a, "l")                                                                               // a was away for too long
	testenv.Until(t, "b has the lock", func() bool { return testenv.Need(b.TryLock(ctx, "l"))(t) }) // Consul delays it by a millisecond
	a.ticks[lease/3] <- time.Time{}
	testenv.Until(t, "the log has it", func() bool { return strings.Contains(a.log.String(), "another server has taken a lock") })
	testenv.Must(t, a.Unlock(ctx, "l"))
	testenv.Equal(t, r.isHeld(t, b, "l"), true, "the other's lock is there")
	b.Close()
	testenv.Equal(t, r.isHeld(t, a, "l"), false, "the lock is there after Close")
	testenv.Must(t, b.Unlock(ctx, "l"), "after Close")
}

// TestDeadHolder: its lock ends by itself. Who waits can give up.
func TestDeadHolder(t *testing.T) { each(t, testDeadHolder) }

func testDeadHolder(t *testing.T, r *rig) {
	r.start(t)
	a, b := newNode(t, r), newNode(t, r)
	testenv.Must(t, a.Lock(t.Context(), "l")) // and nothing renews it: a gets no tick
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
			r.expire(t, b, "l")
		}
	}
}
