package engine

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestGoWithoutRuntime(t *testing.T) {
	testenv.MustEqual(t, Default(), nil, "a runtime is left from another test")
	defaultRuntimes.last.Store(nil)
	testenv.ErrorSays(t, testenv.Err(Spawn(Options{}, func() {})), "no runtime", "Spawn")
	mustPanic(t, "Go without runtime", func() { Go(func() {}) })
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
	testenv.AtMost(t, missing, 0, "there was no default runtime N times")
}

func TestDefaultIsTheLatestThatRuns(t *testing.T) {
	a := newRuntime(t, 1)
	testenv.Equal(t, Default(), a, "not the only one")
	b := testenv.Need(New(Config{Loops: 1, NewPoller: newChanPoller}))(t)
	testenv.Equal(t, Default(), b, "not the latest")
	var in *Runtime
	Go(func() { in = CurrentLoop().Runtime() }).Join()
	testenv.Equal(t, in, b, "Go of a plain goroutine does not use the latest")
	b.Close()
	testenv.Equal(t, Default(), a, "not the one left")
}
