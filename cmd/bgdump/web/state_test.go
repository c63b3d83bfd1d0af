package web

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/cmd/bgdump/web/internal/sample"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// pageOf returns a page that has asked prog once a second for n seconds.
func pageOf(t *testing.T, prog *sample.Program, n int, o Options) *Page {
	t.Helper()
	p := New(prog, o)
	for range n {
		prog.Advance(time.Second)
		s := snapshotOf(t, prog)
		p.history.add(s, s.Taken)
	}
	return p
}

// get decodes the answer to a path.
func get[T any](t *testing.T, p *Page, path string) T {
	t.Helper()
	w := answerTo(p, request("GET", "localhost", path))
	testenv.MustEqual(t, w.Code, 200, "%s: status N: %s", path, w.Body)
	var out T
	testenv.Must(t, json.NewDecoder(w.Body).Decode(&out), path)
	return out
}

func TestStateBeforeAnythingHasCome(t *testing.T) {
	p := New(sample.Shop(), Options{})
	s := get[stateJSON](t, p, "/api/state?base=last:60")
	if s.Source.State != "new" || s.Source.Name != "sample shop" || s.Program != nil {
		t.Errorf("got state %q of %q, program %v; want new, the name, none", s.Source.State, s.Source.Name, s.Program)
	}
	for _, path := range []string{"/api/layout", "/api/flame"} {
		if w := answerTo(p, request("GET", "localhost", path)); w.Code != 200 {
			t.Errorf("%s: status %d; want an empty answer", path, w.Code)
		}
	}
}

func TestStateOfATraceWithoutAClock(t *testing.T) {
	p := New(sample.Shop(), Options{})
	p.history.add(&bgraph.Snapshot{Kind: bgraph.KindGoroutines, Span: 1e9}, time.Now())
	if s := get[stateJSON](t, p, "/api/state"); s.Taken != 0 || s.Span != 1e9 {
		t.Errorf("a trace of %v, taken at %d; want no time", s.Span, s.Taken)
	}
}

func TestStateSinceTheStartIsTheSnapshot(t *testing.T) {
	prog := sample.Shop()
	p := pageOf(t, prog, 5, Options{})
	want := snapshotOf(t, prog)
	s := get[stateJSON](t, p, "/api/state")
	if s.At != 5 || s.Base != 0 || !s.Live || s.Span != want.Span || s.Taken != want.Taken.UnixMilli() {
		t.Errorf("at %d, base %d, live %v, span %v, taken %d", s.At, s.Base, s.Live, s.Span, s.Taken)
	}
	if len(s.Nodes) != len(want.Nodes) || len(s.Edges) != len(want.Edges) || len(s.Places) != len(want.Nodes) {
		t.Fatalf("%d nodes, %d edges, %d places; want %d, %d and a place for each node", len(s.Nodes), len(s.Edges), len(s.Places), len(want.Nodes), len(want.Edges))
	}
	keys := map[int]bgraph.Key{}
	for i, place := range s.Places {
		testenv.MustEqual(t, place.ID, i+1, "place %d has id", i)
		keys[place.ID] = place.Key
		if n := want.Node(place.Key); n == nil || place.Reason != n.Reason || len(place.Stack) != len(n.Stack) {
			t.Errorf("place %+v is not %+v", place, n)
		}
	}
	for _, n := range s.Nodes {
		w := want.Node(keys[n.ID])
		if w == nil || n.Now != w.Now || n.In != w.Arrivals || n.Out != w.Departures || n.Wait.N != w.Wait.Count || n.Wait.P99 != w.Wait.Quantile(0.99) || n.Oldest != w.Oldest || len(n.Loops) != len(w.Loops) {
			t.Errorf("node %+v is not %+v", n, w)
		}
	}
	for i, e := range s.Edges {
		w := &want.Edges[i]
		if keys[e.From] != w.From || keys[e.To] != w.To || e.Count != w.Count || e.Total != w.TotalCPU() || e.CPU.Max != w.CPU.Max {
			t.Errorf("edge %+v is not %+v", e, w)
		}
	}
	if !reflect.DeepEqual(s.Moments.ID, []uint64{1, 2, 3, 4, 5}) || len(s.Moments.Steps) != 5 || s.Moments.Steps[4] <= s.Moments.Steps[3] {
		t.Errorf("moments %+v", s.Moments)
	}
	if s.Sched == nil || len(s.Sched.Nodes) != 4 || s.Sched.Policy != "resource" {
		t.Errorf("scheduler %+v", s.Sched)
	}
}

func TestStateComparedIsTheDifference(t *testing.T) {
	prog := sample.Shop()
	p := pageOf(t, prog, 10, Options{})
	moments, _ := p.history.all()
	for path, base := range map[string]uint64{"base=4": 4, "base=last:3": 7, "base=last:3600": 1, "base=last:3&at=5": 2, "base=9&at=5": 4} {
		s := get[stateJSON](t, p, "/api/state?"+path)
		if s.Base != base {
			t.Errorf("%s: compared with %d; want %d", path, s.Base, base)
			continue
		}
		want := testenv.Need(bgraph.Diff(moments[s.Base-1].snap, moments[s.At-1].snap))(t)
		if s.Span != want.Span || s.Note != "" {
			t.Errorf("%s: span %v, note %q; want %v and none", path, s.Span, s.Note, want.Span)
		}
		var got, sum uint64
		for _, e := range s.Edges {
			got += e.Count
		}
		for _, e := range want.Edges {
			sum += e.Count
		}
		if got != sum || got == 0 {
			t.Errorf("%s: %d steps; want %d", path, got, sum)
		}
		places := p.places.sent
		for _, n := range s.Nodes {
			if was := moments[s.Base-1].snap.Node(places[n.ID-1].Key); n.Was != was.Now {
				t.Errorf("%s: %s had %d tasks; want %d", path, places[n.ID-1].Name, n.Was, was.Now)
			}
		}
	}
	if s := get[stateJSON](t, p, "/api/state?at=1&base=last:5"); s.Base != 0 || s.Span != bgraph.Nanos(time.Second) {
		t.Errorf("the first moment is compared with %d over %v; want nothing, since the start", s.Base, s.Span)
	}
	if s := get[stateJSON](t, p, "/api/state?at=999"); s.At != 10 {
		t.Errorf("moment %d for one that is not there; want the one before it, 10", s.At)
	}
}

func TestPlacesAreSentOnce(t *testing.T) {
	prog := sample.Shop()
	p := pageOf(t, prog, 2, Options{})
	first := get[stateJSON](t, p, "/api/state")
	if len(first.Places) == 0 || first.Era == 0 {
		t.Fatalf("%d places of era %d", len(first.Places), first.Era)
	}
	again := get[stateJSON](t, p, fmt.Sprintf("/api/state?era=%d&places=%d", first.Era, len(first.Places)))
	if len(again.Places) != 0 || len(again.Nodes) != len(first.Nodes) {
		t.Errorf("%d places and %d nodes the second time; want 0 and %d", len(again.Places), len(again.Nodes), len(first.Nodes))
	}
	for _, wrong := range []string{"era=77&places=3", "places=3", fmt.Sprintf("era=%d&places=9999", first.Era), fmt.Sprintf("era=%d&places=-1", first.Era), "era=x&places=y"} {
		if s := get[stateJSON](t, p, "/api/state?"+wrong); len(s.Places) != len(first.Places) {
			t.Errorf("%s: %d places; want all %d", wrong, len(s.Places), len(first.Places))
		}
	}
	prog.Restart()
	prog.Advance(time.Second)
	s := snapshotOf(t, prog)
	p.history.add(s, s.Taken)
	if s := get[stateJSON](t, p, fmt.Sprintf("/api/state?era=%d&places=%d", first.Era, len(first.Places))); s.Era == first.Era || len(s.Places) == 0 {
		t.Errorf("era %d and %d places after the program was started anew; want another era and all of them", s.Era, len(s.Places))
	}
}

func TestFilter(t *testing.T) {
	p := pageOf(t, sample.Shop(), 3, Options{})
	names := func(query string) string {
		s := get[stateJSON](t, p, "/api/state?"+query)
		var out []string
		for _, n := range s.Nodes {
			out = append(out, p.places.sent[n.ID-1].Name)
		}
		return strings.Join(out, ", ")
	}
	testenv.Equal(t, names("focus=accessLog"), "start, end, channel receive web.(*accessLog).drain, disk web.(*accessLog).flush", "focus=accessLog")
	if got := names("ignore=conn%7CServer"); strings.Contains(got, "conn") || !strings.Contains(got, "accessLog") {
		t.Errorf("ignore=conn|Server: %s", got)
	}
	testenv.Equal(t, names("focus=accessLog&ignore=disk&base=last:1"), "start, end, channel receive web.(*accessLog).drain", "focus, ignore and base")
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	p := pageOf(t, sample.Shop(), 3, Options{})
	for _, path := range []string{
		"/api/state?focus=(", "/api/state?ignore=%5B", "/api/state?focus=" + strings.Repeat("a", maxPattern+1), "/api/state?at=x", "/api/state?at=-1",
		"/api/state?base=last:0", "/api/state?base=last:x", "/api/state?base=yesterday", "/api/state?base=last:99999999999999999999",
		"/api/layout?n=x", "/api/layout?n=-3", "/api/layout?focus=(", "/api/flame?metric=beauty", "/api/flame?focus=(", "/api/track", "/api/track?place=0", "/api/track?place=99999",
		"/api/export", "/api/export?format=exe", "/api/export?format=json&focus=(",
	} {
		w := answerTo(p, request("GET", "localhost", path))
		var body struct{ Error string }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != 400 || body.Error == "" {
			t.Errorf("%.60s: status %d, body %.100s; want 400 and why", path, w.Code, w.Body)
		}
	}
}

func TestManyNodesAreLimited(t *testing.T) {
	p := pageOf(t, sample.Wide(400), 3, Options{MaxNodes: 100, MaxEdges: 150})
	s := get[stateJSON](t, p, "/api/state")
	if len(s.Nodes) != 100 || s.Hidden.Nodes != 302 || len(s.Edges) != 150 || s.Hidden.Edges == 0 {
		t.Errorf("%d nodes and %d more, %d edges and %d more; want 100, 302, 150, many", len(s.Nodes), s.Hidden.Nodes, len(s.Edges), s.Hidden.Edges)
	}
	most := func(value func(n nodeJSON) int64) (top int64) {
		for _, n := range s.Nodes {
			top = max(top, value(n))
		}
		return top
	}
	var now, oldest int64
	for _, n := range snapshotOf(t, p.src.(*sample.Program)).Nodes {
		now, oldest = max(now, n.Now), max(oldest, int64(n.Oldest))
	}
	if most(func(n nodeJSON) int64 { return n.Now }) != now || most(func(n nodeJSON) int64 { return int64(n.Oldest) }) != oldest {
		t.Error("the node with the most tasks or the longest wait was left out")
	}
}

func TestNamesFromADumpAreCleaned(t *testing.T) {
	for text, want := range map[string]string{
		"plain":                     "plain",
		"a\x00b\nc\td":              "a\uFFFDb\uFFFDc\uFFFDd",
		"evil\u202Egnp.exe":         "evil\uFFFDgnp.exe",
		"zero\u200Bwidth":           "zero\uFFFDwidth",
		"größe 世界":                  "größe 世界",
		strings.Repeat("ä", 99):     strings.Repeat("ä", 99),
		strings.Repeat("long", 100): strings.Repeat("long", 25) + "…",
	} {
		testenv.Equal(t, clean(text, 100), want, "clean(%.20q)", text)
	}
	testenv.Equal(t, cleanLines("a\n\tb\x1b[31m", 100), "a\n    b\uFFFD[31m", "cleanLines")
}

func TestHostileNamesStayJSON(t *testing.T) {
	p := pageOf(t, sample.Hostile(), 3, Options{})
	for _, path := range []string{"/api/state?want=overruns", "/api/layout", "/api/flame?metric=wait", "/api/track?place=1"} {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, request("GET", "localhost", path))
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: status %d, type %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if strings.ContainsAny(w.Body.String(), "<>") {
			t.Errorf("%s: has an angle bracket that is not escaped", path)
		}
	}
	w := answerTo(p, request("GET", "localhost", "/api/export?format=json"))
	if got := w.Header().Get("Content-Disposition"); strings.ContainsAny(got, "<>'/\\") || !strings.HasPrefix(got, "attachment; filename=") {
		t.Errorf("Content-Disposition %q", got)
	}
}

func TestOverrunsComeWhenTheyAreWanted(t *testing.T) {
	p := pageOf(t, sample.Shop(), 3, Options{})
	if s := get[stateJSON](t, p, "/api/state"); s.Overruns != 2 || s.Reports != nil {
		t.Errorf("%d overruns, %d reports; want 2 and none", s.Overruns, len(s.Reports))
	}
	s := get[stateJSON](t, p, "/api/state?want=overruns")
	if len(s.Reports) != 2 || s.Reports[0].From == 0 || s.Reports[0].To == 0 || !strings.Contains(s.Reports[0].Stack, "sortOffers") {
		t.Errorf("reports %+v", s.Reports)
	}
}
