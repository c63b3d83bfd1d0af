package sched

import (
	"iter"
	"math/bits"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// CohortConfig configures a Cohort policy. Zero fields have the defaults named.
type CohortConfig struct {
	Loop int // number of the loop
	// Cycles is how many cycles the processor counts per second. 1e9, so that cycles are nanoseconds.
	Cycles float64
	// Size is how many tasks of a node run in one go at most; 0: all that were there
	// when the cohort began.
	Size int
	// Edges lists the edges of the graph, from which the order of the nodes is drawn
	// once in cohortRefresh; nil: nodes come in the order of their numbers.
	Edges iter.Seq2[Node, Node]
	// Claim returns the Claim of an exclusive node, nil for others. It is asked once for each node. nil: no node is exclusive.
	Claim func(Node) *Claim
}

// Cohort runs all tasks that wait at one node before it turns to another, so that what
// they share is in the caches (Cohort Scheduling, sections 2 and 4.1). It goes through
// the nodes in the order of the graph, forwards and backwards in turn. A node that
// waits too long is put in between, once and without being interrupted itself.
type Cohort struct {
	cfg     CohortConfig
	overdue uint64 // cycles that a node may wait for its turn

	nodes   []cohortNode
	order   []Node   // by place
	present []uint64 // a bit by place: has ready tasks
	back    bool     // going backwards

	current   run
	suspended run  // goes on after current, which was put in between
	inBetween bool // current was put in between
	claims    bool // some node is exclusive

	clock     uint64 // cycles charged
	refreshed time.Duration
	first     int32 // node that has waited longest for its turn; noNode: none
	last      int32
}

// A run is a cohort that is being run.
type run struct {
	node Node
	left int // tasks
	on   bool
}

type cohortNode struct {
	node
	place   int
	due     uint64 // clock when the node has waited too long for its turn
	prev    int32  // in the list of waiting nodes, ordered by due
	next    int32
	waiting bool // is in that list
}

const noNode = -1

// NewCohort returns a Cohort policy.
func NewCohort(cfg CohortConfig) *Cohort {
	if cfg.Cycles <= 0 {
		cfg.Cycles = 1e9
	}
	return &Cohort{cfg: cfg, first: noNode, last: noNode, refreshed: -cohortRefresh, overdue: cyclesIn(cohortOverdue, cfg.Cycles)}
}

func cyclesIn(d time.Duration, perSecond float64) uint64 {
	return uint64(max(d.Seconds()*perSecond, 1))
}

// Count is part of Policy.
func (c *Cohort) Count(n Node, k int) {
	nd := c.node(n)
	nd.ready = max(nd.ready+k, 0)
	if nd.ready == 0 {
		c.vacate(n)
		return
	}
	c.appear(nd)
	if !nd.waiting && !(c.current.on && c.current.node == n) {
		c.wait(n)
	}
}

// Choose is part of Policy.
func (c *Cohort) Choose() (n Node, steps int, cycles uint64) {
	if !c.inBetween && c.clock > c.due() {
		c.interrupt()
	}
	r := &c.current
	if !c.goesOn() {
		c.end()
		if !r.on && !c.advance() {
			return 0, 0, 0
		}
	}
	steps = min(r.left, c.nodes[r.node].ready)
	until := uint64(noKey)
	if !c.inBetween {
		until = c.due()
	}
	if until <= c.clock { // the node that is overdue comes after the next step
		steps = 1
	}
	return r.node, steps, max(until, c.clock+1) - c.clock
}

// Ran is part of Policy. A task that gave way costs nothing here: the nodes have turns.
func (c *Cohort) Ran(n Node, tasks int, cycles uint64, o engine.Outcome) {
	c.clock += cycles
	nd, r := c.node(n), &c.current
	nd.ready = max(nd.ready-tasks, 0)
	nd.turns.Ran += uint64(tasks)
	if nd.ready == 0 {
		c.vacate(n)
	}
	if r.on && r.node == n {
		r.left -= tasks
		if o&engine.WokenForNothing != 0 {
			r.left = 0
			nd.herd.inVain()
		}
	}
	if c.claims {
		c.giveUp(&c.current)
		c.giveUp(&c.suspended)
	}
}

// NewestFirst is part of Policy.
func (c *Cohort) NewestFirst() bool { return true }

// AnyOrder is part of Policy: the order is what Cohort is for.
func (c *Cohort) AnyOrder() bool { return false }

// giveUp ends a cohort at an exclusive node that has no more ready tasks: the loop may sleep before the next Tick, and
// others may wait for the node.
func (c *Cohort) giveUp(r *run) {
	if !r.on {
		return
	}
	if nd := &c.nodes[r.node]; nd.ready == 0 && nd.mine {
		r.left = 0
		nd.release()
	}
}

// Tick is part of Policy.
func (c *Cohort) Tick(now time.Duration) {
	if !c.goesOn() {
		c.end()
	}
	if c.cfg.Edges != nil && now-c.refreshed >= cohortRefresh {
		c.refreshed = now
		c.reorder(Wavefront(c.cfg.Edges))
	}
}

// interrupt suspends the current cohort for one at the node that is overdue.
func (c *Cohort) interrupt() {
	n := Node(c.first)
	if nd := &c.nodes[n]; nd.ready == 0 || c.current.on && c.current.node == n {
		return
	}
	if !c.claim(n) { // it is being worked at; ask again after another such time
		c.unwait(n)
		c.wait(n)
		return
	}
	c.suspended = c.current
	c.begin(n)
	c.inBetween = true
}

// end ends the current cohort. If that was put in between, the suspended cohort goes on.
func (c *Cohort) end() {
	r := &c.current
	if !r.on {
		return
	}
	nd := &c.nodes[r.node]
	r.on = false
	nd.release()
	if nd.ready > 0 && !nd.waiting {
		c.wait(r.node)
	}
	if !c.inBetween {
		return
	}
	c.inBetween = false
	if s := c.suspended; s.on {
		*r = s
		c.suspended.on = false
		c.unwait(r.node)
		if !c.goesOn() {
			c.end()
		}
	}
}

// advance begins a cohort at the next node in the order, and reports whether there is one.
// It looks in the present direction, then in the other; the last node has its turn
// again only if there is no other.
func (c *Cohort) advance() bool {
	at := -1
	if int(c.current.node) < len(c.nodes) {
		at = c.nodes[c.current.node].place
	}
	for range 2 {
		for place := c.find(at); place >= 0; place = c.find(place) {
			if n := c.order[place]; c.claim(n) {
				c.begin(n)
				return true
			}
		}
		c.back = !c.back
	}
	if n := c.current.node; at >= 0 && c.nodes[n].ready > 0 && c.claim(n) {
		c.begin(n)
		return true
	}
	return false
}

// find returns the next place, in the present direction from the given one, whose node
// has ready tasks; -1 if there is none.
func (c *Cohort) find(place int) int {
	if c.back {
		for w := (place - 1) >> 6; w >= 0 && place > 0; w-- {
			word := c.present[w]
			if w == (place-1)>>6 {
				word &= noKey >> (63 - (place-1)&63)
			}
			if word != 0 {
				return w<<6 + bits.Len64(word) - 1
			}
		}
		return -1
	}
	for w := (place + 1) >> 6; w < len(c.present); w++ {
		word := c.present[w]
		if w == (place+1)>>6 {
			word &= noKey << ((place + 1) & 63)
		}
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// begin makes all tasks that are at n now the current cohort.
func (c *Cohort) begin(n Node) {
	left := c.nodes[n].herd.begin(c.nodes[n].ready)
	if c.cfg.Size > 0 {
		left = min(left, c.cfg.Size)
	}
	c.current = run{node: n, left: left, on: true}
	c.nodes[n].turns.Cohorts++
	c.unwait(n)
}

// claim takes the Claim of n, if it is exclusive, and reports whether tasks of n may run here.
func (c *Cohort) claim(n Node) bool { return c.nodes[n].take(c.cfg.Loop) }

// appear notes that a node has ready tasks.
func (c *Cohort) appear(nd *cohortNode) {
	c.present[nd.place>>6] |= 1 << (nd.place & 63)
}

// vacate notes that n has no ready task any more, or none that may run.
func (c *Cohort) vacate(n Node) {
	place := c.nodes[n].place
	c.present[place>>6] &^= 1 << (place & 63)
	c.unwait(n)
}

// wait puts n at the end of the list of nodes that wait for their turn.
func (c *Cohort) wait(n Node) {
	nd := &c.nodes[n]
	nd.waiting, nd.due = true, c.clock+c.overdue
	nd.prev, nd.next = c.last, noNode
	c.link(nd, int32(n), int32(n))
}

func (c *Cohort) unwait(n Node) {
	if nd := &c.nodes[n]; nd.waiting {
		nd.waiting = false
		c.link(nd, nd.next, nd.prev)
	}
}

// link has after follow on the node before nd, and before precede the one that follows on it.
func (c *Cohort) link(nd *cohortNode, after, before int32) {
	if nd.prev == noNode {
		c.first = after
	} else {
		c.nodes[nd.prev].next = after
	}
	if nd.next == noNode {
		c.last = before
	} else {
		c.nodes[nd.next].prev = before
	}
}

// due is the clock at which a node is to be put in between, as it has waited too long for its turn.
func (c *Cohort) due() uint64 {
	if c.first == noNode {
		return noKey
	}
	return c.nodes[c.first].due
}

// goesOn reports whether the current cohort has more tasks.
func (c *Cohort) goesOn() bool {
	r := &c.current
	return r.on && r.left > 0 && c.nodes[r.node].ready > 0
}

// node returns the state of n; new ones come last in the order.
func (c *Cohort) node(n Node) *cohortNode {
	if int(n) >= len(c.nodes) {
		mustBeNode(n)
		for int(n) >= len(c.nodes) {
			c.nodes = append(c.nodes, cohortNode{place: len(c.order)})
			c.order = append(c.order, Node(len(c.nodes)-1))
		}
		for len(c.present)<<6 < len(c.order) {
			c.present = append(c.present, 0)
		}
	}
	nd := &c.nodes[n]
	if !nd.known {
		nd.known = true
		if c.cfg.Claim != nil {
			nd.claim = c.cfg.Claim(n)
			c.claims = c.claims || nd.claim != nil
		}
	}
	return nd
}

// reorder puts the nodes into the given order; nodes that are not in it come last.
func (c *Cohort) reorder(order []Node) {
	for n := range c.nodes {
		c.nodes[n].place = -1
	}
	c.order = c.order[:0]
	place := func(n Node) {
		if int(n) < len(c.nodes) && c.nodes[n].place < 0 {
			c.nodes[n].place = len(c.order)
			c.order = append(c.order, n)
		}
	}
	for _, n := range order {
		place(n)
	}
	for n := range c.nodes {
		place(Node(n))
	}
	clear(c.present)
	for place, n := range c.order {
		if nd := &c.nodes[n]; nd.ready > 0 {
			c.present[place>>6] |= 1 << (place & 63)
		}
	}
}

// Report is part of Policy.
func (c *Cohort) Report(r *Report) {
	r.Policy = "cohort"
	for n := range c.nodes {
		nd := &c.nodes[n]
		if !nd.known {
			continue
		}
		held := ""
		if nd.ready > 0 && nd.elsewhere() {
			held = reasonExclusive
		}
		r.Nodes = append(r.Nodes, NodeReport{Node: Node(n), Ready: int64(nd.ready), Held: held, Turns: nd.turns})
	}
}
