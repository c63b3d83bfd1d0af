package export

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// The metrics of WriteFolded and WriteProfile, and their units.
const (
	metricCPU = iota
	metricWait
	metricReady
	metricCount
	metricHeap
	metricKinds
)

var (
	metricNames = [metricKinds]string{"cpu", "wait", "ready", "count", "heap"}
	metricUnits = [metricKinds]string{"nanoseconds", "nanoseconds", "nanoseconds", "count", "bytes"}
)

// A stackSample is what flame graphs and profiles are made of. A node gives one with its
// stack and then its name: how long tasks waited there, how long they were ready, and
// how often they came. An edge gives one with the calls that the stacks of both its
// nodes have in common, as what ran lies somewhere below them, then the name of the node
// it comes from, then both names: its CPU time and the heap that it allocated. All are
// estimates for all waits and steps, if only some were timed.
type stackSample struct {
	stack  []bgraph.Frame // innermost first
	leaves []string       // further in; innermost last
	values [metricKinds]int64
	node   *bgraph.Node // nil for the edge of a node that is missing
	edge   *bgraph.Edge // nil for a node
}

// stackSamples returns the samples of s that have a value other than 0.
func stackSamples(s *bgraph.Snapshot, names map[bgraph.Key]string) []stackSample {
	most := float64(math.MaxInt64 / int64(max(len(s.Nodes)+len(s.Edges), 1))) // so that no sum overflows
	value := func(v float64) int64 {
		if math.IsNaN(v) {
			return 0
		}
		return int64(math.Round(max(min(v, most), -most)))
	}
	var out []stackSample
	add := func(x stackSample) {
		if x.values != [metricKinds]int64{} {
			out = append(out, x)
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		x := stackSample{stack: n.Stack, leaves: []string{names[n.Key]}, node: n}
		x.values[metricWait] = value(n.Wait.Estimate(n.Departures))
		x.values[metricReady] = value(n.Ready.Estimate(n.Departures))
		x.values[metricCount] = value(float64(n.Arrivals))
		add(x)
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		from := words.NameIn(names, e.From)
		x := stackSample{
			stack:  commonStack(s, e.From, e.To),
			leaves: []string{from, from + " → " + words.NameIn(names, e.To)},
			node:   s.Node(e.From), edge: e,
		}
		x.values[metricCPU] = value(words.EdgeCPU(e))
		x.values[metricHeap] = value(words.MeanChange(&e.Heap) * float64(e.Count))
		add(x)
	}
	return out
}

// commonStack is the outer part that the stacks of two nodes have in common, for a node
// without a stack the outermost call of the other.
func commonStack(s *bgraph.Snapshot, from, to bgraph.Key) []bgraph.Frame {
	var a, b []bgraph.Frame
	if n := s.Node(from); n != nil {
		a = n.Stack
	}
	if n := s.Node(to); n != nil {
		b = n.Stack
	}
	if len(a) == 0 {
		return b[max(len(b)-1, 0):]
	}
	if len(b) == 0 {
		return a[len(a)-1:]
	}
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n].Function == b[len(b)-1-n].Function {
		n++
	}
	return a[len(a)-n:]
}

// metricOf returns the position of a metric.
func metricOf(name string) (int, error) {
	if i := slices.Index(metricNames[:], name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("bgraph: no metric %q; there are %s", name, strings.Join(metricNames[:], ", "))
}
