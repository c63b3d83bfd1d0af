package steer

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sched"
)

// The policies as package task wants them. There is a type for each, so that the calls,
// several for each step of a task, are direct ones.

// A cohortPolicy is a sched.Cohort for a loop.
type cohortPolicy struct{ p *sched.Cohort }

func (p cohortPolicy) Ready(n engine.NodeID)                 { p.p.Ready(sched.Node(n)) }
func (p cohortPolicy) Gone(n engine.NodeID, k int)           { p.p.Gone(sched.Node(n), k) }
func (p cohortPolicy) Charge(n engine.NodeID, cycles uint64) { p.p.Charge(sched.Node(n), cycles) }
func (p cohortPolicy) Tick(now time.Duration)                { p.p.Tick(now) }
func (p cohortPolicy) NewestFirst() bool                     { return p.p.NewestFirst() }
func (p cohortPolicy) Grant() (int, uint64)                  { return p.p.Grant() }
func (p cohortPolicy) Granted(n engine.NodeID, taken, came int) {
	p.p.Granted(sched.Node(n), taken, came)
}

func (p cohortPolicy) Next() (engine.NodeID, bool) {
	n, ok := p.p.Next()
	return engine.NodeID(n), ok
}

// A resourcePolicy is a sched.Resource for a loop.
type resourcePolicy struct{ p *sched.Resource }

func (p resourcePolicy) Ready(n engine.NodeID)                 { p.p.Ready(sched.Node(n)) }
func (p resourcePolicy) Gone(n engine.NodeID, k int)           { p.p.Gone(sched.Node(n), k) }
func (p resourcePolicy) Charge(n engine.NodeID, cycles uint64) { p.p.Charge(sched.Node(n), cycles) }
func (p resourcePolicy) Tick(now time.Duration)                { p.p.Tick(now) }
func (p resourcePolicy) NewestFirst() bool                     { return p.p.NewestFirst() }
func (p resourcePolicy) Grant() (int, uint64)                  { return p.p.Grant() }
func (p resourcePolicy) Granted(n engine.NodeID, taken, came int) {
	p.p.Granted(sched.Node(n), taken, came)
}

func (p resourcePolicy) Next() (engine.NodeID, bool) {
	n, ok := p.p.Next()
	return engine.NodeID(n), ok
}
