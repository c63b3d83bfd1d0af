package lint

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/words"
)

// setUse makes the sums of a resource what its edges say.
func (sc scene) setUse(r int) {
	res := &sc.Resources[r]
	res.Acquired, res.Released = 0, 0
	for i := range sc.Edges {
		if e := &sc.Edges[i]; r < len(e.Changes) {
			if sum := e.Changes[r].Sum; sum > 0 {
				res.Acquired += uint64(sum)
			} else {
				res.Released += uint64(-sum)
			}
		}
	}
	res.InUse = int64(res.Acquired - res.Released)
}

// change sets what each step of an edge changes of a resource.
func (sc scene) change(from, to bgraph.Key, r int, each float64) {
	e := sc.step(from, to)
	for len(e.Changes) <= r {
		e.Changes = append(e.Changes, bgraph.Change{Steps: e.Count})
	}
	e.Changes[r] = bgraph.Change{Steps: e.Count, Sum: int64(each * float64(e.Count)), Recent: bgraph.Moments{Mean: each}}
}

func TestLintLeaks(t *testing.T) {
	buffers := func(each float64) func(sc scene) {
		return func(sc scene) {
			sc.change(kWrite, kRead, 1, each)
			sc.setUse(1)
		}
	}
	for _, c := range []lintCase{
		{"one buffer in ten is kept", buffers(-3686), "warning leak", kRead,
			[]string{"round read shop.at3 → write shop.at5 → read shop.at3", `410 B of "buffers"`, "900,000 times", "3.81 GiB taken"}},
		{"all buffers come back", buffers(-4096), "", 0, nil},
		{"the leak has been closed", func(sc scene) {
			buffers(-3686)(sc)
			sc.step(kWrite, kRead).Changes[1].Recent.Mean = -4096
		}, "", 0, nil},
		{"as much as the tasks may hold", buffers(-3990), "", 0, nil},
		{"another task gives back", func(sc scene) {
			sc.change(kWorker, kWorker, 0, 1)
			sc.change(kTick, kTick, 0, -1000)
			sc.setUse(0)
			sc.Resources[0].Acquired += 41_000
		}, "", 0, nil},
		{"every task keeps one when it ends", func(sc scene) {
			sc.change(kRead, bgraph.KeyEnd, 0, 0)
			sc.change(bgraph.KeyStart, kRead, 0, 1)
			sc.change(kAccept, kAccept, 0, 0)
			sc.setUse(0)
		}, "warning leak", bgraph.KeyStart, []string{"round start → read shop.at3 → end a task keeps 1 of \"descriptors\"", "40,000 times", "205% of the limit"}},
		{"clients keep their connections", func(sc scene) {
			sc.change(kRead, bgraph.KeyEnd, 0, -0.8)
			sc.setUse(0)
		}, "", 0, nil},
		{"more connections than may be", func(sc scene) {
			sc.change(kRead, bgraph.KeyEnd, 0, -0.6)
			sc.setUse(0)
		}, "info leak", kAccept, []string{"round accept shop.at2", "85.0% of the limit"}},
		{"taken once and kept", func(sc scene) {
			sc.change(bgraph.KeyStart, kMain, 0, 7_000)
			sc.setUse(0)
		}, "", 0, nil},
		{"in a difference", func(sc scene) {
			sc.diff()
			sc.change(kWorker, kWorker, 0, 0.5)
			r := &sc.Resources[0]
			r.Acquired += 30_000
			r.InUse += 30_000
		}, "warning leak", kWorker, []string{"keeps 0.50 of", "60,000 times in 1m0s"}},
	} {
		c.run(t)
	}
}

// randomWalks makes a graph from closed walks, so that what comes to a node leaves it.
func randomWalks(r *rand.Rand) *bgraph.Snapshot {
	count := make(map[[2]bgraph.Key]uint64)
	nodes := 2 + r.Intn(12)
	for range 1 + r.Intn(6) {
		first := bgraph.Key(10 + r.Intn(nodes))
		at, times := first, uint64(1+r.Intn(100))
		for range r.Intn(8) {
			to := bgraph.Key(10 + r.Intn(nodes))
			count[[2]bgraph.Key{at, to}] += times
			at = to
		}
		count[[2]bgraph.Key{at, first}] += times
	}
	s := &bgraph.Snapshot{}
	for ends, n := range count {
		s.Edges = append(s.Edges, bgraph.Edge{From: ends[0], To: ends[1], Count: n})
	}
	scene{s}.order()
	return s
}

func TestCyclesAddUpToTheGraph(t *testing.T) {
	for seed := range int64(300) {
		s := randomWalks(rand.New(rand.NewSource(seed)))
		walked := make(map[*bgraph.Edge]float64)
		for _, c := range (&linter{s: s}).cycles() {
			var seen []bgraph.Key
			for i, e := range c.edges {
				walked[e] += c.turns
				if next := c.edges[(i+1)%len(c.edges)]; e.To != next.From {
					t.Fatalf("seed %d: %v → %v is followed by %v", seed, e.From, e.To, next.From)
				}
				if slices.Contains(seen, e.From) {
					t.Fatalf("seed %d: a cycle passes %v twice", seed, e.From)
				}
				seen = append(seen, e.From)
			}
			if c.turns <= 0 {
				t.Fatalf("seed %d: %v turns", seed, c.turns)
			}
		}
		for i := range s.Edges {
			if e := &s.Edges[i]; walked[e] != float64(e.Count) {
				t.Fatalf("seed %d: %v → %v is walked %v times in cycles, %d in all", seed, e.From, e.To, walked[e], e.Count)
			}
		}
	}
}

func TestCyclesEndInTime(t *testing.T) {
	// Every node leads to every other, and nothing adds up.
	s := &bgraph.Snapshot{}
	r := rand.New(rand.NewSource(1))
	for from := range 400 {
		for to := range 400 {
			s.Edges = append(s.Edges, bgraph.Edge{From: bgraph.Key(10 + from), To: bgraph.Key(10 + to), Count: uint64(r.Intn(1000))})
		}
	}
	before := graphcases.CPUTime(t)
	cycles := (&linter{s: s}).cycles()
	if took := graphcases.CPUTime(t) - before; took > 10*time.Second || len(cycles) == 0 {
		t.Errorf("%d cycles in %v", len(cycles), took)
	}
}

func TestCycleNamesStayShort(t *testing.T) {
	s := &bgraph.Snapshot{}
	c := &cycle{}
	for i := range 40 {
		k := bgraph.Key(10 + i)
		s.Nodes = append(s.Nodes, bgraph.Node{Key: k, Reason: "read", Label: fmt.Sprint("place ", i)})
		c.edges = append(c.edges, &bgraph.Edge{From: k, To: bgraph.Key(10 + (i+1)%40)})
	}
	name := (&linter{s: s, names: words.Names(s)}).cycleName(c, c.edges[7])
	if !strings.HasPrefix(name, "place 7 → place 8 → ") || !strings.Contains(name, "… 34 more …") || !strings.HasSuffix(name, "→ place 7") {
		t.Errorf("name %q", name)
	}
}
