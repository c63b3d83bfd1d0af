//go:build linux

package simserver

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/feed"
	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/probe"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
)

// A Config says what is simulated. The zero value of each field but Handler is its default.
type Config struct {
	Seed      uint64
	Loops     int    // 1
	Scheduler string // resource, the default, cohort or fifo
	Handler   func(w *World) knot.Handler
	// Change changes the server before it starts; nil: nothing.
	Change func(*knot.Server)
	Faults Faults
	FDs    int // limit on descriptors; 20,000
	Memory int // limit on memory in bytes; none
	// Patience is how long a request may take before that is a fault of the server;
	// 30 s. What handlers and clients take for themselves is to be added.
	Patience time.Duration
	// Forgetful is for how long the server may keep the connection of a client that has
	// gone; 8 s, which is less than its time limits, that end everything at some time.
	Forgetful time.Duration
	Log       io.Writer // of the server; nil: none
	// Inside is how many requests handlers have, which may outlive their clients; nil: it is not known.
	Inside func() int
	// Done is called when the server has ended; nil: nothing is.
	Done func()
	// MayRefuse means that a 503 while nothing is scarce is no fault.
	MayRefuse bool
}

// A Server is a simulated server that runs.
type Server struct {
	*World
	Clients *Clients
	Runtime *engine.Runtime
	Knot    *knot.Server

	cfg    Config
	halted <-chan struct{}  // of Halt; nil: it has not been called
	before map[string]int64 // inUse
	gauges []*gauge
}

// A Result is what has become of a run.
type Result struct {
	Clients *Clients
	Broken  []string // invariants that do not hold
	Trace   uint64   // the same for two runs of one seed
	Events  uint64
	Took    time.Duration // simulated
	Busy    float64       // of the loops, 0 to 1
	Killed  bool
	Most    int // bytes of memory held at once
}

const port = 80

// exclusive means that a simulation is under way.
var exclusive atomic.Bool

// Run simulates a server while play, which is called on the conductor when it listens,
// gives the clients something to do; play returns when no more requests will be sent.
// The run ends when each of them has been answered, or its connection closed.
func Run(t *testing.T, cfg Config, play func(s *Server) (until time.Duration)) (r *Result) {
	if cfg.Loops == 0 {
		cfg.Loops = 1
	}
	if cfg.FDs == 0 {
		cfg.FDs = 20_000
	}
	if cfg.Patience == 0 {
		cfg.Patience = 30 * time.Second
	}
	if cfg.Forgetful == 0 {
		cfg.Forgetful = 8 * time.Second
	}
	if !exclusive.CompareAndSwap(false, true) {
		t.Fatal("simserver: another simulation runs in this process")
	}
	defer exclusive.Store(false)
	defer steady()()
	if err := coro.Check(); err != nil { // outside of the bubble: it is done once
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		s := &Server{World: newWorld(cfg.Seed), cfg: cfg}
		kernel.Net, kernel.Disk = s.Net, s.Disk
		coro.SimulateCycles(&s.clock)
		defer func() {
			kernel.Net, kernel.Disk = nil, nil
			coro.SimulateCycles(nil)
		}()
		r = s.run(t, play)
	})
	return r
}

// steady takes away what would make two runs of one seed differ: pools (sync.Pool) that an
// earlier run has filled, that a garbage collection empties at any time, or that each
// processor has its own of. The collector runs only if memory is short.
func steady() (restore func()) {
	const enough = 1 << 30
	procs, percent, limit := runtime.GOMAXPROCS(1), debug.SetGCPercent(-1), debug.SetMemoryLimit(enough)
	runtime.GC()
	runtime.GC() // pools are empty after the second
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
		runtime.GOMAXPROCS(procs)
	}
}

func (s *Server) run(t *testing.T, play func(s *Server) time.Duration) *Result {
	s.Net.limit, s.Net.faults, s.Memory.limit = s.cfg.FDs, s.cfg.Faults, s.cfg.Memory
	limit := engine.Descriptors.Limit()
	engine.Descriptors.SetLimit(int64(s.cfg.FDs))
	defer engine.Descriptors.SetLimit(limit)
	s.before = inUse()
	if err := s.start(); err != nil {
		t.Fatalf("seed %d: %v", s.seed, err)
	}
	s.Clients = newClients(s.World, port)
	s.gauge()
	until := play(s)
	end := max(until, s.Now()) + s.cfg.Patience
	s.watch(end)
	s.Drive(func() bool {
		now := s.since()
		return now >= until && s.isIdle() || now >= end || s.brokenAlready()
	})
	s.unanswered(end)
	r := &Result{Clients: s.Clients, Took: s.since(), Killed: s.Memory.Killed(), Most: s.Memory.most}
	r.Trace, r.Events = s.trace, s.steps // at the end other goroutines run beside the loops
	r.Busy = s.Busy().Seconds() / r.Took.Seconds() / float64(s.cfg.Loops)
	s.Clients.over = true
	s.stop()
	if s.cfg.Done != nil {
		s.cfg.Done()
	}
	s.leaks()
	r.Broken = s.broken
	return r
}

// isIdle reports whether no request is pending, no connection open and no task admitted.
func (s *Server) isIdle() bool {
	return len(s.Clients.pending) == 0 && s.Clients.open == 0 && s.Net.Sockets() == 0 && (s.cfg.Inside == nil || s.cfg.Inside() == 0)
}

func (s *Server) brokenAlready() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.broken) > 0
}

// start starts runtime and server.
func (s *Server) start() error {
	out := s.cfg.Log
	if out == nil {
		out = io.Discard
	}
	log := slog.New(slog.NewTextHandler(out, nil))
	graph := recorder.New(recorder.Config{})
	graph.Allocated = s.Memory.allocated
	cfg := engine.Config{
		Loops: s.cfg.Loops, Clock: s, HoldLimit: -1, Log: log, Grace: 10 * time.Second,
		Graph:   graph,
		OnPanic: func(p *engine.PanicError) { s.fault("panic: %v\n%s", p, p.Stack) },
	}
	threads := poller.NoRing(poller.Epoll)
	cfg.NewPoller = func(int) (engine.Poller, error) { return threads() }
	var scheduler *feed.Feed
	if s.cfg.Scheduler != feed.FIFO {
		policy := s.cfg.Scheduler
		if policy == "" {
			policy = feed.Resource
		}
		var err error
		scheduler, err = feed.New(feed.Config{
			Policy: policy, Graph: graph, Log: log, Collect: s.Memory.Collect,
			Probe: probe.Config{
				Root: filepath.Join("nowhere", "at", "all"), Runtime: s.Memory.runtime,
			},
		})
		if err != nil {
			return err
		}
		scheduler.Plug(&cfg)
	}
	var err error
	if s.Runtime, err = engine.New(cfg); err != nil {
		return err
	}
	synctest.Wait() // until all loops wait
	if scheduler != nil {
		scheduler.Start(s.Runtime)
	}
	ready := make(chan struct{})
	s.Knot = &knot.Server{
		Handler: s.cfg.Handler(s.World), ErrorLog: log, Listening: func(net.Addr) { close(ready) },
		MaxConns: s.cfg.FDs - min(512, s.cfg.FDs/4),
	}
	if s.cfg.Change != nil {
		s.cfg.Change(s.Knot)
	}
	var failed error
	_, err = s.Runtime.Spawn(engine.Options{Name: "main"}, func() {
		ln, err := netpoll.ListenConfig{Log: log}.Listen(s.Runtime.Context(), "tcp", fmt.Sprintf("10.0.0.1:%d", port))
		if err != nil {
			failed = err
			close(ready)
			return
		}
		if err := s.Knot.Serve(ln); err != knot.ErrServerClosed {
			s.fault("Serve: %v", err)
		}
	})
	if err != nil {
		return err
	}
	s.Drive(closed(ready))
	return failed
}

// closed returns a function that reports whether c is closed.
func closed(c <-chan struct{}) func() bool {
	return func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
}

// Halt tells the server to stop, once it has served the requests that have come.
func (s *Server) Halt() {
	s.Clients.Halted = true
	halted := make(chan struct{})
	s.halted = halted
	go func() {
		defer close(halted)
		s.held()
		s.Knot.Shutdown(context.Background())
	}()
}

// stop ends server and runtime.
func (s *Server) stop() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Knot.Shutdown(ctx); err != nil && !s.brokenAlready() {
			s.fault("Shutdown of a server with nothing to do: %v", err)
		}
		if err := s.Runtime.Close(); err != nil {
			s.fault("closing the runtime: %v", err)
		}
		if s.halted != nil {
			<-s.halted
		}
	}()
	end := s.since() + 2*time.Minute
	s.Drive(func() bool { return closed(done)() || s.since() > end })
	if !closed(done)() {
		buf := make([]byte, 1<<20)
		s.fault("the server does not stop\n%s", buf[:runtime.Stack(buf, true)])
		fmt.Fprintf(os.Stderr, "simserver: seed %d: %s\n", s.seed, strings.Join(s.broken, "\n")) // the bubble is about to panic
	}
}
