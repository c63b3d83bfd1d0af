package main

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
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
	printed, stop := startWith(t, 2, "-admin", "127.0.0.1:0")
	link := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	serves, admin := link.FindString(printed[0]), link.FindString(printed[1])
	client := &http.Client{Transport: new(http.Transport)}
	p := &program{t: t}
	for _, path := range []string{"/notes.txt", "/notes.txt", "/none"} {
		p.url = serves
		p.ask("h", path)
	}
	p.url = admin
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
	client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	if code, stderr := stop(); code != exitOK {
		t.Errorf("%d %s", code, stderr)
	}
}
