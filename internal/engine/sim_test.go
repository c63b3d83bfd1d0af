package engine_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/capriccio-go/capriccio/bgraph"
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

func TestRandomPrograms(t *testing.T) {
	programs.Run(t, testenv.Rounds(60, 200), simulated())
}

// With a policy that takes nodes at random, of a graph that is learned.
func TestRandomProgramsUnderAPolicy(t *testing.T) {
	programs.Run(t, testenv.Rounds(30, 100), underPolicy(func(p *randomPolicy) engine.Policy { return p }))
}

// And one that takes the newest tasks of a node first, and grants any number of them.
func TestRandomProgramsInCohorts(t *testing.T) {
	programs.Run(t, testenv.Rounds(30, 100), underPolicy(func(p *randomPolicy) engine.Policy { return &randomCohorts{randomPolicy: p} }))
}

func underPolicy(make func(p *randomPolicy) engine.Policy) programs.NewRuntime {
	return func(t testing.TB, loops int, seed uint64) *engine.Runtime {
		return simulated(func(c *engine.Config) {
			c.Graph = recorder.New(bgraph.Config{})
			c.NewPolicy = func(l *engine.Loop) engine.Policy {
				return make(&randomPolicy{t: t, rnd: rand.New(rand.NewPCG(seed, uint64(l.Index())))})
			}
		})(t, loops, seed)
	}
}

func TestRandomProgramsOnLockedThreads(t *testing.T) {
	programs.Run(t, 15, simulated(func(c *engine.Config) { c.LockThreads = true }))
}

// randomPolicy takes any node with a ready task, by chance.
type randomPolicy struct {
	engine.PlainPolicy
	t     testing.TB
	rnd   *rand.Rand
	ready []recorder.NodeID
}

func (p *randomPolicy) Ready(n recorder.NodeID) { p.ready = append(p.ready, n) }

func (p *randomPolicy) Gone(n recorder.NodeID, k int) {
	for range k {
		i := slices.Index(p.ready, n)
		if i < 0 {
			p.t.Errorf("a task of node %d is gone that was not announced", n)
			return
		}
		p.ready = slices.Delete(p.ready, i, i+1)
	}
}

func (p *randomPolicy) Next() (recorder.NodeID, bool) {
	if p.rnd.IntN(8) == 0 { // nobody may run until the next Tick or Ready
		return 0, false
	}
	i := p.rnd.IntN(len(p.ready))
	n := p.ready[i]
	p.ready = slices.Delete(p.ready, i, i+1)
	return n, true
}

// randomCohorts is a randomPolicy that grants tasks of the node it has chosen.
type randomCohorts struct {
	*randomPolicy
	node recorder.NodeID
}

func (p *randomCohorts) NewestFirst() bool { return true }

func (p *randomCohorts) AnyOrder() bool { return p.rnd.IntN(3) > 0 }

func (p *randomCohorts) Next() (recorder.NodeID, bool) {
	n, ok := p.randomPolicy.Next()
	p.node = n
	return n, ok
}

func (p *randomCohorts) Grant() (int, uint64) {
	return p.rnd.IntN(20), uint64(p.rnd.IntN(1_000_000))
}

func (p *randomCohorts) Granted(n recorder.NodeID, taken, came int) {
	testenv.Equal(p.t, n, p.node, "the grant was of node")
	for range came {
		p.Ready(n)
	}
	p.Gone(n, taken)
}
