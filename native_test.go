package capriccio_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// With all defaults, the scheduler and the graph among them, tasks wait natively for each other,
// and lock what they have in common.
func TestNativeWaitsWithAllDefaults(t *testing.T) {
	for _, sched := range []string{"fifo", "cohort", "resource"} {
		t.Run(sched, func(t *testing.T) {
			t.Setenv("CAPRICCIO_SCHED", sched)
			err := capriccio.Run(context.Background(), func(context.Context) error {
				rt := engine.CurrentLoop().Runtime()
				if !rt.Detaches() {
					return errStays
				}
				var mu sync.Mutex
				var ours task.Mutex
				count := 0
				pass := make(chan int)
				var all task.WaitGroup
				for i := range 60 {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					all.Go(func() {
						for range 20 {
							switch rng.IntN(4) {
							case 0:
								mu.Lock()
								task.Sleep(100 * time.Microsecond)
								mu.Unlock()
							case 1:
								ours.Lock()
								at := count
								time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
								count = at + 1
								ours.Unlock()
							case 2:
								task.Go(func() { pass <- 1 })
								<-pass
							case 3:
								task.Yield()
							}
						}
					})
				}
				all.Wait()
				if rt.Detached() == 0 {
					t.Error("no task was detached")
				}
				return nil
			})
			check(t, err)
		})
	}
}

// errStays is what a test returns where no task is detached.
var errStays = errors.New("nothing is detached here, see Runtime.Detaches")

func check(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errStays) {
		t.Skip(err)
	} else if err != nil {
		t.Error(err)
	}
}

// While one handler of a hundred waits natively, the others do not wait for it: it waits for all of them.
func TestOthersDoNotWaitForNativeWaits(t *testing.T) {
	err := capriccio.Run(context.Background(), func(context.Context) error {
		if !engine.CurrentLoop().Runtime().Detaches() {
			return errStays
		}
		var native, others task.WaitGroup
		end := make(chan bool)
		for i := range 2000 {
			if i%100 == 0 {
				native.Go(func() { <-end })
				continue
			}
			others.Go(func() { task.Sleep(time.Duration(i%200) * time.Millisecond / 2) })
		}
		others.Wait() // the test's time limit ends this
		close(end)
		native.Wait()
		return nil
	})
	check(t, err)
}
