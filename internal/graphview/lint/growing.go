package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
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
	if st.Function == "net/http.(*persistConn).readLoop" && at != nil && at.Reason == "select" && float64(at.Now) >= grown/2 {
		l.leftOpen(st)
	}
	begins := &bgraph.Frame{Function: st.Function, File: st.File, Line: st.Line}
	if funcname.OfStandardLibrary(st.Function) && at != nil && ownPlace(at) != nil { // which only calls what the program gave it
		begins = cmp.Or(words.Outermost(at.Stack), at.Place())
	}
	library := funcname.OfStandardLibrary(begins.Function)
	if library && !slices.ContainsFunc(leftByCalls, func(pkg string) bool { return strings.HasPrefix(begins.Function, pkg) }) {
		if st.Function == "net/http.(*conn).serve" && grown >= 2*leastGrown {
			l.add(grown, Finding{Severity: SeverityInfo, Check: CheckGrowing, Name: "connections of clients", Advice: clientsAdvice,
				Message: fmt.Sprintf("%s connections a second come and %s of them stay; now there are %s.",
					words.Rate(words.PerSecond(l.s, st.Created)), words.Percent(grown/float64(st.Created)), words.Count(st.Now))})
		}
		return
	}
	f := Finding{Severity: SeverityWarning, Check: CheckGrowing, Name: "goroutines of " + funcname.Short(begins.Function), At: fileLine(begins)}
	ends := "none ends"
	if st.Ended > 0 {
		ends = words.Percent(grown/float64(st.Created)) + " of them do not end"
	}
	where := atFrame(begins)
	leads := "Goroutine leak: "
	pool := at != nil && isPool(st, at)
	if at == nil || !slices.Contains(innerWaits, at.Reason) || float64(at.Now) < grown/2 || l.newConnections() >= grown/2 || pool {
		if grown < 2*leastGrown || library {
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
		if at.Departures <= st.Created {
			f.Message += leftWhy[at.Reason]
		}
	}
	f.Message += fmt.Sprintf(". In %v %s began and %s ended; now there are %s.", l.s.Span, words.Count(st.Created), words.Count(st.Ended), words.Count(st.Now))
	switch {
	case pool:
		f.Advice = workersAdvice
	case f.Severity == SeverityInfo:
		f.Advice = clientsAdvice
	default:
		l.convoys[at.Key] = true
		f.Advice = "Give that wait an end on every path: a context, a closed channel, room in the channel for what is sent."
		if library {
			f.Advice = libraryAdvice
		}
	}
	l.add(grown, f)
}

const workersAdvice = "A pool of workers that has just begun looks like this. If their number does not come to rest, they leak: stop them when their work is over."

// isPool reports whether the goroutines of st look like workers that have begun within the trace: most of them stay, and other
// goroutines have given them work at n again and again.
func isPool(st *bgraph.Start, n *bgraph.Node) bool {
	by, _ := waker(n)
	return by.Function != "" && st.Ended < st.Created/2 && n.Departures >= leastWorked*st.Created
}

const clientsAdvice = "A server whose clients have just connected looks like this. If their number does not come to rest, they leak: give where they wait an end, such as a deadline."

// leftByCalls are packages of the standard library that start goroutines which stay until the program ends what it has begun there.
var leftByCalls = []string{"context.", "database/sql.", "os/exec.", "os/signal."}

const libraryAdvice = "The standard library starts them for calls of the program: end on every path what these began, by Commit or Rollback, Close, Wait, or the cancel function of the context."

// leftOpen speaks of connections of net/http's client. Each has a goroutine of st, which waits until a response is read to its end.
func (l *linter) leftOpen(st *bgraph.Start) {
	var calls *bgraph.Node // where most requests are made
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		asks := slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool { return f.Function == "net/http.(*Transport).RoundTrip" })
		if asks && ownPlace(n) != nil && (calls == nil || n.Departures > calls.Departures) {
			calls = n
		}
	}
	if calls == nil {
		return
	}
	l.add(float64(st.Created-st.Ended), Finding{Severity: SeverityWarning, Check: CheckGrowing, Node: calls.Key, At: fileLine(calls.Place()),
		Message: fmt.Sprintf("Connections stay open: the requests of %s open %s a second, and %s of %s are not closed; now there are %s.", atFrame(calls.Place()),
			words.Rate(words.PerSecond(l.s, st.Created)), words.Count(st.Created-st.Ended), words.Count(st.Created), words.Count(st.Now)),
		Advice: "Read the body of each response to its end and close it, on every path, and let all requests share one http.Client."})
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
