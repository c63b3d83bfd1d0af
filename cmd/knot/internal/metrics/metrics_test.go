package metrics

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

func sample() Source {
	var s knot.Stats
	s.Responses = [6]uint64{2: 10, 4: 3, 5: 1}
	s.Errors = map[int]uint64{404: 3}
	s.Late, s.Malformed = 21, 22
	s.Bytes, s.Accepted, s.TurnedAway, s.Conns, s.MaxConns = 1000, 5, 2, 4, 100
	s.Durations.Limits = []time.Duration{time.Millisecond, time.Second}
	s.Durations.Counts, s.Durations.Count, s.Durations.Sum = []uint64{9, 4}, 14, 3*time.Second
	return Source{
		Backends: func() []proxy.BackendStats {
			one := proxy.BackendStats{Name: "127.0.0.1:3000", Responses: [6]uint64{2: 7, 5: 1}, Failures: map[string]uint64{"connect": 2}, Outstanding: 3, Up: true,
				OverBudget: 1, Ejected: 2, Mirrored: 3, Dropped: 4, Weight: 0.5}
			other := one
			other.Failures, other.Up = map[string]uint64{"connect": 1}, false
			return []proxy.BackendStats{one, other}
		},
		Server:   func() knot.Stats { return s },
		Caches:   func() (cache.Stats, bool) { return cache.Stats{Hits: 11, Joined: 12, Bytes: 13, Disk: 14}, true },
		Files:    func() knot.FilesStats { return knot.FilesStats{Hits: 7, Bytes: 4096} },
		TooOften: func() uint64 { return 6 },
		LogLost:  func() uint64 { return 8 },
		Ready:    func() error { return errors.New("no") },
		Traces:   func() Traces { return nil },
		Graph: func() *bgraph.Snapshot {
			return &bgraph.Snapshot{
				Loops:     []bgraph.LoopStat{{Index: 0, Tasks: 12}, {Index: 1, Rests: true}, {Index: 2, Rests: true}},
				Resources: []bgraph.Resource{{Name: "memory", Unit: "bytes", InUse: 5, Limit: 10}, {Name: "free", InUse: 1}},
				Sched: &bgraph.Sched{
					Admitted: 20, Deferred: 2, Refusals: []bgraph.SchedRefusal{{Why: "a reason", Count: 9}},
					Resources: []bgraph.SchedResource{{Name: "memory", Utilisation: 0.5, State: "at limit"}},
				},
			}
		},
	}
}

func TestMetrics(t *testing.T) {
	c := &collector{sample()}
	w := httptest.NewRecorder()
	Handler(c.Source).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	text := w.Body.String()
	for _, want := range []string{
		`knot_responses_total{class="2xx"} 10`, `knot_errors_total{status="404"} 3`, `knot_response_body_bytes_total 1000`,
		`knot_connections 4`, `knot_connections_limit 100`, `knot_connections_accepted_total 5`,
		`knot_refused_total{cause="too many connections"} 2`, `knot_refused_total{cause="the client asks too often"} 6`, `knot_refused_total{cause="a reason"} 9`,
		`knot_refused_total{cause="its deadline has passed"} 21`, `knot_demands_malformed_total 22`,
		`knot_request_duration_seconds_bucket{le="0.001"} 9`, `knot_request_duration_seconds_bucket{le="1"} 13`,
		`knot_request_duration_seconds_bucket{le="+Inf"} 14`, `knot_request_duration_seconds_sum 3`, `knot_request_duration_seconds_count 14`,
		`knot_resource_in_use{resource="memory",unit="bytes"} 5`, `knot_resource_limit{resource="memory",unit="bytes"} 10`,
		`knot_resource_state{resource="memory",state="at limit"} 1`, `knot_resource_state{resource="memory",state="low"} 0`,
		`knot_resource_utilisation{resource="memory"} 0.5`, `knot_utilisation 0.5`, `knot_tasks{loop="0"} 12`, `knot_loops{state="working"} 1`, `knot_loops{state="resting"} 2`, `knot_ready 0`,
		`knot_file_requests_total{from="memory"} 7`, `knot_file_cache_bytes 4096`, `knot_access_log_lost_lines_total 8`,
		`knot_backend_responses_total{backend="127.0.0.1:3000",class="2xx"} 14`, `knot_backend_failures_total{backend="127.0.0.1:3000",cause="connect"} 3`,
		`knot_backend_requests{backend="127.0.0.1:3000"} 6`, `knot_backend_up{backend="127.0.0.1:3000"} 0`,
		`knot_backend_retries_over_budget_total{backend="127.0.0.1:3000"} 2`, `knot_backend_ejected_total{backend="127.0.0.1:3000"} 4`, `knot_backend_weight{backend="127.0.0.1:3000"} 0.5`,
		`knot_backend_mirrored_total{backend="127.0.0.1:3000"} 6`, `knot_backend_mirror_dropped_total{backend="127.0.0.1:3000"} 8`,
		`knot_cache_requests_total{how="hit"} 11`, `knot_cache_requests_total{how="joined"} 12`, `knot_cache_hit_bytes_total 13`, `knot_cache_bytes{in="disk"} 14`,
		`knot_admitted_total 20`, `knot_deferred_total 2`, "go_goroutines ", "process_open_fds ",
	} {
		if !strings.Contains(text, want+"\n") && !strings.Contains(text, "\n"+want) {
			t.Errorf("%s is not in it", want)
		}
	}
	if strings.Contains(text, `knot_resource_limit{resource="free"`) {
		t.Error("a limit that there is not")
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestWithoutAGraph: there may be none yet, or it is switched off.
func TestWithoutAGraph(t *testing.T) {
	for _, g := range []*bgraph.Snapshot{nil, {}} {
		s := sample()
		s.Graph = func() *bgraph.Snapshot { return g }
		s.Ready = func() error { return nil }
		w := httptest.NewRecorder()
		Handler(s).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if w.Code != 200 || !strings.Contains(w.Body.String(), "knot_ready 1\n") {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
}
