package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/metrics"
	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/words"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// loopPatience is how long a loop may take to answer before knot is not healthy.
	loopPatience = 2 * time.Second
	// lookEvery is for how long what was found out about resources is used.
	lookEvery = 500 * time.Millisecond
)

// A health knows whether the server is alive, and whether it wants new requests. Safe from any
// goroutine but those of loops.
type health struct {
	server   func() knot.Stats
	snapshot func() *bgraph.Snapshot // nil: there is no graph
	runtime  func() *task.Runtime    // nil: there is none yet

	listening atomic.Bool

	mu     sync.Mutex
	looked time.Time        // guarded by mu
	last   *bgraph.Snapshot // guarded by mu
}

func newHealth(server func() knot.Stats) *health {
	return &health{server: server, runtime: task.Default, snapshot: func() *bgraph.Snapshot { return engine.Default().Graph().Snapshot() }}
}

// look returns a picture of the program that is not old. It may take some 50 ms.
func (h *health) look() *bgraph.Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.last == nil || time.Since(h.looked) > lookEvery {
		h.last, h.looked = h.snapshot(), time.Now()
	}
	return h.last
}

// alive is nil if every loop runs what it is given.
func (h *health) alive(patience time.Duration) error {
	rt := h.runtime()
	if rt == nil {
		return nil // it is about to start, or to end
	}
	answered := make(chan int, rt.Loops())
	waits := make(map[int]bool)
	for i := range rt.Loops() {
		if (*engine.Runtime)(rt).Loop(i).Post(func() { answered <- i }) {
			waits[i] = true
		}
	}
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for len(waits) > 0 {
		select {
		case i := <-answered:
			delete(waits, i)
		case <-limit.C:
			return fmt.Errorf("%d of %d event loops have not answered within %v", len(waits), rt.Loops(), patience)
		}
	}
	return nil
}

// ready is nil if new requests are welcome: knot listens, is not stopping, has room for
// connections, and no resource is at its limit.
func (h *health) ready() error {
	if !h.listening.Load() {
		return errors.New("knot does not listen yet")
	}
	s := h.server()
	switch {
	case s.Stopping:
		return fmt.Errorf("knot is stopping; connections left: %d", s.Conns-s.Hijacked)
	case s.Full:
		return fmt.Errorf("clients are turned away: there are %d connections, with as many as there may be in use", s.Conns)
	}
	g := h.look()
	if g == nil || g.Sched == nil {
		return nil
	}
	var full []string
	for _, r := range g.Sched.Resources {
		if r.State == atLimit {
			full = append(full, r.Name)
		}
	}
	if len(full) > 0 {
		return fmt.Errorf("at the limit: %s", strings.Join(full, ", "))
	}
	return nil
}

// atLimit is the state of a resource that is used up.
const atLimit = "at limit"

// register adds the pages that probes of health ask for.
func (h *health) register(mux *http.ServeMux) {
	answer := func(w http.ResponseWriter, err error) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
		if err != nil {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintln(w, err)
			return
		}
		fmt.Fprintln(w, "ok")
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, h.alive(loopPatience)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		err := h.ready()
		answer(w, err)
		if g := h.look(); g != nil && g.Sched != nil {
			working := words.Working(g)
			fmt.Fprintf(w, "loops: %d work, %d rest\n", working, len(g.Loops)-working)
			for _, r := range g.Sched.Resources {
				fmt.Fprintf(w, "%s: %s, %.0f %%\n", r.Name, r.State, 100*r.Utilisation)
			}
			for _, r := range g.Sched.Refusals {
				fmt.Fprintf(w, "refused: %d, %s\n", r.Count, r.Why)
			}
		}
	})
}

// metricsPage adds the numbers for Prometheus.
func metricsPage(server *knot.Server, served *running, state *health) func(*http.ServeMux) {
	handler := metrics.Handler(metrics.Source{
		Server: server.Stats, Files: served.stats, TooOften: served.tooOften, Backends: served.proxyStats, Caches: served.cacheStats, LogLost: served.linesLost, Graph: state.look, Ready: state.ready, Traces: served.traces,
	})
	return func(mux *http.ServeMux) { mux.Handle("GET /metrics", handler) }
}
