package scc

import (
	"iter"
	"math/rand"
	"slices"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestComponentsAgainstReachability(t *testing.T) {
	for seed := range int64(300) {
		r := rand.New(rand.NewSource(seed))
		n := 1 + r.Intn(12)
		out := make([][]int, n)
		reach := make([][]bool, n)
		for i := range n {
			reach[i] = make([]bool, n)
			reach[i][i] = true
		}
		for range r.Intn(2 * n) {
			a, b := r.Intn(n), r.Intn(n)
			out[a] = append(out[a], b)
			reach[a][b] = true
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		part := make([]int, n)
		total := 0
		for i, p := range Of(n, func(v int) iter.Seq[int] { return slices.Values(out[v]) }) {
			total += len(p)
			for _, k := range p {
				part[k] = i
			}
		}
		testenv.MustEqual(t, total, n, "seed %d: N nodes in components", seed)
		for i := range n {
			for j := range n {
				if same := reach[i][j] && reach[j][i]; same != (part[i] == part[j]) {
					t.Fatalf("seed %d: nodes %d and %d: in one component %v, want %v", seed, i, j, !same, same)
				}
			}
		}
	}
}

// A long way is no deeper than a stack may be.
func TestALongWay(t *testing.T) {
	const n = 100_000
	all := Of(n, func(v int) iter.Seq[int] { return slices.Values([]int{(v + 1) % n}) })
	if len(all) != 1 || len(all[0]) != n {
		t.Errorf("%d components of a circle", len(all))
	}
}
