package tables

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// What a profile, a list of goroutines and tasks of runtime/trace tell stands in the text.
func TestTextOfTraces(t *testing.T) {
	var b bytes.Buffer
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Edges[0].Parts = bgraph.Parts{Samples: 4, Preempted: 3}
		s.Edges[0].Functions = []bgraph.Waker{{Function: "main.sum", Line: 12, Count: 3}, {Function: "main.add", Line: 5, Count: 1}}
		s.Starts[0].Leaked = 321
		s.Spans = []bgraph.Span{{Kind: "task", Name: "order", Times: s.Edges[0].CPU, Path: []bgraph.PathPart{{Node: 100, Wait: 30e6, Step: 15e6}, {Ready: 1e6}}}}
	})
	testenv.Must(t, WriteText(&b, s, Options{}))
	testenv.Must(t, WriteSpans(&b, s, "task", 0))
	for _, want := range []string{"a step: 4 samples in all\n", "in main.sum:12 75.0%, main.add:5 25.0%", "leaked\n", " 321\n",
		"WHERE THE TIME OF order GOES", "request    90.0%  45.0µs  30.0µs       0            15.0µs", "not known   2.0%", "8.0% of the time is not known"} {
		testenv.Contains(t, b.String(), want)
	}
}

// Most wait at the requests, and one of net/http beside each looks if its client goes away.
func TestMostThatWait(t *testing.T) {
	s := graphcases.Traced(func(s *bgraph.Snapshot) {
		s.Nodes[0].Now = 32
		s.Nodes = append(s.Nodes, bgraph.Node{Key: 101, Reason: "read", Departures: 1000, Now: 33, Stack: []bgraph.Frame{{Function: "cmux.(*bufferedReader).Read"}, {Function: "net/http.(*connReader).backgroundRead"}}})
	})
	text := writeText(t, s, Options{})
	testenv.Contains(t, text, "waiting: 32 goroutines at request")
}

// One in a hundred is said of a hundred and more.
func TestLateAmongFew(t *testing.T) {
	for times, want := range map[int]bool{22: false, 200: true} {
		s := graphcases.Traced(func(s *bgraph.Snapshot) {
			for range times {
				s.Nodes[0].Ready.Add(bgraph.Nanos(30 * time.Millisecond))
			}
		})
		text := writeText(t, s, Options{})
		if got := strings.Contains(text, "ready, but not running: 1 in 100"); got != want {
			t.Errorf("%d times: named %v\n%.800s", times, got, text)
		}
	}
}
