package engine

import (
	"errors"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestGoWithoutRuntime(t *testing.T) {
	if Default() != nil {
		t.Fatal("a runtime is left from another test")
	}
	defaultRuntimes.last.Store(nil)
	if _, err := Spawn(Options{}, func() {}); err == nil || !strings.Contains(err.Error(), "no runtime") {
		t.Errorf("Spawn: %v", err)
	}
	mustPanic(t, "Go without runtime", func() { Go(func() {}) })
	mustPanic(t, "AfterFunc without runtime", func() { AfterFunc(0, func() {}) })
}

// A goroutine that goes on after the end, as one of an http.Server may, does not take the process down.
func TestPlainGoroutinesAfterTheLastRuntime(t *testing.T) {
	rt, err := New(Config{Loops: 1, NewPoller: newChanPoller})
	testenv.Must(t, err)
	rt.Close()
	never := func() { t.Error("ran") }
	if err := Go(never).Join(); !errors.Is(err, ErrShutdown) {
		t.Errorf("Join returned %v", err)
	}
	if err := Start(never); !errors.Is(err, ErrShutdown) {
		t.Errorf("Start returned %v", err)
	}
	if !AfterFunc(0, never).Stop() {
		t.Error("a timer has fired")
	}
	var wg WaitGroup
	wg.Go(never)
	wg.Wait()
	var g Group
	g.Go(func() error { never(); return nil })
	if err := g.Wait(); !errors.Is(err, ErrShutdown) {
		t.Errorf("Group.Wait returned %v", err)
	}
}

// While one runtime runs, plain goroutines find it, whatever others come and go.
func TestDefaultIsThereWhileOthersComeAndGo(t *testing.T) {
	newRuntime(t, 1)
	other, done := new(Runtime), make(chan bool)
	go func() {
		defer close(done)
		for range 100_000 {
			other.setDefault(true)
			other.setDefault(false)
		}
	}()
	missing := 0
	for over := false; !over; {
		for range 10_000 {
			if Default() == nil {
				missing++
			}
		}
		select {
		case <-done:
			over = true
		default:
		}
	}
	if missing > 0 {
		t.Errorf("there was no default runtime %d times", missing)
	}
}

func TestDefaultIsTheLatestThatRuns(t *testing.T) {
	a := newRuntime(t, 1)
	if Default() != a {
		t.Error("not the only one")
	}
	b, err := New(Config{Loops: 1, NewPoller: newChanPoller})
	testenv.Must(t, err)
	if Default() != b {
		t.Error("not the latest")
	}
	var in *Runtime
	Go(func() { in = CurrentLoop().Runtime() }).Join()
	if in != b {
		t.Error("Go of a plain goroutine does not use the latest")
	}
	b.Close()
	if Default() != a {
		t.Error("not the one left")
	}
}
