package coro

import (
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
