package web

import (
	"cmp"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A waker is what ended waits at a node.
type waker struct {
	name  string
	share float64    // of these waits
	place bgraph.Key // where it had waited last itself, as far as that is known; 0: it is not
}

// A call is a place in a function below which goroutines wait.
type call struct {
	line       int
	node       bgraph.Key
	departures uint64
}

// callsByFunction finds the nodes that a function leads to.
func callsByFunction(s *bgraph.Snapshot) map[string][]call {
	calls := make(map[string][]call)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for j := range n.Stack {
			f := &n.Stack[j]
			calls[f.Function] = append(calls[f.Function], call{f.Line, n.Key, n.Departures})
		}
	}
	return calls
}

// lastWait is the node where a goroutine that has come to a line of a function has most likely waited last: at the
// nearest line before, or, as functions go in circles, at the last of them. It is 0 if the function leads to none.
func lastWait(calls []call, line int) bgraph.Key {
	if len(calls) == 0 {
		return 0
	}
	return slices.MaxFunc(calls, func(a, b call) int {
		aBefore, bBefore := a.line <= line, b.line <= line
		if aBefore != bBefore {
			if aBefore {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.line, b.line), cmp.Compare(a.departures, b.departures))
	}).node
}

// wakersOf says what ended the waits at n: of goroutines the functions that did, of tasks those of other loops.
func (v *view) wakersOf(n *bgraph.Node) []waker {
	var out []waker
	var all uint64
	if len(n.Wakers) > 0 {
		for i := range n.Wakers {
			all += n.Wakers[i].Count
		}
		for i := range n.Wakers[:min(len(n.Wakers), mostWakers)] {
			w := &n.Wakers[i]
			out = append(out, waker{words.Waker(w), words.Ratio(float64(w.Count), float64(all)), lastWait(v.calls[w.Function], w.Line)})
		}
		return out
	}
	counts := map[bgraph.Key]uint64{}
	for _, c := range v.shown.Crossings {
		if c.To == n.Key && n.Key > bgraph.KeyOverflow {
			all += c.Count
			counts[c.From] += c.Count
		}
	}
	for from, count := range counts {
		if from != 0 && count > 0 {
			out = append(out, waker{v.shown.NameOf(from), words.Ratio(float64(count), float64(all)), from})
		}
	}
	slices.SortFunc(out, func(a, b waker) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(a.place, b.place))
	})
	return out[:min(len(out), mostWakers)]
}
