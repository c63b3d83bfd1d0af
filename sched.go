package capriccio

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/feed"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/ressched"
)

// A Scheduler is a rule for which task a loop runs next, by its name in CAPRICCIO_SCHED.
type Scheduler string

const (
	// FIFO takes the task that has been ready for longest. It is the default without the blocking graph.
	FIFO Scheduler = feed.FIFO
	// Cohort takes all ready tasks of one node of the blocking graph, one after the other, then those of the next node
	// (Cohort Scheduling, USENIX 2002).
	Cohort Scheduler = feed.Cohort
	// Resource is the default. The nodes share the loop according to the scarce resources that their tasks will take and
	// give back (Capriccio, section 4.2), and work is admitted at the entrances of the program (see ressched.Entrance)
	// only as far as it can be done. It needs the blocking graph.
	Resource Scheduler = feed.Resource
)

func knownScheduler(name string) error {
	return oneOf("scheduler", name, feed.FIFO, feed.Cohort, feed.Resource)
}

// WithScheduler chooses which task a loop runs next.
func WithScheduler(s Scheduler) Option {
	return func(o *options) error {
		if err := knownScheduler(string(s)); err != nil {
			return fmt.Errorf("capriccio: WithScheduler: %w", err)
		}
		o.sched.Policy = string(s)
		return nil
	}
}

// WithCohortSize bounds the tasks of one node that run one after another, with the schedulers Cohort (default: all that
// are ready) and Resource (default: 64). 0 is the default.
func WithCohortSize(n int) Option {
	return func(o *options) error {
		if n < 0 {
			return fmt.Errorf("capriccio: WithCohortSize(%d); want at least 1, or 0 for the default", n)
		}
		o.sched.CohortSize = n
		return nil
	}
}

// WithoutRefusals lets work that can't be admitted wait, however long that takes. Without this option the scheduler
// Resource refuses work that has waited too long (ressched.ErrRefused, which Knot answers with 503).
func WithoutRefusals() Option {
	return func(o *options) error { o.sched.NoRefusals = true; return nil }
}

// schedule plugs the chosen scheduler into cfg. The returned Feed must be started with the runtime; nil
// for fifo, which needs nothing.
func (o *options) schedule(cfg *engine.Config, graph *recorder.Graph) (*feed.Feed, error) {
	limitDescriptors()
	c := o.sched
	if c.Policy == "" && graph != nil {
		c.Policy = feed.Resource
	}
	if c.Policy == "" || c.Policy == feed.FIFO {
		return nil, nil
	}
	c.Graph, c.Log, c.Descriptors = graph, o.log(), descriptorLimit
	s, err := feed.New(c)
	if err != nil {
		return nil, fmt.Errorf("capriccio: scheduler: %w", err)
	}
	s.Plug(cfg)
	return s, nil
}

// limitDescriptors says how many descriptors there may be, unless the program has.
func limitDescriptors() {
	if ressched.Descriptors.Limit() == 0 {
		ressched.Descriptors.SetLimit(descriptorLimit())
	}
}

// descriptorLimit is how many descriptors the process may have at present; 0: any number.
func descriptorLimit() int64 {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= 1<<40 {
		return 0
	}
	return int64(limit.Cur)
}
