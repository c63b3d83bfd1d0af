package graphhttp

import (
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
)

const kRead bgraph.Key = 100

// small is a graph of two places.
func small() *bgraph.Snapshot {
	node := func(k bgraph.Key, reason, function string) bgraph.Node {
		n := bgraph.Node{Key: k, Reason: reason, Arrivals: 10, Departures: 10}
		if function != "" {
			n.Stack = []bgraph.Frame{{Function: function}}
		}
		return n
	}
	began := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	return &bgraph.Snapshot{
		Program: bgraph.Program{Name: "shop", PID: 4711, Host: "h", Go: "go1.26", Started: began},
		Taken:   began.Add(time.Hour), Span: bgraph.Nanos(time.Hour), Sampling: 20,
		Nodes: []bgraph.Node{
			node(bgraph.KeyStart, "start", ""), node(bgraph.KeyEnd, "end", ""),
			node(kRead, "read", "example.com/shop.next"), node(kRead+1, "accept", "example.com/shop.serve"),
		},
		Edges: []bgraph.Edge{{From: kRead, To: kRead, Count: 10}},
	}
}
