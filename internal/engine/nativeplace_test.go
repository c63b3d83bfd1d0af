package engine_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
)

func receive(c chan bool) bool { return <-c }
func viaOther(c chan bool) bool {
	return receive(c)
}

// The log tells once of a line that waits natively, however it is come to, and where it is.
func TestNativePlaceIsALine(t *testing.T) {
	if !coro.CanStack() {
		t.Skip("the stacks of other goroutines can't be read here")
	}
	var places engine.NativePlaces
	var seen []engine.NativePlace
	for _, wait := range []func(chan bool) bool{receive, viaOther} {
		c, gs := make(chan bool), make(chan uintptr)
		go func() {
			gs <- coro.G()
			engine.Outside(wait, c)
		}()
		g := <-gs
		place, ok := places.Look(g)
		for ; !ok; place, ok = places.Look(g) { // it is on its way there
			runtime.Gosched()
		}
		seen = append(seen, place)
		c <- true
	}
	if seen[0].Print == seen[1].Print || seen[0].Told != seen[1].Told {
		t.Errorf("two ways to one line are the places %v; want two that are told of together", seen)
	}
	if at := seen[1].At; !strings.HasPrefix(at, "github.com/capriccio-go/capriccio/internal/engine_test.receive ") || !strings.Contains(at, "nativeplace_test.go:") {
		t.Errorf("the place is at %q; want function and line of receive", at)
	}
}
