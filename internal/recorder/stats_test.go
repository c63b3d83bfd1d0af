package recorder

import (
	"reflect"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The first durations are slow, those of the sample fast: the estimate is not the mean of
// both times the count.
func TestEstimateWeighsTheFirstOnesApart(t *testing.T) {
	var s Shard
	var stats timesStats
	for range 64 {
		s.blocks.reserve(1)
		s.measured(&stats, 1_000_000, &gauge{first: true, counts: 1})
	}
	for range 50 {
		s.blocks.reserve(1)
		s.measured(&stats, 1_000, &gauge{counts: 1})
	}
	var times bgraph.Times
	s.addTimes(&times, &stats)
	const n = 64 + 1000
	testenv.Equal(t, times.Estimate(n), float64(64*1_000_000+1000*1_000), "estimate")
	e := bgraph.Edge{Count: n, CPU: times}
	if got := e.TotalCPU(); got != 65_000_000 {
		t.Errorf("TotalCPU %v, want 65 ms", got)
	}
	if got := times.Estimate(10); got < 5e6 { // fewer than were measured: the plain mean
		t.Errorf("estimate of 10: %v", got)
	}
	testenv.Equal(t, new(bgraph.Times).Estimate(5), 0, "estimate of nothing")
}

// A loop that takes an edge while it is being read still has changed by it what it had before.
func TestChangesOfAnEdgeThatIsTakenMeanwhile(t *testing.T) {
	var e edge
	e.changes[0].Store(&changeBlock{2: {sum: 500, at: 101, recent: momentsStats{mean: 5}}})
	var found []changeStats
	for resource, c := range e.changed(100) {
		testenv.Equal(t, resource, 2, "resource")
		found = append(found, c)
	}
	testenv.EqualSlices(t, found, []changeStats{{sum: 500, at: 101, recent: momentsStats{mean: 5}}}, "changes")
}

// What steps changed lately does not depend on the order of the loops, also if only one of them has changed it.
func TestChangesOfSeveralLoops(t *testing.T) {
	g := New(Config{})
	loops := []*Shard{newShard(g, Loop{Index: 0}), newShard(g, Loop{Index: 1})}
	for _, changing := range []int{0, 1} {
		c := collector{g: g, places: g.places, nodes: map[NodeID]*bgraph.Node{}, edges: map[[2]NodeID]*bgraph.Edge{}}
		for i, sh := range loops {
			e := &edge{count: 10, from: NodeStart, to: sh.at[NodeEnd]}
			if i == changing {
				e.changes[0].Store(&changeBlock{{sum: 40, at: 10, recent: momentsStats{mean: 4}}})
			}
			c.addEdge(sh, e)
		}
		got := c.edges[[2]NodeID{NodeStart, NodeEnd}].Changes[0]
		testenv.Equal(t, got.Sum, 40, "change if loop %d makes it", changing)
		testenv.Equal(t, got.Recent, bgraph.Moments{Mean: 2, Variance: 4}, "recent change if loop %d makes it", changing)
	}
}

// Where steps are tiny fewer waits are timed, and each counts for more: all together as many as one in Sampling.
func TestTinyStepsAreTimedMoreSeldom(t *testing.T) {
	const waits = 400_000
	for _, c := range []struct {
		tiny, step uint64 // cycles
		every      int    // waits to one that is timed
	}{
		{400, 399, 160},
		{400, 400, 20},
		{0, 100, 20}, // Config.Sampling was given
	} {
		s := Shard{g: &Graph{cfg: Config{Sampling: 20}, tinyStep: c.tiny}, random: 1, samples: 1}
		now := new(atomic.Uint64)
		coro.SimulateCycles(now)
		var stats timesStats
		timed := 0
		for range waits {
			now.Add(c.step)
			if n := s.due(); n > 0 {
				timed++
				s.blocks.reserve(1)
				s.measured(&stats, c.step, &gauge{counts: n})
			}
		}
		coro.SimulateCycles(nil)
		if n := waits / c.every; timed < n*9/10 || timed > n*11/10 {
			t.Errorf("steps of %d cycles: %d waits of %d were timed, want about one in %d", c.step, timed, waits, c.every)
		}
		if n := uint64(waits / 20); stats.count < n*9/10 || stats.count > n*11/10 || stats.sum != stats.count*c.step {
			t.Errorf("steps of %d cycles: what was timed counts as %d samples of %d cycles, want about one wait in 20", c.step, stats.count, stats.sum)
		}
	}
}

// A histogram takes memory for what is measured only, and tells the same as a plain one.
func TestHistogramsTakeBlocksWhereNeeded(t *testing.T) {
	var s Shard
	before := int64(0)
	for _, c := range []struct {
		ns     []uint64
		blocks int64
	}{
		{nil, 0},
		{[]uint64{0}, 1},
		{[]uint64{1000, 1100, 600}, 2},
		{[]uint64{1000, 100_000}, 2},
		{[]uint64{100_000, 1000, 1 << 50, 0, 100_000}, 4},
	} {
		var stats timesStats
		var got, want bgraph.Times
		for _, ns := range c.ns {
			s.blocks.reserve(1)
			s.measured(&stats, ns, &gauge{counts: 1})
		}
		for range 2 { // two loops' parts
			s.addTimes(&got, &stats)
			for _, ns := range c.ns {
				want.Add(bgraph.Nanos(ns))
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%v: %+v, want %+v", c.ns, got, want)
		}
		testenv.Equal(t, s.blocks.n.Load()-before, c.blocks, "%v: N blocks", c.ns)
		before = s.blocks.n.Load()
	}
}

// Waits take what they need from pages that the loop's own goroutine has made: to make one takes more stack
// than a task has.
func TestWhatWaitsTakeIsReserved(t *testing.T) {
	var p paged[block]
	for n := range 3 * int64(pageSize) {
		p.reserve(pageSize)
		if left := p.room - n; left < pageSize || left > 2*pageSize {
			t.Fatalf("with %d elements there is room for %d", n, left)
		}
		pages := len(*p.pages.Load())
		p.add(func(*block) {})
		testenv.MustEqual(t, len(*p.pages.Load()), pages, "element %d has taken a page", n)
	}
}

// There is a note for each task, and there may be a million of them: what a list takes to grow must not
// grow with the square of its length.
func TestLongListsGrowInLinearTime(t *testing.T) {
	allocated := func(n int) uint64 {
		var p paged[uint64]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			p.add(func(*uint64) {})
		}
		runtime.ReadMemStats(&after)
		sum := 0
		p.each(func(*uint64) { sum++ })
		testenv.Equal(t, sum, n, "elements")
		return after.TotalAlloc - before.TotalAlloc
	}
	if a, b := allocated(100_000), allocated(400_000); b > 8*a {
		t.Errorf("%d bytes for 100,000 elements, %d for four times as many", a, b)
	}
}
