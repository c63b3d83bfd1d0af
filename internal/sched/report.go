package sched

// A Report is what a policy, a Ledger and an Admission say of themselves. Each adds
// its part: Policy.Report, Ledger.Report, Admission.Report. The first and the last are
// to be called on the loop they belong to.
type Report struct {
	Policy    string // "cohort", "resource"
	Admitted  uint64 // tasks, at the entrances
	Deferred  uint64 // of them, those that had to wait for a resource first
	Refused   uint64
	Resources []ResourceReport // in the order of Ledger.Add, then gates
	Nodes     []NodeReport     // by Node
}

// A ResourceReport is the state of a resource.
type ResourceReport struct {
	Name        string
	Used        float64 // at last, in the resource's unit
	Limit       float64 // 0: not found yet
	Utilisation float64 // used, in parts of the limit: 0 to 1
	Trend       float64 // change of the utilisation per second
	State       State
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
