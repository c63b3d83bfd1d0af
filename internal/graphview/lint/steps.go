package lint

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

const longStepAdvice = "A task keeps its loop until it waits. Let long computations call task.Yield now and then; " +
	"give what blocks natively (files, Go channels, sync.Mutex, cgo) to task.Offload."

// steps finds steps that keep their loop for long. The severity is that of the evidence: the mean is
// an error; the tail, or a report of the watchdog, which leaves out the time when the kernel ran other
// threads, a warning; a single step an info, as the kernel may have taken most of its time.
func (l *linter) steps() {
	limit := bgraph.Nanos(l.o.step)
	late := l.late(limit)
	for i := range l.s.Edges {
		e := &l.s.Edges[i]
		if from := l.s.Node(e.From); from != nil && l.blamed[startOf(from)] {
			continue
		}
		mean, p99 := e.MeanCPU(), bgraph.Nanos(0)
		much := e.TotalCPU() >= l.s.Span/10
		few, least := uint64(1), uint64(minSamples)
		switch {
		case l.s.Kind == bgraph.KindGoroutines: // nothing tells what the kernel took from a step
			few, least = traceFew, 3*least
			if much { // that much it did not take
				few = 0
			}
		case e.Overruns < leastOverruns: // nor has the watchdog seen it: the kernel may have taken what is long
			least *= traceFew + 1
		}
		if e.CPU.Count >= least {
			p99 = e.CPU.Quantile(0.99)
		}
		f := Finding{Check: CheckLongStep, Node: e.From, To: e.To, Advice: longStepAdvice}
		switch {
		case e.CPU.Count > few && mean >= limit:
			f.Severity = SeverityError
			f.Message = fmt.Sprintf("The step takes its {loop} for %v on average", mean)
		case p99 >= limit:
			f.Severity = SeverityWarning
			f.Message = fmt.Sprintf("One step in a hundred takes its {loop} for %v or more; the mean is %v", p99, mean)
			if e.Overruns < leastOverruns && words.Taken(l.s) > 0 {
				f.Severity = SeverityInfo
				f.Message += ". But the process used less CPU time than its steps took, and the watchdog saw hardly any of these: the kernel took the processor from them"
			}
		case e.Overruns >= leastOverruns && float64(e.Overruns) >= overrunShare*float64(e.Count) || l.veryLong(e):
			f.Severity = SeverityWarning
			f.Message = fmt.Sprintf("The watchdog found %s of %s steps too long; the mean is %v", words.Count(e.Overruns), words.Count(e.Count), mean)
		case e.CPU.Max >= veryLong*limit && l.s.Kind != bgraph.KindGoroutines: // there it means nothing
			f.Severity = SeverityInfo
			f.Message = fmt.Sprintf("A step took its {loop} for %v once, or the kernel took the {loop} from it; the mean is %v", e.CPU.Max, mean)
		default:
			continue
		}
		if l.s.Kind == bgraph.KindGoroutines && !(late && much) {
			f.Severity = SeverityInfo // goroutines are preempted: a long step holds up no other
		} else if l.s.Kind == bgraph.KindGoroutines && mean < veryLong*limit {
			f.Severity = SeverityWarning // what others find may be the cause
		}
		longest, stack := e.CPU.Max, ""
		if o := l.longestOverrun(e.From, e.To); o != nil {
			longest, stack = max(longest, o.Held), words.ProgramStack(o.Stack)
		}
		switch {
		case strings.Contains(f.Message, " once, "):
		case e.Count == 1:
			f.Message = fmt.Sprintf("A step took its {loop} for %v of %v", longest, l.s.Span)
		default:
			f.Message += fmt.Sprintf(". The longest took %v, all %s together %v of %v",
				longest, words.Count(e.Count), e.TotalCPU(), l.s.Span)
			if e.Overruns > 0 && p99 >= limit {
				f.Message += fmt.Sprintf("; the watchdog found %s too long", words.Count(e.Overruns))
			}
		}
		f.Message += "."
		if f.Stack = stack; stack == "" {
			f.Stack = l.stackOf(e.To)
		}
		if l.foreignStep(e) && !l.nameHandler(&f, e) {
			continue
		}
		l.add(float64(e.TotalCPU()), f)
	}
	l.unfinished()
}

// foreignStep reports whether an end of the step is a wait of the standard library's own goroutines, and the other end is one, too, or
// where goroutines begin or end.
func (l *linter) foreignStep(e *bgraph.Edge) bool {
	from, to := l.foreign(l.s.Node(e.From)), l.foreign(l.s.Node(e.To))
	return from && (to || !isPlace(e.To)) || to && !isPlace(e.From)
}

// nameHandler gives a finding about a step between two waits of net/http the name of the function of the program that a CPU profile found
// in it. It reports whether the step is one of the program at all: of a goroutine that serves requests.
func (l *linter) nameHandler(f *Finding, e *bgraph.Edge) bool {
	for _, w := range e.Functions { // the most frequent first
		if w.Line > 0 && !funcname.OfStandardLibrary(w.Function) {
			f.Name, f.At = funcname.Short(w.Function), fileLine(&bgraph.Frame{File: w.File, Line: w.Line})
			f.Message += fmt.Sprintf(" Mostly it was in %s.", words.At(w.Function, w.File, w.Line))
			return true
		}
	}
	f.Name, f.Node, f.To, f.Stack = "handlers of net/http that do not wait", 0, 0, ""
	n := l.s.Node(e.From)
	if !l.foreign(n) {
		n = l.s.Node(e.To) // the goroutine began with this step
	}
	start := startOf(n)
	return start == "net/http.(*conn).serve" || funcname.OfHTTP2(start) == funcname.HTTP2Request
}

// late reports whether one in a hundred ready tasks had to wait for limit or longer.
func (l *linter) late(limit bgraph.Nanos) bool {
	var all bgraph.Times
	for i := range l.s.Nodes {
		all.Merge(&l.s.Nodes[i].Ready)
	}
	return all.Quantile(0.99) >= limit
}

// A healthy program has a step now and then from which the kernel takes the processor. So
// what the watchdog has found counts if it was more than that, in number and share, or if
// one step was far beyond the limit.
const (
	leastOverruns = 3
	overrunShare  = 1e-4
	veryLong      = 5 // times the limit
	traceFew      = 4 // steps of a trace whose mean says nothing
)

func (l *linter) veryLong(e *bgraph.Edge) bool {
	o := l.longestOverrun(e.From, e.To)
	return e.Overruns > 0 && o != nil && o.Held >= veryLong*bgraph.Nanos(l.o.step)
}

// longestOverrun is the longest of the watchdog's reports of a step, nil if there is
// none.
func (l *linter) longestOverrun(from, to bgraph.Key) (longest *bgraph.Overrun) {
	for i := range l.s.Overruns {
		if o := &l.s.Overruns[i]; o.From == from && o.To == to && (longest == nil || o.Held > longest.Held) {
			longest = o
		}
	}
	return longest
}

// stackOf is the call path of a node, as the Go runtime prints stacks.
func (l *linter) stackOf(k bgraph.Key) string {
	n := l.s.Node(k)
	if n == nil {
		return ""
	}
	var text []byte
	for _, f := range n.Stack {
		text = fmt.Appendf(text, "%s(...)\n\t%s:%d\n", f.Function, f.File, f.Line)
	}
	return string(text)
}

// unfinished finds the steps that the watchdog saw and that had not ended when it
// last reported them.
func (l *linter) unfinished() {
	for i := range l.s.Overruns {
		o := &l.s.Overruns[i]
		if o.To != bgraph.KeyStart || l.cameToAnEnd(i) {
			continue
		}
		held := o.Held + bgraph.Nanos(max(l.s.Taken.Sub(o.At), 0))
		l.add(float64(held), Finding{
			Severity: SeverityError, Check: CheckLongStep, Node: o.From,
			Message: fmt.Sprintf("{Task} %s left this place on {loop} %d and had run for %v at %s without waiting; if it still does, no other {task} of that {loop} has run for %v.",
				o.Task, o.Loop, o.Held, o.At.Format(time.TimeOnly), held),
			Advice: longStepAdvice, Stack: words.ProgramStack(o.Stack),
		})
	}
}

// cameToAnEnd reports whether a later overrun is of the same loop, so that the step of
// overrun i is over. The last report of a step that goes on stands for all.
func (l *linter) cameToAnEnd(i int) bool {
	return slices.ContainsFunc(l.s.Overruns[i+1:], func(later bgraph.Overrun) bool { return later.Loop == l.s.Overruns[i].Loop })
}
