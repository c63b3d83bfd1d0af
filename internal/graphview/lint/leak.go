package lint

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/scc"
	"github.com/capriccio-go/capriccio/internal/words"
)

const (
	// The amount that a task may hold for good reason, and the amount below which nothing is reported.
	heldPerTask, heldBytesPerTask = 4, 256 << 10
	leastLeak, leastLeakBytes     = 100, 1 << 20
	// A cycle counts if tasks went round that many times, and if it explains that share
	// of what is missing.
	leastTurns  = 10
	leastPart   = 0.25
	leaksShown  = 3
	cycleBudget = 1 << 20 // edges looked at, so that a huge graph does not take for ever
)

// progress is what ressched.Progress counts, which is only ever taken.
const progress = "progress"

// leaks finds cycles of the graph on which tasks take more of a resource than they
// give back. That one task takes what another gives back is no leak, so nothing is
// said unless what is in use grows beyond what living tasks may hold.
func (l *linter) leaks() {
	var flow []cycle // made when first needed
	for r := range l.s.Resources {
		res := &l.s.Resources[r]
		grown := float64(res.Acquired) - float64(res.Released)
		spare, least := l.newTasks()*heldPerTask, float64(leastLeak)
		if res.Unit == "bytes" {
			spare, least = l.newTasks()*heldBytesPerTask, leastLeakBytes
		}
		if res.Name == progress || grown < least || grown <= spare || grown < l.o.leakShare*float64(res.Acquired) {
			continue
		}
		if flow == nil {
			flow = l.cycles()
		}
		l.leak(r, grown, flow)
	}
}

// newTasks is how many more tasks have started than ended in the time of the snapshot; at least 0.
func (l *linter) newTasks() (tasks float64) {
	for i := range l.s.Nodes {
		if n := &l.s.Nodes[i]; n.Key != bgraph.KeyEnd {
			tasks += float64(int64(n.Arrivals - n.Departures))
		}
	}
	return max(tasks, 0)
}

// leak reports the cycles that lose most of resource r.
func (l *linter) leak(r int, grown float64, flow []cycle) {
	type leaking struct {
		c       *cycle
		perTurn float64
	}
	var all []leaking
	for i := range flow {
		c := &flow[i]
		perTurn, recent := c.change(r)
		if perTurn > 0 && recent > 0 && c.turns >= leastTurns && perTurn*c.turns >= leastPart*grown && c.net[r] > 0 {
			all = append(all, leaking{c, perTurn})
		}
	}
	slices.SortStableFunc(all, func(a, b leaking) int { return cmp.Compare(b.perTurn*b.c.turns, a.perTurn*a.c.turns) })
	res := &l.s.Resources[r]
	for _, one := range all[:min(leaksShown, len(all))] {
		f := Finding{Severity: SeverityWarning, Check: CheckLeak,
			Advice: "See that every path round this cycle gives back what it took, early returns and errors too; a deferred call does."}
		taker := one.c.taker(r)
		f.Node, f.To = taker.From, taker.To
		if n := l.s.Node(taker.From); n != nil && n.Reason == "accept" {
			// How many connections there are is up to the clients.
			if res.Limit == 0 || res.InUse < res.Limit/2 {
				continue
			}
			f.Severity = SeverityInfo
			f.Advice = "If there are as many clients, raise the limit. If not, connections are not closed: look for handlers that return without closing theirs."
		}
		f.Message = fmt.Sprintf("Each time round %s a task keeps %s of %q; that happened %s times in %v. In all %s taken, %s given back, %s in use",
			l.cycleName(one.c, taker), words.Amount(one.perTurn, res.Unit), res.Name, words.Count(int64(one.c.turns)), l.s.Span,
			words.Amount(float64(res.Acquired), res.Unit), words.Amount(float64(res.Released), res.Unit), words.Amount(float64(res.InUse), res.Unit))
		if res.Limit > 0 {
			f.Message += fmt.Sprintf(", %s of the limit", words.Percent(words.Ratio(float64(res.InUse), float64(res.Limit))))
		}
		f.Message += "."
		l.add(one.perTurn*one.c.turns/grown, f)
	}
}

// cycleName lists the nodes from where tasks begin, or else from where the step first
// begins.
func (l *linter) cycleName(c *cycle, first *bgraph.Edge) string {
	edges := c.edges
	if edges[0].From != bgraph.KeyStart {
		at := slices.Index(edges, first)
		edges = append(edges[at:len(edges):len(edges)], edges[:at]...)
	}
	var names []string
	for _, e := range edges {
		names = append(names, l.name(e.From))
	}
	names = append(names, l.name(edges[len(edges)-1].To))
	if len(names) > 8 {
		names = append(append(names[:4:4], fmt.Sprintf("… %d more …", len(names)-7)), names[len(names)-3:]...)
	}
	return strings.Join(names, " → ")
}

// A cycle is a way through the graph that ends where it began. A task's way from its
// start to its end is one too.
type cycle struct {
	edges []*bgraph.Edge
	turns float64   // how often tasks went round, as far as the counts tell
	net   []float64 // what all the steps around it, on whatever cycle, changed of each resource
}

// change is what one turn changes of resource r on average, and lately.
func (c *cycle) change(r int) (mean, recent float64) {
	for _, e := range c.edges {
		if r < len(e.Changes) {
			mean += words.MeanChange(&e.Changes[r])
			recent += e.Changes[r].Recent.Mean
		}
	}
	return mean, recent
}

// taker is the step that takes most.
func (c *cycle) taker(r int) *bgraph.Edge {
	return slices.MaxFunc(c.edges, func(a, b *bgraph.Edge) int { return cmp.Compare(changeOf(a, r), changeOf(b, r)) })
}

func changeOf(e *bgraph.Edge, r int) float64 {
	if r >= len(e.Changes) {
		return 0
	}
	return words.MeanChange(&e.Changes[r])
}

// A flow is the graph with how often each edge was walked, from which one cycle after
// the other is taken away, the busiest ways first.
type flow struct {
	out    [][]arc // by node
	budget int
	cycles []cycle
}

type arc struct {
	to   int
	left float64 // times walked, and not yet part of a cycle
	edge *bgraph.Edge
}

// cycles takes the graph apart into cycles. As a task walks from node to node, what
// comes to a node also leaves it, but for the tasks there now; so the walks are a sum
// of cycles once the end is joined to the start. There may be several such sums; the
// one found follows the busiest edges, component by component.
func (l *linter) cycles() []cycle {
	nodes := make(map[bgraph.Key]int)
	number := func(k bgraph.Key) int {
		if k == bgraph.KeyEnd {
			k = bgraph.KeyStart
		}
		n, ok := nodes[k]
		if !ok {
			n = len(nodes)
			nodes[k] = n
		}
		return n
	}
	f := &flow{budget: cycleBudget}
	for i := range l.s.Edges {
		e := &l.s.Edges[i]
		if e.From == bgraph.KeyOverflow || e.To == bgraph.KeyOverflow {
			continue // stands for many places: no way leads through it
		}
		from, to := number(e.From), number(e.To)
		for len(f.out) < len(nodes) {
			f.out = append(f.out, nil)
		}
		f.out[from] = append(f.out[from], arc{to, float64(e.Count), e})
	}
	for i := range f.out {
		slices.SortStableFunc(f.out[i], func(a, b arc) int { return cmp.Compare(b.left, a.left) })
	}
	for _, part := range scc.Of(len(f.out), f.leadsTo) {
		f.takeApart(part, len(l.s.Resources))
	}
	return f.cycles
}

// leadsTo yields the nodes to which edges lead from n.
func (f *flow) leadsTo(n int) iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, a := range f.out[n] {
			if !yield(a.to) {
				return
			}
		}
	}
}

// takeApart finds the cycles within a strongly connected component.
func (f *flow) takeApart(part []int, resources int) {
	within := make(map[int]bool, len(part))
	for _, n := range part {
		within[n] = true
	}
	net := make([]float64, resources)
	for _, n := range part {
		for _, a := range f.out[n] {
			if !within[a.to] {
				continue
			}
			for r := range min(resources, len(a.edge.Changes)) {
				net[r] += words.MeanChange(&a.edge.Changes[r]) * float64(a.edge.Count)
			}
		}
	}
	for _, n := range part {
		f.walk(n, within, net)
	}
}

// walk follows the busiest edges from n; whenever it comes to where it has been, it
// takes that cycle away. It ends when nothing leads on from n.
func (f *flow) walk(n int, within map[int]bool, net []float64) {
	passed := []int{n}      // nodes
	at := map[int]int{n: 0} // position among them
	var path []*arc         // path[i] leads from passed[i]
	for f.budget > 0 {
		next := f.busiest(n, within)
		if next == nil {
			if len(path) == 0 {
				return
			}
			// A way that goes no further: tasks are there now.
			end := len(path) - 1
			path[end].left = 0
			delete(at, n)
			path, passed = path[:end], passed[:end+1]
			n = passed[end]
			continue
		}
		path = append(path, next)
		n = next.to
		i, been := at[n]
		if !been {
			at[n] = len(passed)
			passed = append(passed, n)
			continue
		}
		f.takeAway(path[i:], net)
		for _, k := range passed[i+1:] {
			delete(at, k)
		}
		path, passed = path[:i], passed[:i+1]
	}
}

func (f *flow) takeAway(way []*arc, net []float64) {
	c := cycle{turns: way[0].left, net: net}
	first := 0
	for i, a := range way {
		c.turns = min(c.turns, a.left)
		if a.edge.From == bgraph.KeyStart {
			first = i
		}
	}
	for i, a := range way {
		a.left -= c.turns
		c.edges = append(c.edges, way[(first+i)%len(way)].edge)
	}
	f.cycles = append(f.cycles, c)
}

func (f *flow) busiest(n int, within map[int]bool) (best *arc) {
	for i := range f.out[n] {
		f.budget--
		if a := &f.out[n][i]; within[a.to] && a.left > 0 && (best == nil || a.left > best.left) {
			best = a
		}
	}
	return best
}
