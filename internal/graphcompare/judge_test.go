package graphcompare

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Keys of the scene.
const (
	sceneLock bgraph.Key = 0x100 + iota
	sceneQuery
	sceneIdle
	sceneReply
)

// A scene is a second of a server, by its figures.
type scene struct {
	requests    uint64
	streams     uint64  // of the requests, those of HTTP/2
	lockWait    float64 // ms
	queries     uint64  // for each request
	idle        float64 // ms that each worker waits for work
	cpu         float64 // ms for each request
	line        int     // by which the functions have moved
	noResponses bool    // it serves no HTTP
}

var usualScene = scene{requests: 1000, lockWait: 1, queries: 1, idle: 5, cpu: 0.1}

// A part in which all goroutines wait for a lock is no deadlock while others sleep.
func TestFindingsOfAPart(t *testing.T) {
	later := side(usualScene, 1)
	later[0].Nodes = []bgraph.Node{{Key: sceneLock, Reason: "mutex", Now: 1, Oldest: 3e9}, {Key: sceneIdle, Reason: "sleep", Now: 1}}
	for _, focus := range []*regexp.Regexp{nil, regexp.MustCompile("mutex")} {
		if v := Judge(side(usualScene, 1), later, focus, nil); len(v.Regressions) > 0 {
			t.Errorf("focus %v: got %+v; want no regression", focus, v.Regressions)
		}
	}
}

func (sc scene) snapshot() *bgraph.Snapshot {
	s := &bgraph.Snapshot{Kind: bgraph.KindGoroutines, Span: 1e9, Sampling: 1}
	frame := func(function string, line int) bgraph.Frame {
		return bgraph.Frame{Function: function, File: "/src/main.go", Line: line + sc.line, Offset: line}
	}
	node := func(key bgraph.Key, reason string, visits uint64, ms float64, stack ...bgraph.Frame) {
		if sc.line > 0 {
			key += bgraph.Key(sc.line) << 16
		}
		n := bgraph.Node{Key: key, Reason: reason, Stack: stack, Arrivals: visits, Departures: visits}
		for range visits {
			n.Wait.Add(bgraph.Nanos(ms * 1e6))
		}
		s.Nodes = append(s.Nodes, n)
	}
	handler := frame("net/http.HandlerFunc.ServeHTTP", 40)
	node(sceneLock, "mutex", sc.requests, sc.lockWait, frame("main.lookup", 10), handler)
	node(sceneQuery, "read", sc.requests*sc.queries, 0.1, frame("main.query", 20), handler)
	node(sceneIdle, "channel receive", sc.requests, sc.idle, frame("main.worker", 30))
	if !sc.noResponses {
		node(sceneReply, "response", sc.requests-sc.streams, 0, frame("net/http.(*response).finishRequest", 50))
	}
	e := bgraph.Edge{From: s.Nodes[0].Key, To: s.Nodes[1].Key, Count: sc.requests}
	for range sc.requests {
		e.CPU.Add(bgraph.Nanos(sc.cpu * 1e6))
	}
	s.Edges = append(s.Edges, e)
	s.Starts = []bgraph.Start{{Function: "net/http.(*http2serverConn).runHandler", Created: sc.streams, Ended: sc.streams}}
	s.Sort()
	return s
}

func (sc scene) with(change func(*scene)) scene {
	change(&sc)
	return sc
}

// side are captures whose waits for the lock are these, in milliseconds.
func side(sc scene, locks ...float64) (all []*bgraph.Snapshot) {
	for _, ms := range locks {
		sc.lockWait = ms
		all = append(all, sc.snapshot())
	}
	return all
}

// verdictOf is the differences in short.
func verdictOf(v *Verdict) string {
	var out []string
	for sign, list := range map[string][]Difference{"+": v.Regressions, "-": v.Better, "?": v.Other} {
		for _, d := range list {
			out = append(out, sign+d.Kind+" "+d.Name)
		}
	}
	return strings.Join(out, ", ")
}

// A difference counts if it is more than twice the larger spread and more than 10 %.
func TestADifferenceIsMoreThanNoise(t *testing.T) {
	const worse, better = "+wait mutex main.lookup", "-wait mutex main.lookup"
	for _, c := range []struct {
		before, after []float64
		want          string
	}{
		{[]float64{10, 11, 12}, []float64{15.5, 16, 15.2}, worse},
		{[]float64{10, 11, 12}, []float64{14.5, 15, 14.2}, ""},               // twice the spread
		{[]float64{10, 11, 10}, []float64{12, 16, 15}, ""},                   // the other side varies
		{[]float64{10, 10, 10}, []float64{10.9, 10.9, 10.9}, ""},             // 9 %
		{[]float64{10, 10, 10}, []float64{11.2, 11.2, 11.2}, worse},          // 12 %
		{[]float64{15.5, 16, 15.2}, []float64{10, 11, 12}, better},           //
		{[]float64{10}, []float64{19}, ""},                                   // with one capture a side, twice as much
		{[]float64{10}, []float64{21}, worse},                                //
		{[]float64{21}, []float64{10}, better},                               //
		{[]float64{10}, []float64{10.2, 10.3, 12.5}, ""},                     //
		{[]float64{10, 10.5}, []float64{14}, worse},                          //
		{[]float64{0.001, 0.001, 0.001}, []float64{0.01, 0.01, 0.01}, ""},    // 9 ms in a second, of 1,000 requests
		{[]float64{0.001, 0.001, 0.001}, []float64{0.04, 0.04, 0.04}, worse}, // 39 ms
	} {
		got := verdictOf(Judge(side(usualScene, c.before...), side(usualScene, c.after...), nil, nil))
		testenv.Equal(t, got, c.want, "%v, then %v", c.before, c.after)
		moved := usualScene.with(func(sc *scene) { sc.line = 7 }) // other keys
		got = verdictOf(Judge(side(usualScene, c.before...), side(moved, c.after...), nil, nil))
		testenv.Equal(t, got, c.want, "%v, then %v in lines that moved", c.before, c.after)
	}
}

func TestWhatIsWorse(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*scene)
		want   string
	}{
		{"nothing", func(*scene) {}, ""},
		{"more queries", func(sc *scene) { sc.queries = 20 }, "+wait read main.query"},
		{"more CPU", func(sc *scene) { sc.cpu = 0.4 }, "+cpu mutex main.lookup → read main.query, +cpu the whole program"},
		{"less to do", func(sc *scene) { sc.idle = 20 }, "?capacity channel receive main.worker"},
		{"more requests", func(sc *scene) { sc.requests, sc.idle = 2000, 2.5 }, ""},
		{"fewer requests", func(sc *scene) { sc.requests, sc.idle = 500, 10 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before, after := side(usualScene, 1, 1, 1), side(usualScene.with(c.change), 1, 1, 1)
			testenv.Equal(t, verdictOf(Judge(before, after, nil, nil)), c.want)
		})
	}
	// Without requests to count, a lock that more goroutines want is no slower.
	jobs := usualScene.with(func(sc *scene) { sc.noResponses = true })
	twice := jobs.with(func(sc *scene) { sc.requests, sc.idle = 2000, 2.5 })
	if v := Judge(side(jobs, 1, 1, 1), side(twice, 1, 1, 1), nil, nil); len(v.Regressions) > 0 {
		t.Errorf("twice the load: %s", verdictOf(v))
	}
	testenv.Equal(t, verdictOf(Judge(side(jobs, 1, 1, 1), side(jobs, 2, 2, 2), nil, nil)), "+wait mutex main.lookup")
}

// Figures are told by request of HTTP/2, too.
func TestRequestsOfHTTP2(t *testing.T) {
	some := usualScene.with(func(sc *scene) { sc.requests, sc.streams, sc.idle = 2000, 1000, 3 })
	more := usualScene.with(func(sc *scene) { sc.requests, sc.streams, sc.idle = 3000, 2000, 2 })
	testenv.Equal(t, verdictOf(Judge(side(some, 1, 1, 1), side(more, 1, 1, 1), nil, nil)), "")
	all := usualScene.with(func(sc *scene) { sc.streams = sc.requests })
	testenv.Equal(t, Judge(side(all, 1), side(all, 1), nil, nil).PerRequest, true, "told by request")
	part := Judge(side(all, 1), side(all, 1), regexp.MustCompile("mutex"), nil)
	testenv.Equal(t, part.PerRequest, true, "of a part, told by request")
}

// A connection that a handler has made one of HTTP/2 (h2c) waits for requests, and is not at work.
func TestConnectionsOfHTTP2AreIdle(t *testing.T) {
	const http2 = "golang.org/x/net/http2"
	for callee, want := range map[string]bool{http2 + ".(*serverConn).serve": false, "main.load": true} {
		n := bgraph.Node{Reason: "select", Stack: []bgraph.Frame{{Function: callee}, {Function: http2 + "/h2c.h2cHandler.ServeHTTP"}, {Function: "net/http.serverHandler.ServeHTTP"}}}
		testenv.Equal(t, atWork(&n), want, "%s: at work", callee)
	}
}

// A lock that was never waited for has no node.
func TestALockThatIsNew(t *testing.T) {
	without := side(usualScene, 1, 1, 1)
	for _, s := range without {
		s.Nodes, s.Edges = s.Nodes[1:], nil
	}
	v := Judge(without, side(usualScene.with(func(sc *scene) { sc.cpu = 0 }), 1, 1, 1), nil, nil)
	testenv.Equal(t, verdictOf(v), "+wait mutex main.lookup")
}

// A finding is new if most captures have it and none had it.
func TestFindingsThatAreNew(t *testing.T) {
	stuck := func(has ...bool) (all []*bgraph.Snapshot) {
		for _, bad := range has {
			sc := usualScene
			if bad {
				sc.lockWait = 100
			}
			all = append(all, sc.snapshot())
		}
		return all
	}
	const no, yes = false, true
	for _, c := range []struct {
		before, after []*bgraph.Snapshot
		worse, better bool
	}{
		{stuck(no, no, no), stuck(yes, yes, no), true, false},
		{stuck(no, no, no), stuck(yes, no, no), false, false},
		{stuck(no, no, yes), stuck(yes, yes, yes), false, false},
		{stuck(yes, no, yes), stuck(no, no, no), false, true},
	} {
		v := Judge(c.before, c.after, nil, nil)
		worse, better := strings.Contains(verdictOf(v), "+finding convoy"), strings.Contains(verdictOf(v), "-finding convoy")
		if worse != c.worse || better != c.better {
			t.Errorf("got %s; want worse %v, better %v", verdictOf(v), c.worse, c.better)
		}
	}
}

// A finding is the same, whichever wait of the holder of a lock is the longest, and wherever most goroutines wait that do not end.
func TestFindingsThatAreTheSame(t *testing.T) {
	capture := func(some, others int64) []*bgraph.Snapshot {
		s := &bgraph.Snapshot{Kind: bgraph.KindGoroutines, Span: 1e9, Sampling: 1}
		node := func(key bgraph.Key, reason string, line int, now int64, wait bgraph.Nanos) {
			const visits = 1000
			n := bgraph.Node{Key: key, Reason: reason, Arrivals: visits + uint64(now), Departures: visits, Now: now, Peak: now,
				Stack: []bgraph.Frame{{Function: "main.(*store).get", File: "/src/main.go", Line: line}, {Function: "main.work", File: "/src/main.go", Line: 9}}}
			for range visits {
				n.Wait.Add(wait)
			}
			s.Nodes = append(s.Nodes, n)
		}
		node(0x200, "mutex", 10, 0, 10e6)
		node(0x201, "channel receive", 20, some, bgraph.Nanos(some)*1000)
		node(0x202, "select", 30, others, bgraph.Nanos(others)*1000)
		s.Nodes[0].Wakers = []bgraph.Waker{{Function: "main.(*store).get", File: "/src/main.go", Line: 40, Count: 1000}}
		s.Starts = []bgraph.Start{{Function: "main.work", File: "/src/main.go", Line: 8, Created: 500, Now: 500}}
		return []*bgraph.Snapshot{s}
	}
	got := verdictOf(Judge(side(usualScene, 1), capture(300, 200), nil, nil))
	testenv.Contains(t, got, "+finding convoy: mutex main.(*store).get")
	testenv.Contains(t, got, "+finding growing: goroutines of main.work")
	if got := verdictOf(Judge(capture(300, 200), capture(200, 300), nil, nil)); strings.Contains(got, "finding") {
		t.Errorf("got %s; want the same findings", got)
	}
}

// Tasks and regions count by the time that they take in all.
func TestSlowerTasks(t *testing.T) {
	with := func(kind string, count int, took bgraph.Nanos) []*bgraph.Snapshot {
		sp := bgraph.Span{Kind: kind, Name: "init"}
		for range count {
			sp.Times.Add(took)
		}
		all := side(usualScene, 1, 1, 1)
		for _, s := range all {
			s.Spans = []bgraph.Span{sp}
		}
		return all
	}
	for _, c := range []struct {
		kind        string
		count       int // a second
		before, now bgraph.Nanos
		want        string
	}{
		{"region", 1, 2e3, 5e3, ""},
		{"region", 1, 1e6, 500e6, "+task region init"},
		{"task", 1000, 1e6, 3e6, "+task task init"},
		{"task", 1000, 3e6, 1e6, "-task task init"},
		{"request", 1000, 1e6, 3e6, ""},
	} {
		v := Judge(with(c.kind, c.count, c.before), with(c.kind, c.count, c.now), nil, nil)
		testenv.Equal(t, verdictOf(v), c.want, "%d times a %s of %v, then %v", c.count, c.kind, c.before, c.now)
	}
}

func TestVerdictText(t *testing.T) {
	after := usualScene.with(func(sc *scene) { sc.queries, sc.idle, sc.cpu = 20, 20, 0.01 })
	v := Judge(side(usualScene, 1, 1.1, 1.2), side(after, 3, 3.1, 3.3), nil, nil)
	var text, markdown bytes.Buffer
	testenv.Must(t, v.WriteText(&text))
	testenv.Must(t, v.WriteMarkdown(&markdown))
	testenv.Golden(t, "verdict.golden", text.Bytes())
	testenv.Golden(t, "verdict.md.golden", markdown.Bytes())
	testenv.Check(t, testenv.Err(json.Marshal(v)))
	same := Judge(side(usualScene, 1), side(usualScene, 1), nil, nil)
	if text := same.Summary(); !strings.HasPrefix(text, "No regression (1 capture before") {
		t.Errorf("got %s", text)
	}
}
