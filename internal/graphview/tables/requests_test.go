package tables

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// requestsSnapshot is of a server that has one slow request, which waits for a lock, whose holder sleeps.
func requestsSnapshot() *bgraph.Snapshot {
	const lock, sleep = 100, 200
	one := func(d bgraph.Nanos) (t bgraph.Times) {
		t.Add(d)
		return t
	}
	ms := bgraph.Nanos(time.Millisecond)
	sp := bgraph.Span{Kind: "request", Name: "main.getUser", Path: []bgraph.PathPart{
		{Node: lock, Wait: 90 * ms, Ready: ms, Step: 4 * ms, Count: 2}, {Node: sleep, Wait: 88 * ms, Count: 44, Depth: 1},
	}}
	sp.Times.Add(60 * ms)
	sp.Times.Add(40 * ms)
	return &bgraph.Snapshot{
		Kind: bgraph.KindGoroutines, Span: bgraph.Nanos(time.Second), Spans: []bgraph.Span{sp},
		Nodes: []bgraph.Node{
			{Key: lock, Reason: "mutex", Stack: []bgraph.Frame{{Function: "main.lookup", File: "/src/main.go", Line: 19}, {Function: "main.getUser", File: "/src/main.go", Line: 30}}},
			{Key: sleep, Reason: "sleep", Stack: []bgraph.Frame{{Function: "main.refresh", File: "/src/main.go", Line: 12}}},
		},
		Slowest: []bgraph.Span{
			{Kind: "request", Name: "main.getUser", Begun: 20 * ms, Times: one(60 * ms), Open: true, Path: []bgraph.PathPart{
				{Node: lock, Count: 1, From: ms, Ready: ms, Step: 2 * ms, By: bgraph.Frame{Function: "main.refresh", File: "/src/main.go", Line: 14}},
				{Node: sleep, Depth: 1, Count: 22, From: ms, Wait: 50 * ms},
			}},
			{Kind: "task", Name: "order", Times: one(40 * ms), Path: []bgraph.PathPart{{Node: 300, Wait: 39 * ms, Count: 1}, {Node: bgraph.KeyOverflow, Wait: ms, Count: 3}}},
		},
	}
}

// TestRequests: the slowest requests are told of in the order of time, with what ended their waits, and all by what handles them.
func TestRequests(t *testing.T) {
	s := requestsSnapshot()
	var b bytes.Buffer
	testenv.Must(t, WriteSlowest(&b, s, 5, 0))
	b.WriteString("\n")
	testenv.Must(t, WriteRequests(&b, s, 0, 0))
	b.WriteString("\n" + requestFact(s) + "\n")
	testenv.Golden(t, "requests.golden", b.Bytes())
}

// TestFactOfRequests: the first screen says where the time of requests goes, also if that is no wait.
func TestFactOfRequests(t *testing.T) {
	for _, c := range []struct {
		name string
		path bgraph.PathPart
		want string
	}{
		{"running", bgraph.PathPart{Node: 100, Step: bgraph.Nanos(90 * time.Millisecond)}, ": 90.0% running"},
		{"ready", bgraph.PathPart{Node: 100, Ready: bgraph.Nanos(70 * time.Millisecond)}, ": 70.0% ready, but not running"},
		{"waiting", bgraph.PathPart{Node: 100, Wait: bgraph.Nanos(70 * time.Millisecond), Count: 60}, ": 70.0% at mutex main.lookup (main.go:19), 30.0 times"},
	} {
		s := requestsSnapshot()
		s.Spans[0].Path = []bgraph.PathPart{c.path}
		if got := requestFact(s); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: got %q, want %q at its end", c.name, got, c.want)
		}
	}
}

// TestSampledIn: the function with most samples is named, of all its lines, but not if it has few of them.
func TestSampledIn(t *testing.T) {
	sampled := func(function string, line int, count uint64) bgraph.Waker {
		return bgraph.Waker{Function: function, File: "/src/main.go", Line: line, Count: count}
	}
	for _, c := range []struct {
		name    string
		sampled []bgraph.Waker
		samples uint64
		want    string
	}{
		{"lines of one function", []bgraph.Waker{sampled("main.parse", 3, 40), sampled("main.encode", 7, 30), sampled("main.encode", 9, 20)}, 100, "; 50.0% in main.encode (main.go:7)"},
		{"scattered", []bgraph.Waker{sampled("main.parse", 3, 9), {Function: "others", Count: 91}}, 100, ""},
		{"few samples", []bgraph.Waker{sampled("main.parse", 3, 4)}, 4, ""},
		{"no profile", nil, 0, ""},
	} {
		if got := sampledIn(&bgraph.Edge{Functions: c.sampled, Parts: bgraph.Parts{Samples: c.samples}}); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
