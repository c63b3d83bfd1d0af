package bgraph_test

import (
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
)

// The keys of places in function literals are written down here: they must be the same
// with every compiler, optimised or not. Moving lines of this file changes them.
func TestKeysOfLiterals(t *testing.T) {
	s := observed(t, 1, bgraph.Config{}, func(*engine.Runtime) {
		for range oneRound {
			engine.Go(func() {
				func() { func() { engine.YieldAt("nested") }() }()
			}).Join()
		}
		inlined(func() { engine.YieldAt("inlined") })
		genericPlace(1)
		var wg engine.WaitGroup
		wg.Go(func() { engine.YieldAt("of the runtime's literal") })
		wg.Wait()
	})
	for label, want := range map[string]string{
		"nested":                   "d2ac280e54000bbb",
		"inlined":                  "fa29f9d5fdf6eb6c",
		"generic":                  "8918a5dcfbb0edd9",
		"of the runtime's literal": "b45cda67d93627d2",
	} {
		if n := one(t, s, label); n.Key.String() != want {
			t.Errorf("%s: key %v, want %s; stack %+v", label, n.Key, want, n.Stack)
		}
	}
}

func oneRound(yield func() bool) { yield() }

func inlined(do func()) { engine.Go(func() { func() { do() }() }).Join() }

func genericPlace[T any](T) { engine.Go(func() { func() { engine.YieldAt("generic") }() }).Join() }
