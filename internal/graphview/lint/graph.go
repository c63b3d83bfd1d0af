package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// readyQueues finds loops that do not get round to what is ready, and places whose
// tasks are passed over.
func (l *linter) readyQueues() {
	var all bgraph.Times
	var worst *bgraph.Node
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		if n.Key == bgraph.KeyEnd {
			continue
		}
		all.Merge(&n.Ready)
		if !l.foreign(n) && (worst == nil || n.Ready.Max > worst.Ready.Max) {
			worst = n
		}
	}
	if all.Count < minSamples {
		return
	}
	if mean := all.Mean(); mean >= bgraph.Nanos(l.o.ready) {
		longest := fmt.Sprintf("The longest wait was %v.", all.Max)
		if worst != nil {
			longest = fmt.Sprintf("The longest wait, %v, was at %s.", worst.Ready.Max, l.name(worst.Key))
		}
		l.add(float64(mean), Finding{
			Severity: SeverityWarning, Check: CheckSaturated,
			Message: fmt.Sprintf("{Tasks} that could run wait for their {loop} for %v on average, one in a hundred for %v or more. %s%s",
				mean, all.Quantile(0.99), l.busy(), longest),
			Advice: "There is more to do than the {loops} can: admit less work, make the steps with most CPU time cheaper, or add {loops} if there are processors for them.",
		})
	}
	l.passedOver(all.Mean())
}

// busyLoop is the share of its time that a loop must be busy for its share of the work to
// matter.
const busyLoop = 0.3

// busyShare is how much of their time the loops ran tasks, below 0 if that is not known.
func (l *linter) busyShare() float64 {
	used := words.TotalCPU(l.s) - words.Taken(l.s)
	working := words.Working(l.s)
	if working == 0 || l.s.Span <= 0 || used == 0 {
		return -1
	}
	return min(used/(float64(l.s.Span)*float64(working)), 1)
}

// busy is a sentence on how busy the loops were, "" if that is not known.
func (l *linter) busy() string {
	share := l.busyShare()
	if share < 0 {
		return ""
	}
	return fmt.Sprintf("The %s ran %s for %s of the time. ", words.Loops(l.s), l.w.Tasks, words.Percent(share))
}

// passedOver finds places where a task was ready far longer than tasks are elsewhere,
// unless a single long step explains it.
func (l *linter) passedOver(mean bgraph.Nanos) {
	var longest bgraph.Nanos
	for i := range l.s.Edges {
		longest = max(longest, l.s.Edges[i].CPU.Max)
	}
	for i := range l.s.Overruns {
		longest = max(longest, l.s.Overruns[i].Held)
	}
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		most := n.Ready.Max
		if n.Key == bgraph.KeyEnd || l.foreign(n) || most < bgraph.Nanos(l.o.starve) || most < 100*mean || longest >= most/2 {
			continue
		}
		message := fmt.Sprintf("A {task} was ready here for %v before it ran; the mean here is %v, everywhere %v, and no step took longer than %v.",
			most, n.Ready.Mean(), mean, longest)
		if held := l.heldBack(n.Key); held != "" {
			message += " The scheduler holds this place back: " + held + "."
		}
		l.add(float64(most), Finding{
			Severity: SeverityWarning, Check: CheckStarvation, Node: n.Key, Message: message,
			Advice: "Either very many {tasks} became ready at once, or the scheduling policy prefers others: compare its priorities, and the arrivals of this place with those of the others.",
		})
	}
}

// heldBack is the scheduler's reason for holding a node back, if it does.
func (l *linter) heldBack(k bgraph.Key) string {
	if l.s.Sched == nil {
		return ""
	}
	for _, n := range l.s.Sched.Nodes {
		if n.Key == k && n.Held != "" {
			return n.Held
		}
	}
	return ""
}

// leastSteps is how many steps it takes to speak of how they spread over the loops.
const leastSteps = 10_000

// loops finds one that does much more than the others.
func (l *linter) loops() {
	working := slices.DeleteFunc(slices.Clone(l.s.Loops), func(one bgraph.LoopStat) bool { return one.Rests })
	if len(working) < 2 || l.s.Kind == bgraph.KindGoroutines { // goroutines move between Ps
		return
	}
	most := slices.MaxFunc(working, func(a, b bgraph.LoopStat) int { return cmp.Compare(a.Steps, b.Steps) })
	var all uint64
	for _, one := range working {
		all += one.Steps
	}
	if share := l.busyShare(); share >= 0 && share*words.Ratio(float64(most.Steps), float64(all))*float64(len(working)) < busyLoop {
		return // none does enough to matter
	}
	others := float64(all-most.Steps) / float64(len(working)-1)
	if all < leastSteps || float64(most.Steps) <= unbalance*others {
		return
	}
	l.add(float64(most.Steps), Finding{
		Severity: SeverityWarning, Check: CheckUnbalanced,
		Message: fmt.Sprintf("{Loop} %d made %s of %s steps (%s); the others made %s on average.",
			most.Index, words.Count(most.Steps), words.Count(all), words.Percent(words.Ratio(float64(most.Steps), float64(all))), words.Amount(float64(int64(others)), "")),
		Advice: "A task stays on the loop where it began. See what starts tasks on that loop: few busy connections, one task that spawns all the others, or task.Options.OnLoop.",
	})
}

// trust finds reasons not to believe the graph.
func (l *linter) trust() {
	if o := l.s.Overflow; o.Nodes > 0 || o.Edges > 0 || o.Wakes > 0 {
		var arrivals, steps uint64
		for i := range l.s.Nodes {
			arrivals += l.s.Nodes[i].Arrivals
		}
		for i := range l.s.Edges {
			steps += l.s.Edges[i].Count
		}
		without := max(words.Ratio(float64(o.Nodes), float64(arrivals)), words.Ratio(float64(o.Edges), float64(steps)))
		l.add(0, Finding{
			Severity: severityIf(l.s.Kind != bgraph.KindGoroutines || without >= fullShare), Check: CheckOverflow,
			Message: fmt.Sprintf("The graph is full: %s of %s waits found no room as a node (limit %s), %s of %s steps none as an edge, and %s wakes from elsewhere none as a crossing (limit %s for each {loop}).",
				words.Count(o.Nodes), words.Count(arrivals), words.Count(o.MaxNodes), words.Count(o.Edges), words.Count(steps), words.Count(o.Wakes), words.Count(o.MaxEdges)),
			Advice: "Raise the limits (capriccio.WithGraphLimits). If recursion or generated code makes a place of its own for each depth, give the place a label with ressched.YieldAt.",
		})
	}
	var counted, timed uint64
	for i := range l.s.Edges {
		counted += l.s.Edges[i].Count
		timed += l.s.Edges[i].CPU.Count
	}
	if timed >= minSamples {
		return
	}
	if counted == 0 {
		l.add(0, Finding{
			Severity: SeverityInfo, Check: CheckFewSamples,
			Message: fmt.Sprintf("No {task} has run in %v, so there is nothing to see but which of them wait.", l.s.Span),
			Advice:  "Look again when there is something to do.",
		})
		return
	}
	only := fmt.Sprintf("Only %s of %s steps were timed in %v (sampling 1 in %d)", words.Count(timed), words.Count(counted), l.s.Span, max(l.s.Sampling, 1))
	advice := "Let the program run longer, under load, or time more steps."
	if timed >= counted || l.s.Kind == bgraph.KindGoroutines { // of a trace each step is timed
		only = fmt.Sprintf("{Tasks} ran only %s in %v, each from one wait to the next", words.Plural(int(counted), "time"), l.s.Span)
	}
	if l.s.Kind == bgraph.KindGoroutines {
		advice = "Take a longer trace, or one of the program under load."
	}
	l.add(0, Finding{
		Severity: SeverityInfo, Check: CheckFewSamples,
		Message: only + ", so times mean little and most checks can't say anything.",
		Advice:  advice,
	})
}
