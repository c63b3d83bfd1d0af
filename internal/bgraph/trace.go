package bgraph

import (
	"cmp"
	"iter"
	"slices"

	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// Kinds of graphs, see Snapshot.Kind.
const (
	KindTasks      = ""           // tasks on event loops, learned by package recorder
	KindGoroutines = "goroutines" // goroutines on Ps, read from an execution trace
)

// A Waker is where waits were ended: the function that sent, unlocked or closed. Of an edge,
// it is where a CPU profile found its steps.
type Waker struct {
	Function string `json:"function"` // "" if the scheduler did it: network, timers
	File     string `json:"file"`     // of the function
	Line     int    `json:"line"`     // of the call that ended the wait, from 1; 0: not known
	Count    uint64 `json:"count"`    // waits that it ended, or samples
}

// A Start is a place where goroutines begin, by their first function.
type Start struct {
	Function string `json:"function"`         // with package path; "": not known
	File     string `json:"file"`             // of the function
	Line     int    `json:"line"`             // of its beginning, from 1; 0: not known
	Created  uint64 `json:"created"`          // in Span
	Ended    uint64 `json:"ended"`            // in Span
	Now      int64  `json:"now"`              // at the end of Span
	Oldest   Nanos  `json:"oldest"`           // how long the oldest has lived, as far as is known
	CPU      Nanos  `json:"cpu_ns,omitempty"` // time on a P in Span
	Life     Times  `json:"life"`             // of goroutines created and ended in Span
	Leaked   uint64 `json:"leaked,omitempty"` // of the goroutines in Now, how many nothing can wake, as far as the Go runtime reports it
}

// A Span is a kind of work: a region or a task of package runtime/trace, or the requests of net/http that one function handles. In
// Snapshot.Slowest it is one such task or request.
type Span struct {
	Kind  string `json:"kind"`  // "region", "task", "request", or "log": from the begin of the task up to there
	Name  string `json:"name"`  // as the program gave it, or the function that handles the requests
	Times Times  `json:"times"` // how long they took
	// Path is where the time of tasks and requests went, what took most first: in what their goroutines did and, where these
	// waited for others, in what those did meanwhile. It may be less than Times if not all is known. Of a single task or request
	// it is in the order of time, each part followed by what other goroutines did meanwhile.
	Path []PathPart `json:"path,omitempty"`

	Begun Nanos `json:"begun,omitempty"` // of a single task or request: after the begin of the trace; 0: it began before
	Open  bool  `json:"open,omitempty"`  // of a single task or request: it had not ended when the trace did

	// Timeline has each wait of a single task or request by itself, in the order of time, with what the goroutine did after it.
	// Depth tells the goroutines apart: 0 is its own, the others ended waits, in the order in which they are met. A part at
	// KeyOverflow stands for the waits that found no room.
	Timeline []PathPart `json:"timeline,omitempty"`
}

// A PathPart is the time that tasks or requests spent at a node and on steps from there.
type PathPart struct {
	Node  Key    `json:"node"`            // need not be in the graph; KeyOverflow: visits beyond the limit, together
	Step  Nanos  `json:"step"`            // running, in short system calls and the like, until the next wait
	Wait  Nanos  `json:"wait"`            // for what no goroutine has ended, or none that is known
	Ready Nanos  `json:"ready"`           // until it ran
	Count uint64 `json:"count,omitempty"` // waits that ended there
	// Depth is more than 0 if it is of another goroutine while requests waited for it: 1 if that ended a wait of their own
	// goroutine, 2 if it ended a wait of that one, and so on; 1 for all of these in a Span of many requests, whose own waits are
	// whole.
	Depth int   `json:"depth,omitempty"`
	From  Nanos `json:"from,omitempty"` // of a single request: when it came there first, after its begin
	By    Frame `json:"by,omitzero"`    // of a single request: what ended the longest wait; no function: the network, or time
}

// Total is the sum of step, wait and ready.
func (p *PathPart) Total() Nanos { return addNanos(p.Step, addNanos(p.Wait, p.Ready)) }

func (sp *Span) check() error {
	err := cmp.Or(nameRule.check("kind", sp.Kind), nameRule.check("name", sp.Name), checkNumber("begun", sp.Begun), checkLength("path", len(sp.Path), graphlimits.Path),
		checkLength("timeline", len(sp.Timeline), graphlimits.Timeline))
	for p := range sp.parts() {
		err = cmp.Or(err, checkNumber("step", p.Step), checkNumber("wait", p.Wait), checkNumber("ready", p.Ready), checkCount("count", p.Count),
			checkRange("depth", float64(p.Depth), 0, graphlimits.Path), checkNumber("from", p.From),
			nameRule.check("function", p.By.Function), nameRule.check("file", p.By.File), checkLine(p.By.Line), checkLine(p.By.Offset))
	}
	return err
}

// parts are those of the path and of the timeline.
func (sp *Span) parts() iter.Seq[*PathPart] {
	return func(yield func(*PathPart) bool) {
		for _, all := range [][]PathPart{sp.Path, sp.Timeline} {
			for i := range all {
				if !yield(&all[i]) {
					return
				}
			}
		}
	}
}

// sortSlowest brings the slowest requests into order, and within the limit.
func (s *Snapshot) sortSlowest() {
	slices.SortStableFunc(s.Slowest, func(a, b Span) int {
		return cmp.Or(cmp.Compare(b.Times.Sum, a.Times.Sum), cmp.Compare(a.Begun, b.Begun), cmp.Compare(a.Name, b.Name))
	})
	s.Slowest = s.Slowest[:min(len(s.Slowest), graphlimits.Slowest)]
}

func cloneSpans(all []Span) []Span {
	out := slices.Clone(all)
	for i := range out {
		out[i].Path, out[i].Timeline = slices.Clone(out[i].Path), slices.Clone(out[i].Timeline)
	}
	return out
}

// mergePaths adds the parts of b to those of a, what took most first.
func mergePaths(a, b []PathPart) []PathPart {
	for _, from := range b {
		at := slices.IndexFunc(a, func(to PathPart) bool { return to.Node == from.Node && to.Depth == from.Depth })
		if at < 0 {
			a = append(a, from)
			continue
		}
		to := &a[at]
		to.Step, to.Wait, to.Ready = addNanos(to.Step, from.Step), addNanos(to.Wait, from.Wait), addNanos(to.Ready, from.Ready)
		addCount(&to.Count, from.Count)
	}
	slices.SortFunc(a, func(x, y PathPart) int {
		return cmp.Or(cmp.Compare(y.Total(), x.Total()), cmp.Compare(x.Node, y.Node), cmp.Compare(x.Depth, y.Depth))
	})
	return a[:min(len(a), graphlimits.Path)]
}

// CPUSamples counts the samples of a CPU profile that ran beside a trace, by what the process did then. All of its threads
// are in them.
type CPUSamples struct {
	Steps     uint64 `json:"steps"`     // of goroutines, between two waits
	Calls     uint64 `json:"calls"`     // in system calls of goroutines
	Collector uint64 `json:"collector"` // in goroutines of the collector
	Tracer    uint64 `json:"tracer"`    // writing the trace and the profile
	Scheduler uint64 `json:"scheduler"` // in the Go scheduler, and in other goroutines of the Go runtime
	Foreign   uint64 `json:"foreign"`   // in threads that Go has not started
}

// each calls fn for every count of c and the one of b that belongs to it.
func (c *CPUSamples) each(b *CPUSamples, fn func(what string, to, from *uint64)) {
	fn("sampled.steps", &c.Steps, &b.Steps)
	fn("sampled.calls", &c.Calls, &b.Calls)
	fn("sampled.collector", &c.Collector, &b.Collector)
	fn("sampled.tracer", &c.Tracer, &b.Tracer)
	fn("sampled.scheduler", &c.Scheduler, &b.Scheduler)
	fn("sampled.foreign", &c.Foreign, &b.Foreign)
}

// Parts says what the time of an edge consisted of besides running, in all its steps. Only
// graphs of goroutines have it.
type Parts struct {
	Calls     uint64 `json:"calls"`     // system calls
	System    Nanos  `json:"system"`    // in system calls; not part of the edge's CPU
	Preempted Nanos  `json:"preempted"` // ready again after a preemption or a yield; not part of it
	Folded    Nanos  `json:"folded"`    // waiting for what does not end a step, like the collector; not part of it
	Assist    Nanos  `json:"assist"`    // helping the collector; part of it
	Moves     uint64 `json:"moves"`     // to another P
	Samples   uint64 `json:"samples"`   // of a CPU profile
}

// eachTimes calls fn for the Times of s that are not of nodes and edges.
func (s *Snapshot) eachTimes(fn func(what string, t *Times)) {
	fn("stopped", &s.Stopped)
	fn("stalled", &s.Stalled)
	fn("collections", &s.Collections)
	for i := range s.Starts {
		fn("life", &s.Starts[i].Life)
	}
	for i := range s.Spans {
		fn("times", &s.Spans[i].Times)
	}
	for i := range s.Slowest {
		fn("times", &s.Slowest[i].Times)
	}
}

// checkTrace checks what only graphs of goroutines have.
func (s *Snapshot) checkTrace() error {
	err := cmp.Or(
		nameRule.check("kind", s.Kind),
		checkNumber("process_cpu_ns", s.ProcessCPU),
		checkNumber("collector_cpu_ns", s.CollectorCPU),
		checkLength("starts", len(s.Starts), graphlimits.Starts),
		checkLength("spans", len(s.Spans), graphlimits.Spans),
		checkLength("notes", len(s.Notes), graphlimits.Notes),
		checkWakers("assists", s.Assists),
		checkLength("slowest", len(s.Slowest), graphlimits.Slowest),
	)
	s.Sampled.each(&s.Sampled, func(what string, n, _ *uint64) { err = cmp.Or(err, checkCount(what, *n)) })
	for i := range s.Starts {
		st := &s.Starts[i]
		err = cmp.Or(err, nameRule.check("function", st.Function), nameRule.check("file", st.File), checkLine(st.Line),
			checkCount("created", st.Created), checkCount("ended", st.Ended), checkNumber("now", st.Now), checkNumber("oldest", st.Oldest), checkNumber("cpu_ns", st.CPU), checkCount("leaked", st.Leaked))
	}
	for i := range s.Spans {
		err = cmp.Or(err, s.Spans[i].check())
	}
	for i := range s.Slowest {
		err = cmp.Or(err, s.Slowest[i].check())
	}
	for _, n := range s.Notes {
		err = cmp.Or(err, nameRule.check("notes", n))
	}
	s.eachTimes(func(what string, t *Times) { err = cmp.Or(err, t.check(what)) })
	return err
}

func checkWakers(what string, all []Waker) error {
	err := checkLength(what, len(all), graphlimits.Wakers)
	for i := range all {
		w := &all[i]
		err = cmp.Or(err, nameRule.check("function", w.Function), nameRule.check("file", w.File), checkLine(w.Line), checkCount("count", w.Count))
	}
	return err
}

func checkLine(line int) error { return checkRange("line", float64(line), 0, 1<<31-1) }

func (p *Parts) check() error {
	return cmp.Or(
		checkCount("parts.calls", p.Calls), checkNumber("parts.system", p.System), checkNumber("parts.preempted", p.Preempted),
		checkNumber("parts.folded", p.Folded), checkNumber("parts.assist", p.Assist), checkCount("parts.moves", p.Moves),
		checkCount("parts.samples", p.Samples),
	)
}

// merge adds b.
func (p *Parts) merge(b *Parts) {
	addCount(&p.Calls, b.Calls)
	addCount(&p.Moves, b.Moves)
	addCount(&p.Samples, b.Samples)
	for _, n := range [...]struct{ to, b *Nanos }{{&p.System, &b.System}, {&p.Preempted, &b.Preempted}, {&p.Folded, &b.Folded}, {&p.Assist, &b.Assist}} {
		*n.to = addNanos(*n.to, *n.b)
	}
}

// addNanos adds times that may come to more than fits.
func addNanos(a, b Nanos) Nanos { return min(a, graphlimits.Number-b) + b }

// mergeTrace adds what only graphs of goroutines have.
func (s *Snapshot) mergeTrace(b *Snapshot) {
	s.ProcessCPU = addNanos(s.ProcessCPU, b.ProcessCPU)
	s.CollectorCPU = addNanos(s.CollectorCPU, b.CollectorCPU)
	s.Sampled.each(&b.Sampled, func(_ string, to, from *uint64) { addCount(to, *from) })
	s.Stopped.merge(&b.Stopped)
	s.Stalled.merge(&b.Stalled)
	s.Collections.merge(&b.Collections)
	s.Assists = mergeWakers(s.Assists, b.Assists)
	for i := range b.Starts {
		from := &b.Starts[i]
		at := slices.IndexFunc(s.Starts, func(to Start) bool { return to.Function == from.Function && to.File == from.File })
		if at < 0 {
			s.Starts = append(s.Starts, *from)
			continue
		}
		to := &s.Starts[at]
		to.Line = min(to.Line, from.Line)
		addCount(&to.Created, from.Created)
		addCount(&to.Ended, from.Ended)
		addNumber(&to.Now, from.Now)
		addCount(&to.Leaked, from.Leaked)
		to.Oldest = max(to.Oldest, from.Oldest)
		to.CPU = addNanos(to.CPU, from.CPU)
		to.Life.merge(&from.Life)
	}
	for i := range b.Spans {
		from := &b.Spans[i]
		at := slices.IndexFunc(s.Spans, func(to Span) bool { return to.Kind == from.Kind && to.Name == from.Name })
		if at < 0 {
			s.Spans = append(s.Spans, *from)
			continue
		}
		s.Spans[at].Times.merge(&from.Times)
		s.Spans[at].Path = mergePaths(s.Spans[at].Path, from.Path)
	}
	s.Slowest = append(s.Slowest, b.Slowest...)
	for _, note := range b.Notes {
		if !slices.Contains(s.Notes, note) {
			s.Notes = append(s.Notes, note)
		}
	}
}

// sortTrace brings what mergeTrace has collected into an order of its own, so that the
// order of merging does not show, and within the limits.
func (s *Snapshot) sortTrace() {
	slices.SortFunc(s.Starts, func(a, b Start) int {
		return cmp.Or(cmp.Compare(b.Now, a.Now), cmp.Compare(b.Created, a.Created), cmp.Compare(a.Function, b.Function), cmp.Compare(a.File, b.File))
	})
	slices.SortFunc(s.Spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Times.Sum, a.Times.Sum), cmp.Compare(a.Name, b.Name))
	})
	s.sortSlowest()
	slices.Sort(s.Notes)
	s.Starts = s.Starts[:min(len(s.Starts), graphlimits.Starts)]
	s.Spans = s.Spans[:min(len(s.Spans), graphlimits.Spans)]
	s.Notes = s.Notes[:min(len(s.Notes), graphlimits.Notes)]
}

// mergeWakers adds the wakers of b to those of a, the most frequent first.
func mergeWakers(a, b []Waker) []Waker {
	for _, from := range b {
		at := slices.IndexFunc(a, func(to Waker) bool {
			return to.Function == from.Function && to.File == from.File && to.Line == from.Line
		})
		if at < 0 {
			a = append(a, from)
			continue
		}
		addCount(&a[at].Count, from.Count)
	}
	slices.SortFunc(a, func(x, y Waker) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Function, y.Function), cmp.Compare(x.File, y.File), cmp.Compare(x.Line, y.Line))
	})
	return a[:min(len(a), graphlimits.Wakers)]
}
