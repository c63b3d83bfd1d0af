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
		return GoWith(Options{Name: "doomed"}, func() {
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
