package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestRequest: the timeline of a request has a row for each goroutine, called by the outermost function of the program, and says whose
// goroutine ended each wait.
func TestRequest(t *testing.T) {
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		frame := func(function string) bgraph.Frame {
			return bgraph.Frame{Function: function, File: "main.go", Line: 7}
		}
		s.Nodes = []bgraph.Node{
			{Key: 100, Reason: "waitgroup", Stack: []bgraph.Frame{frame("sync.(*WaitGroup).Wait"), frame("main.gather"), frame("main.handle"), frame("net/http.(*conn).serve")}},
			{Key: 101, Reason: "sleep", Stack: []bgraph.Frame{frame("time.Sleep"), frame("main.ask"), frame("main.gather.func1"), frame("sync.(*WaitGroup).Go.func1")}},
		}
		s.Slowest = []bgraph.Span{{Kind: "request", Name: "main.handle", Begun: 5, Timeline: []bgraph.PathPart{
			{Node: 100, Wait: 90, Ready: 2, Step: 8, Count: 1, By: frame("main.gather.func1")},
			{Node: bgraph.KeyStart, Depth: 3, Step: 10},
			{Node: 101, Depth: 3, From: 10, Wait: 70, Ready: 4, Step: 6, Count: 1},
			{Node: bgraph.KeyOverflow, Wait: 1, Count: 4},
		}}}
		s.Slowest[0].Times.Add(100)
	})
	p := New(sample.Shop(), Options{})
	p.history.add(s, time.Now())
	state := get[stateJSON](t, p, "/api/state")
	testenv.MustEqual(t, len(state.Slowest), 1, "requests in the state")
	testenv.Equal(t, state.Slowest[0][0], any("main.handle"), "name")
	r := get[requestJSON](t, p, "/api/request?n=1")
	testenv.EqualSlices(t, r.Rows, []string{"main.handle", "main.gather.func1"}, "rows")
	testenv.MustEqual(t, len(r.Visits), 3, "visits")
	if first := r.Visits[0]; r.Took != 100 || r.Short != 4 || first.Wait != 90 || first.By != "main.gather.func1 (main.go:7)" || first.ByRow != 2 || first.Path == "" {
		t.Errorf("%+v", r)
	}
	if last := r.Visits[2]; last.Row != 1 || last.Key != 101 || last.By != "" || last.ByRow != 0 {
		t.Errorf("%+v", last)
	}
	for _, n := range []string{"0", "2", "", "x"} {
		testenv.Equal(t, answerTo(p, request("GET", "localhost", "/api/request?n="+n)).Code, http.StatusBadRequest, "n=%q: status", n)
	}
}
