package sched

import (
	"flag"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

var (
	seedFlag = flag.Uint64("seed", 1, "first seed of the random tests")
	rounds   = flag.Int("rounds", 0, "rounds of each random test; 0: as many as suits it")
)

// quick reports whether less is to be tested.
func quick() bool { return testing.Short() || testenv.Race || !testenv.Full() }

// eachSeed runs a random test with n seeds, of which a failure prints its own.
func eachSeed(t *testing.T, n int, test func(t *testing.T, rng *rand.Rand)) {
	t.Helper()
	if quick() {
		n = (n + 9) / 10
	}
	if *rounds > 0 {
		n = *rounds
	}
	for seed := *seedFlag; seed < *seedFlag+uint64(n); seed++ {
		test(t, rand.New(rand.NewPCG(seed, 0)))
		if t.Failed() {
			t.Fatalf("to see it again: go test -run %s -seed %d -rounds 1", t.Name(), seed)
		}
	}
}

func mustAdd(t *testing.T, l *admit.Ledger, s admit.Spec) admit.ResourceID {
	t.Helper()
	return testenv.Need(l.Add(s))(t)
}

// next is the node that p chooses.
func next(p Policy) (n Node, ok bool) {
	n, steps, _ := p.Choose()
	return n, steps > 0
}
