// Package bgraph is the blocking graph of a program as data: where its tasks wait, and what each step between two waits costs
// (Capriccio, SOSP 2003, section 4.1). capriccio.Snapshot returns the graph of a running program, and Decode reads a dump, as
// the signal SIGUSR2, the handler of package graphhttp and the command bgdump write it. A program makes its own metrics of a Graph,
// or compares two of them; the command bgdump shows graphs and searches them for faults.
//
// The package starts nothing and needs no runtime. Its functions may be called from any goroutine.
package bgraph

import (
	"io"
	"time"

	data "github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A Graph is a blocking graph at one moment, or the difference between two moments. Encode writes all that is known, which is more
// than the fields have: stacks, resources, the times of waits. Encode, Diff and Merge do not see changes of the fields.
type Graph struct {
	Program string        // name of the executable, without folder
	Taken   time.Time     // when the counts were read
	Span    time.Duration // the time that the counts cover
	Nodes   []Node        // by Key, ascending
	Steps   []Step        // by From, then To, ascending

	// Admitted is the number of tasks that admission control let in, Deferred the number of tasks that waited for it first,
	// and Refused the number of tasks that it refused. All are 0 with a scheduler that admits every task.
	Admitted, Deferred, Refused uint64

	snapshot *data.Snapshot
}

// A Node is a place in the program where tasks wait, or one of three nodes that are no places: "start" (Key 1), "end" (2), and
// "overflow" (3), the sum of the places for which the graph has no room.
type Node struct {
	Key        uint64        // the same in every run of the same program
	Name       string        // the label that the program gave the place, or the kind of wait and the function: "read main.serve"; "start", "end", "overflow"
	Now        int64         // tasks that wait there, or are ready to go on
	Arrivals   uint64        // waits that began in Graph.Span
	Departures uint64        // waits that ended in Graph.Span
	Waited     time.Duration // the sum of the waits that ended, estimated from a sample
}

// A Step is what tasks do between a wait at one node and the next wait at another.
type Step struct {
	From, To uint64        // keys of the nodes where the steps began and ended
	Count    uint64        // steps in Graph.Span
	CPU      time.Duration // the time that all of them took on their loops, estimated from a sample
}

// Decode reads a dump. Its format is described in docs/dump-format.md; a dump that is not valid is an error that says where.
func Decode(r io.Reader) (*Graph, error) { return of(data.Decode(r)) }

// ReadFile reads a dump from a file.
func ReadFile(path string) (*Graph, error) { return of(data.ReadFile(path)) }

// Diff returns what happened between two graphs of the same run of a program, such as two that capriccio.Snapshot returned. Graphs of
// two runs, a graph that is a difference itself, and an after that is older than before are errors.
func Diff(before, after *Graph) (*Graph, error) {
	return of(data.Diff(before.data(), after.data()))
}

// Merge adds up the graphs of several processes. Nodes with the same Key become one. No graph, and two graphs of the same run
// of a program, are errors.
func Merge(all ...*Graph) (*Graph, error) {
	snapshots := make([]*data.Snapshot, len(all))
	for i, g := range all {
		snapshots[i] = g.data()
	}
	return of(data.Merge(snapshots...))
}

// Encode writes g as a dump, with one call of Write.
func (g *Graph) Encode(w io.Writer) error { return g.data().Encode(w) }

// data is nil if g is: capriccio.Snapshot of a runtime that learns no graph.
func (g *Graph) data() *data.Snapshot {
	if g == nil {
		return nil
	}
	return g.snapshot
}

func init() {
	data.Public = func(s *data.Snapshot) any {
		g, _ := of(s, nil)
		return g
	}
}

// of is the Graph of s, if there is no error.
func of(s *data.Snapshot, err error) (*Graph, error) {
	if err != nil {
		return nil, err
	}
	g := &Graph{Program: s.Program.Name, Taken: s.Taken, Span: s.Span.Duration(), snapshot: s, Nodes: make([]Node, len(s.Nodes)), Steps: make([]Step, len(s.Edges))}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		waited := time.Duration(min(n.Wait.Estimate(n.Departures), graphlimits.Number))
		g.Nodes[i] = Node{Key: uint64(n.Key), Name: n.Name(), Now: n.Now, Arrivals: n.Arrivals, Departures: n.Departures, Waited: waited}
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		g.Steps[i] = Step{From: uint64(e.From), To: uint64(e.To), Count: e.Count, CPU: e.TotalCPU().Duration()}
	}
	if s.Sched != nil {
		g.Admitted, g.Deferred, g.Refused = s.Sched.Admitted, s.Sched.Deferred, s.Sched.Refused
	}
	return g, nil
}
