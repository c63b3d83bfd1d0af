package engine

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The policy hears of a task that yields again and again at one place, also within a batch, but not of one
// that yields elsewhere or waits.
func TestPolicyHearsOfYields(t *testing.T) {
	for _, most := range []int{0, 4} {
		var p *nodePolicy
		rt, _ := newSimRuntime(t, 1, true, inCohorts(t, &p, true, most))
		yields := recorder.NodeID(ReasonYield)
		run(t, rt, func() {
			var wg WaitGroup
			for c, does := range map[int]func(int){
				0: func(int) {},
				1: func(int) { Yield() },
				2: func(i int) {
					if i%2 == 0 {
						Yield()
					} else {
						Sleep(1)
					}
				},
			} {
				delete(p.outcomes, GaveWay)
				wg.Go(func() {
					for i := range 10 {
						does(i)
					}
				})
				wg.Wait()
				gave := p.outcomes[GaveWay]
				if c != 1 {
					testenv.EqualSlices(t, gave, nil, "case %d, batches of %d: nodes that gave way", c, most)
				} else if len(gave) < 2 || gave[0] != yields {
					t.Errorf("batches of %d: %v gave way, want node %d", most, gave, yields)
				}
			}
		})
	}
}
