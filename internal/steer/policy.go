package steer

import (
	"time"

	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// The policies as package task wants them. There is a type for each, so that the calls,
// several for each step of a task, are direct ones.

// A cohortPolicy is a ressched.Cohort for a loop.
type cohortPolicy struct{ p *ressched.Cohort }

func (p cohortPolicy) Ready(n task.NodeID)                 { p.p.Ready(ressched.Node(n)) }
func (p cohortPolicy) Gone(n task.NodeID, k int)           { p.p.Gone(ressched.Node(n), k) }
func (p cohortPolicy) Charge(n task.NodeID, cycles uint64) { p.p.Charge(ressched.Node(n), cycles) }
func (p cohortPolicy) Tick(now time.Duration)              { p.p.Tick(now) }
func (p cohortPolicy) NewestFirst() bool                   { return p.p.NewestFirst() }
func (p cohortPolicy) Grant() (int, uint64)                { return p.p.Grant() }
func (p cohortPolicy) Granted(n task.NodeID, taken, came int) {
	p.p.Granted(ressched.Node(n), taken, came)
}

func (p cohortPolicy) Next() (task.NodeID, bool) {
	n, ok := p.p.Next()
	return task.NodeID(n), ok
}

// A resourcePolicy is a ressched.Resource for a loop.
type resourcePolicy struct{ p *ressched.Resource }

func (p resourcePolicy) Ready(n task.NodeID)                 { p.p.Ready(ressched.Node(n)) }
func (p resourcePolicy) Gone(n task.NodeID, k int)           { p.p.Gone(ressched.Node(n), k) }
func (p resourcePolicy) Charge(n task.NodeID, cycles uint64) { p.p.Charge(ressched.Node(n), cycles) }
func (p resourcePolicy) Tick(now time.Duration)              { p.p.Tick(now) }
func (p resourcePolicy) NewestFirst() bool                   { return p.p.NewestFirst() }
func (p resourcePolicy) Grant() (int, uint64)                { return p.p.Grant() }
func (p resourcePolicy) Granted(n task.NodeID, taken, came int) {
	p.p.Granted(ressched.Node(n), taken, came)
}

func (p resourcePolicy) Next() (task.NodeID, bool) {
	n, ok := p.p.Next()
	return task.NodeID(n), ok
}
