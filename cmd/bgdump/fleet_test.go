//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/filesd"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// podGraph is the graph of pod number i of a fleet, taken at that time.
func podGraph(t *testing.T, i int, at time.Time) *bgraph.Snapshot {
	s := shop(t)
	s.Program.PID = 100 + i
	s.Program.Started, s.Taken = at.Add(-s.Span.Duration()), at
	return s
}

// podFleet answers at /N/ with the graph of pod N.
func podFleet(t *testing.T, graph func(i int) *bgraph.Snapshot) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var i int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d/debug/bgraph/", &i); err != nil {
			http.NotFound(w, r)
			return
		}
		if s := graph(i); s != nil {
			if err := s.Encode(w); r.Context().Err() == nil { // else the client has gone
				testenv.Check(t, err)
			}
		} else {
			http.Error(w, "not here", http.StatusServiceUnavailable)
		}
	}
}

func writeFile(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	testenv.Must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// The graphs of a program whose clock is wrong stay graphs of one run, though each answer takes another time.
func TestAClockThatDiffersMakesNoOtherRun(t *testing.T) {
	begun := time.Date(2026, 3, 14, 3, 12, 45, 0, time.UTC)
	asked := begun
	ask := func(m *member, ahead, took time.Duration) *bgraph.Snapshot {
		asked = asked.Add(time.Minute)
		m.snap = shop(t)
		m.snap.Program.Started, m.snap.Taken = begun.Add(ahead), asked.Add(took+ahead)
		m.correctClock(asked, asked.Add(took))
		return m.snap
	}
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		m := new(member)
		first := ask(m, ahead, 20*time.Millisecond)
		for _, took := range []time.Duration{time.Millisecond, 300 * time.Millisecond, time.Second} {
			if s := ask(m, ahead, took); !bgraph.SameRun(first, s) {
				t.Errorf("a clock %v ahead: begun %v, and before it was %v", ahead, s.Program.Started, first.Program.Started)
			}
		}
		testenv.Equal(t, ask(m, 0, time.Millisecond).Program.Started, begun, "begin by a clock that was set right")
		testenv.Equal(t, m.skew, 0, "its difference")
	}
}

// A fleet of eight pods: pod 3 waits for a lock, the clock of pod 4 is three hours ahead, pod 5 gives no graph, pod 6 is pod 0
// at another address, and the graph of pod 7 is a trace.
func TestFleet(t *testing.T) {
	clk := newFakeClock()
	graph := func(i int) *bgraph.Snapshot {
		s := podGraph(t, i, clk.Now())
		switch i {
		case 3:
			for at := range s.Nodes {
				if n := &s.Nodes[at]; n.Reason == "mutex" {
					n.Wait.Sum, n.Wait.Max = 20*n.Wait.Sum, 20*n.Wait.Max
				}
			}
		case 4:
			s = podGraph(t, i, clk.Now().Add(3*time.Hour))
		case 5:
			return nil
		case 6:
			s.Program.PID = 100
		case 7:
			return &bgraph.Snapshot{Kind: bgraph.KindGoroutines, Span: 1e9}
		}
		return s
	}
	server := serving(t, podFleet(t, func(i int) *bgraph.Snapshot { return graph(i) }))
	var groups []filesd.Group
	for i := range 8 {
		groups = append(groups, filesd.Group{Targets: []string{fmt.Sprintf("%s/%d/debug/bgraph/", server, i)}, Labels: map[string]string{"pod": fmt.Sprintf("pod-%d", i)}})
	}
	groups = append(groups, filesd.Group{Targets: []string{"no port"}})
	text := testenv.Need(json.Marshal(groups))(t)
	list := writeFile(t, "targets.json", string(text))
	r := commandIn(t, context.Background(), &surroundings{clock: clk}, "-targets", list)
	testenv.Equal(t, r.code, exitOK, r.errOut)
	for _, want := range []string{
		`the target "no port" is no HOST:PORT`,
		"bgdump: pod-4: its clock is 3h0m0s ahead",
		"bgdump: pod-5: the answer at /5/debug/bgraph/ is 503",
		"bgdump: pod-6: it is the same process as pod-0",
		"bgdump: pod-7: its graph cannot be added to that of pod-0",
	} {
		testenv.Contains(t, r.errOut, want)
	}
	for _, want := range []string{
		"\npod-3 differs: ", "of its time in mutex", "\nSOURCES: 8, 3 without a graph, 1 differing\n", "no graph: it is the same process", "its clock is 3h00m ahead",
		clk.Now().Format(time.DateTime), // not that of pod 4
	} {
		testenv.Contains(t, r.out, want)
	}
	// An argument that is in the list counts once.
	r = commandIn(t, context.Background(), &surroundings{clock: clk}, "-targets", list, server+"/1/debug/bgraph/")
	testenv.Contains(t, r.out, "\nSOURCES: 8, 3 without")
	// The sum keeps its sources in a dump, too.
	dump := commandIn(t, context.Background(), &surroundings{clock: clk}, "-dump", "-targets", list)
	again := command(t, "-md", writeFile(t, "fleet.bgraph", dump.out)).ok(t)
	testenv.Contains(t, again, "| pod-3 |")
	testenv.Contains(t, again, "pod-7")

	graph = func(int) *bgraph.Snapshot { return nil }
	r = commandIn(t, context.Background(), &surroundings{clock: clk}, "-targets", list)
	if r.code != exitFailed || !strings.Contains(r.errOut, "no graph of 8 sources") || strings.Count(r.errOut, "\n") > 12 {
		t.Errorf("got %+v", r)
	}
}

// listOf500 is a list of 500 targets. The last one never answers, until timeIsUp sets the clock forward by 7 s, as a goroutine does
// when the connections of all others are closed; the clock of target 7 is three hours ahead.
func listOf500(t *testing.T, clk *fakeClock) (list string, timeIsUp func()) {
	const targets, silent = 500, 499
	var closed atomic.Int64
	over, waits := make(chan bool), make(chan bool) // all others have answered; the silent one is asked
	asked := sync.OnceFunc(func() { close(waits) })
	answer := podFleet(t, func(i int) *bgraph.Snapshot {
		taken := clk.Now()
		if i == 7 {
			taken = taken.Add(3 * time.Hour)
		}
		return &bgraph.Snapshot{Program: bgraph.Program{Name: "pod", PID: 1 + i}, Taken: taken, Span: 1e9, Loops: []bgraph.LoopStat{{Steps: 1}}}
	})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, fmt.Sprintf("/%d/", silent)) {
			asked()
			<-r.Context().Done()
			return
		}
		answer(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed && closed.Add(1) == targets-1 {
			close(over)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	var text strings.Builder
	text.WriteString("# of file_sd\n- labels: {job: shop}\n  targets:\n")
	for i := range targets {
		fmt.Fprintf(&text, "  - %s/%d/debug/bgraph/\n", s.URL, i)
	}
	timeIsUp = sync.OnceFunc(func() {
		<-waits
		clk.advance(7 * time.Second)
	})
	go func() {
		select {
		case <-over:
			timeIsUp()
		case <-t.Context().Done():
		}
	}()
	return writeFile(t, "targets.yml", text.String()), timeIsUp
}

// Of 500 targets one never answers, the clock of another one differs, and a second list can't be read: whatever bgdump does with them,
// each of that is said, and there is a result for the others.
func TestFleetOf500(t *testing.T) {
	for name, c := range map[string]struct {
		says []string
		run  func(t *testing.T, clk *fakeClock, timeIsUp func(), args []string) result
	}{
		"at once": {[]string{"its clock is 3h0m0s ahead", "no answer within 7s"}, func(t *testing.T, clk *fakeClock, timeIsUp func(), args []string) result {
			r := commandIn(t, context.Background(), &surroundings{clock: clk}, append(args, "-json")...)
			var s bgraph.Snapshot
			if err := json.Unmarshal([]byte(r.out), &s); err != nil || len(s.Loops) != 499 || len(s.Sources) != 500 {
				t.Fatalf("%v, %d loops, %d sources\n%s", err, len(s.Loops), len(s.Sources), r.errOut)
			}
			testenv.Contains(t, s.Sources[499].Failed, "no answer within 7s", "the silent target")
			return r
		}},
		"metrics": {[]string{"no answer within 7s"}, func(t *testing.T, clk *fakeClock, timeIsUp func(), args []string) result {
			address, end := serveUntil(t, &surroundings{clock: clk}, append(args, "-serve", ":0")...)
			text := getter(t, address)("/metrics", 200)
			testenv.Equal(t, len(regexp.MustCompile(`(?m)^bgraph_up\{.*\} 1$`).FindAllString(text, -1)), 499, "targets that are up")
			testenv.True(t, regexp.MustCompile(`(?m)^bgraph_up\{source=".*/499/debug/bgraph/"\} 0$`).MatchString(text), "the silent target is not down")
			return end()
		}},
		"recorded": {[]string{"its clock is 3h0m0s ahead", "no answer within 7s"}, func(t *testing.T, clk *fakeClock, timeIsUp func(), args []string) result {
			dir, done := t.TempDir(), make(chan result, 1)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				done <- commandIn(t, ctx, &surroundings{clock: clk}, append(args, "-record", dir, "-interval", "1h")...)
			}()
			testenv.Until(t, "all others are recorded", func() bool {
				folders, err := foldersIn(dir)
				return err == nil && len(folders) == 499
			})
			timeIsUp()                  // connections may be kept: then their end does not tell
			clk.until(30 * time.Minute) // of the next round
			cancel()
			return <-done
		}},
		"on a page": {nil, func(t *testing.T, clk *fakeClock, timeIsUp func(), args []string) result {
			address, end := serveUntil(t, &surroundings{clock: clk}, append(args, "-http", ":0")...)
			page := getter(t, address)("/", 200)
			for _, want := range []string{"500 sources", "its clock is 3h00m ahead", "no graph: no answer within 7s"} {
				testenv.Contains(t, page, want)
			}
			testenv.Equal(t, strings.Count(page, "no graph: "), 1, "targets without a graph")
			return end()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			clk := newFakeClock()
			list, timeIsUp := listOf500(t, clk)
			r := c.run(t, clk, timeIsUp, []string{"-timeout", "7s", "-targets", filepath.Join(t.TempDir(), "no-such.yml"), "-targets", list})
			testenv.Equal(t, r.code, exitOK, r.errOut)
			for _, want := range append(c.says, "no-such.yml: no such file or directory") {
				testenv.Contains(t, r.errOut, want)
			}
		})
	}
}

// A fleet is added up in parts, which gives what adding all up at once does.
func TestFleetIsAddedUpInParts(t *testing.T) {
	const pods = 2*inMemory + 3
	clk := newFakeClock()
	var all []*member
	var graphs []*bgraph.Snapshot
	for i := range pods {
		src, s := new(scripted), later(podGraph(t, i, clk.Now()), time.Duration(i)*time.Second)
		src.gives(s, nil)
		if i == inMemory+1 {
			src.gives(podGraph(t, 5, clk.Now()), nil) // the process of number 5 again
		} else {
			graphs = append(graphs, s.Clone())
		}
		all = append(all, &member{source: src, name: fmt.Sprint(i)})
	}
	got := testenv.Need(sum(t.Context(), new(settings), &surroundings{clock: clk}, all))(t)
	testenv.Contains(t, got.Sources[inMemory+1].Failed, "it is the same process as 5")
	got.Sources = nil
	want := testenv.Need(bgraph.Merge(graphs...))(t)
	var a, b bytes.Buffer
	testenv.Must(t, got.Encode(&a))
	testenv.Must(t, want.Encode(&b))
	testenv.True(t, bytes.Equal(a.Bytes(), b.Bytes()), "the sum of parts is another one: %d bytes, want %d", a.Len(), b.Len())
}

// Programs are traced in the same seconds: none of eight answers before all have been asked.
func TestFleetIsTracedAtOnce(t *testing.T) {
	const pods = 8
	text := testenv.Need(os.ReadFile(goldenTrace))(t)
	var asked atomic.Int64
	all := make(chan bool)
	server := serving(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/debug/pprof/trace"):
			http.NotFound(w, r)
			return
		case r.URL.Query().Get("seconds") == "9":
			if asked.Add(1) == pods {
				close(all)
			}
			<-all
		}
		w.Write(text)
	}))
	args := []string{"-seconds", "9", "-merge"}
	for i := range pods {
		args = append(args, fmt.Sprintf("%s/%d", server, i))
	}
	r := commandIn(t, context.Background(), &surroundings{clock: newFakeClock()}, args...)
	if r.code != exitOK || !strings.Contains(r.out, "SOURCES: 8\n") || strings.Count(r.errOut, "\n") != 1+pods { // the clock stands still since years
		t.Errorf("exit code %d\n%s\n%s", r.code, r.errOut, r.out)
	}
}

func TestListsOfTargets(t *testing.T) {
	sd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sd":
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprint(w, `[{"targets": ["a:1", "[::1]:2"], "labels": {"__scheme__": "https", "pod": "x"}}]`)
		case "/html":
			fmt.Fprint(w, "<html>")
		case "/broken":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `{"targets"`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer sd.Close()
	sur := &surroundings{clock: newFakeClock(), resolver: scriptedDNS(t)}
	find := func(lists ...string) (string, error) {
		found, bad := (&finder{lists: lists, sur: sur, set: &settings{timeout: time.Minute}}).find(context.Background())
		if len(found) == 0 {
			return "", errors.Join(bad...)
		}
		var out []string
		for _, x := range found {
			out = append(out, x.name+"="+x.at.String())
		}
		for _, err := range bad {
			out = append(out, err.Error())
		}
		return strings.Join(out, " "), nil
	}
	yml := writeFile(t, "t.yml", "- targets: ['a:1', b:2, 'a:1']\n- targets: [c:3]\n  labels:\n    instance: one\n")
	for _, c := range []struct {
		lists []string
		want  string
	}{
		{[]string{yml}, "http://a:1=http://a:1 http://b:2=http://b:2 one=http://c:3"},
		{[]string{writeFile(t, "t.json", `[{"targets": ["a:1"]}]`)}, "http://a:1=http://a:1"},
		{[]string{sd.URL + "/sd"}, "x a:1=https://a:1 x [::1]:2=https://[::1]:2"},
		{[]string{"dns://shop.test:6060"}, "http://127.0.0.1:6060=http://127.0.0.1:6060 http://127.0.0.2:6060=http://127.0.0.2:6060"},
		{[]string{yml, "dns://shop.test:3/debug/pprof/"}, "http://a:1=http://a:1 http://b:2=http://b:2 one=http://c:3 http://127.0.0.1:3/debug/pprof/=http://127.0.0.1:3/debug/pprof/ http://127.0.0.2:3/debug/pprof/=http://127.0.0.2:3/debug/pprof/"},
	} {
		got, err := find(c.lists...)
		testenv.Must(t, err)
		testenv.Equal(t, got, c.want, "%v", c.lists)
	}
	for list, want := range map[string]string{
		"no-such-file":                          "no such file",
		t.TempDir():                             "is a directory",
		writeFile(t, "x.yml", "targets: [a:1]"): "this is no list of targets as Prometheus has them for file_sd: yaml:",
		writeFile(t, "y.yml", "- targets: [a:1]\n  label: {}"):    "field label not found",
		writeFile(t, "z.json", `[{"targets": "a:1"}]`):            "this is no list of targets",
		writeFile(t, "empty.yml", ""):                             "no targets in the list",
		writeFile(t, "none.json", "[]"):                           "no targets in the list",
		"dns://shop.test":                                         "want dns://HOST:PORT",
		"dns://missing.test:1":                                    "no such host",
		sd.URL + "/html":                                          "want a list of targets, application/json",
		sd.URL + "/broken":                                        "this is no list of targets",
		sd.URL + "/none":                                          "404",
		"http://127.0.0.1:1/":                                     "no program listens there",
		strings.Replace(sd.URL, "http://", "http://u:secret@", 1): "404",
	} {
		_, err := find(list)
		testenv.ErrorSays(t, err, want, list)
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("the error has the password: %v", err)
		}
	}
	got, err := find(writeFile(t, "half.yml", "- targets: [a:1, 'a', 'ftp://a:1', \"b\\e[31m:1\"]"))
	testenv.Must(t, err)
	if strings.Count(got, "is no HOST:PORT") != 3 || strings.ContainsRune(got, '\x1b') || !strings.HasPrefix(got, "http://a:1=") {
		t.Errorf("got %q", got)
	}
}

// scriptedDNS knows that shop.test has two addresses, and no other name.
func scriptedDNS(t *testing.T) *net.Resolver {
	server := testenv.Need(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { server.Close() })
	go func() {
		for buf := make([]byte, 512); ; {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			name := append([]byte("\x04shop\x04test"), 0)
			end := 12 + bytes.IndexByte(buf[12:n], 0) + 1 + 4
			reply := bytes.Clone(buf[:end])
			reply[2], reply[3] = 0x84, 0x80             // an answer, authoritative
			copy(reply[6:12], []byte{0, 0, 0, 0, 0, 0}) // no records
			switch known, kind := bytes.HasPrefix(buf[12:n], name), buf[end-3]; {
			case !known:
				reply[3] |= 3 // there is no such name
			case kind == 1: // A
				reply[7] = 2
				for last := range byte(2) {
					reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1+last)
				}
			}
			server.WriteTo(reply, from)
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}
