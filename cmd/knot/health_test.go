package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

func TestReadiness(t *testing.T) {
	var stats knot.Stats
	snapshot := &bgraph.Snapshot{Loops: []bgraph.LoopStat{{}, {Index: 1, Rests: true}, {Index: 2, Rests: true}}, Sched: &bgraph.Sched{Refusals: []bgraph.SchedRefusal{{Why: "a reason", Count: 3}}, Resources: []bgraph.SchedResource{{Name: "memory", State: "low"}, {Name: "disk", State: "rising", Utilisation: 0.87}}}}
	h := newHealth(func() knot.Stats { return stats })
	h.snapshot = func() *bgraph.Snapshot { return snapshot }
	mux := http.NewServeMux()
	h.register(mux)
	ask := func() (int, string) {
		h.last = nil // what it has seen is old
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/readyz", nil))
		return w.Code, w.Body.String()
	}
	expect := func(code int, text string) {
		t.Helper()
		if got, body := ask(); got != code || !strings.Contains(body, text) {
			t.Errorf("%d %q, want %d %q", got, body, code, text)
		}
	}
	expect(503, "does not listen yet")
	h.listening.Store(true)
	expect(200, "ok\nloops: 1 work, 2 rest\nmemory: low, 0 %\ndisk: rising, 87 %\nrefused: 3, a reason\n")
	snapshot.Sched.Resources[0].State = atLimit
	expect(503, "at the limit: memory\n")
	snapshot.Sched.Resources[0].State = "low"
	stats.Conns, stats.Full = 10, true
	expect(503, "there are 10 connections")
	stats.Full = false
	expect(200, "ok")
	stats.Stopping = true
	expect(503, "knot is stopping; connections left: 10")
	stats.Stopping, snapshot = false, nil
	expect(200, "ok")
}

// TestAlive: a loop that does not run what it is given is noticed.
func TestAlive(t *testing.T) {
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(2), capriccio.WithHoldLimit(-1)))(t)
	defer rt.Close()
	h := newHealth(func() knot.Stats { return knot.Stats{} })
	h.runtime = func() *task.Runtime { return rt }
	testenv.Check(t, h.alive(time.Minute))
	stuck, release := make(chan bool), make(chan bool)
	task.Spawn(task.Options{OnLoop: func(int) int { return 1 }}, func() { close(stuck); <-release })
	<-stuck
	if err := h.alive(time.Millisecond); err == nil || !strings.Contains(err.Error(), "1 of 2 event loops") && !strings.Contains(err.Error(), "2 of 2") {
		t.Error(err)
	}
	close(release)
	h.runtime = func() *task.Runtime { return nil }
	testenv.Check(t, h.alive(time.Millisecond))
}

// TestMetricsAndHealthPages of a server that runs.
func TestMetricsAndHealthPages(t *testing.T) {
	p := start(t, "-root", sampleSite, "-admin", "127.0.0.1:0")
	for _, path := range []string{"/notes.txt", "/notes.txt", "/none"} {
		p.ask("h", path)
	}
	p.url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(p.printed[1])
	for path, want := range map[string][]string{
		"/metrics": {`knot_responses_total{class="2xx"} 2`, `knot_errors_total{status="404"} 1`, "knot_request_duration_seconds_count 3", "knot_ready ", `knot_file_requests_total{from="memory"} 1`, `knot_resource_in_use{resource="descriptors"`},
		"/healthz": {"ok\n"},
		"/":        {`href="metrics"`},
	} {
		resp, body := p.ask("127.0.0.1", path)
		for _, one := range want {
			if resp.StatusCode != 200 || !strings.Contains(body, one) {
				t.Errorf("%s: %d, %q is not in %s", path, resp.StatusCode, one, body)
			}
		}
	}
	p.end()
}

// TestUnderWaySinceBeforeAReload: a request that waits for its backend, as a tunnel would, is counted on after the
// configuration was read again, whether the backend is still in it or not, and until it ends.
func TestUnderWaySinceBeforeAReload(t *testing.T) {
	entered, leave := make(chan bool), make(chan bool)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entered <- true
		<-leave
	}))
	defer backend.Close()
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithHoldLimit(-1), capriccio.WithoutRefusals()))(t)
	defer rt.Close()
	var served running
	defer served.close()
	load := func(to string) {
		t.Helper()
		testenv.Must(t, served.load(settingsOf(t, configFile(t, "[[site]]\n[[site.proxy]]\nto = [%q]\n", to)), discard))
	}
	load(backend.URL)
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	server := &knot.Server{Handler: served.at(knot.DefaultAddr).Handle, ErrorLog: discard}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		server.Shutdown(ctx)
		<-ended
	}()
	answered := make(chan error, 1)
	go func() {
		resp, err := http.Get("http://" + ln.Addr().String())
		if err == nil {
			resp.Body.Close()
		}
		answered <- err
	}()
	<-entered
	name := backend.Listener.Addr().String()
	of := func() (sum proxy.BackendStats) {
		sum.Up = true
		for _, s := range served.proxyStats() {
			if s.Name == name {
				sum.Outstanding, sum.Dials, sum.Up = sum.Outstanding+s.Outstanding, sum.Dials+s.Dials, sum.Up && s.Up
			}
		}
		return sum
	}
	if s := of(); s.Outstanding != 1 || s.Dials != 1 || !s.Up {
		t.Errorf("before: %+v", s)
	}
	load(backend.URL)
	if s := of(); s.Outstanding != 1 || s.Dials != 0 || !s.Up {
		t.Errorf("after a reload: %+v", s)
	}
	load("http://127.0.0.1:1")
	if s := of(); s.Outstanding != 1 || s.Up {
		t.Errorf("after a reload without the backend: %+v", s)
	}
	close(leave)
	testenv.Must(t, <-answered)
	testenv.Until(t, "what was before is forgotten", func() bool { return of().Outstanding == 0 && len(served.before) == 0 })
	http.DefaultClient.CloseIdleConnections()
}
