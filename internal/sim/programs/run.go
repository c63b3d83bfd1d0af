package programs

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A NewRuntime makes a runtime with that many loops for a round of programs. Its
// Config.OnPanic must let panics pass. All random choices depend on seed.
type NewRuntime func(t testing.TB, loops int, seed uint64) *engine.Runtime

// stuckAfter is how long a round may take; a thousand times what it does where the machine has time for it.
const stuckAfter = 5 * time.Minute

// perRound is the number of programs that one runtime runs, some at once.
const perRound = 10

// Run runs rounds × 10 programs with each of 1, 2 and 8 loops. The flag -seed, if the
// test binary has it, replays the round with that seed; failures print theirs.
func Run(t *testing.T, rounds int, newRuntime NewRuntime) {
	for _, loops := range []int{1, 2, 8} {
		ok := t.Run(fmt.Sprintf("loops=%d", loops), func(t *testing.T) {
			if seed := replay(); seed != 0 {
				round(t, loops, seed, newRuntime)
				return
			}
			first := uint64(time.Now().UnixNano())
			for i := range uint64(rounds) {
				if !round(t, loops, first+i, newRuntime) {
					return
				}
			}
		})
		if !ok {
			return
		}
	}
}

func replay() uint64 {
	f := flag.Lookup("seed")
	if f == nil {
		return 0
	}
	seed, _ := strconv.ParseUint(f.Value.String(), 10, 64)
	return seed
}

// round runs the programs of one seed and reports whether all went well.
func round(t *testing.T, loops int, seed uint64, newRuntime NewRuntime) bool {
	before := runtime.NumGoroutine()
	rt := newRuntime(t, loops, seed)
	done := make(chan struct{})
	go func() {
		defer close(done)
		rnd := rand.New(rand.NewPCG(seed, 2))
		var running []*engine.Task
		for range perRound {
			running = append(running, rt.Go(start(t, rt, seed, rnd.Uint64())))
			if rnd.IntN(2) == 0 {
				running[0].Join()
				running = running[1:]
			}
		}
		for _, r := range running {
			if err := r.Join(); err != nil {
				t.Errorf("a program ended with %v", err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(stuckAfter):
		t.Errorf("stuck; replay with -seed=%d. Tasks:", seed)
		for _, i := range rt.Tasks() {
			t.Logf("%+v", i)
		}
		stacks := make([]byte, 1<<20)
		t.Logf("%s", stacks[:runtime.Stack(stacks, true)])
		t.FailNow()
	}
	if err := rt.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for deadline := time.Now().Add(stuckAfter); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines left, want %d", runtime.NumGoroutine(), before)
			break
		}
	}
	if t.Failed() {
		t.Errorf("replay with -seed=%d", seed)
		return false
	}
	return true
}

func start(t testing.TB, rt *engine.Runtime, round, seed uint64) func() {
	return func() {
		rnd := rand.New(rand.NewPCG(round, seed))
		w := newWorld(t, rt, round, rnd)
		for i := range 1 + rnd.IntN(8) {
			w.spawn(rnd, strconv.Itoa(i), 0)
		}
		w.run()
	}
}
