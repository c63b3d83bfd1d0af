package engine

import (
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A guard changes hands once in its life, so each round uses a fresh Mutex: its owner
// is in the middle of using it when others come.
func TestGuardIsRevokedInUse(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		const each = 200
		rounds := testenv.Rounds(100, 300)
		if !canBarrier() {
			rounds = 30 // they take far longer then, as the owner has to answer
		}
		for range rounds {
			var mu Mutex
			count := 0 // guarded by mu
			var done sync.WaitGroup
			work := func() {
				defer done.Done()
				for range each {
					mu.Lock()
					count++
					mu.Unlock()
				}
			}
			users := rt.Loops() + 2
			done.Add(users)
			for i := range rt.Loops() {
				GoOn(rt.Loop(i), work)
			}
			go work()
			go work()
			done.Wait()
			mu.Lock()
			testenv.MustEqual(t, count, users*each, "count")
			mu.Unlock()
		}
	})
}

// The one that revokes must not need an answer from the owner: here the owner's loop
// blocks natively on a lock that the other holds.
func TestRevokingNeedsNoAnswer(t *testing.T) {
	if !canBarrier() {
		t.Skip("membarrier(2) is not to be had, or this is the race detector: the owner has to answer")
	}
	rt := newRuntime(t, 2)
	for range 100 {
		var native sync.Mutex
		var mu Mutex
		run(t, rt, func() { // mu now belongs to some loop
			mu.Lock()
			mu.Unlock()
		})
		spread(t, rt, rt.Loops(), func(int) {
			native.Lock()
			defer native.Unlock()
			mu.Lock()
			mu.Unlock()
		})()
	}
}
