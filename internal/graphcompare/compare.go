package graphcompare

import (
	"cmp"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A Comparison sets two snapshots side by side, of different runs or even programs:
// before and after a change, one machine and another. It compares rates and means, so
// that they need not have run for the same time.
type Comparison struct {
	Before Side   `json:"before"`
	After  Side   `json:"after"`
	Load   Pair   `json:"load"`  // processors that all steps keep busy
	Steps  Pair   `json:"steps"` // per second, of all edges
	Nodes  []Node `json:"nodes"` // the greatest change first
	Edges  []Edge `json:"edges"` // the greatest change first

	Goroutines bool `json:"goroutines,omitempty"` // they are what waits, not tasks
}

// A Side is what one side of a Comparison was made of.
type Side struct {
	Program  bgraph.Program `json:"program"`
	Span     bgraph.Nanos   `json:"span_ns"`
	Sampling int            `json:"sampling"`
}

// A Pair is a number before and after. Of what was not there, or never measured, it is 0.
type Pair struct {
	Before float64 `json:"before"`
	After  float64 `json:"after"`
}

// Change is by how many percent the number has grown: 0 if it is 0 on both sides,
// infinite if it was 0.
func (p Pair) Change() float64 {
	if p.Before == p.After {
		return 0
	}
	return (p.After - p.Before) / p.Before * 100
}

// weight is high if a change is large in itself as well as in proportion: that is how
// unlikely it would be in a count that varies by chance.
func (p Pair) weight() float64 {
	d, sum := p.After-p.Before, p.Before+p.After
	if d*d <= 1e-18*sum*sum { // rounding
		return 0
	}
	return d * d / sum
}

// A Node is one node in both.
type Node struct {
	Name   string     `json:"name"`       // where it is gone, that in before
	Before bgraph.Key `json:"before_key"` // 0: it was not there
	After  bgraph.Key `json:"after_key"`  // 0: it is not there any more
	Tasks  Pair       `json:"tasks"`      // waiting or ready on average: visits times the mean of wait and ready, or those there now if fewer have left
	Visits Pair       `json:"visits"`     // that ended, per second
	Wait   Pair       `json:"wait"`       // mean, nanoseconds
	Ready  Pair       `json:"ready"`      // mean, nanoseconds
	P99    Pair       `json:"p99"`        // of the wait, nanoseconds
}

// An Edge is one edge in both.
type Edge struct {
	From   string        `json:"from"`
	To     string        `json:"to"`
	Before [2]bgraph.Key `json:"before_keys"` // from and to; 0: it was not there
	After  [2]bgraph.Key `json:"after_keys"`  // from and to; 0: it is not there any more
	Load   Pair          `json:"load"`        // processors that it keeps busy
	Steps  Pair          `json:"steps"`       // per second
	CPU    Pair          `json:"cpu"`         // mean, nanoseconds
	P99    Pair          `json:"p99"`         // of the CPU time, nanoseconds
}

// Compare sets two snapshots side by side. Nodes are the same if their keys are equal. As a
// change of the source gives a node another key, nodes without a counterpart are the same too, in the
// order of their lines, if each side has as many such nodes with their reason, label and functions of the call
// path. Nodes and edges that did nothing on both sides are left out. nil is an empty Snapshot;
// rates are 0 where Span is.
//
// First come the nodes with the greatest change of Tasks, and the edges with the greatest
// change of Load; a change counts that is large in itself and in proportion.
func Compare(before, after *bgraph.Snapshot) *Comparison {
	if before == nil {
		before = new(bgraph.Snapshot)
	}
	if after == nil {
		after = new(bgraph.Snapshot)
	}
	c := &Comparison{Before: sideOf(before), After: sideOf(after), Goroutines: after.Kind == bgraph.KindGoroutines}
	sides := sides{before: before, after: after, successor: successors(before, after),
		namesBefore: words.Names(before), namesAfter: words.Names(after)}
	c.Nodes, c.Edges = sides.nodes(), sides.edges()
	for i := range c.Edges {
		e := &c.Edges[i]
		c.Load = Pair{c.Load.Before + e.Load.Before, c.Load.After + e.Load.After}
		c.Steps = Pair{c.Steps.Before + e.Steps.Before, c.Steps.After + e.Steps.After}
	}
	slices.SortStableFunc(c.Nodes, func(a, b Node) int {
		return cmp.Or(cmp.Compare(b.Tasks.weight(), a.Tasks.weight()), cmp.Compare(b.Visits.weight(), a.Visits.weight()))
	})
	slices.SortStableFunc(c.Edges, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(b.Load.weight(), a.Load.weight()), cmp.Compare(b.Steps.weight(), a.Steps.weight()))
	})
	return c
}

func sideOf(s *bgraph.Snapshot) Side {
	return Side{Program: s.Program, Span: s.Span, Sampling: s.Sampling}
}

// successors returns for each node of before which node of after is the same: the node with
// the same key; else a node with the same functions, as lines may have been added;
// else a node with the same functions when a function literal counts as the function
// that it is written in, as the compiler may have changed.
func successors(before, after *bgraph.Snapshot) map[bgraph.Key]bgraph.Key {
	out := make(map[bgraph.Key]bgraph.Key, len(before.Nodes))
	taken := make(map[bgraph.Key]bool, len(before.Nodes))
	for i := range before.Nodes {
		if k := before.Nodes[i].Key; after.Node(k) != nil {
			out[k] = k
			taken[k] = true
		}
	}
	matchBy(before, after, out, taken, func(f *bgraph.Frame) string { return f.Function })
	matchBy(before, after, out, taken, func(f *bgraph.Frame) string {
		if in, literal := funcname.Enclosing(f.Function); literal {
			return in
		}
		return f.Function
	})
	return out
}

// matchBy adds to out, and to taken, the nodes that have no successor or predecessor yet. Nodes with the same reason, label
// and functions as named by name are matched in the order of their lines if each snapshot has as many of them.
func matchBy(before, after *bgraph.Snapshot, out map[bgraph.Key]bgraph.Key, taken map[bgraph.Key]bool, name func(*bgraph.Frame) string) {
	type group struct{ before, after []*bgraph.Node }
	groups := map[string]*group{}
	of := func(n *bgraph.Node) *group {
		id := identity(n, name)
		if groups[id] == nil {
			groups[id] = new(group)
		}
		return groups[id]
	}
	for i := range before.Nodes {
		n := &before.Nodes[i]
		if _, known := out[n.Key]; !known {
			g := of(n)
			g.before = append(g.before, n)
		}
	}
	for i := range after.Nodes {
		if n := &after.Nodes[i]; !taken[n.Key] {
			g := of(n)
			g.after = append(g.after, n)
		}
	}
	for _, g := range groups {
		if len(g.before) != len(g.after) {
			continue
		}
		slices.SortStableFunc(g.before, compareLines)
		slices.SortStableFunc(g.after, compareLines)
		for i, n := range g.before {
			out[n.Key] = g.after[i].Key
			taken[g.after[i].Key] = true
		}
	}
}

// compareLines orders nodes with the same functions by their lines in the program. Lines of the standard library don't tell nodes apart.
func compareLines(a, b *bgraph.Node) int {
	return slices.CompareFunc(a.Stack, b.Stack, func(f, g bgraph.Frame) int {
		if funcname.OfStandardLibrary(f.Function) {
			return 0
		}
		return cmp.Compare(f.Line, g.Line)
	})
}

// identity is what a node keeps when lines are added to its functions.
func identity(n *bgraph.Node, name func(*bgraph.Frame) string) string {
	var b strings.Builder
	b.WriteString(n.Reason + "\x00" + n.Label)
	for i := range n.Stack {
		b.WriteString("\x00" + name(&n.Stack[i]))
	}
	return b.String()
}

// sides are two snapshots, and which nodes of them are the same.
type sides struct {
	before, after           *bgraph.Snapshot
	successor               map[bgraph.Key]bgraph.Key // from before to after
	namesBefore, namesAfter map[bgraph.Key]string
}

func (s *sides) nodes() (out []Node) {
	before, after := s.before, s.after
	seen := make(map[bgraph.Key]bool, len(s.successor))
	add := func(b, a *bgraph.Node) {
		nc := Node{}
		if b != nil {
			nc.Name, nc.Before = s.namesBefore[b.Key], b.Key
			nc.Visits.Before = words.PerSecond(before, b.Departures)
			nc.Wait.Before, nc.Ready.Before = float64(b.MeanWait()), float64(b.Ready.Mean())
			nc.P99.Before = float64(b.Wait.Quantile(0.99))
			nc.Tasks.Before = tasksAt(b, nc.Visits.Before*(nc.Wait.Before+nc.Ready.Before)/1e9)
		}
		if a != nil {
			nc.Name, nc.After = s.namesAfter[a.Key], a.Key
			nc.Visits.After = words.PerSecond(after, a.Departures)
			nc.Wait.After, nc.Ready.After = float64(a.MeanWait()), float64(a.Ready.Mean())
			nc.P99.After = float64(a.Wait.Quantile(0.99))
			nc.Tasks.After = tasksAt(a, nc.Visits.After*(nc.Wait.After+nc.Ready.After)/1e9)
		}
		if nc.Visits != (Pair{}) || nc.Wait != (Pair{}) || nc.Tasks.Before != nc.Tasks.After {
			out = append(out, nc)
		}
	}
	for i := range before.Nodes {
		b := &before.Nodes[i]
		if k, ok := s.successor[b.Key]; ok {
			seen[k] = true
			add(b, after.Node(k))
		} else {
			add(b, nil)
		}
	}
	for i := range after.Nodes {
		if a := &after.Nodes[i]; !seen[a.Key] {
			add(nil, a)
		}
	}
	return out
}

// tasksAt is how many tasks are at n on average. left estimates that from the tasks that have left n; it is
// too low where more tasks are at n than have ever left.
func tasksAt(n *bgraph.Node, left float64) float64 {
	if float64(n.Now) > float64(n.Departures) {
		return max(left, float64(n.Now))
	}
	return left
}

func (s *sides) edges() (out []Edge) {
	before, after := s.before, s.after
	unmatched := make(map[[2]bgraph.Key]*bgraph.Edge, len(after.Edges))
	for i := range after.Edges {
		unmatched[ends(&after.Edges[i])] = &after.Edges[i]
	}
	add := func(b, a *bgraph.Edge) {
		ec := Edge{}
		if b != nil {
			ec.From, ec.To, ec.Before = words.NameIn(s.namesBefore, b.From), words.NameIn(s.namesBefore, b.To), ends(b)
			ec.Steps.Before, ec.Load.Before = words.PerSecond(before, b.Count), words.Ratio(words.EdgeCPU(b), float64(before.Span))
			ec.CPU.Before, ec.P99.Before = float64(b.MeanCPU()), float64(b.CPU.Quantile(0.99))
		}
		if a != nil {
			ec.From, ec.To, ec.After = words.NameIn(s.namesAfter, a.From), words.NameIn(s.namesAfter, a.To), ends(a)
			ec.Steps.After, ec.Load.After = words.PerSecond(after, a.Count), words.Ratio(words.EdgeCPU(a), float64(after.Span))
			ec.CPU.After, ec.P99.After = float64(a.MeanCPU()), float64(a.CPU.Quantile(0.99))
		}
		if ec.Steps != (Pair{}) || ec.CPU != (Pair{}) {
			out = append(out, ec)
		}
	}
	for i := range before.Edges {
		b := &before.Edges[i]
		from, okFrom := s.successor[b.From]
		to, okTo := s.successor[b.To]
		a := unmatched[[2]bgraph.Key{from, to}]
		if !okFrom || !okTo {
			a = nil
		}
		if a != nil {
			delete(unmatched, ends(a))
		}
		add(b, a)
	}
	for i := range after.Edges {
		if a := &after.Edges[i]; unmatched[ends(a)] != nil {
			add(nil, a)
		}
	}
	return out
}

func ends(e *bgraph.Edge) [2]bgraph.Key { return [2]bgraph.Key{e.From, e.To} }
