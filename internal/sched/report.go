package sched

// A Report is what a policy says of itself. It is made on the loop that the policy belongs to.
type Report struct {
	Policy string       // "cohort", "resource"
	Nodes  []NodeReport // by Node
}

// A NodeReport is how a policy ranks a node.
type NodeReport struct {
	Node     Node
	Priority float64 // 0 is neutral; 1 more doubles the tickets
	Tickets  int64
	Pass     uint64
	Ready    int64  // tasks
	Held     string // why it is held back or demoted; "" if it is not
	Turns    Turns
}

// Turns counts the cohorts of a node on one loop.
type Turns struct {
	Cohorts uint64 // that began
	Ran     uint64 // steps in them
}

// reasonExclusive is why an exclusive node is held, in the words of a Report.
const reasonExclusive = "held: exclusive, and another loop works at it"
