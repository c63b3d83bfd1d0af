package coro

import (
	"iter"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// names returns the functions on the stack of g once it waits, innermost first.
func names(t *testing.T, g uintptr) []string {
	t.Helper()
	var pcs, again [100]uintptr
	for range 10_000 {
		if n := Stack(g, pcs[:], again[:]); n > 0 {
			var all []string
			frames := runtime.CallersFrames(pcs[:n])
			for more := true; more; {
				var f runtime.Frame
				f, more = frames.Next()
				all = append(all, f.Function)
			}
			return all
		}
		<-time.After(time.Millisecond)
	}
	t.Fatal("a waiting goroutine shows no stack")
	return nil
}

//go:noinline
func below(n int, f func()) {
	if n > 0 {
		below(n-1, f)
	} else {
		f()
	}
	runtime.KeepAlive(&n)
}

func TestStackOfAWaitingGoroutine(t *testing.T) {
	if !CanStack() {
		testenv.Equal(t, Exact, false, "the layout of the Go runtime's g was not found")
		t.Skip("stacks of others are not known here")
	}
	var mu sync.Mutex
	ch := make(chan int)
	for _, x := range []struct {
		name       string
		wait, wake func()
		innermost  string
	}{
		{"receive", func() { <-ch }, func() { ch <- 1 }, "runtime.chanrecv1"},
		{"send", func() { ch <- 1 }, func() { <-ch }, "runtime.chansend1"},
		{"mutex", func() { mu.Lock(); mu.Unlock() }, func() { mu.Unlock() }, "sync.runtime_SemacquireMutex"},
		{"deep", func() { below(20, func() { <-ch }) }, func() { ch <- 1 }, "coro.below"},
	} {
		t.Run(x.name, func(t *testing.T) {
			if x.name == "mutex" {
				mu.Lock()
			}
			g, done := make(chan uintptr, 1), make(chan struct{})
			go func() { defer close(done); g <- G(); x.wait() }()
			all := names(t, <-g)
			if got := strings.Join(all, " "); !strings.Contains(got, x.innermost) || !strings.Contains(got, "TestStackOfAWaitingGoroutine") ||
				all[len(all)-1] != "runtime.goexit" {
				t.Errorf("the stack is %s; want it to show %s and this test", got, x.innermost)
			}
			x.wake()
			<-done
		})
	}
}

func TestNoStackOfAGoroutineThatComputes(t *testing.T) {
	var stop atomic.Bool
	g, done := make(chan uintptr, 1), make(chan struct{})
	go func() {
		defer close(done)
		g <- G()
		for !stop.Load() {
		}
	}()
	at := <-g
	var pcs, again [100]uintptr
	for range 1000 {
		if n := Stack(at, pcs[:], again[:]); n > 0 {
			frames, _ := runtime.CallersFrames(pcs[:n]).Next()
			if strings.HasPrefix(frames.Function, "runtime.") && n > 2 { // it may still be in the send
				continue
			}
			t.Fatalf("a goroutine that computes shows a stack, of %v", frames)
		}
		runtime.Gosched()
	}
	stop.Store(true)
	<-done
}

func TestPuller(t *testing.T) {
	if !Exact {
		t.Skip("not known without the assembly stubs")
	}
	me := G()
	testenv.MustEqual(t, Puller(me), 0, "what pulls a plain goroutine")
	var outer uintptr
	next, _ := iter.Pull(func(yield func(int) bool) {
		outer = G()
		testenv.Equal(t, Puller(outer), me, "pulled by")
		inner, end := iter.Pull(func(yield func(int) bool) {
			testenv.Equal(t, Puller(G()), outer, "pulled by")
			testenv.Equal(t, Puller(outer), me, "which is pulled by")
			yield(1)
		})
		defer end()
		inner()
		yield(1)
		if p := Puller(outer); p == me || p == 0 {
			t.Errorf("pulled by %x, want another than %x", p, me)
		}
	})
	next()
	done := make(chan struct{})
	go func() { // another goroutine pulls on
		defer close(done)
		next()
	}()
	<-done
}

func TestSimulatedCyclesAreThoseGiven(t *testing.T) {
	var now atomic.Uint64
	now.Store(42)
	SimulateCycles(&now)
	got, rate, is := Cycles(), CyclesPerSecond(), Simulated()
	SimulateCycles(nil)
	testenv.Equal(t, got, 42, "Cycles")
	testenv.Equal(t, rate, 1e9, "CyclesPerSecond")
	testenv.Equal(t, is, true, "Simulated")
	testenv.Equal(t, Simulated() || Cycles() == 42, false, "the simulation goes on after its end")
}

// A thread that is held up while it measures finds the right rate all the same.
func TestMeasureRateWhileTheMachineStalls(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var world time.Duration
		now := func() time.Duration {
			if world += 50; rnd.IntN(20) == 0 {
				world += 10 * time.Millisecond
			}
			return world
		}
		count := func() uint64 { return 3 * uint64(now()) }
		testenv.Equal(t, math.Round(measureRate(now, count)/1e7), 300, "seed %d: the rate, in units of 10 million", seed)
	}
}

// One writes without locks, another reads meanwhile, and misses nothing in the end.
func TestCounterIsReadWhileItIsWritten(t *testing.T) {
	var c Counter
	const n = 100_000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range n {
			c.Add(3)
			c.Add(-1)
		}
	}()
	for last := int64(0); last < 2*n; {
		now := c.Load()
		testenv.AtLeast(t, now, last-1, "read")
		testenv.AtMost(t, now, 2*n+2, "read")
		last = now
	}
	<-done
	testenv.Equal(t, c.Own(), 2*n, "Own")
	testenv.Equal(t, c.Load(), 2*n, "Load")
}
