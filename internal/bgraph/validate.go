package bgraph

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/breathe"
	"github.com/capriccio-go/capriccio/internal/buckets"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

var errNoSnapshot = errors.New("the Snapshot is nil")

// Validate reports what is wrong with s, nil if nothing is. A valid Snapshot
//   - keeps the limits that docs/dump-format.md lists, so that Decode can read what Encode writes;
//   - has its nodes, edges, crossings, loops, ranked nodes and the loops of each node in order and none twice,
//     no cause of refusals twice, and no node with key 0;
//   - has edges between its own nodes only, and refers to its own loops only (Overrun
//     and SchedNode may refer to nodes that Filter has left out);
//   - has no negative count, time or variance, no number that is not finite, no
//     Times.Hist longer than 32 buckets, and no Edge.Changes longer than Resources;
//   - keeps the largest number, 2^62, with the totals over all nodes and edges of counts, tasks, CPU
//     time, heap and changes, as far as they were measured. The times waited are an
//     exception: a hundred thousand tasks wait for 146 years in 13 hours;
//   - has texts of printable characters only (Unicode categories Cc, Cf, Co, Cs, Zl and
//     Zp are none; Overrun.Stack may have line ends and tabs). Encode and Decode see to
//     that themselves.
//
// Numbers that a loop may change while they are read, like arrivals and departures, need
// not agree with each other. The zero Snapshot is valid.
func (s *Snapshot) Validate() error {
	if err := s.check(); err != nil {
		return fmt.Errorf("bgraph: %w", err)
	}
	return nil
}

func (s *Snapshot) check() error {
	if s == nil {
		return errNoSnapshot
	}
	return cmp.Or(
		checkLength("loops", len(s.Loops), graphlimits.Loops),
		checkLength("resources", len(s.Resources), graphlimits.Resources),
		checkLength("nodes", len(s.Nodes), graphlimits.Nodes),
		checkLength("edges", len(s.Edges), graphlimits.Edges),
		checkLength("crossings", len(s.Crossings), graphlimits.Edges),
		checkLength("overruns", len(s.Overruns), graphlimits.Overruns),
		s.Program.check(),
		checkTime("taken", s.Taken),
		checkNumber("span_ns", s.Span),
		s.Chunks.check(),
		checkNumber("sampling", s.Sampling),
		checkNumber("heap_every", s.HeapEvery),
		checkNumber("overflow.max_nodes", s.Overflow.MaxNodes),
		checkNumber("overflow.max_edges", s.Overflow.MaxEdges),
		checkCount("overflow.nodes", s.Overflow.Nodes),
		checkCount("overflow.edges", s.Overflow.Edges),
		checkCount("overflow.wakes", s.Overflow.Wakes),
		s.checkLoops(),
		s.checkResources(),
		s.checkNodes(),
		s.checkEdges(),
		s.checkCrossings(),
		s.checkOverruns(),
		s.checkSched(),
		s.checkTrace(),
		s.checkSources(),
	)
}

func (p *Program) check() error {
	return cmp.Or(
		nameRule.check("program.name", p.Name),
		nameRule.check("program.host", p.Host),
		nameRule.check("program.go", p.Go),
		checkNumber("program.pid", p.PID),
		checkTime("program.started", p.Started),
	)
}

func (s *Snapshot) checkLoops() error {
	steps, tasks := total{what: "steps of loops"}, total{what: "tasks of loops"}
	for i := range s.Loops {
		l := &s.Loops[i]
		err := cmp.Or(
			checkNumber("index", l.Index),
			checkLength("index", l.Index, graphlimits.Loops-1),
			checkNumber("tasks", l.Tasks),
			checkCount("steps", l.Steps),
			steps.add(float64(l.Steps)),
			tasks.add(float64(l.Tasks)),
		)
		if err == nil && i > 0 && s.Loops[i-1].Index >= l.Index {
			err = fmt.Errorf("index %d comes after %d; want ascending order", l.Index, s.Loops[i-1].Index)
		}
		if err != nil {
			return fmt.Errorf("loops[%d]: %w", i, err)
		}
	}
	return nil
}

// checkLoop reports whether s has a loop with that index.
func (s *Snapshot) checkLoop(index int) error {
	if _, found := slices.BinarySearchFunc(s.Loops, index, func(l LoopStat, index int) int { return cmp.Compare(l.Index, index) }); !found {
		return fmt.Errorf("loop %d is not among the %d loops", index, len(s.Loops))
	}
	return nil
}

func (s *Snapshot) checkResources() error {
	for i := range s.Resources {
		r := &s.Resources[i]
		err := cmp.Or(
			nameRule.check("name", r.Name),
			nameRule.check("unit", r.Unit),
			checkChange("in_use", r.InUse), // giving back and taking may have been counted by two loops
			checkCount("acquired", r.Acquired),
			checkCount("released", r.Released),
			checkNumber("limit", r.Limit),
		)
		if err != nil {
			return fmt.Errorf("resources[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *Snapshot) checkNodes() error {
	arrivals, departures := total{what: "arrivals at nodes"}, total{what: "departures from nodes"}
	now, peak := total{what: "tasks at nodes"}, total{what: "peaks of nodes"}
	waits, readies := total{what: "waits that were timed"}, total{what: "ready times that were timed"}
	var pause breathe.Breather
	for i := range s.Nodes {
		pause.Take()
		n := &s.Nodes[i]
		err := cmp.Or(
			s.checkNode(n),
			arrivals.add(float64(n.Arrivals)),
			departures.add(float64(n.Departures)),
			now.add(float64(n.Now)),
			peak.add(float64(n.Peak)),
			waits.add(float64(n.Wait.Count)),
			readies.add(float64(n.Ready.Count)),
		)
		if err == nil && i > 0 && s.Nodes[i-1].Key >= n.Key {
			err = fmt.Errorf("it comes after %v; want ascending order", s.Nodes[i-1].Key)
		}
		if err != nil {
			return fmt.Errorf("nodes[%d] (%v): %w", i, n.Key, err)
		}
	}
	return nil
}

func (s *Snapshot) checkNode(n *Node) error {
	err := cmp.Or(
		nameRule.check("reason", n.Reason),
		nameRule.check("label", n.Label),
		checkLength("stack", len(n.Stack), graphlimits.Frames),
		checkNumber("now", n.Now),
		checkNumber("peak", n.Peak),
		checkCount("arrivals", n.Arrivals),
		checkCount("departures", n.Departures),
		checkCount("together", n.Together),
		n.Wait.check("wait"),
		n.Ready.check("ready"),
		checkNumber("oldest", n.Oldest),
		checkWakers("wakers", n.Wakers),
	)
	if err == nil && n.Key == 0 {
		err = errors.New("no node has the key 0")
	}
	if err != nil {
		return err
	}
	for i := range n.Stack {
		f := &n.Stack[i]
		if err := cmp.Or(
			nameRule.check("function", f.Function),
			nameRule.check("file", f.File),
			checkRange("line", float64(f.Line), 0, math.MaxInt32),
			checkRange("offset", float64(f.Offset), -math.MaxInt32, math.MaxInt32),
		); err != nil {
			return fmt.Errorf("stack[%d]: %w", i, err)
		}
	}
	for i := range n.Loops {
		l := &n.Loops[i]
		err := cmp.Or(
			s.checkLoop(l.Loop),
			checkNumber("now", l.Now),
			checkNumber("peak", l.Peak),
			checkCount("arrivals", l.Arrivals),
			checkCount("departures", l.Departures),
		)
		if err == nil && i > 0 && n.Loops[i-1].Loop >= l.Loop {
			err = fmt.Errorf("loop %d comes after %d; want ascending order", l.Loop, n.Loops[i-1].Loop)
		}
		if err != nil {
			return fmt.Errorf("loops[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *Snapshot) checkEdges() error {
	count, overruns := total{what: "steps"}, total{what: "overruns of edges"}
	cpu, timed := total{what: "CPU times"}, total{what: "steps that were timed"}
	heap := total{what: "bytes allocated"}
	changes := make([]total, len(s.Resources))
	var pause breathe.Breather
	for i := range s.Edges {
		pause.Take()
		e := &s.Edges[i]
		err := cmp.Or(
			s.checkEdge(e),
			count.add(float64(e.Count)),
			overruns.add(float64(e.Overruns)),
			timed.add(float64(e.CPU.Count)),
			cpu.add(float64(e.CPU.Sum)),
			heap.add(math.Abs(float64(e.Heap.Sum))),
		)
		for j := range min(len(e.Changes), len(changes)) {
			changes[j].what = "changes of a resource"
			err = cmp.Or(err, changes[j].add(math.Abs(float64(e.Changes[j].Sum))))
		}
		if err == nil && i > 0 {
			if p := &s.Edges[i-1]; p.From > e.From || p.From == e.From && p.To >= e.To {
				err = fmt.Errorf("it comes after %v to %v; want ascending order", p.From, p.To)
			}
		}
		if err != nil {
			return fmt.Errorf("edges[%d] (%v to %v): %w", i, e.From, e.To, err)
		}
	}
	return nil
}

func (s *Snapshot) checkEdge(e *Edge) error {
	for _, k := range [...]Key{e.From, e.To} {
		if s.Node(k) == nil {
			return fmt.Errorf("there is no node %v", k)
		}
	}
	err := cmp.Or(
		checkCount("count", e.Count),
		checkCount("overruns", e.Overruns),
		e.CPU.check("cpu"),
		e.Recent.check("recent"),
		checkRange("recent.mean", e.Recent.Mean, 0, graphlimits.Number),
		e.Heap.check("heap"),
		checkLength("changes", len(e.Changes), len(s.Resources)),
		e.Parts.check(),
		checkWakers("functions", e.Functions),
	)
	for i := range e.Changes {
		err = cmp.Or(err, e.Changes[i].check("changes"))
	}
	return err
}

func (s *Snapshot) checkOverruns() error {
	for i := range s.Overruns {
		o := &s.Overruns[i]
		if err := cmp.Or(
			nameRule.check("task", o.Task),
			stackRule.check("stack", o.Stack),
			s.checkLoop(o.Loop),
			checkTime("at", o.At),
			checkNumber("held", o.Held),
		); err != nil {
			return fmt.Errorf("overruns[%d]: %w", i, err)
		}
	}
	return nil
}

func (s *Snapshot) checkSched() error {
	if s.Sched == nil {
		return nil
	}
	if err := cmp.Or(
		nameRule.check("sched.policy", s.Sched.Policy),
		checkCount("sched.admitted", s.Sched.Admitted),
		checkCount("sched.deferred", s.Sched.Deferred),
		checkCount("sched.refused", s.Sched.Refused),
		checkLength("sched.refusals", len(s.Sched.Refusals), graphlimits.Resources),
		checkLength("sched.resources", len(s.Sched.Resources), graphlimits.Resources),
		checkLength("sched.nodes", len(s.Sched.Nodes), graphlimits.Edges),
	); err != nil {
		return err
	}
	for i, r := range s.Sched.Refusals {
		err := cmp.Or(nameRule.check("why", r.Why), checkCount("count", r.Count))
		if err == nil && s.Sched.refusal(r.Why) != &s.Sched.Refusals[i] {
			err = fmt.Errorf("the cause %q is there twice", graphlimits.Shorten(r.Why, 100))
		}
		if err != nil {
			return fmt.Errorf("sched.refusals[%d]: %w", i, err)
		}
	}
	for i := range s.Sched.Resources {
		r := &s.Sched.Resources[i]
		if err := cmp.Or(
			nameRule.check("name", r.Name),
			nameRule.check("state", r.State),
			checkRange("utilisation", r.Utilisation, 0, graphlimits.Number),
			checkRange("trend", r.Trend, -graphlimits.Number, graphlimits.Number),
		); err != nil {
			return fmt.Errorf("sched.resources[%d]: %w", i, err)
		}
	}
	for i := range s.Sched.Nodes {
		n := &s.Sched.Nodes[i]
		err := cmp.Or(
			s.checkLoop(n.Loop),
			checkRange("priority", n.Priority, -graphlimits.Number, graphlimits.Number),
			checkNumber("tickets", n.Tickets),
			checkNumber("ready", n.Ready), // pass may be anything, it wraps around
			nameRule.check("held", n.Held),
			checkCount("cohorts", n.Cohorts), checkCount("ran", n.Ran),
		)
		if i > 0 && compareRanked(s.Sched.Nodes[i-1], *n) >= 0 {
			err = cmp.Or(err, fmt.Errorf("%v on loop %d comes after %v on loop %d; want ascending order", n.Key, n.Loop, s.Sched.Nodes[i-1].Key, s.Sched.Nodes[i-1].Loop))
		}
		if err != nil {
			return fmt.Errorf("sched.nodes[%d]: %w", i, err)
		}
	}
	return nil
}

// compareRanked is the order of Sched.Nodes.
func compareRanked(a, b SchedNode) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Loop, b.Loop))
}

func (t *Times) check(what string) error {
	err := cmp.Or(
		checkCount("count", t.Count),
		checkNumber("sum", t.Sum),
		checkNumber("max", t.Max),
		checkCount("first", t.First),
		checkNumber("first_sum", t.FirstSum),
		checkLength("hist", len(t.Hist), buckets.Count),
		checkLength("fine", len(t.Fine), buckets.Parts*buckets.Count),
	)
	for _, list := range [...][]uint64{t.Hist, t.Fine} {
		counted := total{what: "counts of hist"}
		for _, n := range list {
			err = cmp.Or(err, counted.add(float64(n)))
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (m *Moments) check(what string) error {
	if err := cmp.Or(
		checkRange("mean", m.Mean, -graphlimits.Number, graphlimits.Number),
		checkRange("variance", m.Variance, 0, maxVariance),
	); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// maxVariance is more than that of numbers which keep graphlimits.Number.
const maxVariance = 4.0 * graphlimits.Number * graphlimits.Number

func (c *Change) check(what string) error {
	if err := cmp.Or(checkCount("steps", c.Steps), checkChange("sum", c.Sum), c.Recent.check("recent")); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func (rule textRule) check(what, text string) error {
	if len(text) > rule.Most {
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", what, len(text), rule.Most)
	}
	if !rule.Fits(text) {
		return fmt.Errorf("%s is %q, which has characters that cannot be printed", what, graphlimits.Shorten(text, 100))
	}
	return nil
}

func checkLength(what string, n, most int) error {
	if n > most {
		return fmt.Errorf("%s: %d is too many; at most %d are allowed", what, n, most)
	}
	return nil
}

func checkCount(what string, n uint64) error {
	if n > graphlimits.Number {
		return fmt.Errorf("%s is %d; at most 2^62 is allowed", what, n)
	}
	return nil
}

func checkNumber[T ~int | ~int64](what string, v T) error {
	if v < 0 || int64(v) > graphlimits.Number {
		return fmt.Errorf("%s is %d; want 0 to 2^62", what, int64(v))
	}
	return nil
}

func checkChange(what string, v int64) error {
	if v < -graphlimits.Number || v > graphlimits.Number {
		return fmt.Errorf("%s is %d; want -2^62 to 2^62", what, v)
	}
	return nil
}

func checkRange(what string, v, least, most float64) error {
	if !(v >= least && v <= most) { // NaN neither
		return fmt.Errorf("%s is %g; want %g to %g", what, v, least, most)
	}
	return nil
}

func checkTime(what string, t time.Time) error {
	if y := t.UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("%s is in the year %d; want 0 to 9999", what, y)
	}
	return nil
}

// A total adds up numbers and says when there are too many. It counts in float64, which
// does not wrap around.
type total struct {
	what string
	sum  float64
}

func (t *total) add(v float64) error {
	if t.sum += v; t.sum > graphlimits.Number {
		return fmt.Errorf("up to here, %s add up to more than 2^62", t.what)
	}
	return nil
}
