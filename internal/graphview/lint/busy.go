package lint

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// CheckBusy finds goroutines that compute all the time.
const CheckBusy = "busy"

const (
	busyOne  = 0.5 // of a P for each of the goroutines, or of all Ps
	busyStep = bgraph.Nanos(1e6)

	endlessStep = bgraph.Nanos(200e6) // on average: beyond doubt, also if the kernel had taken processors
)

// busyStarts finds goroutines that hardly ever wait in a program that serves others.
func (l *linter) busyStarts() {
	if l.s.Kind != bgraph.KindGoroutines || l.s.Span <= 0 {
		return
	}
	serves := false
	for i := range l.s.Nodes {
		serves = serves || l.s.Nodes[i].Reason == "accept"
	}
	ps := float64(max(len(l.s.Loops), 1))
	var all float64
	for i := range l.s.Starts {
		all += float64(l.s.Starts[i].CPU)
	}
	idle := all+float64(l.s.CollectorCPU) < busyOne*ps*float64(l.s.Span) // no goroutine has the Ps for half of the time
	kept := max(1-words.Ratio(float64(l.s.Stalled.Sum), all), 0)         // of that time, not the kernel's
	for i := range l.s.Starts {
		st := &l.s.Starts[i]
		used := float64(st.CPU) * kept / float64(l.s.Span) // Ps
		unknown := st.Function == ""
		if st.Now <= 0 || st.Ended > uint64(st.Now) { // CPU is that of the ended goroutines, too
			continue
		}
		if l.blamed[st.Function] || !unknown && funcname.OfStandardLibrary(st.Function) {
			continue
		}
		in, steps, cpu, preempted := l.sampledIn(st.Function)
		yields := idle && preempted > cpu // else others would have the Ps meanwhile
		least := busyOne * min(float64(st.Now), ps)
		if steps > 0 && cpu/bgraph.Nanos(steps) >= endlessStep { // whatever the kernel took
			used = float64(st.CPU) / float64(l.s.Span)
		}
		if yields {
			used += float64(preempted) * kept / float64(l.s.Span) // it does not wait then
		}
		if used < least || steps > 0 && cpu/bgraph.Nanos(steps) < busyStep { // it waits often
			continue
		}
		where := words.At(st.Function, st.File, st.Line)
		f := Finding{Severity: severityIf(serves), Check: CheckBusy, Name: "goroutines of " + funcname.Short(st.Function), At: fileLine(&bgraph.Frame{File: st.File, Line: st.Line}),
			Advice: "Look at it with a CPU profile. If it waits for something by looking again and again, let it wait (without default in the select, on a channel or a timer); if it computes, do less, or leave a P to the others."}
		if unknown {
			f.Name, where = "goroutines whose function is not known", "A function that the trace does not name, as it has no stack frame,"
		}
		f.Message = fmt.Sprintf("%s computes nearly all the time without waiting: %s of it %s %s of the %.0f Ps", where, words.Plural(int(st.Now), "goroutine"), useUses(st.Now), words.Rate(used), ps)
		if yields {
			f.Message = fmt.Sprintf("%s never waits, though it gives its P away again and again (runtime.Gosched): %s of it ran for %v, and the scheduler had to do with them all the time",
				where, words.Plural(int(st.Now), "goroutine"), cpu)
		}
		if in.Function != "" && !(yields && funcname.OfStandardLibrary(in.Function)) {
			f.Message += ", mostly in " + words.At(in.Function, in.File, in.Line)
			if !funcname.OfStandardLibrary(in.Function) {
				f.At = fmt.Sprintf("%s:%d", in.File, in.Line)
			}
		}
		f.Message += "."
		if late := l.latest(); late != nil {
			f.Message += fmt.Sprintf(" Others wait for a P meanwhile: 1 in 100 for %v or more after %s.", late.Ready.Quantile(0.99), l.name(late.Key))
		}
		l.blamed[st.Function] = serves && !unknown
		l.add(used, f)
	}
}

func useUses(n int64) string {
	if n == 1 {
		return "uses"
	}
	return "use"
}

// sampledIn is where goroutines that began with a function mostly were when they were looked at, how many steps they made, and
// the CPU time of these, and how long they were ready again after a preemption or a yield.
func (l *linter) sampledIn(start string) (in bgraph.Waker, steps uint64, cpu, preempted bgraph.Nanos) {
	for i := range l.s.Edges {
		e := &l.s.Edges[i]
		from := l.s.Node(e.From)
		if from == nil || startOf(from) != start {
			continue
		}
		steps += e.Count
		cpu += e.TotalCPU()
		preempted += e.Parts.Preempted
		for _, w := range e.Functions {
			if w.Count > in.Count && w.Line > 0 {
				in = w
			}
		}
	}
	return in, steps, cpu, preempted
}

// latest is the node after which goroutines wait longest for a P, nil if none does for long.
func (l *linter) latest() (latest *bgraph.Node) {
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		if !l.foreign(n) && n.Ready.Count >= minSamples && n.Ready.Quantile(0.99) >= bgraph.Nanos(l.o.step)/2 && (latest == nil || n.Ready.Quantile(0.99) > latest.Ready.Quantile(0.99)) {
			latest = n
		}
	}
	return latest
}

// CheckTimers finds crowds of goroutines that timers wake all the time.
const CheckTimers = "timers"

const (
	leastTimed = 100  // goroutines
	timedShare = 0.5  // of all steps
	timedStep  = 20e3 // ns that a step takes at most: it looks, and finds nothing to do
)

// timers finds a place where a crowd of goroutines is woken by timers, which most steps of the program begin with.
func (l *linter) timers() {
	if l.s.Kind != bgraph.KindGoroutines {
		return
	}
	var all uint64
	for i := range l.s.Edges {
		all += l.s.Edges[i].Count
	}
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		by, share := waker(n)
		timed := n.Reason == "sleep" || (n.Reason == "channel receive" || n.Reason == "select") && (by.Function == "" || share < 0.1) && len(n.Wakers) > 0
		if ran, _ := l.after(n); !timed || ownPlace(n) == nil || served(n) || n.Now < leastTimed || float64(n.Departures) < timedShare*float64(all) || ran > timedStep {
			continue
		}
		f := Finding{Severity: SeverityWarning, Check: CheckTimers, Node: n.Key,
			Message: fmt.Sprintf("%s has %s goroutines that timers wake, %s times a second: %s of all that the program does begins so.",
				atFrame(n.Place()), words.Count(n.Now), words.Rate(words.PerSecond(l.s, n.Departures)), words.Percent(words.Ratio(float64(n.Departures), float64(all)))),
			Advice: "Let one timer do it for all, look less often, or wait for what changes instead of looking for it."}
		l.add(float64(n.Departures), f)
	}
}
