package lint

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

const (
	nativePlaces = 10  // that are named: those where most tasks are detached
	nativeRate   = 100 // detachments in a second from which on a place is worth a warning
)

// CheckThreads finds goroutines that are in system calls or C functions all the time, each with a thread of its own.
const CheckThreads = "threads"

// threads names places with far more goroutines in system calls or C functions than there are Ps, if nothing else has been said of them.
func (l *linter) threads() {
	if l.s.Kind != bgraph.KindGoroutines {
		return
	}
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		inside := l.occupancy(n)
		told := slices.ContainsFunc(l.found, func(f graded) bool { return f.Node == n.Key || f.To == n.Key })
		if n.Reason != "system call" || ownPlace(n) == nil || told || inside < max(leastQueue, 2*float64(len(l.s.Loops))) {
			continue
		}
		took := ""
		if n.Departures > 0 {
			took = fmt.Sprintf(", each for %v", n.MeanWait())
		}
		l.add(inside, Finding{Severity: SeverityInfo, Check: CheckThreads, Node: n.Key, Advice: threadsAdvice,
			Message: fmt.Sprintf("%s goroutines are in a system call or a C function at %s%s: each has a thread of its own meanwhile.", words.Rate(inside), atFrame(n.Place()), took)})
	}
}

const threadsAdvice = "Limit how many such calls there are at a time, or use what does not block a thread."

// native names the places where most tasks wait natively.
func (l *linter) native() {
	var at []bgraph.Node
	for _, n := range l.s.Nodes {
		if isPlace(n.Key) && n.Reason == "native" && n.Arrivals > 0 {
			at = append(at, n)
		}
	}
	slices.SortFunc(at, func(a, b bgraph.Node) int {
		return cmp.Or(cmp.Compare(b.Arrivals, a.Arrivals), cmp.Compare(a.Key, b.Key))
	})
	for _, n := range at[:min(len(at), nativePlaces)] {
		rate := words.PerSecond(l.s, n.Arrivals)
		f := Finding{
			Severity: SeverityInfo, Check: CheckNative, Node: n.Key,
			Message: fmt.Sprintf("tasks wait natively here: a loop went on without one %s times, %.3g a second", words.Count(n.Arrivals), rate),
			Advice:  "where speed matters use what package task has instead (Mutex, Chan, Sleep), connections of netpoll, or task.Offload: see docs/libraries.md",
		}
		if n.Wait.Count > 0 {
			mean := n.Wait.Sum.Duration() / time.Duration(n.Wait.Count)
			f.Message += fmt.Sprintf(", for %v on average", mean.Round(time.Microsecond))
		}
		if rate >= nativeRate {
			f.Severity = SeverityWarning
		}
		l.add(float64(n.Arrivals), f)
	}
}
