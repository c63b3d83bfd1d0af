//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// servedFleet runs bgdump -http until the test is over, and returns a function that gets a page.
func servedFleet(t *testing.T, sur *surroundings, args ...string) (get func(path string, status int) string) {
	t.Helper()
	return getter(t, serveCommand(t, sur, append([]string{"-http", ":0"}, args...)...))
}

// serveCommand runs bgdump, which serves something, until the test is over, and returns its address.
func serveCommand(t *testing.T, sur *surroundings, args ...string) (address string) {
	t.Helper()
	address, end := serveUntil(t, sur, args...)
	t.Cleanup(func() {
		got := end()
		testenv.Equal(t, got.code, exitOK, got.errOut)
	})
	return address
}

// serveUntil is serveCommand for a command that ends when end is called, which returns what it said.
func serveUntil(t *testing.T, sur *surroundings, args ...string) (address string, end func() result) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r, w := io.Pipe()
	sur.stdout = w
	ended := make(chan result, 1)
	go func() {
		ended <- commandIn(t, ctx, sur, args...)
		w.Close()
	}()
	line, _ := bufio.NewReader(r).ReadString('\n')
	go io.Copy(io.Discard, r)
	address = regexp.MustCompile(`http://127\.0\.0\.1:[1-9][0-9]*`).FindString(line)
	testenv.True(t, address != "", "the first line is %q", line)
	return address, func() result {
		cancel()
		defer http.DefaultClient.CloseIdleConnections()
		return <-ended
	}
}

// getter returns a function that gets a page.
func getter(t *testing.T, address string) func(path string, status int) string {
	return func(path string, status int) string {
		t.Helper()
		resp := testenv.Need(http.Get(address + path))(t)
		defer resp.Body.Close()
		testenv.Equal(t, resp.StatusCode, status, path)
		return readAll(t, resp.Body)
	}
}

// The page shows what -focus and -ignore leave.
func TestPageOfAPart(t *testing.T) {
	get := servedFleet(t, &surroundings{clock: newFakeClock()}, "-focus", "mutex|sleep", "-ignore", "sleep", shopFile)
	testenv.Until(t, "the page has only mutexes", func() bool {
		reasons := regexp.MustCompile(`"reason":"[^"]*"`).FindAllString(get("/api/state", 200), -1)
		slices.Sort(reasons)
		return strings.Join(slices.Compact(reasons), " ") == `"reason":"end" "reason":"mutex" "reason":"start"`
	})
}

// slowLock makes the waits for mutexes longer.
func slowLock(s *bgraph.Snapshot) *bgraph.Snapshot {
	for at := range s.Nodes {
		if n := &s.Nodes[at]; n.Reason == "mutex" {
			n.Wait.Sum, n.Wait.Max = 20*n.Wait.Sum, 20*n.Wait.Max
		}
	}
	return s
}

// Two sources were recorded yesterday and today, by other processes each day; today one of them waits for a lock.
func recordedTwoDays(t *testing.T) (dir string) {
	dir = t.TempDir()
	now := newFakeClock().Now()
	for i, name := range []string{"shop-1", "shop-2"} {
		testenv.Must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
		for day := range 2 {
			first := podGraph(t, 10*day+i, now.Add(-time.Duration(1-day)*24*time.Hour-50*time.Minute))
			if day == 1 && i == 1 {
				slowLock(first)
			}
			for j := range 5 {
				s := later(first, time.Duration(j)*10*time.Minute)
				testenv.Must(t, bgraph.WriteFile(filepath.Join(dir, name, nameRecording(s)), s))
			}
		}
	}
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "shop-1", "20260314T030000.000Z-shop-1.bgraph"), []byte("cut off"), 0o600))
	return dir
}

func TestHistoryOfAFleet(t *testing.T) {
	dir := recordedTwoDays(t)
	get := servedFleet(t, &surroundings{clock: newFakeClock()}, dir)
	list := get("/", 200)
	for _, want := range []string{">shop-1</a>", `href="/source/shop-2/"`, `href="/history?source=shop-2"`, "of its time in mutex", "2 sources, 2026-03-14 03:02:45"} {
		testenv.Contains(t, list, want)
	}
	history := get("/history?source=shop-1", 200)
	testenv.Equal(t, strings.Count(history, `<th scope="row">2026-03-1`), 11, "rows of the history:\n%s", history)
	testenv.Contains(t, history, "not a dump")
	today, yesterday := strings.Index(history, "2026-03-14 03:02:45"), strings.Index(history, "2026-03-13 03:02:45")
	testenv.True(t, today > 0 && yesterday > today, "the latest is not the first:\n%s", history)

	// Yesterday and today.
	testenv.Contains(t, get("/compare?source=shop-2&length=1h&earlier=24h", 200), "REGRESSION")
	testenv.Contains(t, get("/compare?source=shop-1&length=1h&earlier=24h", 200), "No regression")
	testenv.Contains(t, get("/compare?length=1h&earlier=24h", 200), "captures before, 8 after")
	testenv.Contains(t, get("/compare?length=1h&earlier=72h", 404), "there are not two recordings of a program between 2026-03-11 02:02:45 and 2026-03-11 03:02:45")
	for _, wrong := range []string{"length=1h", "length=0s&earlier=1h", "length=2h&earlier=1h", "length=x&earlier=1h"} {
		testenv.Contains(t, get("/compare?"+wrong, 400), "want two durations", wrong)
	}

	// The page of a source knows what was recorded of the run that is the last.
	testenv.Until(t, "the page has five moments", func() bool {
		state := get("/source/shop-2/api/state", 200)
		moments := regexp.MustCompile(`"moments":\{"id":\[([0-9,]*)\]`).FindStringSubmatch(state)
		return moments != nil && strings.Count(moments[1], ",") == 4 && strings.Contains(state, `"state":"ok"`)
	})
	testenv.Contains(t, get("/source/shop-2/", 200), "app.js")
	for path, status := range map[string]int{"/source/shop-9/": 404, "/source/shop-1": 404, "/source/../../etc/": 404, "/source/%2e%2e/": 404, "/history?source=..": 404, "/history": 404,
		"/compare?source=..&length=1h&earlier=24h": 404, "/nothing": 404, "/style.css": 200, "/fleet.css": 200} {
		get(path, status)
	}
}

// Without -http the folder is the sum of the last recordings of its sources.
func TestFolderOfAFleet(t *testing.T) {
	dir := recordedTwoDays(t)
	r := command(t, dir)
	testenv.Equal(t, r.code, exitOK, r.errOut)
	testenv.Contains(t, r.out, "shop-2 differs: ")
	testenv.Contains(t, r.out, "\nSOURCES: 2, 2 differing\n")
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "shop-1", "20990314T030000.000Z-shop-1.bgraph"), []byte("cut off"), 0o600))
	r = command(t, dir)
	testenv.Equal(t, r.code, exitOK, r.errOut)
	testenv.Contains(t, r.out, "SOURCES: 2, 1 without a graph")
	testenv.Contains(t, r.errOut, "bgdump: shop-1: ")
}

// More sources have pages than are kept at a time.
func TestPagesOfALiveFleet(t *testing.T) {
	clk := newFakeClock()
	server := serving(t, podFleet(t, func(i int) *bgraph.Snapshot {
		switch s := podGraph(t, i, clk.Now()); i {
		case 3:
			return slowLock(s)
		case 5:
			return nil
		default:
			return s
		}
	}))
	var args []string
	for i := range 11 {
		args = append(args, fmt.Sprintf("%s/%d/debug/bgraph/", server, i))
	}
	get := servedFleet(t, &surroundings{clock: clk}, args...)
	list := get("/", 200)
	testenv.Contains(t, list, "11 sources")
	testenv.Contains(t, list, "no graph: the answer at /5/debug/bgraph/ is 503")
	testenv.Contains(t, list, "of its time in mutex")
	testenv.True(t, !strings.Contains(list, "history"), "a history of programs that are not recorded")
	get("/history?source="+url.QueryEscape(args[0]), 404)
	get("/compare?length=1h&earlier=24h", 404)
	for i, arg := range args {
		path := "/source/" + url.PathEscape(arg) + "/"
		testenv.Contains(t, list, "/source/"+strings.ReplaceAll(url.PathEscape(arg), "%3A", ":"))
		want := `"state":"ok"`
		if i == 5 {
			want = "503"
		}
		testenv.Until(t, arg, func() bool { return strings.Contains(get(path+"api/state", 200), want) })
	}
}

// Targets of one name are told apart, and the page of a target follows it to another address, also while all programs are asked.
func TestPagesOfTargetsWithOneName(t *testing.T) {
	clk := newFakeClock()
	var asking atomic.Bool
	asked, goOn := make(chan bool, 1), make(chan bool)
	server := serving(t, podFleet(t, func(i int) *bgraph.Snapshot {
		switch {
		case i == 1:
			return nil
		case i == 2 && asking.Load():
			asked <- true
			<-goOn
		}
		return podGraph(t, i, clk.Now())
	}))
	list := writeFile(t, "targets.yml", "")
	targets := func(names ...string) {
		var text strings.Builder
		for i, name := range names {
			fmt.Fprintf(&text, "- targets: ['%s/%d/debug/bgraph/']\n  labels: {pod: %s}\n", server, i, name)
		}
		testenv.Must(t, os.WriteFile(list, []byte(text.String()), 0o600))
	}
	targets("shop", "shop", "bakery")
	get := servedFleet(t, &surroundings{clock: clk}, "-interval", minInterval.String(), "-timeout", "1h", "-targets", list)
	names := []string{"bakery"}
	for i := range 2 {
		names = append(names, fmt.Sprintf("shop %s/%d/debug/bgraph/", server, i))
	}
	text := get("/", 200)
	for _, name := range names {
		testenv.Contains(t, text, ">"+name+"</a>")
	}
	shows := func(name, want string) {
		t.Helper()
		testenv.Until(t, name+" has "+want, func() bool {
			return strings.Contains(get("/source/"+url.PathEscape(name)+"/api/state", 200), want)
		})
	}
	shows(names[1], `"state":"ok"`)
	shows(names[2], "503")

	targets("away", "shop", "bakery")
	clk.mu.Lock()
	clk.set(clk.now.Add(refreshEvery))
	clk.mu.Unlock()
	shows(names[1], "there is no source")
	shows("shop", "503")
	asking.Store(true)
	sum := make(chan string)
	go func() { sum <- get("/", 200) }()
	<-asked
	targets("shop", "away", "bakery")
	clk.mu.Lock()
	clk.set(clk.now.Add(refreshEvery))
	clk.mu.Unlock()
	shows("shop", `"state":"ok"`)
	shows("away", "503")
	asking.Store(false)
	close(goOn)
	testenv.Contains(t, <-sum, ">shop</a>")
}

// There can be one trace of a program at a time: the list waits while the page of a program has one taken.
func TestListDuringTheTraceOfAPage(t *testing.T) {
	traced := newProfiled("/debug/pprof/cmdline", "/debug/pprof/trace")
	var tracing atomic.Bool
	begun, goOn, asked := make(chan bool, 1), make(chan bool), make(chan bool, 1)
	server := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tracing.Load() {
			answers(500, "", "Could not enable tracing: tracing is already enabled")(w, r)
			return
		}
		if r.URL.Query().Get("seconds") == "1" && len(traced.seconds()) == 0 {
			tracing.Store(true)
			begun <- true
			<-goOn
			tracing.Store(false)
		}
		traced.ServeHTTP(w, r)
	}))
	clk := newFakeClock()
	pod := serving(t, podFleet(t, func(i int) *bgraph.Snapshot {
		asked <- true
		return podGraph(t, i, clk.Now())
	})) + "/0/debug/bgraph/"
	get := servedFleet(t, &surroundings{clock: clk}, "-timeout", "1h", server+"/debug/pprof/", pod)
	get("/source/"+url.PathEscape(server+"/debug/pprof/")+"/api/state", 200)
	<-begun
	list := make(chan string)
	go func() { list <- get("/", 200) }()
	<-asked
	close(goOn)
	text := <-list
	testenv.True(t, !strings.Contains(text, "takes a trace of it just now"), "got\n%s", text)
	testenv.Equal(t, len(traced.seconds()), 2, "traces")
}
