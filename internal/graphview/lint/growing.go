package lint

import (
	"fmt"
	"slices"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// leftBehind finds places where more goroutines begin than end, and the goroutines wait for others.
func (l *linter) leftBehind() {
	if l.s.Kind != bgraph.KindGoroutines {
		return
	}
	for i := range l.s.Starts {
		l.growing(&l.s.Starts[i])
	}
}

func (l *linter) growing(st *bgraph.Start) {
	grown := float64(st.Created) - float64(st.Ended)
	expected := words.PerSecond(l.s, st.Ended) * st.Life.Mean().Duration().Seconds() // Little's law
	if grown < leastGrown || float64(st.Now) < grown || float64(st.Now) < grownFactor*expected {
		return
	}
	var at *bgraph.Node // where most of them wait
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		if startOf(n) == st.Function && n.Now > 0 && (at == nil || n.Now > at.Now) {
			at = n
		}
	}
	f := Finding{Severity: SeverityWarning, Check: CheckGrowing, Name: "goroutines of " + funcname.Short(st.Function), At: fileLine(&bgraph.Frame{File: st.File, Line: st.Line})}
	ends := "none ends"
	if st.Ended > 0 {
		ends = words.Percent(grown/float64(st.Created)) + " of them do not end"
	}
	where := atFrame(&bgraph.Frame{Function: st.Function, File: st.File, Line: st.Line})
	leads := "Goroutine leak: "
	if at == nil || !slices.Contains(innerWaits, at.Reason) || float64(at.Now) < grown/2 || l.newConnections() >= grown/2 {
		if grown < 2*leastGrown {
			return
		}
		f.Severity, leads = SeverityInfo, ""
	}
	f.Message = fmt.Sprintf("%s%s a second are created at %s and %s", leads, words.Rate(words.PerSecond(l.s, st.Created)), where, ends)
	if at != nil {
		f.Node = at.Key
		f.Message += fmt.Sprintf("; %s wait at %s", words.Count(at.Now), l.name(at.Key))
		if own := at.Place(); own != nil {
			f.Message += " (" + words.Position(own.File, own.Line) + ")"
		}
		f.Message += leftWhy[at.Reason]
	}
	f.Message += fmt.Sprintf(". In %v %s began and %s ended; now there are %s.", l.s.Span, words.Count(st.Created), words.Count(st.Ended), words.Count(st.Now))
	f.Advice = "Give that wait an end on every path: a context, a closed channel, room in the channel for what is sent."
	if f.Severity == SeverityInfo {
		f.Advice = "A server whose clients have just connected looks like this. If their number does not come to rest, they leak: give where they wait an end, such as a deadline."
	} else {
		l.convoys[at.Key] = true
	}
	l.add(grown, f)
}

// innerWaits are for other goroutines, and can be for ever.
var innerWaits = []string{"channel send", "channel receive", "select", "cond", "waitgroup", "mutex", "rwmutex read", "rwmutex write", "semaphore", "pool", "once"}

// leftWhy says what is missing where goroutines are left behind.
var leftWhy = map[string]string{
	"channel send":    ", where the receiver has gone",
	"channel receive": ", where nothing is sent and the channel is not closed",
	"select":          ", where none of the cases happens",
}

// newConnections is how many more goroutines than before wait for clients. Each may have started others.
func (l *linter) newConnections() (grown float64) {
	for i := range l.s.Starts {
		st := &l.s.Starts[i]
		reads := slices.ContainsFunc(l.s.Nodes, func(n bgraph.Node) bool { return n.Reason == "read" && n.Now > 0 && startOf(&n) == st.Function })
		if reads {
			grown = max(grown, float64(st.Created)-float64(st.Ended))
		}
	}
	return grown
}
