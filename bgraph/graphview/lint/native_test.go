package lint

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
)

func TestLintNativeWaits(t *testing.T) {
	const kNative = kTick + 1
	waits := func(n uint64) func(scene) {
		return func(sc scene) { sc.node(kNative, "native", n, 0, 3*time.Millisecond, 0) }
	}
	for _, c := range []lintCase{
		{"no native waits", waits(0), "", 0, nil},
		{"some, in an hour", waits(360), "info native", kNative, []string{"360 times, 0.1 a second", "2.895ms on average"}},
		{"many", waits(360_000), "warning native", kNative, []string{"360,000 times, 100 a second"}},
	} {
		c.run(t)
	}
	sc := healthy()
	for i := range 12 {
		sc.node(kNative+bgraph.Key(i), "native", uint64(i+1), 0, time.Millisecond, 0)
	}
	sc.order()
	named := map[bgraph.Key]bool{}
	for _, f := range Find(sc.Snapshot) {
		named[f.Node] = true
	}
	if len(named) != nativePlaces || named[kNative] || named[kNative+1] {
		t.Errorf("%d places are named; want the %d where most was", len(named), nativePlaces)
	}
}
