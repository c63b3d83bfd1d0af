package bgraph

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// several stands for names that are not the same in all of what was merged.
const several = "several"

// Merge adds up the graphs of several processes, which may be of different programs.
// Nodes are the same if their keys are.
//
// Counts, sums, histograms, tasks and resources in use are added, and peaks, which gives
// an upper bound. Max, Oldest, Span, Sampling, HeapEvery and the limits in Overflow are
// the greatest, Period is set if it is in one, Taken is the latest, Started the earliest. Moments are weighted by the
// steps that they were taken from. Loops are numbered anew, in the order of the
// arguments. Resources are the same if name and unit are, and are sorted by them; the
// limit of one is the sum, 0 if one of them is not known, and so is ProcessCPU. Name, Host, Go and Policy are
// kept if they are the same everywhere and are "several" otherwise. PID is 0. Sources are those of all, in the order of the arguments. A watched
// resource is shown as it is where its utilisation is greatest. The latest graphlimits.Overruns
// reports are kept. Of more than graphlimits.Edges crossings Merge keeps the most frequent, and Overflow.Wakes counts the
// wakes of the others. Of more ranked nodes than graphlimits.Edges it keeps the held nodes first, and then the nodes with most
// tasks ready. Among equals the nodes of earlier arguments are kept.
// Where processes do not agree about the stack behind a key, as after
// a change of source that does not concern its functions, it is one of them, whatever
// the order of the arguments.
//
// One Snapshot alone is returned as it is. The result shares nothing with the
// arguments. It is an error if there is none, if one is not valid, if they are of different
// kinds (Snapshot.Kind), if two are of the same run, as what they both cover would count
// twice (see Diff), and if together they exceed a limit.
func Merge(all ...*Snapshot) (*Snapshot, error) {
	if len(all) == 0 {
		return nil, errors.New("bgraph: nothing to merge; want at least one snapshot")
	}
	seen := make(map[run]int, len(all))
	for i, s := range all {
		if err := s.check(); err != nil {
			return nil, fmt.Errorf("bgraph: number %d of %d to be merged is not valid: %w", i+1, len(all), err)
		}
		if s.Kind != all[0].Kind {
			return nil, fmt.Errorf("bgraph: numbers 1 and %d to be merged are of different kinds: one is of tasks, the other of goroutines", i+1)
		}
		r := runOf(s)
		if j, ok := seen[r]; ok && r.pid != 0 {
			return nil, fmt.Errorf("bgraph: numbers %d and %d to be merged are both of %v: what they share would count twice; take the later one, or their difference", j+1, i+1, r)
		}
		seen[r] = i
	}
	if len(all) == 1 {
		return all[0].Clone(), nil
	}
	m := newMerger(all)
	for i, s := range all {
		m.add(s, i == 0)
	}
	out := m.finish()
	if slices.ContainsFunc(all, func(s *Snapshot) bool { return s.ProcessCPU == 0 }) {
		out.ProcessCPU = 0 // a part of it would be taken for the whole
	}
	if err := out.check(); err != nil {
		return nil, fmt.Errorf("bgraph: the snapshots are too much together: %w", err)
	}
	return out, nil
}

// A merger adds snapshots to out. Nodes and edges are in its maps until it is finished.
type merger struct {
	out   *Snapshot
	nodes map[Key]*Node
	edges map[[2]Key]*Edge
	loops map[int]int // of the snapshot being added: from its indexes to those in out
}

// newMerger begins with the resources of all.
func newMerger(all []*Snapshot) *merger {
	out := new(Snapshot)
	for _, s := range all {
		for i, at := range matchResources(out.Resources, s.Resources) {
			if at < 0 {
				out.Resources = append(out.Resources, Resource{Name: s.Resources[i].Name, Unit: s.Resources[i].Unit, Limit: -1})
			}
		}
	}
	slices.SortStableFunc(out.Resources, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unit, b.Unit))
	})
	return &merger{out: out, nodes: map[Key]*Node{}, edges: map[[2]Key]*Edge{}}
}

func (m *merger) add(s *Snapshot, isFirst bool) {
	s = s.Clone()
	m.addProgram(s, isFirst)
	m.loops = make(map[int]int, len(s.Loops))
	for _, l := range s.Loops {
		m.loops[l.Index] = len(m.out.Loops)
		l.Index = len(m.out.Loops)
		m.out.Loops = append(m.out.Loops, l)
	}
	at := matchResources(m.out.Resources, s.Resources)
	for i := range s.Resources {
		m.out.Resources[at[i]].merge(&s.Resources[i])
	}
	m.out.mergeTrace(s)
	m.out.Chunks.merge(&s.Chunks)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		for j := range n.Loops {
			n.Loops[j].Loop = m.loops[n.Loops[j].Loop]
		}
		if to := m.nodes[n.Key]; to != nil {
			to.merge(n)
		} else {
			m.nodes[n.Key] = n
		}
	}
	for i := range s.Edges {
		e := &s.Edges[i]
		e.moveChanges(at)
		if to := m.edges[endsOf(e)]; to != nil {
			to.merge(e)
		} else {
			m.edges[endsOf(e)] = e
		}
	}
	for _, c := range s.Crossings {
		if c.ToLoop = m.loops[c.ToLoop]; c.FromLoop >= 0 {
			c.FromLoop = m.loops[c.FromLoop]
		}
		m.out.Crossings = append(m.out.Crossings, c)
	}
	for _, o := range s.Overruns {
		o.Loop = m.loops[o.Loop]
		m.out.Overruns = append(m.out.Overruns, o)
	}
	if s.Sched != nil {
		m.addSched(s.Sched)
	}
}

func (m *merger) addProgram(s *Snapshot, isFirst bool) {
	out := m.out
	if isFirst {
		out.Program, out.Kind = s.Program, s.Kind
		out.Program.PID = 0
	}
	p := &out.Program
	p.Name = agreed(p.Name, s.Program.Name)
	p.Host = agreed(p.Host, s.Program.Host)
	p.Go = agreed(p.Go, s.Program.Go)
	p.Started = earlier(p.Started, s.Program.Started)
	if s.Taken.After(out.Taken) {
		out.Taken = s.Taken
	}
	out.Sources = append(out.Sources, s.Sources...)
	out.Span, out.Period = max(out.Span, s.Span), out.Period || s.Period
	out.Sampling = max(out.Sampling, s.Sampling)
	out.HeapEvery = max(out.HeapEvery, s.HeapEvery)
	out.Overflow.MaxNodes = max(out.Overflow.MaxNodes, s.Overflow.MaxNodes)
	out.Overflow.MaxEdges = max(out.Overflow.MaxEdges, s.Overflow.MaxEdges)
	addCount(&out.Overflow.Nodes, s.Overflow.Nodes)
	addCount(&out.Overflow.Edges, s.Overflow.Edges)
	addCount(&out.Overflow.Wakes, s.Overflow.Wakes)
}

// refusal is the element of Refusals with that cause, nil if there is none.
func (s *Sched) refusal(why string) *SchedRefusal {
	if i := slices.IndexFunc(s.Refusals, func(r SchedRefusal) bool { return r.Why == why }); i >= 0 {
		return &s.Refusals[i]
	}
	return nil
}

// addSched takes over the elements of s.
func (m *merger) addSched(s *Sched) {
	to := m.out.Sched
	if to == nil {
		to = &Sched{Policy: s.Policy}
		m.out.Sched = to
	}
	to.Policy = agreed(to.Policy, s.Policy)
	addCount(&to.Admitted, s.Admitted)
	addCount(&to.Deferred, s.Deferred)
	addCount(&to.Refused, s.Refused)
	for _, r := range s.Refusals {
		if x := to.refusal(r.Why); x != nil {
			addCount(&x.Count, r.Count)
		} else {
			to.Refusals = append(to.Refusals, r)
		}
	}
	for _, r := range s.Resources {
		i := slices.IndexFunc(to.Resources, func(t SchedResource) bool { return t.Name == r.Name })
		switch {
		case i < 0:
			to.Resources = append(to.Resources, r)
		case cmp.Or(cmp.Compare(r.Utilisation, to.Resources[i].Utilisation), cmp.Compare(r.Trend, to.Resources[i].Trend),
			cmp.Compare(r.State, to.Resources[i].State)) > 0:
			to.Resources[i] = r
		}
	}
	for _, n := range s.Nodes {
		n.Loop = m.loops[n.Loop]
		to.Nodes = append(to.Nodes, n)
	}
}

func (m *merger) finish() *Snapshot {
	out := m.out
	for i := range out.Resources {
		out.Resources[i].Limit = max(out.Resources[i].Limit, 0)
	}
	for _, n := range m.nodes {
		out.Nodes = append(out.Nodes, *n)
	}
	for _, e := range m.edges {
		e.dropNoChanges()
		out.Edges = append(out.Edges, *e)
	}
	for _, c := range trim(&out.Crossings, func(a, b Crossing) int { return cmp.Compare(b.Count, a.Count) }) {
		addCount(&out.Overflow.Wakes, c.Count)
	}
	out.Sort()
	slices.SortStableFunc(out.Overruns, func(a, b Overrun) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To),
			cmp.Compare(a.Task, b.Task), cmp.Compare(a.Held, b.Held), cmp.Compare(a.Stack, b.Stack))
	})
	out.Overruns = out.Overruns[max(0, len(out.Overruns)-graphlimits.Overruns):]
	if s := out.Sched; s != nil {
		slices.SortFunc(s.Resources, func(a, b SchedResource) int { return cmp.Compare(a.Name, b.Name) })
		trim(&s.Nodes, func(a, b SchedNode) int {
			return cmp.Or(cmp.Compare(min(len(b.Held), 1), min(len(a.Held), 1)), cmp.Compare(b.Ready, a.Ready))
		})
		slices.SortFunc(s.Nodes, compareRanked)
	}
	return out
}

// trim cuts list to the first graphlimits.Edges elements in that order, and returns the elements that it has cut off. A list
// that is short enough keeps its order.
func trim[E any](list *[]E, order func(a, b E) int) (rest []E) {
	if len(*list) > graphlimits.Edges {
		slices.SortStableFunc(*list, order)
		*list, rest = (*list)[:graphlimits.Edges], (*list)[graphlimits.Edges:]
	}
	return rest
}

func agreed(a, b string) string {
	if a == b {
		return a
	}
	return several
}

// earlier is the earlier of two times; the zero one is not known.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// merge adds b, which has the same name and unit. A Limit of -1 means that nothing was
// added to r yet.
func (r *Resource) merge(b *Resource) {
	addNumber(&r.InUse, b.InUse)
	addCount(&r.Acquired, b.Acquired)
	addCount(&r.Released, b.Released)
	switch {
	case r.Limit < 0:
		r.Limit = b.Limit
	case r.Limit == 0 || b.Limit == 0:
		r.Limit = 0
	default:
		addNumber(&r.Limit, b.Limit)
	}
}

// merge adds b, which has the same key and other loops, and may be used up.
func (n *Node) merge(b *Node) {
	if compareNodes(b, n) < 0 {
		n.Reason, n.Label, n.Stack = b.Reason, b.Label, b.Stack
	}
	addNumber(&n.Now, b.Now)
	addNumber(&n.Peak, b.Peak)
	addCount(&n.Arrivals, b.Arrivals)
	addCount(&n.Departures, b.Departures)
	addCount(&n.Together, b.Together)
	n.Wait.merge(&b.Wait)
	n.Ready.merge(&b.Ready)
	n.Oldest = max(n.Oldest, b.Oldest)
	n.Loops = append(n.Loops, b.Loops...)
	n.Wakers = mergeWakers(n.Wakers, b.Wakers)
}

// compareNodes orders nodes by what they say of themselves. Any order would do.
func compareNodes(a, b *Node) int {
	return cmp.Or(cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Label, b.Label), slices.CompareFunc(a.Stack, b.Stack, func(f, g Frame) int {
		return cmp.Or(cmp.Compare(f.Function, g.Function), cmp.Compare(f.File, g.File), cmp.Compare(f.Line, g.Line), cmp.Compare(f.Offset, g.Offset))
	}))
}

// merge adds b, which has the same ends and resources, and may be used up.
func (e *Edge) merge(b *Edge) {
	for i := range max(len(e.Changes), len(b.Changes)) {
		if i == len(e.Changes) {
			e.Changes = append(e.Changes, e.change(i))
		}
		c := b.change(i)
		e.Changes[i].merge(&c)
	}
	e.Recent = mergeMoments(e.Recent, float64(e.CPU.Count), b.Recent, float64(b.CPU.Count))
	e.CPU.merge(&b.CPU)
	e.Heap.merge(&b.Heap)
	addCount(&e.Count, b.Count)
	addCount(&e.Overruns, b.Overruns)
	e.Parts.merge(&b.Parts)
	e.Functions = mergeWakers(e.Functions, b.Functions)
}

// moveChanges puts the change of resource i to position at[i].
func (e *Edge) moveChanges(at []int) {
	if len(e.Changes) == 0 {
		return
	}
	moved := make([]Change, slices.Max(at[:len(e.Changes)])+1)
	for j := range moved {
		moved[j] = Change{Steps: e.Count}
	}
	for i, c := range e.Changes {
		moved[at[i]] = c
	}
	e.Changes = moved
}

func (c *Change) merge(b *Change) {
	c.Recent = mergeMoments(c.Recent, float64(c.Steps), b.Recent, float64(b.Steps))
	addCount(&c.Steps, b.Steps)
	addNumber(&c.Sum, b.Sum)
}

func (t *Times) merge(b *Times) {
	addCount(&t.Count, b.Count)
	// The times of many tasks may be more than fits: see Validate.
	t.Sum = addNanos(t.Sum, b.Sum)
	addCount(&t.First, b.First)
	t.FirstSum = addNanos(t.FirstSum, b.FirstSum)
	t.Max = max(t.Max, b.Max)
	whole := (t.Fine != nil || len(t.Hist) == 0) && (b.Fine != nil || len(b.Hist) == 0)
	t.Hist, t.Fine = addLists(t.Hist, b.Hist), addLists(t.Fine, b.Fine)
	if !whole {
		t.Fine = nil // it is known for a part only
	}
}

// Merge adds b, which is not changed. Fine stays only if both have it.
func (t *Times) Merge(b *Times) {
	other := *b
	other.unshare()
	t.merge(&other)
}

func addLists[S ~[]uint64](a, b S) S {
	if len(a) < len(b) {
		a, b = b, a
	}
	for i, n := range b {
		addCount(&a[i], n)
	}
	return a
}

// tooMuch is what sums stop at, so that they do not wrap around. Validate refuses it.
const tooMuch = graphlimits.Number + 1

// addCount adds b, which is at most tooMuch.
func addCount(to *uint64, b uint64) { *to = min(*to, tooMuch-b) + b }

// addNumber adds b, which is between -tooMuch and tooMuch.
func addNumber(to *int64, b int64) {
	if b < 0 {
		*to = max(*to, -tooMuch-b) + b
		return
	}
	*to = min(*to, tooMuch-b) + b
}

// mergeMoments returns the moments of two sets of values together: a with the weight wa, b with wb.
func mergeMoments(a Moments, wa float64, b Moments, wb float64) Moments {
	if wa+wb == 0 {
		return Moments{}
	}
	wa, wb = wa/(wa+wb), wb/(wa+wb)
	d := a.Mean - b.Mean
	return Moments{
		Mean:     wa*a.Mean + wb*b.Mean,
		Variance: wa*a.Variance + wb*b.Variance + wa*wb*d*d,
	}
}
