package task

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/enginetest"
)

func TestSelectEntersGuardsOfSeveralOwners(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	for range 200 {
		a, b := NewChan[int](1), NewChan[int](1)
		enginetest.Spread(t, rt, rt.Loops(), func(i int) {
			own, other := a, b
			if i == 1 {
				own, other = b, a
			}
			own.TrySend(1) // makes the guard this loop's
			for range 50 {
				Select(other.RecvCase(nil), own.RecvCase(nil))
				own.TrySend(1)
				other.TrySend(1)
			}
		})()
	}
}
