package bgraph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// seeded returns a generator, and says in the log of a failed test how to get it again.
func seeded(t testing.TB, seed uint64) *rand.Rand {
	t.Helper()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// randomSnapshot makes a valid Snapshot with about this many nodes and edges, in the form
// in which Decode returns it. Loops have gaps in their numbers; texts are of all kinds.
func randomSnapshot(r *rand.Rand, nodes, edges int) *Snapshot {
	s := &Snapshot{
		Program:   Program{Name: randomText(r), PID: 1 + r.IntN(1<<22), Host: randomText(r), Go: "go1.26", Started: randomTime(r)},
		Taken:     randomTime(r),
		Span:      Nanos(r.Int64N(1 << 50)),
		Sampling:  r.IntN(100),
		HeapEvery: r.IntN(1000),
		Overflow:  Overflow{MaxNodes: r.IntN(5000), MaxEdges: r.IntN(5000), Nodes: randomCount(r), Edges: randomCount(r)},
	}
	for i := range 1 + r.IntN(4) {
		s.Loops = append(s.Loops, LoopStat{Index: 2*i + r.IntN(2), Tasks: r.Int64N(1000), Steps: randomCount(r), Rests: r.IntN(3) == 0})
	}
	for i := range r.IntN(5) {
		s.Resources = append(s.Resources, Resource{
			Name: fmt.Sprint("resource ", i), Unit: []string{"", "bytes"}[r.IntN(2)], InUse: r.Int64N(2000) - 1000,
			Acquired: randomCount(r), Released: randomCount(r), Limit: r.Int64N(2) * r.Int64N(1<<40),
		})
	}
	keys := map[Key]bool{KeyStart: true, KeyEnd: true}
	for range nodes {
		keys[Key(16+r.IntN(4*nodes))] = true
	}
	for k := range keys {
		s.Nodes = append(s.Nodes, randomNode(r, k, s.Loops))
	}
	pairs := map[[2]Key]bool{}
	for range edges {
		from, to := s.Nodes[r.IntN(len(s.Nodes))].Key, s.Nodes[r.IntN(len(s.Nodes))].Key
		if !pairs[[2]Key{from, to}] {
			pairs[[2]Key{from, to}] = true
			s.Edges = append(s.Edges, randomEdge(r, from, to, len(s.Resources)))
		}
	}
	for _, e := range s.Edges {
		if r.IntN(3) == 0 {
			s.Crossings = append(s.Crossings, Crossing{
				From: e.From * Key(r.IntN(2)), To: e.To, FromLoop: -1, ToLoop: s.Loops[r.IntN(len(s.Loops))].Index, Count: 1 + randomCount(r),
			})
		}
	}
	s.Sort()
	s.Crossings = slices.CompactFunc(s.Crossings, func(a, b Crossing) bool { return crossingID(&a) == crossingID(&b) })
	for i := range s.Crossings {
		if s.Crossings[i].From != 0 {
			s.Crossings[i].FromLoop = s.Loops[r.IntN(len(s.Loops))].Index
		}
	}
	slices.SortFunc(s.Crossings, compareCrossings)
	s.Crossings = orNil(s.Crossings)
	for range r.IntN(4) {
		s.Overruns = append(s.Overruns, Overrun{
			From: s.Nodes[0].Key, To: KeyStart, Task: randomText(r), Loop: s.Loops[r.IntN(len(s.Loops))].Index,
			At: randomTime(r), Held: Nanos(r.Int64N(1 << 40)), Stack: "goroutine 1\n\t" + randomText(r),
		})
	}
	if r.IntN(2) == 0 {
		s.Chunks = Chunks{Links: randomCount(r), Direct: randomCount(r), InPlace: randomCount(r), InUse: r.Int64N(1000), Peak: r.Int64N(1000), Most: r.Int64N(9)}
	}
	if r.IntN(2) == 0 {
		s.Sched = randomSched(r, s)
	}
	return s
}

func randomNode(r *rand.Rand, k Key, loops []LoopStat) Node {
	n := Node{
		Key: k, Reason: "read", Label: randomText(r), Now: r.Int64N(1000), Peak: r.Int64N(2000),
		Arrivals: 1 + randomCount(r), Departures: randomCount(r), Wait: randomTimes(r), Ready: randomTimes(r), Oldest: Nanos(r.Int64N(1 << 50)),
	}
	for i := range r.IntN(5) {
		n.Stack = append(n.Stack, Frame{Function: fmt.Sprintf("example.com/%s.f%d", randomText(r), i), File: randomText(r), Line: r.IntN(1000), Offset: r.IntN(50) - 5})
	}
	for i := range r.IntN(3) {
		n.Wakers = append(n.Wakers, Waker{Function: fmt.Sprintf("example.com/w%d", i), Line: r.IntN(100), Count: 10 - uint64(i)})
	}
	for _, l := range loops {
		if r.IntN(3) > 0 {
			n.Loops = append(n.Loops, NodeLoop{Loop: l.Index, Now: r.Int64N(500), Peak: r.Int64N(500), Arrivals: randomCount(r), Departures: randomCount(r)})
		}
	}
	return n
}

func randomEdge(r *rand.Rand, from, to Key, resources int) Edge {
	e := Edge{
		From: from, To: to, Count: 1 + randomCount(r), CPU: randomTimes(r), Recent: Moments{Mean: r.Float64() * 1e6, Variance: r.Float64() * 1e9},
		Heap: randomChange(r, randomCount(r)), Overruns: uint64(r.IntN(3)),
	}
	if r.IntN(2) == 0 {
		e.Parts = Parts{Calls: randomCount(r), System: Nanos(r.Int64N(1 << 40)), Assist: Nanos(r.Int64N(1 << 30)), Moves: randomCount(r)}
	}
	for range r.IntN(resources + 1) {
		e.Changes = append(e.Changes, randomChange(r, e.Count))
	}
	return e
}

// randomChange never is one that goes without saying.
func randomChange(r *rand.Rand, steps uint64) Change {
	return Change{Steps: steps, Sum: 1 + r.Int64N(1000)*int64(1-2*r.IntN(2)), Recent: Moments{Mean: r.NormFloat64() - 0.5, Variance: r.Float64()}}
}

func randomTimes(r *rand.Rand) Times {
	var t Times
	for range r.IntN(8) {
		d := Nanos(r.Int64N(1 << (5 + r.IntN(35))))
		n := 1 + uint64(r.IntN(1000))
		for len(t.Hist) <= buckets.Of(d) {
			t.Hist = append(t.Hist, 0)
		}
		t.Count += n
		t.Sum += d * Nanos(n)
		t.Max = max(t.Max, d)
		t.Hist[buckets.Of(d)] += n
		fine := int(buckets.FineOf(uint64(d)))
		for len(t.Fine) <= fine {
			t.Fine = append(t.Fine, 0)
		}
		t.Fine[fine] += n
	}
	if t.Count > 0 {
		t.First = r.Uint64N(t.Count)
		t.FirstSum = Nanos(r.Int64N(int64(t.Sum) + 1))
	}
	return t
}

func randomSched(r *rand.Rand, s *Snapshot) *Sched {
	out := &Sched{Policy: "resource", Admitted: randomCount(r), Deferred: randomCount(r), Refused: randomCount(r)}
	for i := range r.IntN(4) {
		out.Resources = append(out.Resources, SchedResource{Name: fmt.Sprint("r", i), Utilisation: r.Float64(), Trend: r.NormFloat64(), State: "low"})
	}
	for i := range s.Nodes {
		if r.IntN(3) == 0 {
			out.Nodes = append(out.Nodes, SchedNode{
				Key: s.Nodes[i].Key, Loop: s.Loops[r.IntN(len(s.Loops))].Index, Priority: r.NormFloat64(), Tickets: r.Int64N(100),
				Pass: r.Uint64(), Ready: r.Int64N(10), Held: randomText(r), Cohorts: randomCount(r), Ran: randomCount(r),
			})
		}
	}
	return out
}

func randomCount(r *rand.Rand) uint64 { return r.Uint64N(1 << (1 + r.IntN(40))) }

func randomText(r *rand.Rand) string {
	return []string{"", "f", "read head", "(*conn[go.shape.int]).serve", "日本語", "<b>&amp;\"'", "é 😀", "\\u0041"}[r.IntN(8)]
}

func randomTime(r *rand.Rand) time.Time {
	return time.Unix(1.7e9+r.Int64N(1e8), r.Int64N(1e9)).UTC()
}

// sampleSnapshot is the graph of a web shop of 2 loops after a minute under load: 1,021 tasks wait for the lock of a
// session cache, a page is rendered in long steps now and then, and file descriptors are near their limit.
func sampleSnapshot() *Snapshot {
	s, err := ReadFile("../graphcases/sample.bgraph")
	if err != nil {
		panic(err)
	}
	return s
}

// A quantile is within a quarter of what was measured, as the bounds of Fine are.
func TestQuantileIsWithinAQuarter(t *testing.T) {
	testenv.Equal(t, new(Times).Mean(), 0, "of nothing")
	for d := Nanos(40); d < 1<<34; d = d*17/16 + 1 {
		var times Times
		for range 100 {
			times.Add(d)
		}
		times.Add(d * 3) // so that Max does not tell
		testenv.AtMost(t, max(times.Mean()-d*103/101, d*103/101-times.Mean()), 1, "the mean is off by")
		if got := times.Quantile(0.5); math.Abs(float64(got-d)) > 0.25*float64(d) {
			t.Fatalf("of %v: %v", d, got)
		}
	}
}
