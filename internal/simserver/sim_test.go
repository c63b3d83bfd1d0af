//go:build linux

package simserver

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

func hello(w *World) knot.Handler {
	return func(x *knot.Ctx) error {
		w.Work(20 * time.Microsecond)
		return x.Send(200, "text/plain", []byte("hello\n"))
	}
}

func get() *Request { return &Request{Path: "/"} }

func (r *Result) check(t *testing.T, seed uint64) {
	t.Helper()
	for _, b := range r.Broken {
		t.Errorf("seed %d: %s", seed, b)
	}
}

func TestHello(t *testing.T) {
	for _, loops := range []int{1, 2, 8} {
		r := Run(t, Config{Seed: 1, Loops: loops, Handler: hello}, func(s *Server) time.Duration {
			h := &Habit{Path: Path{Latency: 100 * time.Microsecond}, Make: get}
			s.Clients.OpenLoop(h, 200, s.Now()+time.Second)
			return s.Now() + time.Second
		})
		r.check(t, 1)
		t.Logf("%v %v %v events %d took %v busy %.3f p50 %v", r.Clients.Statuses, r.Clients.Failures, r.Clients.begun, r.Events, r.Took, r.Busy, r.Clients.Quantile(0.5))
	}
}

func TestSameSeedSameRun(t *testing.T) {
	if testenv.Race {
		t.Skip("under the race detector pools are emptied by chance")
	}
	run := func(seed uint64) uint64 {
		r := Run(t, Config{Seed: seed, Loops: 3, Handler: hello, Faults: Faults{Interrupt: 0.05, Short: 0.05, Spurious: 0.05, Stale: 0.05, Abort: 0.01}}, func(s *Server) time.Duration {
			h := &Habit{Path: Path{Latency: 100 * time.Microsecond, Split: 20}, Make: get, KeepAlive: true, Pipeline: 3}
			s.Clients.ClosedLoop(h, 20, time.Millisecond, s.Now()+50*time.Millisecond)
			return s.Now() + 50*time.Millisecond
		})
		r.check(t, seed)
		return r.Trace
	}
	if a, b := run(1), run(1); a != b {
		t.Errorf("one seed, two runs: %x, %x", a, b)
	}
	if a, b := run(1), run(2); a == b {
		t.Errorf("two seeds, one run: %x", a)
	}
}
