package bgraph

import (
	"errors"
	"fmt"
	"slices"

	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// Diff returns what happened between two snapshots of the same run of a program.
// graphcompare.Compare compares snapshots of different runs.
//
// Counts, sums and histograms are those of the time between, and Span is its length. What
// describes a moment is as in after: tasks and resources in use, Oldest, and the moments
// called Recent, in which what came last counts most. Of Peak that is an upper bound, as
// the time of the peak is not known; Times.Max is exact if it has risen, else an upper
// bound that the histogram gives. Nodes and edges where nothing happened and no task
// waits are left out, except start and end. Overruns are those since before was taken.
//
// It is an error if one of them is not valid, is a difference itself or was made of a trace, if
// they are not of the same run (PID, Host and Started), and if after was taken earlier or has
// counted less. A clock that was set back in between does no harm. The result shares nothing
// with its arguments.
func Diff(before, after *Snapshot) (*Snapshot, error) {
	if err := before.check(); err != nil {
		return nil, fmt.Errorf("bgraph: no difference: the earlier snapshot is not valid: %w", err)
	}
	if err := after.check(); err != nil {
		return nil, fmt.Errorf("bgraph: no difference: the later snapshot is not valid: %w", err)
	}
	if b, a := runOf(before), runOf(after); b != a {
		return nil, fmt.Errorf("bgraph: no difference between %v and %v: only two snapshots of the same run can be subtracted; compare them instead", b, a)
	}
	if before.Kind == KindGoroutines || after.Kind == KindGoroutines {
		return nil, errors.New("bgraph: no difference: a trace covers a time of its own, and nothing is to be subtracted from it; compare them instead")
	}
	if before.Period || after.Period {
		return nil, errors.New("bgraph: no difference: one of the two is a difference itself, and covers a time of its own; compare them instead")
	}
	if after.Taken.Before(before.Taken) && after.Span <= before.Span { // if Span has grown, the clock was set back
		return nil, errors.New("bgraph: no difference: the second snapshot was taken before the first; exchange them")
	}
	d := difference{out: after.Clone(), before: before}
	if err := d.subtract(); err != nil {
		return nil, fmt.Errorf("bgraph: no difference: %w", err)
	}
	return d.out, nil
}

// A run is one execution of a program.
type run struct {
	pid     int
	host    string
	started int64 // nanoseconds since 1970; times beyond the years 1678 to 2262 are not told apart
}

func runOf(s *Snapshot) run {
	return run{s.Program.PID, s.Program.Host, s.Program.Started.UnixNano()}
}

// SameRun reports whether a and b are of the same run of a program.
func SameRun(a, b *Snapshot) bool { return runOf(a) == runOf(b) }

func (r run) String() string { return fmt.Sprintf("process %d on %q", r.pid, r.host) }

// A difference subtracts before from out.
type difference struct {
	out            *Snapshot
	before         *Snapshot
	firstDecreased string // the first number that is less in out; "": none
}

func (d *difference) subtract() error {
	s, b := d.out, d.before
	s.Period = true
	d.nanos("span_ns", &s.Span, b.Span)
	d.nanos("process_cpu_ns", &s.ProcessCPU, min(b.ProcessCPU, s.ProcessCPU))
	d.nanos("collector_cpu_ns", &s.CollectorCPU, min(b.CollectorCPU, s.CollectorCPU))
	d.chunks(&s.Chunks, &b.Chunks)
	d.count("overflow.nodes", &s.Overflow.Nodes, b.Overflow.Nodes)
	d.count("overflow.edges", &s.Overflow.Edges, b.Overflow.Edges)
	d.count("overflow.wakes", &s.Overflow.Wakes, b.Overflow.Wakes)
	if s.Sched != nil && b.Sched != nil {
		d.count("sched.admitted", &s.Sched.Admitted, b.Sched.Admitted)
		d.count("sched.deferred", &s.Sched.Deferred, b.Sched.Deferred)
		d.count("sched.refused", &s.Sched.Refused, b.Sched.Refused)
		for _, was := range b.Sched.Refusals {
			if now := s.Sched.refusal(was.Why); now != nil {
				d.count("sched.refusals", &now.Count, was.Count)
			}
		}
		s.Sched.Refusals = orNil(slices.DeleteFunc(s.Sched.Refusals, func(r SchedRefusal) bool { return r.Count == 0 }))
		s.Sched.subtractTurns(b.Sched)
	}
	at := matchResources(s.Resources, b.Resources)
	for i := range b.Resources {
		if at[i] < 0 {
			return fmt.Errorf("the resource %q is only in the earlier snapshot", b.Resources[i].Name)
		}
		r := &s.Resources[at[i]]
		d.count("acquired", &r.Acquired, b.Resources[i].Acquired)
		d.count("released", &r.Released, b.Resources[i].Released)
	}
	err := pair(s.Loops, b.Loops, func(l *LoopStat) int { return l.Index }, func(l, b *LoopStat) {
		d.count("steps", &l.Steps, b.Steps)
	})
	if err := d.verdict("loops", err); err != nil {
		return err
	}
	err = pair(s.Nodes, b.Nodes, func(n *Node) Key { return n.Key }, d.node)
	if err := d.verdict("nodes", err); err != nil {
		return err
	}
	err = pair(s.Edges, b.Edges, endsOf, func(e, b *Edge) { d.edge(e, b, at) })
	if err := d.verdict("edges", err); err != nil {
		return err
	}
	err = pair(s.Crossings, b.Crossings, crossingID, func(c, b *Crossing) { d.count("count", &c.Count, b.Count) })
	if err := d.verdict("crossings", err); err != nil {
		return err
	}
	s.Crossings = slices.DeleteFunc(s.Crossings, func(c Crossing) bool { return c.Count == 0 })
	s.Overruns = slices.DeleteFunc(s.Overruns, func(o Overrun) bool { return slices.ContainsFunc(b.Overruns, o.is) })
	s.dropIdle()
	s.dropEmpty()
	return nil
}

// is reports whether b is the same report.
func (o Overrun) is(b Overrun) bool {
	same := o.At.Equal(b.At)
	b.At = o.At
	return same && o == b
}

// subtractTurns subtracts the cohorts of b. The nodes of a loop that was stuck may be missing in s or in b.
func (s *Sched) subtractTurns(b *Sched) {
	type at struct {
		key  Key
		loop int
	}
	before := make(map[at]*SchedNode, len(b.Nodes))
	for i := range b.Nodes {
		n := &b.Nodes[i]
		before[at{n.Key, n.Loop}] = n
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if was := before[at{n.Key, n.Loop}]; was != nil {
			n.Cohorts -= min(was.Cohorts, n.Cohorts)
			n.Ran -= min(was.Ran, n.Ran)
		}
	}
}

func (d *difference) verdict(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if d.firstDecreased != "" {
		return fmt.Errorf("%s: %s is less in the later snapshot than in the earlier one", what, d.firstDecreased)
	}
	return nil
}

func endsOf(e *Edge) [2]Key { return [2]Key{e.From, e.To} }

// pair calls fn for the elements of both lists that have the same identity. It is an
// error if one is only in before.
func pair[E any, K comparable](after, before []E, identity func(*E) K, fn func(after, before *E)) error {
	at := make(map[K]int, len(after))
	for i := range after {
		at[identity(&after[i])] = i
	}
	for i := range before {
		j, ok := at[identity(&before[i])]
		if !ok {
			return fmt.Errorf("%v is only in the earlier snapshot", identity(&before[i]))
		}
		fn(&after[j], &before[i])
	}
	return nil
}

// matchResources returns for each resource of from its position in to, -1 if it is not
// there. Of several with the same name and unit, the n-th is that which comes n-th.
func matchResources(to, from []Resource) []int {
	at := make([]int, len(from))
	taken := make([]bool, len(to))
	for i := range from {
		at[i] = slices.IndexFunc(to, func(r Resource) bool { return r.Name == from[i].Name && r.Unit == from[i].Unit })
		for at[i] >= 0 && (taken[at[i]] || to[at[i]].Name != from[i].Name || to[at[i]].Unit != from[i].Unit) {
			if at[i]++; at[i] == len(to) {
				at[i] = -1
			}
		}
		if at[i] >= 0 {
			taken[at[i]] = true
		}
	}
	return at
}

func (d *difference) node(n, b *Node) {
	d.count("arrivals", &n.Arrivals, b.Arrivals)
	d.count("departures", &n.Departures, b.Departures)
	d.count("together", &n.Together, b.Together)
	d.times("wait", &n.Wait, &b.Wait)
	d.times("ready", &n.Ready, &b.Ready)
	err := pair(n.Loops, b.Loops, func(l *NodeLoop) int { return l.Loop }, func(l, b *NodeLoop) {
		d.count("arrivals on a loop", &l.Arrivals, b.Arrivals)
		d.count("departures on a loop", &l.Departures, b.Departures)
	})
	if err != nil && d.firstDecreased == "" {
		d.firstDecreased = "the number of loops that have met " + n.Key.String()
	}
}

func (d *difference) edge(e, b *Edge, resources []int) {
	// First, as changes that are missing depend on the count.
	for i := range b.Changes {
		for j := len(e.Changes); j <= resources[i]; j++ {
			e.Changes = append(e.Changes, e.change(j))
		}
	}
	for j := range e.Changes {
		i := slices.Index(resources, j)
		was := b.change(i)
		c := &e.Changes[j]
		d.count("steps of a change", &c.Steps, was.Steps)
		c.Sum = min(max(c.Sum-was.Sum, -graphlimits.Number), graphlimits.Number)
	}
	d.count("count", &e.Count, b.Count)
	d.count("overruns", &e.Overruns, b.Overruns)
	d.times("cpu", &e.CPU, &b.CPU)
	d.count("heap.steps", &e.Heap.Steps, b.Heap.Steps)
	e.Heap.Sum = min(max(e.Heap.Sum-b.Heap.Sum, -graphlimits.Number), graphlimits.Number)
	e.dropNoChanges()
}

// change returns the change of the resource at i. A resource that is missing did not change on
// any step.
func (e *Edge) change(i int) Change {
	if i >= 0 && i < len(e.Changes) {
		return e.Changes[i]
	}
	return Change{Steps: e.Count}
}

// dropNoChanges drops changes of nothing from the end of the list.
func (e *Edge) dropNoChanges() {
	n := len(e.Changes)
	for n > 0 && e.Changes[n-1].Sum == 0 && e.Changes[n-1].Recent == (Moments{}) {
		n--
	}
	e.Changes = orNil(e.Changes[:n])
}

func (d *difference) count(what string, after *uint64, before uint64) {
	if *after < before && d.firstDecreased == "" {
		d.firstDecreased = what
	}
	*after -= before
}

func (d *difference) nanos(what string, after *Nanos, before Nanos) {
	if *after < before && d.firstDecreased == "" {
		d.firstDecreased = what
	}
	*after -= before
}

func (d *difference) times(what string, t, b *Times) {
	d.count(what+".count", &t.Count, b.Count)
	d.nanos(what+".sum", &t.Sum, b.Sum)
	d.count(what+".first", &t.First, b.First)
	d.nanos(what+".first_sum", &t.FirstSum, b.FirstSum)
	d.list(what+".hist", t.Hist, b.Hist)
	if t.Fine != nil && (b.Fine != nil || b.Count == 0) {
		d.list(what+".fine", t.Fine, b.Fine)
		t.Fine = trimmed(t.Fine)
	} else {
		t.Fine = nil
	}
	t.Hist = trimmed(t.Hist)
	top := len(t.Hist) - 1
	switch {
	case t.Max > b.Max:
	case t.Count == 0:
		t.Max = 0
	case top >= 0 && top < buckets.Count-1:
		t.Max = min(t.Max, Nanos(buckets.From(top+1))-1)
	}
}

// list subtracts counts.
func (d *difference) list(what string, t, b []uint64) {
	for i, n := range b {
		if n > 0 && i >= len(t) {
			if d.firstDecreased == "" {
				d.firstDecreased = what
			}
			break
		}
		if n > 0 {
			d.count(what, &t[i], n)
		}
	}
}

// trimmed is counts without the zeros at their end, nil if there are no others.
func trimmed[S ~[]uint64](counts S) S {
	n := len(counts)
	for n > 0 && counts[n-1] == 0 {
		n--
	}
	return orNil(counts[:n:n])
}

// dropIdle leaves out edges where nothing happened, and nodes where nothing happened
// and no task is.
func (s *Snapshot) dropIdle() {
	used := map[Key]bool{KeyStart: true, KeyEnd: true}
	for _, c := range s.Crossings {
		used[c.From], used[c.To] = true, true
	}
	s.Edges = slices.DeleteFunc(s.Edges, func(e Edge) bool {
		idle := e.Count == 0 && e.CPU.Count == 0 && e.Heap.Steps == 0 && e.Overruns == 0
		for i := range e.Changes {
			idle = idle && e.Changes[i].Sum == 0
		}
		if !idle {
			used[e.From], used[e.To] = true, true
		}
		return idle
	})
	s.Nodes = slices.DeleteFunc(s.Nodes, func(n Node) bool {
		return n.Arrivals == 0 && n.Departures == 0 && n.Now == 0 && n.Wait.Count == 0 && n.Ready.Count == 0 && !used[n.Key]
	})
}
