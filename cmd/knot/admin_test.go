package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

func TestAdminPages(t *testing.T) {
	p := start(t, "-root", sampleSite, "-admin", ":0", "-quiet")
	url := regexp.MustCompile(`^admin pages on (http://127\.0\.0\.1:[1-9]\d*)\n$`).FindStringSubmatch(p.printed[1])
	if url == nil {
		t.Fatalf("printed %q", p.printed)
	}
	client := &http.Client{Transport: new(http.Transport)}
	ask := func(target, host string) (int, string) {
		t.Helper()
		resp, body := askAs(t, client, target, host)
		return resp.StatusCode, body
	}
	ask(p.url+"/", "")
	client.CloseIdleConnections() // the first may have been there before anybody waited for it
	ask(p.url+"/", "")
	page := url[1] + "/"
	code, index := ask(page, "")
	links := regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(index, -1)
	if code != 200 || len(links) != 6 || !strings.Contains(index, "bgdump -http :8000 "+url[1]) {
		t.Errorf("index: %d, %s", code, index)
	}
	for _, link := range append(links, []string{"", "debug/pprof/cmdline"}, []string{"", "debug/pprof/heap"}) {
		if code, body := ask(page+link[1], ""); code != 200 && !(link[1] == "readyz" && strings.Contains(body, "at the limit")) {
			t.Errorf("%s: %d, %s", link[1], code, body)
		}
	}
	// The first connection may be there before anybody waits for it.
	for patience := time.Now().Add(time.Minute); ; ask(p.url+"/", "") {
		code, dump := ask(page+"debug/bgraph/?format=dump", "localhost:1")
		s, err := bgraph.Decode(strings.NewReader(dump))
		if code != 200 || err != nil {
			t.Fatalf("dump: %d, %v", code, err)
		}
		if slices.ContainsFunc(s.Nodes, func(n bgraph.Node) bool { return n.Reason == "accept" && n.Departures > 0 }) {
			break
		}
		if time.Now().After(patience) {
			t.Fatalf("the graph has no accepted connection: %d nodes", len(s.Nodes))
		}
		client.CloseIdleConnections()
	}
	for host, want := range map[string]int{"evil.example": 403, "evil.example:80": 403, "127.0.0.1.evil.example": 403, "[::1]:80": 200, "127.0.0.1": 200} {
		if code, body := ask(page, host); code != want || want == 403 && !strings.Contains(body, "evil.example") {
			t.Errorf("as %s: %d, %s", host, code, body)
		}
	}
	if code, _ := ask(page+"nothing", ""); code != 404 {
		t.Errorf("another path: %d", code)
	}
	p.end()
	testenv.Equal(t, strings.Contains(p.stderr.String(), "other machines"), false, "it warns of other machines")
	testenv.Fails(t, testenv.Err(client.Get(page)), "it still answers after the end")
}

// TestAdminForAll: other machines get health and metrics of an address that they can reach, and nothing else.
func TestAdminForAll(t *testing.T) {
	p := start(t, "-root", sampleSite, "-admin", "0.0.0.0:0")
	testenv.Contains(t, p.printed[1], "every address", "printed")
	port := regexp.MustCompile(`:(\d+)`).FindStringSubmatch(p.printed[1])[1]
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/": 403, "/debug/pprof/cmdline": 403} { // by a name
		resp, _ := askAs(t, http.DefaultClient, "http://127.0.0.1:"+port+path, "server.example")
		testenv.Equal(t, resp.StatusCode, want, path)
	}
	http.DefaultClient.CloseIdleConnections()
	pages := publicPages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for peer, want := range map[string]int{"192.0.2.1:5": 403, "[2001:db8::1]:5": 403, "127.0.0.1:5": 200, "[::1]:5": 200, "[::ffff:127.0.0.1]:5": 200} {
		for path, public := range map[string]bool{"/": false, "/debug/bgraph/": false, "/debug/pprof/heap": false, "//healthz": false, "/healthz": true, "/readyz": true, "/metrics": true} {
			r := httptest.NewRequest("GET", "http://localhost"+path, nil)
			r.RemoteAddr = peer
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, r)
			wanted := want
			if public {
				wanted = 200
			}
			testenv.Equal(t, w.Code, wanted, "%s for %s", path, peer)
		}
	}
	p.end()
	testenv.Contains(t, p.stderr.String(), "can be reached from other machines", "the log")
}

// TestAdminStopsInTime: a request that waits does not hold the end up.
func TestAdminStopsInTime(t *testing.T) {
	defer func(before time.Duration) { adminGrace = before }(adminGrace)
	adminGrace = 10 * time.Millisecond
	a := testenv.Need(listenAdmin("127.0.0.1:0", nil, discard, func() (none knot.FilesStats) { return none }))(t)
	nc := testenv.Dial(t, a.addr.String())
	io.WriteString(nc, "GET /debug/pprof/profile?seconds=300 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	testenv.Dial(t, a.addr.String())
	began := time.Now()
	a.stop()
	testenv.AtMost(t, time.Since(began), time.Minute, "stopping took")
}

func TestAdminErrorsAreClear(t *testing.T) {
	used := testenv.Listen(t).Addr().String()
	for addr, want := range map[string]string{
		used:              "Another program uses " + used + " already. Choose another port with -admin",
		"nonsense":        "nonsense",
		"127.0.0.1:70000": "70000",
	} {
		fails(t, exitFailed, want, "-root", sampleSite, "-addr", "127.0.0.1:0", "-admin", addr)
	}
}

func TestSignalWritesTheGraph(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bgraph")
	p := start(t, "-root", sampleSite, "-dump", path)
	testenv.Must(t, syscall.Kill(syscall.Getpid(), syscall.SIGUSR2))
	testenv.Until(t, "a dump", func() bool { return testenv.Err(os.Stat(path)) == nil })
	s := testenv.Need(bgraph.ReadFile(path))(t)
	testenv.Equal(t, len(s.Loops), 1, "loops")
	p.end()
}
