package engine

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestOffloadLetsTheLoopGoOn(t *testing.T) {
	rt := newRuntime(t, 1)
	release := make(chan struct{})
	blocked := rt.Go(func() {
		l := CurrentLoop()
		Offload(func() {
			if Current() != nil || CurrentLoop() != nil {
				t.Error("the offloaded function has a task")
			}
			<-release
		})
		testenv.Equal(t, CurrentLoop(), l, "came back elsewhere")
	})
	run(t, rt, func() { close(release) }) // would never run if the loop were blocked
	testenv.Check(t, blocked.Join())
}

func TestOffloadOnAPlainGoroutineJustCalls(t *testing.T) {
	var me, in int
	stack := func() int { return strings.Count(string(stackOf()), "TestOffloadOnAPlain") }
	me = stack()
	Offload(func() { in = stack() })
	if me == 0 || in == 0 {
		t.Error("ran on another goroutine")
	}
}

func stackOf() []byte {
	buf := make([]byte, 1<<14)
	return buf[:runtime.Stack(buf, false)]
}

func TestOffloadLimit(t *testing.T) {
	rt := newRuntime(t, 2, func(c *Config) { c.OffloadLimit = 3 })
	var now, most, ran atomic.Int32
	release := make(chan struct{})
	var wg sync.WaitGroup
	wg.Add(20)
	for range 20 {
		rt.Go(func() {
			defer wg.Done()
			Offload(func() {
				if n := now.Add(1); n > most.Load() {
					most.Store(n)
				}
				<-release
				now.Add(-1)
				ran.Add(1)
			})
		})
	}
	waitParked(t, rt, 20, ReasonOffload)
	waitFor(t, "three run", func() bool { return now.Load() == 3 })
	close(release)
	wg.Wait()
	if most.Load() > 3 || ran.Load() != 20 {
		t.Errorf("%d at a time, %d in all; want 3, 20", most.Load(), ran.Load())
	}
}

func TestOffloadPanicComesBack(t *testing.T) {
	var seen atomic.Pointer[PanicError]
	rt := newRuntime(t, 1, func(c *Config) { c.OffloadLimit = 1; c.OnPanic = func(p *PanicError) { seen.Store(p) } })
	oops := errors.New("oops")
	run(t, rt, func() {
		v := mustPanic(t, "in the offloaded function", func() { Offload(func() { panic(oops) }) })
		if p, ok := v.(*PanicError); !ok || !errors.Is(p, oops) || !strings.Contains(string(p.Stack), "TestOffloadPanic") {
			t.Errorf("panicked with %v", v)
		}
		v = mustPanic(t, "Goexit in the offloaded function", func() { Offload(runtime.Goexit) })
		if p, ok := v.(*PanicError); !ok || !errors.Is(p, ErrGoexit) {
			t.Errorf("panicked with %v", v)
		}
		ok := false
		Offload(func() { ok = true }) // the one place of the limit is free again
		if !ok {
			t.Error("did not run")
		}
	})
	err := rt.Go(func() { Offload(func() { panic(oops) }) }).Join()
	if !errors.Is(err, oops) || seen.Load() == nil {
		t.Errorf("Join returned %v", err)
	}
}

func TestOffloadIsNotEndedByCancellation(t *testing.T) {
	newRuntime(t, 1)
	done := false
	k := GoWith(Options{Context: cancelled()}, func() {
		Offload(func() { done = true })
		if !done {
			t.Error("came back early")
		}
	})
	testenv.Check(t, k.Join())
}

// A fieldContext can't be compared, as contexts of programs need not be.
type fieldContext struct {
	context.Context
	_ map[string]string
}

func TestOffloadUnderAContextThatCannotBeCompared(t *testing.T) {
	rt := newRuntime(t, 1, panicsPass)
	run(t, rt, func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		err := OffloadContext(fieldContext{Context: ctx}, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		testenv.Equal(t, err, context.Canceled, "OffloadContext")
	})
}
