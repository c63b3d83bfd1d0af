package recorder

import (
	"io"
	"strconv"
	"testing"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestReasonsHaveNames(t *testing.T) {
	names := map[string]bool{}
	for r := range reasonCount {
		if n := r.String(); n == "" || n == "unknown" || names[n] {
			t.Errorf("reason %d is called %q", r, n)
		}
		names[r.String()] = true
	}
	testenv.Equal(t, reasonCount.String(), "unknown", "a reason too many has a name")
}

// All loops together have no more crossings than fit into a dump.
func TestCrossingsOfManyLoopsFitIntoADump(t *testing.T) {
	const loops, more = 64, 5
	g := New(Config{})
	rt := &Runtime{Counts: func(*admit.Resource) bool { return false }}
	for i := range loops {
		s := g.Observe(Loop{Runtime: rt, Index: i, State: func() (int, bool) { return 0, true }})
		defer s.Close()
		for from := range graphlimits.Edges/loops/loops + more {
			id := g.register(uint64(from), ReasonYield, strconv.Itoa(from), nil)
			for loop := range loops {
				s.Cross(new(Task), id, loop)
			}
		}
	}
	s := g.Snapshot()
	testenv.Must(t, s.Encode(io.Discard))
	testenv.Equal(t, len(s.Crossings), graphlimits.Edges)
	testenv.Equal(t, s.Overflow.Wakes, loops*loops*more)
}

// What a task does again and again is only counted, without a look at what is new: but resources that have moved, another
// place, and what is measured are seen.
func TestKnownStepsAreOnlyCounted(t *testing.T) {
	const here, there = 7, 8
	g := New(Config{Sampling: 1 << 30, HeapEvery: -1})
	var a admit.Account
	s := g.Observe(Loop{Runtime: &Runtime{Tasks: new(admit.Resource)}, Account: &a})
	defer s.Close()
	var k Task
	o, _ := s.Start(&k)
	park := func(print uint64) {
		t.Helper()
		switch {
		case s.Park(&k, o, ReasonYield, print):
		case s.Knows(&k, print):
			s.Arrive(&k, o, ReasonYield)
		default:
			s.Meet(&k, o, ReasonYield, print, strconv.Itoa(int(print)), nil)
		}
		s.ResumeYield(&k, o)
	}
	park(there)
	for range learning + 2 {
		park(here)
		park(here)
	}
	if e := s.at[k.node].out; !e.known || e.to != s.at[k.node] || !k.quiet {
		t.Fatalf("known %v, a loop %v, quiet %v; want all", e.known, e.to == s.at[k.node], k.quiet)
	}
	e, before := s.at[k.node].out, s.at[k.node].out.count
	for i := range uint64(10) {
		left := s.left
		park(here)
		if e.count != before+i+1 || s.left != left-1 || s.last != e {
			t.Fatalf("wait %d: counted %d, %d left of %d", i, e.count-before, s.left, left)
		}
	}
	a.Taken[2] += 5
	a.Moves, a.Moved = a.Moves+1, 1<<2
	park(here)
	if c := e.changes[0].Load(); c == nil || c[2].sum != 5 {
		t.Error("what a step has taken was not seen")
	}
	at := k.node
	park(there)
	if k.node == at {
		t.Error("another place was not seen")
	}
	park(here)
	n := s.at[at]
	testenv.Equal(t, n.arrivals, n.departures, "arrivals, as many as departures")
	testenv.Equal(t, n.arrivals, uint64(2*(learning+2)+12), "arrivals")
	s.Finish(&k, o)
	testenv.Equal(t, s.at[NodeEnd].arrivals, 1, "ends")
}
