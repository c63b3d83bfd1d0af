package feed

import (
	"fmt"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// Producers and consumers that share a bounded buffer take turns: each fills or empties the buffer in a step. Not
// that all consumers that were signalled run one after another, of which the first empties the buffer
// and the others have woken for nothing: that is two steps for each message.
func TestProducersAndConsumersTakeTurns(t *testing.T) {
	for i := range 16 {
		policy := []string{Resource, Cohort}[i&1]
		pairs := []int{16, 200}[i>>1&1]
		apart, cancellable := i&4 != 0, i&8 != 0
		t.Run(fmt.Sprintf("%s,pairs=%d,apart=%v,context=%v", policy, pairs, apart, cancellable), func(t *testing.T) {
			rt, _ := fed(t, 1, 1, Config{Policy: policy})
			b := newBuffer(t, rt.Loop(0), cancellable)
			all := rt.Go(func() {
				var wg task.WaitGroup
				for range pairs {
					wg.Go(b.produce)
					if !apart {
						wg.Go(b.consume)
					}
				}
				for range pairs {
					if apart {
						wg.Go(b.consume)
					}
				}
				wg.Wait()
			})
			testenv.Must(t, all.Join())
			if got := float64(b.steps) / (bufferMessages * 3 / 4); got > 0.5 {
				t.Errorf("%.2f steps for a message, want less than half a step", got)
			}
		})
	}
}

const (
	bufferSlots    = 32
	bufferMessages = 12_000
)

// A buffer passes on that many messages, and counts the steps of the loop from the first quarter of them on.
type buffer struct {
	l                 *engine.Loop
	wait              func(*task.Cond)
	mu                task.Mutex
	notEmpty, notFull *task.Cond
	filled, done      int    // guarded by mu
	steps             uint64 // guarded by mu
}

func newBuffer(t *testing.T, l *engine.Loop, cancellable bool) *buffer {
	b := &buffer{l: l, wait: (*task.Cond).Wait}
	if cancellable {
		b.wait = func(c *task.Cond) {
			testenv.Check(t, c.WaitContext(t.Context()))
		}
	}
	b.notEmpty, b.notFull = task.NewCond(&b.mu), task.NewCond(&b.mu)
	return b
}

func (b *buffer) produce() {
	b.mu.Lock()
	for b.done < bufferMessages {
		for b.filled == bufferSlots && b.done < bufferMessages {
			b.wait(b.notFull)
		}
		b.filled++
		b.notEmpty.Signal()
		b.mu.Unlock()
		b.mu.Lock()
	}
	b.mu.Unlock()
	b.notEmpty.Broadcast()
}

func (b *buffer) consume() {
	b.mu.Lock()
	for b.done < bufferMessages {
		for b.filled == 0 && b.done < bufferMessages {
			b.wait(b.notEmpty)
		}
		b.filled--
		if b.done++; b.done == bufferMessages/4 || b.done == bufferMessages {
			b.steps = b.l.Steps() - b.steps
		}
		b.notFull.Signal()
		b.mu.Unlock()
		b.mu.Lock()
	}
	b.mu.Unlock()
	b.notFull.Broadcast()
}
