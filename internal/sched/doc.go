// Package sched decides which node of the blocking graph runs next (Capriccio, SOSP 2003, section 4.2; Cohort Scheduling,
// USENIX 2002).
//
// It knows nodes by number, costs in processor cycles, and resources by what the ledger of package admit says of them. It
// has no loop, reads no clock, starts no goroutine and allocates nothing while tasks run: its user says what time it is
// and what was used, so that all of it can be tested by ticks.
//
//   - A Policy belongs to one loop and chooses its next node: Cohort, Resource.
//   - Predict says what a task will do to the resources, from the steps of those before it.
//   - Stride and Claim are the parts that policies are made of.
//
// Unless it says otherwise, a type may be used by one goroutine at a time: that of the
// loop it belongs to. No call parks.
package sched

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A Node is the number of a node of the blocking graph. Numbers should be small:
// tables have an element for each up to the largest. They must be below MaxNodes.
type Node = recorder.NodeID

// MaxNodes is how many nodes there can be.
const MaxNodes = 1 << nodeBits

func mustBeNode(n Node) {
	if n >= MaxNodes {
		panic(fmt.Sprintf("sched: node %d; want a number below %d", n, MaxNodes))
	}
}

// A node is what each policy knows of a Node. Loop-private.
type node struct {
	ready int  // tasks
	known bool // the configuration has been asked for its Claim
	mine  bool // holds claim
	claim *Claim
	herd  herd
	turns Turns
}

// take reports whether tasks of the node may run on that loop now. It takes the Claim of an exclusive node.
func (n *node) take(loop int) bool {
	if n.claim != nil && !n.mine {
		n.mine = n.claim.take(loop)
	}
	return n.claim == nil || n.mine
}

func (n *node) release() {
	if n.mine {
		n.mine = false
		n.claim.release()
	}
}

// elsewhere reports whether the node is exclusive and another loop works at it.
func (n *node) elsewhere() bool { return n.claim != nil && !n.mine && n.claim.owner.Load() != 0 }

// A Policy is an engine.Policy that says what it does. Shares are most exact if a step is charged
// before the next is chosen.
type Policy interface {
	engine.Policy
	// Report adds what there is to say about the nodes, see Report.
	Report(r *Report)
}
