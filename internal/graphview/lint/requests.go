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

// Checks of what requests of net/http do.
const (
	CheckRepeated   = "repeated-calls"  // a request calls the same again and again
	CheckDependency = "slow-dependency" // requests spend nearly all of their time in one call
)

const (
	leastRequests = 20  // to speak of one
	repeatedCalls = 10  // in a request
	repeatedShare = 0.3 // of the time of requests
	slowShare     = 0.8 // of the time of requests
	slowFactor    = 4   // times the next
	usualWait     = 0.2 // of the times that calls wait most often, to be a wait of each call
)

// A dependency is a call of the program that waits for the outside world.
type dependency struct {
	n     *bgraph.Node // where most of the time goes
	frame *bgraph.Frame
	count uint64       // calls
	wait  bgraph.Nanos // in all
	ended []uint64     // waits, of each of its kinds
}

// requests looks at where those of net/http spend their time.
func (l *linter) requests() {
	if l.s.Kind != bgraph.KindGoroutines {
		return
	}
	replies := words.Requests(l.s)
	if replies < leastRequests {
		return
	}
	var all bgraph.Nanos // time of requests
	for i := range l.s.Nodes {
		if n := &l.s.Nodes[i]; served(n) {
			all += n.Wait.Sum
		}
	}
	each := all / bgraph.Nanos(replies)
	deps := l.dependencies()
	for _, d := range deps {
		times := float64(d.count) / float64(replies)
		if times < repeatedCalls || !served(d.n) || float64(d.wait) < repeatedShare*float64(all) {
			continue
		}
		l.convoys[d.n.Key] = true
		l.add(float64(d.wait), Finding{Severity: SeverityWarning, Check: CheckRepeated, Node: d.n.Key, Name: l.name(d.n.Key), At: fileLine(l.caller(d.n)),
			Message: fmt.Sprintf("Each request calls %s %.0f times, one call after the other: that takes %v of the %v that it waits.",
				callName(l, d.n), times, d.wait/bgraph.Nanos(replies), each),
			Advice: "Ask for all of them at once: a query with IN or a join, a batch, a cache; or ask at the same time."})
	}
	l.slowDependency(deps, replies, each)
}

// caller is the frame that calls the place of n, if the program has one, or else the place: a helper that does all calls of a kind
// says little.
func (l *linter) caller(n *bgraph.Node) *bgraph.Frame {
	path, _ := words.Frames(n, 2)
	for _, f := range path {
		if !strings.HasPrefix(declared(f.Function), "main.main") && !isHandler(n, &f) {
			return &f
		}
	}
	return n.Place()
}

// isHandler reports whether f is called by net/http, as the outermost of the program.
func isHandler(n *bgraph.Node, f *bgraph.Frame) bool {
	for i := range n.Stack {
		if n.Stack[i].Function == f.Function && n.Stack[i].Line == f.Line {
			return i+1 < len(n.Stack) && ofNetHTTP(n.Stack[i+1].Function)
		}
	}
	return false
}

// callName names the call at n: the called function and the function that calls it.
func callName(l *linter, n *bgraph.Node) string {
	f := l.caller(n)
	if place := n.Place(); place.Function != f.Function || place.Line != f.Line {
		return funcname.Short(place.Function) + " in " + atFrame(f)
	}
	if _, callee := words.Frames(n, 1); callee != "" {
		return funcname.Short(callee) + " in " + atFrame(f)
	}
	return atFrame(f)
}

// dependencies are the calls of a program that wait for the outside world, where most time goes first. Waits at one place, by one
// path, are one call.
func (l *linter) dependencies() (all []dependency) {
	find := map[string]int{}
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		f := calls(n)
		if f == nil || n.Departures == 0 || slices.Contains(lockWaits, n.Reason) || n.Reason == "accept" || l.convoys[n.Key] {
			continue
		}
		key := f.Function
		if path, _ := words.Frames(n, 3); len(path) > 0 {
			for _, p := range path[:len(path)-1] { // waits on several lines of its function are of one call
				key += fmt.Sprintf(" %s:%d", p.Function, p.Line)
			}
		}
		at, ok := find[key]
		if !ok {
			at = len(all)
			find[key] = at
			all = append(all, dependency{n: n, frame: f})
		}
		d := &all[at]
		d.wait += n.Wait.Sum
		d.ended = append(d.ended, n.Departures)
		if n.Wait.Sum >= d.n.Wait.Sum {
			d.n = n
		}
	}
	for i := range all {
		all[i].count = callsOf(all[i].ended)
	}
	slices.SortStableFunc(all, func(a, b dependency) int { return cmp.Compare(b.wait, a.wait) })
	return all
}

// callsOf is how many calls there were that waited so often in several ways: a call waits at least once in each way, but for ways that few
// calls come to.
func callsOf(ended []uint64) uint64 {
	most := slices.Max(ended)
	calls := most
	for _, n := range ended {
		if float64(n) >= usualWait*float64(most) {
			calls = min(calls, n)
		}
	}
	return calls
}

// slowDependency finds the call that takes nearly all of the time of requests.
func (l *linter) slowDependency(deps []dependency, replies uint64, each bgraph.Nanos) {
	deps = slices.DeleteFunc(slices.Clone(deps), func(d dependency) bool { return !l.inRequests(d.n, replies) })
	if len(deps) == 0 || each <= 0 {
		return
	}
	d := deps[0]
	mean := d.wait / bgraph.Nanos(max(d.count, 1))
	share := min(float64(d.wait)/float64(replies)/float64(each), 1)
	if share < slowShare || d.count < replies/2 || mean < bgraph.Nanos(l.o.step)/2 || slices.ContainsFunc(l.found, func(f graded) bool { return f.Check == CheckRepeated }) {
		return
	}
	names := lookup(d.n)
	f := Finding{Severity: SeverityInfo, Check: CheckDependency, Node: d.n.Key, Name: l.name(d.n.Key), At: fileLine(l.caller(d.n)),
		Message: fmt.Sprintf("Requests spend %s of their time in %s: %v of %v.", words.Percent(share), callName(l, d.n), d.wait/bgraph.Nanos(replies), each),
		Advice:  "See why that is slow, give it a time limit, or answer without it."}
	var next bgraph.Nanos
	if len(deps) > 1 {
		next = deps[1].wait / bgraph.Nanos(max(deps[1].count, 1))
		f.Message += fmt.Sprintf(" The next, %s, takes %v.", callName(l, deps[1].n), next)
	}
	switch {
	case names:
		f.Severity = SeverityWarning
		f.Message = "Names are looked up (DNS) for each request. " + f.Message
		f.Advice = "Keep connections or addresses, so that names are looked up seldom; use a resolver that is near and caches."
	case next > 0 && mean >= slowFactor*next:
		f.Severity = SeverityWarning
	case d.n.Reason == "system call":
		if l.occupancy(d.n) >= 2*float64(max(len(l.s.Loops), 1)) {
			f.Severity = SeverityWarning
		}
		f.Message += fmt.Sprintf(" It is a system call or a C function: each of the %s goroutines there has a thread of its own meanwhile.", words.Rate(l.occupancy(d.n)))
		f.Advice = threadsAdvice
	}
	l.add(float64(d.wait), f)
}

// inRequests reports whether requests wait at n, or goroutines that they start: not clients in the same process, say.
func (l *linter) inRequests(n *bgraph.Node, replies uint64) bool {
	return served(n) || !slices.ContainsFunc(l.s.Starts, func(st bgraph.Start) bool { return st.Function == startOf(n) && st.Created < replies/2 })
}

// lookup reports whether a name is looked up at n.
func lookup(n *bgraph.Node) bool {
	return slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool { return strings.HasPrefix(f.Function, "net.(*Resolver).") })
}
