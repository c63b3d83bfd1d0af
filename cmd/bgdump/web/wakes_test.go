package web

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Those that end waits are shown where they had waited last: before the line at which they do.
func TestWakersOf(t *testing.T) {
	place := func(k bgraph.Key, function string, line int) bgraph.Node {
		return bgraph.Node{Key: k, Reason: "mutex", Stack: []bgraph.Frame{{Function: function, Line: line}}, Departures: uint64(k)}
	}
	s := &bgraph.Snapshot{Nodes: []bgraph.Node{place(20, "main.save", 14), place(21, "main.save", 16), place(22, "main.load", 30), place(23, "main.load", 30), place(24, "main.none", 1)}}
	s.Nodes[0].Wakers = []bgraph.Waker{{Function: "main.save", Line: 17, Count: 6}, {Function: "main.load", Line: 9, Count: 3}, {Function: "other.f", Line: 1, Count: 2}, {Count: 1}}
	s.Crossings = []bgraph.Crossing{{To: 24, Count: 2}, {From: 22, To: 24, Count: 1}, {From: 23, To: 24, ToLoop: 1, Count: 5}}
	v := &view{shown: s, calls: callsByFunction(s)}
	testenv.EqualSlices(t, v.wakersOf(&s.Nodes[0]), []waker{{"main.save:17", 0.5, 21}, {"main.load:9", 0.25, 23}, {"other.f:1", 1.0 / 6, 0}, {"the scheduler", 1.0 / 12, 0}}, "wakers by function")
	testenv.EqualSlices(t, v.wakersOf(&s.Nodes[4]), []waker{{"mutex main.load", 0.625, 23}, {"mutex main.load", 0.125, 22}}, "wakers of other loops")
}
