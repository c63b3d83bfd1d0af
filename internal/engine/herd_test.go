package engine

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The policy hears of a task that yields again and again at one place, also if that had a grant, but not of one
// that yields elsewhere or waits.
func TestPolicyHearsOfYields(t *testing.T) {
	for _, most := range []int{0, 4} {
		var p *grantPolicy
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
				p.gave = nil
				wg.Go(func() {
					for i := range 10 {
						does(i)
					}
				})
				wg.Wait()
				if c != 1 {
					testenv.EqualSlices(t, p.gave, nil, "case %d, grants of %d: nodes that gave way", c, most)
				} else if len(p.gave) < 2 || p.gave[0] != yields {
					t.Errorf("grants of %d: GaveWay was called for %v, want node %d", most, p.gave, yields)
				}
			}
		})
	}
}
