package lint

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/buckets"
)

// A scene is a graph under construction, with nodes by name.
type scene struct{ *bgraph.Snapshot }

// Keys of the nodes of a healthy scene.
const (
	kMain bgraph.Key = iota + 100
	kServe
	kAccept
	kRead
	kLock
	kWrite
	kWorker
	kOffload
	kSend
	kSlots
	kTick
)

// busy lets the steps take so long that the loops have much to do.
func busy(sc scene) {
	for i := range sc.Edges {
		sc.Edges[i].CPU.Sum *= 10
	}
}

// busyBesideResting has six more loops, which rest.
func busyBesideResting(sc scene) {
	busy(sc)
	for i := range 6 {
		sc.Loops = append(sc.Loops, bgraph.LoopStat{Index: 2 + i, Rests: true})
	}
}

var sceneBegan = time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)

// healthy is the graph of a busy server after an hour: 2 loops, 1,000 connections,
// each request takes a lock, and one in ten is handed to a worker.
func healthy() scene {
	const requests = 36_000_000
	sc := scene{&bgraph.Snapshot{
		Program:  bgraph.Program{Name: "shop", PID: 4711, Host: "h", Go: "go1.26", Started: sceneBegan},
		Taken:    sceneBegan.Add(time.Hour),
		Span:     bgraph.Nanos(time.Hour),
		Sampling: 20,
		Loops:    []bgraph.LoopStat{{Index: 0, Tasks: 503, Steps: 61_000_000}, {Index: 1, Tasks: 519, Steps: 58_000_000}},
		Resources: []bgraph.Resource{
			{Name: "descriptors", InUse: 1003, Acquired: 41_003, Released: 40_000, Limit: 20_000},
			{Name: "buffers", Unit: "bytes", InUse: 4 << 20, Acquired: requests << 12, Released: requests<<12 - 4<<20},
			{Name: "progress", InUse: requests, Acquired: requests},
		},
		Overflow: bgraph.Overflow{MaxNodes: 4096, MaxEdges: 16384},
	}}
	sc.node(bgraph.KeyStart, "start", 41_010, 0, 0, 20*time.Microsecond)
	sc.node(bgraph.KeyEnd, "end", 40_000, 40_000, 0, 0)
	sc.node(kMain, "offload", 1, 1, 0, 0)
	sc.node(kServe, "join", 1, 1, 0, 0)
	sc.node(kAccept, "accept", 41_002, 2, 90*time.Millisecond, 20*time.Microsecond)
	sc.node(kRead, "read", requests, 950, 90*time.Millisecond, 30*time.Microsecond)
	sc.node(kLock, "mutex", 100_000, 2, 40*time.Microsecond, 15*time.Microsecond)
	sc.node(kWrite, "write", 1_000_000, 30, 80*time.Millisecond, 25*time.Microsecond)
	sc.node(kWorker, "channel receive", requests/10, 12, 12*time.Millisecond, 30*time.Microsecond)
	sc.node(kOffload, "offload", 2_000_000, 3, 5*time.Millisecond, 30*time.Microsecond)
	sc.node(kSend, "channel send", 100_000, 1, time.Millisecond, 30*time.Microsecond)
	sc.node(kSlots, "semaphore", 100_000, 1, 2*time.Millisecond, 30*time.Microsecond)
	sc.node(kTick, "sleep", 3600, 1, time.Second, 30*time.Microsecond)
	sc.at(kMain).Oldest, sc.at(kServe).Oldest = sc.Span, sc.Span
	sc.at(kAccept).Oldest, sc.at(kRead).Oldest = bgraph.Nanos(time.Minute), bgraph.Nanos(30*time.Minute)
	sc.at(kWorker).Oldest = bgraph.Nanos(300 * time.Millisecond)

	us := time.Microsecond
	sc.edge(bgraph.KeyStart, kMain, 1, us)
	sc.edge(bgraph.KeyStart, kServe, 1, us)
	sc.edge(bgraph.KeyStart, kAccept, 2, us)
	sc.edge(bgraph.KeyStart, kRead, 41_000, 10*us)
	sc.edge(bgraph.KeyStart, kWorker, 12, us)
	sc.edge(bgraph.KeyStart, kTick, 1, us)
	sc.edge(kAccept, kAccept, 41_000, 5*us, 1)
	sc.edge(kRead, kRead, requests-1_000_000, 6*us, 0, 0, 1)
	sc.edge(kRead, kWrite, 900_000, 8*us, 0, 4096)
	sc.edge(kRead, kLock, 100_000, 3*us, 0, 4096)
	sc.edge(kRead, bgraph.KeyEnd, 40_000, 5*us, -1)
	sc.edge(kLock, kWrite, 100_000, 4*us)
	sc.edge(kWrite, kRead, 1_000_000, 3*us, 0, -4096)
	sc.edge(kWorker, kWorker, requests/10, 20*us)
	sc.edge(kTick, kTick, 3600, us)
	sc.Crossings = []bgraph.Crossing{ // half of the jobs, and the answers
		{From: kRead, To: kWorker, FromLoop: 0, ToLoop: 1, Count: requests / 20},
		{From: kWorker, To: kRead, FromLoop: 1, ToLoop: 0, Count: requests / 20},
	}
	sc.order()
	return sc
}

// node adds a node, and how many of its arrivals are there still.
func (sc scene) node(k bgraph.Key, reason string, arrivals uint64, now int64, wait, ready time.Duration) {
	n := bgraph.Node{Key: k, Reason: reason, Arrivals: arrivals, Departures: arrivals - uint64(now), Now: now, Peak: 2 * now}
	if k != bgraph.KeyEnd {
		n.Wait, n.Ready = timesOf(n.Departures, wait), timesOf(n.Departures, ready)
	}
	if isPlace(k) {
		n.Stack = []bgraph.Frame{
			{Function: "github.com/capriccio-go/capriccio/task.Park", File: "task/park.go", Line: 5},
			{Function: fmt.Sprintf("example.org/shop.at%d", k-kMain), File: "shop.go", Line: int(k)},
		}
	}
	n.Loops = []bgraph.NodeLoop{{Loop: 0, Now: now, Peak: 2 * now, Arrivals: arrivals, Departures: n.Departures}}
	sc.Nodes = append(sc.Nodes, n)
}

// edge adds an edge; each step changes the resources by that.
func (sc scene) edge(from, to bgraph.Key, count uint64, cpu time.Duration, changes ...float64) {
	e := bgraph.Edge{From: from, To: to, Count: count, CPU: timesOf(count, cpu)}
	for _, each := range changes {
		e.Changes = append(e.Changes, bgraph.Change{Steps: count, Sum: int64(each * float64(count)), Recent: bgraph.Moments{Mean: each}})
	}
	sc.Edges = append(sc.Edges, e)
}

// timesOf is what 1 in 20 of count durations around mean look like: the longest is
// eight times the mean.
func timesOf(count uint64, mean time.Duration) bgraph.Times {
	t := bgraph.Times{Hist: make([]uint64, buckets.Count)}
	for i := range 100 {
		one := bgraph.Nanos(mean) / 2
		switch {
		case i >= 60 && i < 99:
			one = bgraph.Nanos(mean) * 3 / 2
		case i == 99:
			one = bgraph.Nanos(mean) * 8
		}
		share := count/2000 + 1
		t.Hist[buckets.Of(one)] += share
		t.Count += share
		t.Sum += bgraph.Nanos(share) * one
		t.Max = max(t.Max, one)
	}
	if count == 0 {
		return bgraph.Times{}
	}
	return t
}

func (sc scene) order() {
	slices.SortFunc(sc.Nodes, func(a, b bgraph.Node) int { return cmp.Compare(a.Key, b.Key) })
	slices.SortFunc(sc.Edges, func(a, b bgraph.Edge) int { return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To)) })
}

func (sc scene) at(k bgraph.Key) *bgraph.Node { return sc.Node(k) }

func (sc scene) step(from, to bgraph.Key) *bgraph.Edge {
	for i := range sc.Edges {
		if e := &sc.Edges[i]; e.From == from && e.To == to {
			return e
		}
	}
	panic(fmt.Sprintf("no edge %v %v", from, to))
}

// diff makes sc the difference over its last minute.
func (sc scene) diff() {
	sc.Span, sc.Period = bgraph.Nanos(time.Minute), true
	for i := range sc.Nodes {
		n := &sc.Nodes[i]
		n.Departures /= 60
		n.Arrivals = n.Departures
	}
	for i := range sc.Edges {
		sc.Edges[i].Count /= 60
	}
	for i := range sc.Crossings {
		sc.Crossings[i].Count /= 60
	}
	for i := range sc.Resources {
		r := &sc.Resources[i]
		r.Released /= 60
		if r.Acquired = r.Released; r.Name == progress {
			r.Acquired = uint64(r.InUse) / 60
		}
	}
}

func TestHealthyGraphHasNoFindings(t *testing.T) {
	sc := healthy()
	for _, f := range Find(sc.Snapshot) {
		t.Errorf("found %+v", f)
	}
	sc.diff()
	for _, f := range Find(sc.Snapshot) {
		t.Errorf("in a difference: found %+v", f)
	}
}
