package lint

import (
	"fmt"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

const (
	leastTrips    = 1000 // round trips it takes to speak of a habit
	pingPongShare = 0.3  // of the waits at either place that tasks of the other end across loops
)

// acrossLoops finds two places whose tasks wake each other from loop to loop, again and again, and do little in
// between (Cohort Scheduling, section 3.3).
func (l *linter) acrossLoops() {
	wakes := map[[2]bgraph.Key]uint64{}
	for _, c := range l.s.Crossings {
		if isPlace(c.From) && isPlace(c.To) && c.FromLoop >= 0 && c.FromLoop != c.ToLoop {
			wakes[[2]bgraph.Key{c.From, c.To}] += c.Count
		}
	}
	for ends, there := range wakes {
		from, to := ends[0], ends[1]
		back, ok := wakes[[2]bgraph.Key{to, from}]
		if !ok || from > to { // each pair once
			continue
		}
		trips := min(there, back)
		if from == to {
			trips /= 2
		}
		a, b := l.s.Node(from), l.s.Node(to)
		if a == nil || b == nil || trips < leastTrips || words.PerSecond(l.s, trips) < pingPongRate {
			continue
		}
		shareA, shareB := words.Ratio(float64(back), float64(a.Departures)), words.Ratio(float64(there), float64(b.Departures))
		step := max(l.meanStep(from), l.meanStep(to))
		if min(shareA, shareB) < pingPongShare || step > bgraph.Nanos(l.o.pingPongStep) {
			continue
		}
		other := "others here"
		if from != to {
			other = "those at " + l.name(to)
		}
		l.add(float64(trips), Finding{
			Severity: SeverityWarning, Check: CheckPingPong, Node: from,
			Message: fmt.Sprintf("{Tasks} here and %s wake each other across {loops}, to and fro %s times a second: that ends %s of the waits here and %s there. A step in between takes %v on average, and each such wake a lock, and a system call if the {loop} sleeps.",
				other, words.Rate(words.PerSecond(l.s, trips)), words.Percent(min(shareA, 1)), words.Percent(min(shareB, 1)), step),
			Advice: "Let what takes turns run on one {loop} (task.Options.OnLoop; what a {task} spawns starts where it runs), give each {loop} its own part of what is shared (task.PerLoop), or hand over several things at a time: a task.Chan with room, a batch for each wake.",
		})
	}
}

// meanStep is the mean CPU time of the steps that begin at a node.
func (l *linter) meanStep(k bgraph.Key) bgraph.Nanos {
	var cpu, steps float64
	for _, e := range l.from(k) {
		cpu += words.EdgeCPU(&e)
		steps += float64(e.Count)
	}
	return words.Nanos(words.Ratio(cpu, steps))
}
