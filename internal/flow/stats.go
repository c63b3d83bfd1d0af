package flow

import (
	"bufio"
	"fmt"
	"io"
	"time"
)

// Stats is what is known of one module of a graph at one moment.
type Stats struct {
	Module   string // "web/parse"
	By       Parallelism
	Queued   int // elements that no servlet has taken
	Servlets int // now
	Busy     int // of them, in Run
	Most     int // servlets at a time, so far
	Handled  uint64
	Spawned  uint64        // servlets started because of the load
	Retired  uint64        // servlets ended for lack of it
	Panicked uint64        // servlets ended by a panic
	Service  time.Duration // mean time per element, waits in Run included; 0 where it is not measured
}

// Stats describes the modules, in the order in which they were added.
func (g *Graph) Stats() []Stats {
	all := make([]Stats, len(g.instances))
	for i, in := range g.instances {
		c := in.core()
		c.mu.Lock()
		all[i] = Stats{
			Module: c.name, By: c.by, Queued: c.queued, Servlets: c.workers, Busy: c.busy, Most: c.stats.most,
			Handled: c.stats.handled, Spawned: c.stats.spawned, Retired: c.stats.retired, Panicked: c.stats.panicked,
		}
		if c.sizer != nil && c.stats.handled > 0 {
			all[i].Service = c.stats.worked / time.Duration(c.stats.handled)
		}
		c.mu.Unlock()
	}
	return all
}

// WriteDOT writes the graph in the language of Graphviz: a box for each module with its
// queue and servlets, an arrow for each connection with how much was sent; Back is dashed.
func (g *Graph) WriteDOT(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "digraph %q {\n\trankdir=LR\n\tnode [shape=box]\n", g.name)
	for _, s := range g.Stats() {
		fmt.Fprintf(b, "\t%q [label=\"%s\\nby %v, %d servlets\\n%d queued, %d handled\"]\n", s.Module, s.Module, s.By, s.Servlets, s.Queued, s.Handled)
	}
	for _, o := range g.outs {
		c := o.connection()
		if c.target == nil {
			continue
		}
		style := ""
		if c.back {
			style = ", style=dashed"
		}
		fmt.Fprintf(b, "\t%q -> %q [label=\"%s %d\"%s]\n", c.source.name, c.target.name, c.name[len(c.source.name)+1:], c.sent.Load(), style)
	}
	fmt.Fprint(b, "}\n")
	return b.Flush()
}
