package sched

import (
	"fmt"
	"math"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
)

// ResourceConfig configures a Resource policy. Zero fields have the defaults named.
type ResourceConfig struct {
	Loop   int     // number of the loop
	Cycles float64 // per second; 1e9, so that cycles are nanoseconds

	Ledger *admit.Ledger // what is known of resources; nil: nothing
	// Predictions returns what is known of the nodes, by Node, nil if nothing is. It is
	// asked every time the nodes are ranked, and must not change what it has returned.
	Predictions func() []Prediction

	// Size bounds a cohort, the tasks of one node that run in one go, besides cohortTime. 64.
	Size int
	// Claim returns the Claim of an exclusive node, nil for others. It is asked once for each node. nil: no node is exclusive.
	Claim func(Node) *Claim
}

// Resource is the resource-aware policy (Capriccio, section 4.2): stride scheduling
// over the nodes, cohorts within a node. A node's tickets follow from what a task there
// is going to do to the resources, from the state of these, and from how near to
// completion it is; see rank. A node whose tasks would take from a resource at its limit
// is demoted, or held back altogether if its tasks would not give it back.
//
//	              Count                    chosen, would take too much
//	idle ──────────────────────▶ active ──────────────────────────────▶ held
//	 ▲                            │  ▲                                   │
//	 └────────────────────────────┘  └───────────────────────────────────┘
//	        its last ready task runs          the next Tick
type Resource struct {
	cfg     ResourceConfig
	quantum uint64 // cycles
	stride  Stride
	nodes   []resourceNode
	held    []Node // at most one entry each

	current Node
	left    int // tasks of the cohort
	loans   []loan
	passed  bool // current is not to be next
	until   uint64
	pending uint64 // cycles that current has used and is yet to be charged for
	clock   uint64 // cycles charged in all

	now      time.Duration
	ranked   time.Duration
	standing []admit.Standing // by admit.ResourceID
	before   []admit.Standing // what it was before
	version  uint64
	learned  []Prediction
	minds    bool      // which node runs next, see AnyOrder
	rate     []float64 // scratch of rank
}

// Where a node is. See Resource.
const (
	idle uint8 = iota
	active
	held
)

// A resourceNode is loop-private.
type resourceNode struct {
	node
	where    uint8
	gated    bool // ask mayRun before it runs
	why      reason
	due      time.Duration // if held: when one task runs nevertheless; noTime: it was not held since it ran
	priority float64
}

const noTime = time.Duration(math.MinInt64)

// A loan is room in a resource that was granted for the tasks of the present cohort.
type loan struct {
	resource admit.ResourceID
	each     float64
}

// A reason says why a node is held or demoted.
type reason struct {
	kind     uint8
	resource admit.ResourceID
}

const (
	noReason uint8 = iota
	takesAtLimit
	keepsAtLimit
	exclusiveElsewhere
)

// NewResource returns a Resource policy.
func NewResource(cfg ResourceConfig) *Resource {
	if cfg.Cycles <= 0 {
		cfg.Cycles = 1e9
	}
	if cfg.Size <= 0 {
		cfg.Size = cohortSize
	}
	return &Resource{cfg: cfg, quantum: cyclesIn(cohortTime, cfg.Cycles), ranked: -rankEvery}
}

// Count is part of Policy.
func (p *Resource) Count(n Node, k int) {
	nd := p.node(n)
	nd.ready = max(nd.ready+k, 0)
	switch {
	case nd.where == idle && nd.ready > 0:
		nd.where = active
		p.stride.Join(n)
	case nd.where == active && nd.ready == 0:
		nd.where = idle
		p.stride.Leave(n)
	}
}

// Choose is part of Policy.
func (p *Resource) Choose() (n Node, steps int, cycles uint64) {
	n = p.current
	if p.left == 0 || p.clock >= p.until || p.nodes[n].ready == 0 {
		var ok bool
		if n, ok = p.choose(); !ok {
			return 0, 0, 0
		}
	}
	return n, min(p.left, p.nodes[n].ready), p.until - p.clock
}

// Ran is part of Policy. A task that yields until others have done something would uselessly have as much of the
// processor as these: its node gives way to another.
func (p *Resource) Ran(n Node, tasks int, cycles uint64, o engine.Outcome) {
	nd := p.node(n)
	nd.ready = max(nd.ready-tasks, 0)
	nd.turns.Ran += uint64(tasks)
	p.clock += cycles
	if n != p.current {
		p.stride.Charge(n, cycles)
		return
	}
	p.pending += cycles
	p.left = max(p.left-tasks, 0)
	p.passed = p.passed || o != 0
	if o&engine.WokenForNothing != 0 {
		nd.herd.inVain()
		p.endCohort()
	} else if nd.mine && nd.ready == 0 {
		p.endCohort() // the loop may sleep before the next Tick, and others wait for the node
	}
}

// NewestFirst is part of Policy.
func (p *Resource) NewestFirst() bool { return true }

// AnyOrder is part of Policy. It is true as long as nothing that tasks take is scarce or will soon
// be. What tickets there are then make little difference where all that is ready runs soon.
func (p *Resource) AnyOrder() bool {
	if p.minds {
		return false
	}
	p.settle()
	p.endCohort()
	p.passed = false
	return true
}

// settle charges the node of the current cohort for what its tasks have used so far, and takes the node out of the
// choice if it has no ready task. (Before that it would often come back at once.)
func (p *Resource) settle() {
	if int(p.current) >= len(p.nodes) {
		return
	}
	if nd := &p.nodes[p.current]; nd.ready == 0 && nd.where == active {
		nd.where = idle
		p.stride.Leave(p.current)
	}
	if p.pending > 0 {
		p.stride.Charge(p.current, p.pending)
		p.pending = 0
	}
}

// Tick is part of Policy.
func (p *Resource) Tick(now time.Duration) {
	p.now = max(now, p.now)
	p.settle()
	if p.left == 0 || p.nodes[p.current].ready == 0 {
		p.endCohort()
	}
	if p.lookAtLedger() || p.now-p.ranked >= rankEvery {
		p.rank()
	}
	for _, n := range p.held {
		nd := &p.nodes[n]
		if nd.ready > 0 {
			nd.where = active
			p.stride.Join(n)
		} else {
			nd.where = idle
		}
	}
	p.held = p.held[:0]
}

// lookAtLedger brings what is known of the resources up to date, and reports whether the
// state of one has changed.
func (p *Resource) lookAtLedger() (changed bool) {
	if p.cfg.Ledger == nil {
		return false
	}
	was := p.version
	p.before, p.standing = p.standing, p.before
	p.standing, p.version = p.cfg.Ledger.Standings(p.standing, p.version)
	if p.version == was {
		p.before, p.standing = p.standing, p.before
		return false
	}
	if len(p.before) != len(p.standing) {
		return true
	}
	for r := range p.standing {
		changed = changed || p.standing[r].State != p.before[r].State
	}
	return changed
}

// alternates reports whether tasks are woken for nothing at current and at the node that would be next without
// it. Most likely these wait for each other's progress: as many of one are to run as of the other.
func (p *Resource) alternates() bool {
	n := p.current
	if int(n) >= len(p.nodes) || p.nodes[n].herd.limit == 0 || p.nodes[n].where != active {
		return false
	}
	other, ok := p.stride.Other(n)
	return ok && p.nodes[other].herd.limit > 0
}

// choose begins the next cohort.
func (p *Resource) choose() (Node, bool) {
	p.settle()
	p.endCohort()
	if p.passed || p.alternates() {
		p.passed = false
		p.stride.PassOver(p.current)
	}
	for {
		n, ok := p.stride.Min()
		if !ok {
			return 0, false
		}
		nd := &p.nodes[n]
		size := nd.herd.begin(min(nd.ready, p.cfg.Size))
		if nd.gated {
			if size = p.mayRun(n, size); size == 0 {
				p.hold(n)
				continue
			}
		}
		p.current, p.left = n, size
		nd.turns.Cohorts++
		p.until = p.clock + p.quantum
		return n, true
	}
}

func (p *Resource) endCohort() {
	p.shrinkLoans(p.left)
	p.loans = p.loans[:0]
	p.left = 0
	if int(p.current) < len(p.nodes) {
		p.nodes[p.current].release()
	}
}

// hold excludes n from the choice until the next Tick.
func (p *Resource) hold(n Node) {
	p.minds = true
	p.nodes[n].where = held
	p.stride.Leave(n)
	p.held = append(p.held, n)
}

// mayRun returns how many of the ready tasks of n may run now: what there is room for in the resources that they keep,
// one if the node has been held for longestHeld, and none if another loop works at it.
func (p *Resource) mayRun(n Node, ready int) int {
	nd := &p.nodes[n]
	if !nd.take(p.cfg.Loop) {
		nd.why = reason{kind: exclusiveElsewhere}
		return 0
	}
	size := ready
	tight := admit.ResourceID(0)
	pred := p.prediction(n)
	for r := range pred.Changes {
		takes := p.takes(pred, r)
		if takes == 0 || !keeps(pred, r) {
			continue
		}
		fit := p.cfg.Ledger.Grant(admit.ResourceID(r), takes, size)
		if fit < size {
			p.shrinkLoans(size - fit)
			size, tight = fit, admit.ResourceID(r)
		}
		p.loans = append(p.loans, loan{admit.ResourceID(r), takes})
	}
	switch {
	case size > 0:
	case nd.due == noTime:
		nd.due = p.now + longestHeld
	case p.now >= nd.due:
		size = 1
		p.loans = p.loans[:0]
	}
	if size > 0 {
		nd.due = noTime
		return size
	}
	p.loans = p.loans[:0]
	nd.why = reason{kind: keepsAtLimit, resource: tight}
	nd.release()
	return 0
}

// shrinkLoans gives back what was granted for n tasks.
func (p *Resource) shrinkLoans(tasks int) {
	for _, l := range p.loans {
		p.cfg.Ledger.GiveBack(l.resource, l.each, tasks)
	}
}

// prediction is what is known of n.
func (p *Resource) prediction(n Node) *Prediction {
	if int(n) < len(p.learned) {
		return &p.learned[n]
	}
	return &unknown
}

var unknown Prediction

// node returns the state of n.
func (p *Resource) node(n Node) *resourceNode {
	if int(n) >= len(p.nodes) {
		mustBeNode(n)
		for int(n) >= len(p.nodes) {
			p.nodes = append(p.nodes, resourceNode{due: noTime})
		}
	}
	nd := &p.nodes[n]
	if !nd.known {
		nd.known = true
		if p.cfg.Claim != nil {
			nd.claim = p.cfg.Claim(n)
			nd.gated = nd.claim != nil
		}
	}
	return nd
}

// Report is part of Policy.
func (p *Resource) Report(r *Report) {
	r.Policy = "resource"
	for n := range p.nodes {
		nd := &p.nodes[n]
		if !nd.known {
			continue
		}
		r.Nodes = append(r.Nodes, NodeReport{
			Node: Node(n), Ready: int64(nd.ready), Priority: nd.priority,
			Tickets: int64(p.stride.Tickets(Node(n))), Pass: p.stride.Pass(Node(n)), Held: p.explain(nd), Turns: nd.turns,
		})
	}
}

// explain puts a reason into words.
func (p *Resource) explain(nd *resourceNode) string {
	name, percent := "?", 0.0
	if r := int(nd.why.resource); p.cfg.Ledger != nil && r >= 0 && r < len(p.standing) {
		name, percent = p.cfg.Ledger.NameOf(nd.why.resource), 100*p.standing[r].Util
	}
	if nd.ready == 0 && nd.why.kind != takesAtLimit {
		return ""
	}
	switch nd.why.kind {
	case takesAtLimit:
		return fmt.Sprintf("demoted: takes %s, of which %.0f %% are in use", name, percent)
	case keepsAtLimit:
		return fmt.Sprintf("held: takes %s and does not give it back; %.0f %% are in use", name, percent)
	case exclusiveElsewhere:
		return reasonExclusive
	}
	return ""
}
