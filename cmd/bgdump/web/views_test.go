package web

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlayout"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestLayoutIsThatOfTheGraph(t *testing.T) {
	prog := sample.Shop()
	p := pageOf(t, prog, 3, Options{})
	got := get[layoutJSON](t, p, "/api/layout")
	want := graphlayout.Layout(snapshotOf(t, prog), graphlayout.Options{})
	if len(got.Nodes) != len(want.Nodes) || len(got.Edges) != len(want.Edges) || got.Width != want.Width {
		t.Fatalf("%d nodes, %d edges, width %g; want %d, %d, %g", len(got.Nodes), len(got.Edges), got.Width, len(want.Nodes), len(want.Edges), want.Width)
	}
	for i, n := range got.Nodes {
		if p.places.sent[n.ID-1].Key != want.Nodes[i].Key || n.X != want.Nodes[i].X || len(n.Lines) != len(want.Nodes[i].Lines) {
			t.Errorf("node %+v is not %+v", n, want.Nodes[i])
		}
	}
}

func TestLayoutOfAPeriodHasIdleNodes(t *testing.T) {
	prog := sample.Shop()
	p := pageOf(t, prog, 30, Options{})
	// In a second, some steps of the sample do not happen.
	part := get[stateJSON](t, p, "/api/state?base=29")
	all := get[stateJSON](t, p, "/api/state")
	if len(part.Edges) >= len(all.Edges) {
		t.Fatalf("%d edges in a second, %d in all; want fewer", len(part.Edges), len(all.Edges))
	}
	testenv.Equal(t, part.Shape, all.Shape, "the shape for another period, which the drawing rests by")
	drawn := get[layoutJSON](t, p, "/api/layout?base=29")
	testenv.Equal(t, len(drawn.Edges), len(all.Edges), "edges drawn")
	if filtered := get[stateJSON](t, p, "/api/state?focus=accessLog"); filtered.Shape == all.Shape {
		t.Error("the shape is the same with a filter")
	}
}

func TestLayoutDrawsSoManyNodesAndOneForTheOthers(t *testing.T) {
	p := pageOf(t, sample.Wide(300), 3, Options{})
	got := get[layoutJSON](t, p, "/api/layout?n=25")
	others := 0
	for _, n := range got.Nodes {
		if n.ID == 0 {
			others++
		}
	}
	if len(got.Nodes) != 25 || others != 1 {
		t.Errorf("%d nodes, of which %d stand for others; want 25 and 1", len(got.Nodes), others)
	}
}

func TestFlameAddsUp(t *testing.T) {
	f := newFlame()
	f.read([]byte("main;a;b 10\nmain;a 5\nmain;c d 7\nnonsense\nmain;x -3\nmain;y 0\n\nmain 1\n"))
	text := testenv.Need(json.Marshal(f.root.list(1)))(t)
	testenv.Equal(t, string(text), `[0,23,[1,23,[2,15,[3,10]],[4,7]]]`, "tree")
	testenv.Equal(t, strings.Join(f.names, "|"), "all|main|a|b|c d", "names")
	testenv.Equal(t, fmt.Sprint(f.root.list(8)), "[0 23 [1 23 [2 15 [3 10]]]]", "without the narrow frames")
}

func TestFlameOfEveryMetric(t *testing.T) {
	p := pageOf(t, sample.Shop(), 30, Options{})
	for metric, unit := range metrics {
		f := get[flameJSON](t, p, "/api/flame?metric="+metric)
		if f.Unit != unit || len(f.Names) < 5 || f.Root[1].(float64) <= 0 {
			t.Errorf("%s: unit %q, %d names, root %v", metric, f.Unit, len(f.Names), f.Root[1])
		}
	}
	all, last := get[flameJSON](t, p, "/api/flame?metric=cpu"), get[flameJSON](t, p, "/api/flame?metric=cpu&base=last:10")
	testenv.AtMost(t, last.Root[1].(float64)*2, all.Root[1].(float64), "%v in the last 10 s, %v in 30 s", last.Root[1], all.Root[1])
}

func TestTrack(t *testing.T) {
	prog := sample.Shop()
	p := pageOf(t, prog, 6, Options{})
	s := get[stateJSON](t, p, "/api/state")
	moments, _ := p.history.all()
	for _, n := range s.Nodes {
		track := get[trackJSON](t, p, fmt.Sprintf("/api/track?place=%d", n.ID))
		if len(track.ID) != 6 || track.Now[5] != n.Now || track.In[5] != n.In {
			t.Fatalf("track %+v ends otherwise than %+v", track, n)
		}
		if was := moments[1].snap.Node(p.places.sent[n.ID-1].Key); track.Now[1] != was.Now || track.Out[1] != was.Departures {
			t.Errorf("at the second moment %d tasks; want %d", track.Now[1], was.Now)
		}
	}
}

func TestExports(t *testing.T) {
	p := pageOf(t, sample.Shop(), 3, Options{})
	begins := map[string]string{"json": "{", "text": "", "dot": "", "svg": "<", "folded": "", "dump": "", "pprof": "\x1f\x8b"}
	for name, f := range formats {
		w := answerTo(p, request("GET", "localhost", "/api/export?focus=conn&color=wait&metric=wait&format="+name))
		if w.Code != 200 || !strings.HasPrefix(w.Body.String(), begins[name]) || w.Body.Len() < 100 {
			t.Errorf("%s: status %d, %d bytes %.40q", name, w.Code, w.Body.Len(), w.Body)
		}
		testenv.Equal(t, w.Header().Get("Content-Disposition"), "attachment; filename=shop-20260314T031148."+f.ending, name)
	}
	w := answerTo(p, request("GET", "localhost", "/api/export?format=dump&base=last:1"))
	s, err := bgraph.Decode(w.Body)
	if err != nil || s.Span != bgraph.Nanos(time.Second) {
		t.Fatalf("the dump of a period: %v, %v; want one second", s, err)
	}
	s.Taken, s.Program.Started = time.Time{}, time.Time{} // as of a trace without a clock
	p = New(sample.Shop(), Options{})
	p.history.add(s, time.Now())
	w = answerTo(p, request("GET", "localhost", "/api/export?format=json"))
	testenv.Equal(t, w.Header().Get("Content-Disposition"), "attachment; filename=shop.json", "without a time")
}

// A part of a graph in which all tasks wait for a lock is no deadlock while tasks of the other parts sleep.
func TestFindingsOfAPart(t *testing.T) {
	lock := bgraph.Node{Key: 10, Reason: "mutex", Now: 1, Oldest: bgraph.Nanos(3 * time.Second)}
	sleep := bgraph.Node{Key: 11, Reason: "sleep", Now: 1}
	for _, c := range []struct {
		nodes      []bgraph.Node
		opts       Options
		query      string
		deadlocked bool
	}{
		{[]bgraph.Node{lock}, Options{}, "", true},
		{[]bgraph.Node{lock, sleep}, Options{}, "focus=mutex", false},
		{[]bgraph.Node{lock, sleep}, Options{Focus: regexp.MustCompile("mutex")}, "", false},
		{[]bgraph.Node{lock, sleep}, Options{Ignore: regexp.MustCompile("sleep")}, "focus=mutex", false},
		{[]bgraph.Node{lock}, Options{Ignore: regexp.MustCompile("mutex")}, "", false},
	} {
		p := New(sample.Shop(), c.opts)
		p.history.add(&bgraph.Snapshot{Nodes: c.nodes}, time.Now())
		for _, path := range []string{"state?", "export?format=text&", "export?format=dot&", "export?format=svg&"} {
			w := answerTo(p, request("GET", "localhost", "/api/"+path+c.query))
			const red = "#cf222e" // a drawing marks the node
			got := strings.Contains(w.Body.String(), "a deadlock") || strings.Contains(w.Body.String(), red)
			testenv.Equal(t, got, c.deadlocked, "%s%s of %d nodes, %+v: status %d\n%s", path, c.query, len(c.nodes), c.opts, w.Code, w.Body)
		}
	}
}

func TestAnswersAreCompressedIfThatIsWanted(t *testing.T) {
	p := pageOf(t, sample.Shop(), 3, Options{})
	r := request("GET", "localhost", "/api/state")
	r.Header.Set("Accept-Encoding", "br, gzip")
	w := answerTo(p, r)
	testenv.MustEqual(t, w.Header().Get("Content-Encoding"), "gzip", "Content-Encoding")
	z := testenv.Need(gzip.NewReader(w.Body))(t)
	var s stateJSON
	if err := json.NewDecoder(z).Decode(&s); err != nil || len(s.Nodes) == 0 {
		t.Errorf("%d nodes, error %v", len(s.Nodes), err)
	}
}

func TestViewsAreRemembered(t *testing.T) {
	p := pageOf(t, sample.Shop(), 4, Options{})
	for range 2 * viewsKept {
		get[stateJSON](t, p, "/api/state?base=2")
		get[layoutJSON](t, p, "/api/layout?base=2")
	}
	testenv.Equal(t, len(p.views.asked), 1, "views are remembered of one that was asked for again and again")
	for i := range 3 * viewsKept {
		get[stateJSON](t, p, fmt.Sprintf("/api/state?focus=x%d", i))
	}
	testenv.Equal(t, len(p.views.asked), viewsKept, "views are remembered")
}
