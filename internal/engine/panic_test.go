package engine

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The test binary, run again with this variable set, crashes in the way it names.
const crashVariable = "TASK_TEST_CRASH"

func TestMain(m *testing.M) {
	processDelays = func() delays { return nil } // the tests share their machine
	if how := os.Getenv(crashVariable); how != "" {
		crash(how)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func crash(how string) {
	rt, err := New(Config{Loops: 2, NewPoller: newChanPoller, OnPanic: map[string]func(*PanicError){
		"handler": func(*PanicError) { panic("from the handler") },
	}[how]})
	if err != nil {
		panic(err)
	}
	if how == "barrier" {
		barrier() // panics where the process has not registered for it
		return
	}
	rt.Run(context.Background(), func(context.Context) error {
		return goWith(Options{Name: "doomed"}, func() {
			if how == "offload" {
				Offload(func() { innermost() })
			}
			innermost()
		}).Join()
	})
}

//go:noinline
func innermost() { panic(errors.New("boom")) }

// Registering for membarrier takes milliseconds, for which the first use of a lock by two loops would hold one.
func TestAProcessIsRegisteredForBarriersWithItsFirstRuntime(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashVariable+"=barrier")
	out, err := cmd.CombinedOutput()
	if err != nil && canBarrier() {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPanicWithoutHandlerEndsTheProcess(t *testing.T) {
	for how, want := range map[string][]string{
		"plain":   {"panic: boom", "doomed #", "innermost", "goroutine 1 ["}, // the last by the Go runtime, for GOTRACEBACK
		"offload": {"boom", "doomed #", "innermost"},
		"handler": {"from the handler"},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashVariable+"="+how, "GOTRACEBACK=all")
		var text strings.Builder
		cmd.Stderr = &text
		err := cmd.Run()
		var status *exec.ExitError
		if !errors.As(err, &status) || status.ExitCode() != 2 {
			t.Errorf("%s: the process ended with %v, want status 2", how, err)
		}
		for _, w := range want {
			testenv.Contains(t, text.String(), w, "%s: its report", how)
		}
	}
}

// Many ends of all kinds, among tasks that go on, leave the loop as it was.
func TestLoopSurvivesPanicsAndGoexits(t *testing.T) {
	var panics atomic.Int32
	rt := newRuntime(t, 2, func(c *Config) { c.OnPanic = func(*PanicError) { panics.Add(1) } })
	rnd := newRand(t)
	seeds := make([]int, 600)
	for i := range seeds {
		seeds[i] = rnd.IntN(6)
	}
	want := int32(0)
	var mu Mutex
	count := 0 // guarded by mu
	var tasks []*Task
	for _, how := range seeds {
		if how < 2 {
			want++
		}
		tasks = append(tasks, rt.Go(func() {
			if how%2 == 1 {
				Yield()
			}
			mu.Lock()
			Yield()
			count++
			mu.Unlock()
			defer func() {
				mu.Lock() // may park while it panics
				count++
				Yield()
				mu.Unlock()
			}()
			switch how {
			case 0, 1:
				panic(how)
			case 2, 3:
				runtime.Goexit()
			}
		}))
	}
	for i, k := range tasks {
		err := k.Join()
		var p *PanicError
		switch how := seeds[i]; {
		case how < 2 && !errors.As(err, &p), how >= 2 && how < 4 && err != ErrGoexit, how >= 4 && err != nil:
			t.Errorf("end %d: Join returned %v", how, err)
		}
	}
	if count != 2*len(seeds) || panics.Load() != want {
		t.Errorf("count %d, want %d; %d panics, want %d", count, 2*len(seeds), panics.Load(), want)
	}
}

func TestOnPanicMayEndItsTask(t *testing.T) {
	rt := newRuntime(t, 1, func(c *Config) { c.OnPanic = func(*PanicError) { runtime.Goexit() } })
	for range 3 {
		var p *PanicError
		if err := rt.Go(func() { Yield(); panic("boom") }).Join(); !errors.As(err, &p) {
			t.Errorf("Join returned %v", err)
		}
	}
}

func TestOnPanicMayWait(t *testing.T) {
	done := make(chan error, 1)
	rt := newRuntime(t, 1, func(c *Config) {
		c.OnPanic = func(p *PanicError) {
			Yield()
			Sleep(1)
			done <- p
		}
	})
	err := rt.Go(func() { panic("boom") }).Join()
	if got := <-done; err != got {
		t.Errorf("Join returned %v, the handler got %v", err, got)
	}
}

func TestLockOSThreadIsRefused(t *testing.T) {
	if !coro.Exact {
		t.Skip("not seen without the assembly stubs")
	}
	rt := newRuntime(t, 2, panicsPass)
	var mu Mutex
	mu.Lock()
	c := NewChan[int](0)
	runs := map[string]int{}
	for name, wait := range map[string]func(){
		"yield":  Yield,
		"sleep":  func() { Sleep(1) },
		"lock":   mu.Lock,
		"send":   func() { c.Send(1) },
		"select": func() { Select(c.RecvCase(nil)) },
		"cond":   func() { m := new(Mutex); m.Lock(); NewCond(m).Wait() },
		"nested": func() { runtime.LockOSThread(); Yield() },
	} {
		k := GoOn(rt.Loop(0), func() {
			runs[name]++
			runtime.LockOSThread()
			wait()
		})
		err := k.Join()
		var p *PanicError
		if !errors.As(err, &p) || !strings.Contains(p.Error(), "LockOSThread") || !strings.Contains(p.Error(), "Offload") {
			t.Errorf("%s: Join returned %v", name, err)
		}
	}
	if ok, _ := c.TrySend(1); ok {
		t.Error("a Select that was refused still receives")
	}
	if _, ok, _ := c.TryRecv(); ok {
		t.Error("a Send that was refused is still in the queue")
	}
	mu.Unlock()
	if !mu.TryLock() {
		t.Error("the lock went to a task that had ended")
	}
	run(t, rt, func() {
		runtime.LockOSThread() // harmless if it does not wait meanwhile
		runtime.UnlockOSThread()
		Yield()
		Go(runtime.LockOSThread).Join() // undone at its end
		Yield()
		Offload(func() { runtime.LockOSThread(); runtime.UnlockOSThread() })
	})
	for name, n := range runs {
		testenv.Equal(t, n, 1, "%s: the function ran N times", name)
	}
}

// One that recovers from the refusal is not woken later by what it did not wait for.
func TestRefusedWaitIsTakenBack(t *testing.T) {
	if !coro.Exact {
		t.Skip("not seen without the assembly stubs")
	}
	rt := newRuntime(t, 1)
	var mu Mutex
	run(t, rt, func() {
		mu.Lock()
		k := Go(func() {
			func() {
				defer func() { recover() }()
				runtime.LockOSThread()
				mu.Lock()
			}()
			c := NewChan[int](0)
			Go(func() { mu.Unlock(); Yield(); c.Send(7) })
			testenv.Got(c.Recv())(t, 7, "received")
			if !mu.TryLock() {
				t.Error("the lock went to one that had given up")
			}
		})
		k.Join()
	})
}

// With GODEBUG=panicnil=1, panic(nil) is a panic too, though recover returns nil.
func TestPanicWithNil(t *testing.T) {
	t.Setenv("GODEBUG", "panicnil=1")
	var seen atomic.Int32
	rt := newRuntime(t, 1, func(c *Config) { c.OnPanic = func(*PanicError) { seen.Add(1) } })
	var p *PanicError
	if err := rt.Go(func() { panic(nil) }).Join(); !errors.As(err, &p) || p.Value != nil || seen.Load() != 1 {
		t.Errorf("Join returned %v, the handler ran %d times", err, seen.Load())
	}
	if err := rt.Go(func() { Offload(func() { panic(nil) }) }).Join(); !errors.As(err, &p) || errors.Is(err, ErrGoexit) {
		t.Errorf("offloaded: Join returned %v", err)
	}
	testenv.Equal(t, rt.Go(runtime.Goexit).Join(), ErrGoexit, "Goexit: Join")
	err := rt.Go(func() { defer func() { recover(); runtime.Goexit() }(); panic(1) }).Join()
	if err != ErrGoexit || seen.Load() != 2 {
		t.Errorf("Goexit after a panic: Join returned %v, the handler ran %d times", err, seen.Load())
	}
}
