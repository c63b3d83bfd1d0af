package engine_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func simulated(change ...func(*engine.Config)) programs.NewRuntime {
	return func(t testing.TB, loops int, seed uint64) *engine.Runtime {
		return programs.Simulated(t, loops, seed, change...)
	}
}

// With the loops' own order, with a policy that takes nodes of a graph at random, and with one that takes any number of the newest
// tasks of a node.
func TestRandomPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		few, all int
		make     programs.NewRuntime
	}{
		"plain":          {60, 200, simulated()},
		"under a policy": {30, 100, underPolicy(func(p *randomPolicy) engine.Policy { return p })},
		"in cohorts":     {30, 100, underPolicy(func(p *randomPolicy) engine.Policy { return randomCohorts{p} })},
	} {
		t.Run(name, func(t *testing.T) { programs.Run(t, testenv.Rounds(c.few, c.all), c.make) })
	}
}

func underPolicy(make func(p *randomPolicy) engine.Policy) programs.NewRuntime {
	return func(t testing.TB, loops int, seed uint64) *engine.Runtime {
		return simulated(func(c *engine.Config) {
			c.Graph = recorder.New(recorder.Config{})
			c.NewPolicy = func(l *engine.Loop) engine.Policy {
				return make(&randomPolicy{t: t, rnd: rand.New(rand.NewPCG(seed, uint64(l.Index()))), ready: map[recorder.NodeID]int{}})
			}
		})(t, loops, seed)
	}
}

// randomPolicy chooses any node with a ready task, by chance, for one step.
type randomPolicy struct {
	engine.PlainPolicy
	t     testing.TB
	rnd   *rand.Rand
	ready map[recorder.NodeID]int
}

func (p *randomPolicy) Count(n recorder.NodeID, k int) {
	if p.ready[n] += k; p.ready[n] < 0 {
		p.t.Errorf("%d tasks of node %d are gone that were not announced", -p.ready[n], n)
	}
	if p.ready[n] == 0 {
		delete(p.ready, n)
	}
}

func (p *randomPolicy) Choose() (recorder.NodeID, int, uint64) {
	if p.rnd.IntN(8) == 0 { // no task may run until the next Tick or Count
		return 0, 0, 0
	}
	nodes := slices.Sorted(maps.Keys(p.ready))
	return nodes[p.rnd.IntN(len(nodes))], 1, ^uint64(0)
}

func (p *randomPolicy) Ran(n recorder.NodeID, tasks int, _ uint64, _ engine.Outcome) {
	p.Count(n, -tasks)
}

// randomCohorts is a randomPolicy that chooses several tasks of the node, for any time.
type randomCohorts struct{ *randomPolicy }

func (p randomCohorts) NewestFirst() bool { return true }

func (p randomCohorts) AnyOrder() bool { return p.rnd.IntN(3) > 0 }

func (p randomCohorts) Choose() (recorder.NodeID, int, uint64) {
	n, steps, _ := p.randomPolicy.Choose()
	return n, steps * (1 + p.rnd.IntN(20)), uint64(p.rnd.IntN(1_000_000))
}
