// Package feed makes what schedules a runtime (internal/sched) and what admits tasks to it (internal/admit), and feeds them:
// predictions drawn from the blocking graph, and what is in use of each resource.
//
// It decides nothing itself. One goroutine of its own does the regular work, every 10 to 500 ms while tasks run, and
// down to once a second while none do; it ends with the runtime.
package feed

import (
	"fmt"
	"iter"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/probe"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/sched"
)

// The policies.
const (
	FIFO     = "fifo"
	Cohort   = "cohort"
	Resource = "resource"
)

// A Config is what a Feed is made of.
type Config struct {
	Policy     string          // Cohort or Resource
	Graph      *recorder.Graph // of the runtime; may be nil with Cohort
	CohortSize int             // tasks; 0: the policy's default
	NoRefusals bool            // tasks that can't be admitted wait, however long it takes
	Log        *slog.Logger
	// Probe says where the use of memory is read. The zero value: this process and this machine.
	Probe probe.Config
	// Descriptors is how many descriptors the process may have at present, 0 if any number: others may change that
	// (prlimit(1)). nil: their limit is not followed.
	Descriptors func() int64
	// Collect is what runs the garbage collector when nothing else does; nil: runtime.GC.
	Collect func()
}

// A Feed feeds the schedulers of one runtime. Its methods may be called from any goroutine.
type Feed struct {
	cfg    Config
	ledger *admit.Ledger
	rt     *engine.Runtime // the runtime that is fed; constant once made

	predictions atomic.Pointer[[]sched.Prediction]

	mu     sync.Mutex
	loops  []*loopSide               // guarded by mu: those made so far, by index
	limits []*admit.ConcurrencyLimit // guarded by mu: by index of the entrance; nil: nothing has come there
	// claims are those of the stages by name, guarded by mu.
	claims map[string]*sched.Claim

	memory   admit.ResourceID // fixed
	patience time.Duration    // fixed: explainTimeout, but in tests

	// Owned by the goroutine of run, once that runs.
	readings   map[string]admit.ResourceID // of the probe
	sources    []source                    // declared by the program
	resource   []int                       // ResourceID by index in admit.Resources, -1: none
	learnt     time.Duration               // when the graph was last looked at
	flows      uint64                      // how many steps the loops had made then
	followed   int64                       // what followDescriptors has found last; 0: nothing
	counts     bool                        // tasks inside take what is counted
	complained bool
	self       *selfWatch
	refusals   refusalLog
	full       fullLog
	waits      map[waitKey]waitSeen
	collected  time.Duration // when the size of the heap was last read anew
	heap       probe.Reading // the last reading of the heap
	collector  collector
}

// A loopSide is what belongs to one loop.
type loopSide struct {
	loop      *engine.Loop
	policy    sched.Policy
	admission *admit.Admission // nil: all tasks are admitted
}

// New makes a Feed. The error says what is wrong with cfg.
func New(cfg Config) (s *Feed, err error) {
	if cfg.Collect == nil {
		cfg.Collect = runtime.GC
	}
	s = &Feed{cfg: cfg, patience: explainTimeout}
	s.collector = collector{run: cfg.Collect, now: func() time.Duration { return s.rt.Now() }}
	switch cfg.Policy {
	case Cohort:
	case Resource:
		if cfg.Graph == nil {
			return nil, fmt.Errorf("the policy %q needs the blocking graph, which is switched off", Resource)
		}
		s.ledger = admit.NewLedger()
		s.ledger.Meter(cfg.Graph.Held)
		if err := s.addHeap(); err != nil {
			return nil, err
		}
		if s.self, err = newSelfWatch(s.ledger); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("unknown policy %q; want %s or %s", cfg.Policy, Cohort, Resource)
	}
	return s, nil
}

// side returns the policy and the admission of l, and makes them the first time.
func (s *Feed) side(l *engine.Loop) *loopSide {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, side := range s.loops {
		if side.loop == l {
			return side
		}
	}
	s.rt = l.Runtime()
	side := &loopSide{loop: l}
	switch s.cfg.Policy {
	case Cohort:
		c := sched.CohortConfig{Loop: l.Index(), Cycles: coro.CyclesPerSecond(), Size: s.cfg.CohortSize}
		if s.cfg.Graph != nil {
			c.Edges, c.Claim = s.edges(), s.claim
		}
		side.policy = sched.NewCohort(c)
	case Resource:
		side.policy = sched.NewResource(sched.ResourceConfig{
			Loop: l.Index(), Cycles: coro.CyclesPerSecond(), Size: s.cfg.CohortSize,
			Ledger: s.ledger, Predictions: s.predicted, Claim: s.claim,
		})
		side.admission = admit.NewAdmission(l.Index(), !s.cfg.NoRefusals, s.limitAt)
	}
	s.loops = append(s.loops, side)
	return side
}

// Plug has the runtime that is made from cfg run tasks as the schedulers say. Start comes after that.
func (s *Feed) Plug(cfg *engine.Config) {
	cfg.NewPolicy = func(l *engine.Loop) engine.Policy { return s.side(l).policy }
	if s.ledger != nil {
		cfg.NewAdmission = func(l *engine.Loop) engine.Admission { return s.side(l).admission }
		cfg.Resources = func() []admit.ResourceReport {
			var r admit.Report
			s.ledger.Report(&r)
			return r.Resources
		}
	}
	if s.cfg.Graph != nil {
		s.cfg.Graph.ExplainSched(s.Explain)
	}
}

func (s *Feed) predicted() []sched.Prediction {
	if p := s.predictions.Load(); p != nil {
		return *p
	}
	return nil
}

// edges are the edges of the blocking graph, without those to NodeEnd.
func (s *Feed) edges() iter.Seq2[sched.Node, sched.Node] {
	return func(yield func(from, to sched.Node) bool) {
		for _, f := range s.cfg.Graph.Flows() {
			if f.To != recorder.NodeEnd && !yield(f.From, f.To) {
				return
			}
		}
	}
}

// claim is the Claim of the stage (package ressched) that n is, nil if it is none.
func (s *Feed) claim(n sched.Node) *sched.Claim {
	name := s.cfg.Graph.Label(n)
	if !s.rt.HasStage(name) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[name] == nil {
		if s.claims == nil {
			s.claims = map[string]*sched.Claim{}
		}
		s.claims[name] = sched.NewClaim(s.wake)
	}
	return s.claims[name]
}

// wake makes a loop ask its policy again.
func (s *Feed) wake(loop int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, side := range s.loops {
		if side.loop.Index() == loop {
			side.loop.Post(func() {})
		}
	}
}

// limitAt returns the limit of an entrance.
func (s *Feed) limitAt(entrance int) *admit.ConcurrencyLimit {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.limits) <= entrance {
		s.limits = append(s.limits, nil)
	}
	if s.limits[entrance] == nil {
		s.limits[entrance] = s.ledger.NewLimit("inside " + engine.Entrances()[entrance].Name())
	}
	return s.limits[entrance]
}
