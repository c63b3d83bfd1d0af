package graphhttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/task"
)

// ask gets target from a handler of the given snapshots, one after the other.
func ask(method, target string, snapshots ...*bgraph.Snapshot) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	askWith(w, httptest.NewRequest(method, target, nil), func(context.Context, time.Duration) error { return nil }, snapshots...)
	return w
}

func askWith(w http.ResponseWriter, r *http.Request, pause func(context.Context, time.Duration) error, snapshots ...*bgraph.Snapshot) {
	h := &handler{pause: pause, snapshot: func() *bgraph.Snapshot {
		s := snapshots[0]
		if len(snapshots) > 1 {
			snapshots = snapshots[1:]
		}
		return s
	}}
	h.ServeHTTP(w, r)
}

func TestHandlerFormats(t *testing.T) {
	s := graphcases.Sample()
	for _, c := range []struct {
		format, mime, file string
		check              func(body []byte) error
	}{
		{"", "text/html; charset=utf-8", "", contains("<!doctype html>")},
		{"dump", "application/octet-stream", s.Program.Name + "-" + strconv.Itoa(s.Program.PID) + ".bgraph", func(body []byte) error {
			got, err := bgraph.Decode(bytes.NewReader(body))
			if err == nil && len(got.Nodes) != len(s.Nodes) {
				return errors.New("nodes are missing")
			}
			return err
		}},
		{"text", "text/plain; charset=utf-8", "", contains("NODES")},
		{"summary", "text/plain; charset=utf-8", "", contains("Most tasks wait at")},
		{"json", "application/json", "", func(body []byte) error { return json.Unmarshal(body, new(bgraph.Snapshot)) }},
		{"dot", "text/vnd.graphviz; charset=utf-8", "", contains("digraph")},
		{"svg", "image/svg+xml", "", contains("<svg")},
		{"folded", "text/plain; charset=utf-8", "", contains(";")},
		{"pprof", "application/octet-stream", s.Program.Name + "-" + strconv.Itoa(s.Program.PID) + ".pb.gz", func(body []byte) error {
			_, err := gzip.NewReader(bytes.NewReader(body))
			return err
		}},
		{"lint", "text/plain; charset=utf-8", "", contains(" in " + s.Program.Name)},
	} {
		w := ask("GET", "/debug/graph/?format="+c.format, s)
		if w.Code != 200 {
			t.Errorf("%s: status %d, %s", c.format, w.Code, w.Body)
			continue
		}
		if err := c.check(w.Body.Bytes()); err != nil {
			t.Errorf("%s: %v\n%s", c.format, err, w.Body)
		}
		h := w.Header()
		want := map[string]string{"Content-Type": c.mime, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Content-Length": strconv.Itoa(w.Body.Len())}
		if want["Content-Disposition"] = ""; c.file != "" {
			want["Content-Disposition"] = `attachment; filename="` + c.file + `"`
		}
		for name, value := range want {
			testenv.Equal(t, h.Get(name), value, "%s: %s", c.format, name)
		}
	}
}

func contains(text string) func([]byte) error {
	return func(body []byte) error {
		if !bytes.Contains(body, []byte(text)) {
			return errors.New("no " + strconv.Quote(text) + " in it")
		}
		return nil
	}
}

func TestHandlerRefuses(t *testing.T) {
	long := strings.Repeat("a", longestPattern+1)
	for query, want := range map[string]string{
		"format=xml":              `unknown format "xml"; there are dump, text, summary, json, dot, svg, folded, pprof, lint`,
		"fromat=svg":              `unknown parameter "fromat"; there are format, seconds,`,
		"format=svg&format=dot":   "format is given 2 times",
		"format=%zz":              "can't be read",
		"seconds=0":               `seconds="0"; want a number from 1 to 300`,
		"seconds=301":             `seconds="301"; want a number from 1 to 300`,
		"seconds=1.5":             "want a number from 1 to 300",
		"limit=-1":                `limit="-1"; want a number from 1 to 100000`,
		"focus=(":                 "focus is no regular expression",
		"ignore=a(?=b)":           "ignore is no regular expression",
		"focus=" + long:           "focus is 1001 bytes long; want at most 1000",
		"sort=nonsense":           `"nonsense"`,
		"format=text&sort=x":      "arrivals",
		"format=svg&color=red":    "wait",
		"format=dot&color=red":    "wait",
		"format=folded&metric=no": "heap",
	} {
		target := "/?" + query
		if !strings.HasPrefix(query, "seconds=") {
			target += "&seconds=300"
		}
		w := httptest.NewRecorder()
		askWith(w, httptest.NewRequest("GET", target, nil), func(context.Context, time.Duration) error {
			t.Errorf("%s: it is told later only", query)
			return nil
		}, graphcases.Sample())
		if w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: status %d, %q; want 400 and %q", query, w.Code, w.Body, want)
		}
		if w.Header().Get("Content-Type") != plainText || w.Header().Get("Content-Disposition") != "" {
			t.Errorf("%s: headers %v", query, w.Header())
		}
	}
}

func TestHandlerMethods(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		if w := ask(method, "/", graphcases.Sample()); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: status %d, Allow %q", method, w.Code, w.Header().Get("Allow"))
		}
	}
	server := httptest.NewServer(handlerFor(graphcases.Sample))
	defer server.Close()
	get, body := testenv.Get(t, http.DefaultClient, server.URL+"/?format=dump")
	head := testenv.Need(http.Head(server.URL + "/?format=dump"))(t)
	head.Body.Close()
	if head.StatusCode != 200 || head.ContentLength != int64(len(body)) || head.Header.Get("Content-Disposition") != get.Header.Get("Content-Disposition") {
		t.Errorf("HEAD: %d, %v; GET has %d bytes, %v", head.StatusCode, head.Header, len(body), get.Header)
	}
}

func TestHandlerWithoutGraph(t *testing.T) {
	for _, snapshots := range [][]*bgraph.Snapshot{{nil}, {graphcases.Sample(), nil}} {
		w := ask("GET", "/?seconds=1", snapshots...)
		if w.Code != 503 || !strings.Contains(w.Body.String(), "CAPRICCIO_GRAPH=on") {
			t.Errorf("status %d, %q", w.Code, w.Body)
		}
	}
	if w := ask("GET", "/", nil); w.Code != 503 {
		t.Errorf("status %d, %q", w.Code, w.Body)
	}
}

// TestIndexLinksWork: the page may be mounted anywhere, so what it links to is next to
// it.
func TestIndexLinksWork(t *testing.T) {
	mux := http.NewServeMux()
	h := handlerFor(graphcases.Sample)
	mux.Handle("/debug/graph/", h)
	mux.Handle("/graph", h)
	mux.Handle("/x/", http.StripPrefix("/x", h))
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/debug/graph/", "/graph", "/x/"} {
		page := fetch(t, server.URL+path+"?focus=read|accept&sort=now")
		at, _ := url.Parse(server.URL + path)
		links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1)
		testenv.MustEqual(t, len(links), len(forms), "%s: N links", path)
		for _, link := range links {
			to := testenv.Need(at.Parse(strings.ReplaceAll(link[1], "&amp;", "&")))(t)
			if to.Path != path || to.Query().Get("focus") != "read|accept" {
				t.Errorf("%s links to %v", path, to)
			}
			fetch(t, to.String())
		}
		if !strings.Contains(page, `value="read|accept"`) || !strings.Contains(page, "<option selected>now") {
			t.Errorf("the form does not show what was asked for: %s", page)
		}
	}
}

func fetch(t *testing.T, url string) string {
	t.Helper()
	resp, body := testenv.Get(t, http.DefaultClient, url)
	testenv.Equal(t, resp.StatusCode, 200, "%s: status N, %s", url, body)
	return body
}

func TestIndexEscapesNames(t *testing.T) {
	s := graphcases.Sample()
	s.Program.Name = `<script>"'`
	s.Nodes[3].Label = "</pre><script>"
	w := ask("GET", `/?focus=<script>|.&ignore="%3E%3Cb`, s)
	if w.Code != 200 || strings.Contains(w.Body.String(), "<script>") || strings.Contains(w.Body.String(), "<b") && strings.Contains(w.Body.String(), `value=""><b`) {
		t.Errorf("status %d; a name became markup: %s", w.Code, w.Body)
	}
	w = ask("GET", "/?format=dump", s)
	testenv.Equal(t, w.Header().Get("Content-Disposition"), `attachment; filename="_script___-`+strconv.Itoa(s.Program.PID)+`.bgraph"`, "Content-Disposition")
}

func TestHandlerFilters(t *testing.T) {
	s := small()
	for query, want := range map[string]int{
		"":                       len(s.Nodes),
		"focus=accept":           3, // with start and end
		"ignore=shop":            2,
		"focus=read&ignore=next": 2,
	} {
		got, err := bgraph.Decode(ask("GET", "/?format=dump&"+query, s).Body)
		if err != nil || len(got.Nodes) != want {
			t.Errorf("%s: %d nodes, %v; want %d", query, len(got.Nodes), err, want)
		}
	}
	testenv.Equal(t, len(s.Nodes), len(small().Nodes), "the snapshot itself was changed")
	all := strings.Count(ask("GET", "/?format=text", s).Body.String(), "\n")
	if few := strings.Count(ask("GET", "/?format=text&limit=2", s).Body.String(), "\n"); few >= all {
		t.Errorf("%d lines with limit=2, %d without", few, all)
	}
}

// What a filter leaves out goes on all the same.
func TestHandlerLintsTheWhole(t *testing.T) {
	s := graphcases.Sample()
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Reason == "mutex" {
			n.Oldest = bgraph.Nanos(3 * time.Second)
		}
	}
	if text := ask("GET", "/?format=lint&focus=^mutex", s).Body.String(); strings.Contains(text, "deadlock") {
		t.Error(text)
	}
}

func TestHandlerDifference(t *testing.T) {
	before, after := small(), small()
	after.Taken = after.Taken.Add(10 * time.Second)
	after.Span += bgraph.Nanos(10 * time.Second)
	n := after.Node(kRead)
	n.Arrivals += 70
	n.Departures += 70
	var paused []time.Duration
	w := httptest.NewRecorder()
	askWith(w, httptest.NewRequest("GET", "/?seconds=10&format=dump", nil), func(_ context.Context, d time.Duration) error {
		paused = append(paused, d)
		return nil
	}, before, after)
	got := testenv.Need(bgraph.Decode(w.Body))(t)
	if n := got.Node(kRead); n == nil || n.Arrivals != 70 || got.Span != bgraph.Nanos(10*time.Second) {
		t.Errorf("span %v, node %+v; want 70 arrivals in 10 s", got.Span, n)
	}
	if len(paused) != 1 || paused[0] != 10*time.Second {
		t.Errorf("paused for %v, want 10 s once", paused)
	}

	after.Program.PID++ // another program has taken its place
	if w := ask("GET", "/?seconds=1", before, after); w.Code != 503 {
		t.Errorf("two programs: status %d, %s", w.Code, w.Body)
	}
}

// deafWriter notes whether anything is written.
type deafWriter struct {
	http.ResponseWriter
	wrote bool
}

func (d *deafWriter) WriteHeader(int)             { d.wrote = true }
func (d *deafWriter) Write(p []byte) (int, error) { d.wrote = true; return len(p), nil }

func TestDifferenceEndsWithTheClient(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &deafWriter{ResponseWriter: httptest.NewRecorder()}
	r := httptest.NewRequest("GET", "/?seconds=300", nil).WithContext(ctx)
	time.AfterFunc(time.Millisecond, cancel)
	began := time.Now()
	askWith(w, r, pause, graphcases.Sample())
	if took := time.Since(began); took > time.Minute || w.wrote {
		t.Errorf("after %v, written %v; want an end when the client goes, and nothing written", took, w.wrote)
	}
}

// Each difference keeps a snapshot while it waits.
func TestDifferencesAreBounded(t *testing.T) {
	inside, goOn := make(chan bool), make(chan bool)
	h := &handler{snapshot: graphcases.Sample, pause: func(context.Context, time.Duration) error {
		inside <- true
		<-goOn
		return nil
	}}
	get := func(target string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", target, nil))
		return w
	}
	var group sync.WaitGroup
	for range mostDifferences {
		group.Go(func() { get("/pprof?seconds=9") })
	}
	for range mostDifferences {
		<-inside
	}
	w := get("/pprof?seconds=9")
	testenv.Equal(t, w.Code, 503)
	testenv.Contains(t, w.Body.String(), "32 requests with seconds are under way")
	testenv.Equal(t, get("/pprof").Code, 200, "without a difference")
	close(goOn)
	group.Wait()
	go func() { <-inside }()
	testenv.Equal(t, get("/pprof?seconds=9").Code, 200, "when the others have ended")
}

func TestDifferenceLongerThanTheServerAllows(t *testing.T) {
	server := httptest.NewUnstartedServer(handlerFor(graphcases.Sample))
	server.Config.WriteTimeout = 30 * time.Second
	server.Start()
	defer server.Close()
	resp := testenv.Need(http.Get(server.URL + "/?seconds=30"))(t)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 400 || !strings.Contains(string(body), "ends answers after 30s") {
		t.Errorf("status %d, %s", resp.StatusCode, body)
	}
}

func TestPauseParksATask(t *testing.T) {
	rt := testenv.Need(engine.New(engine.Config{Loops: 1, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }}))(t)
	defer rt.Close()
	ctx, cancel := context.WithCancel(context.Background())
	ended := rt.Go(func() {
		testenv.Check(t, pause(ctx, time.Millisecond), "pause")
		// The loop is free meanwhile, or nobody would cancel.
		engine.Go(cancel)
		testenv.ErrorIs(t, pause(ctx, time.Hour), context.Canceled, "pause")
	})
	testenv.Check(t, ended.Join())
}

func TestHandlerOfARuntime(t *testing.T) {
	rt := func(c engine.Config) *task.Runtime {
		c.Loops, c.NewPoller = 1, func(int) (engine.Poller, error) { return poller.Epoll() }
		rt := testenv.Need(engine.New(c))(t)
		t.Cleanup(func() { rt.Close() })
		return (*task.Runtime)(rt)
	}
	with, without := rt(engine.Config{Graph: recorder.New(recorder.Config{})}), rt(engine.Config{})
	for _, c := range []struct {
		h    http.Handler
		want int
	}{{Handler(with), 200}, {Handler(without), 503}, {Handler(nil), 503}} { // the default is the one made last
		w := httptest.NewRecorder()
		c.h.ServeHTTP(w, httptest.NewRequest("GET", "/?format=json", nil))
		if err := json.Unmarshal(w.Body.Bytes(), new(bgraph.Snapshot)); w.Code != c.want || (err == nil) != (w.Code == 200) {
			t.Errorf("status %d, want %d, %v: %s", w.Code, c.want, err, w.Body)
		}
	}
}

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

// What fetches profiles again and again asks for a path, and seconds.
func TestProfilesByTheirPath(t *testing.T) {
	before, after := graphcases.Sample(), graphcases.Sample()
	after.Span += 2e9
	after.Taken = after.Taken.Add(2 * time.Second)
	for target, want := range map[string]string{
		"/debug/bgraph/pprof":                          "cpu wait ready count heap",
		"/debug/bgraph/pprof?metric=wait":              "wait",
		"/debug/bgraph/pprof?metric=cpu&seconds=2":     "cpu",
		"/debug/bgraph/?format=pprof&metric=ready":     "ready",
		"/debug/bgraph/pprof?format=pprof&metric=heap": "heap",
	} {
		w := ask("GET", target, before, after)
		p, err := profile.Parse(w.Body)
		if err != nil || w.Code != http.StatusOK {
			t.Errorf("%s: %d, %v", target, w.Code, err)
			continue
		}
		var types []string
		for _, s := range p.SampleType {
			types = append(types, s.Type)
		}
		testenv.Equal(t, strings.Join(types, " "), want, target)
		if strings.Contains(target, "seconds") {
			testenv.Equal(t, p.DurationNanos, 2e9, target)
		}
	}
	for _, target := range []string{"/debug/bgraph/pprof?metric=time", "/debug/bgraph/pprof?seconds=0", "/debug/bgraph/pprof?debug=1"} {
		testenv.Equal(t, ask("GET", target, before).Code, http.StatusBadRequest, target)
	}
}
