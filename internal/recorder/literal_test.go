package recorder_test

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// The keys of places in function literals are written down here: they must be the same
// with every compiler, optimised or not. Moving lines of this file changes them.
func TestKeysOfLiterals(t *testing.T) {
	s := observed(t, 1, recorder.Config{}, func(*engine.Runtime) {
		for range oneRound {
			task.Go(func() {
				func() { func() { ressched.YieldAt("nested") }() }()
			}).Join()
		}
		inlined(func() { ressched.YieldAt("inlined") })
		genericPlace(1)
		var wg task.WaitGroup
		wg.Go(func() { ressched.YieldAt("of the runtime's literal") })
		wg.Wait()
	})
	for label, want := range map[string]string{
		"nested":                   "082453777ac85662",
		"inlined":                  "cada10c851aefd52",
		"generic":                  "a4a9c049400f727e",
		"of the runtime's literal": "211b0c27bec7fa3f",
	} {
		if n := one(t, s, label); n.Key.String() != want {
			t.Errorf("%s: key %v, want %s; stack %+v", label, n.Key, want, n.Stack)
		}
	}
}

func oneRound(yield func() bool) { yield() }

func inlined(do func()) { task.Go(func() { func() { do() }() }).Join() }

func genericPlace[T any](T) { task.Go(func() { func() { ressched.YieldAt("generic") }() }).Join() }
