package lint

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// CheckQueue finds goroutines that wait for a few others that are always busy.
const CheckQueue = "queue"

const (
	leastQueue  = 3    // goroutines on average
	leastServed = 20   // waits that ended
	wakerShare  = 0.6  // of the waits that one function ended, to be the one that they wait for
	manyToOne   = 2    // times as many wait as serve
	alwaysBusy  = 0.85 // of the time
	oneHolds    = 0.7  // goroutines on average, or one divided by that: a lock has one holder at a time
)

// queues finds waits of goroutines for others that are always busy: what holds a lock, what receives from a channel, what
// answers on one.
func (l *linter) queues() {
	if l.s.Kind != bgraph.KindGoroutines {
		return
	}
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		waiting := l.occupancy(n)
		if !isPlace(n.Key) || waiting < leastQueue || n.Departures < leastServed || n.Wait.Count == 0 || ownPlace(n) == nil {
			continue
		}
		switch by, share := waker(n); {
		case n.Reason == "pool":
			l.poolQueue(n, waiting)
		case slices.Contains(lockWaits, n.Reason):
			l.lockQueue(n, waiting, by)
		case by.Function == "" || share < wakerShare: // timers and the network are no servers
		case slices.Contains([]string{"channel send", "channel receive", "select", "cond"}, n.Reason):
			if !l.serverQueue(n, waiting, by) && n.Reason == "channel send" {
				l.slotQueue(n, waiting, by)
			}
		}
	}
}

func (l *linter) poolQueue(n *bgraph.Node, waiting float64) {
	if waiting < convoyTasks {
		return
	}
	l.convoys[n.Key] = true
	if l.dialled(n, waiting) {
		return
	}
	l.addTimed(waiting, n.Wait.Sum, Finding{Severity: SeverityWarning, Check: CheckConvoy, Node: n.Key, Advice: poolAdvice(n),
		Message: fmt.Sprintf("All connections of the pool are in use at %s: %s goroutines wait for one, each for %v. %s get one in a second.",
			atFrame(n.Place()), words.Rate(waiting), n.MeanWait(), words.Rate(words.PerSecond(l.s, n.Departures)))})
}

// ofClient reports whether requests of net/http's client wait at n for a connection.
func ofClient(n *bgraph.Node) bool {
	return slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool { return f.Function == "net/http.(*Transport).getConn" })
}

// dialled reports whether requests of net/http's client wait at n for connections that are being made, rather than for some in use, and
// says so: each request makes a connection of its own.
func (l *linter) dialled(n *bgraph.Node, waiting float64) bool {
	if !ofClient(n) {
		return false
	}
	in := 0.0
	var most *bgraph.Node // where those that make connections mostly wait
	for i := range l.s.Nodes {
		if m := &l.s.Nodes[i]; strings.HasPrefix(startOf(m), "net/http.(*Transport).") && strings.Contains(startOf(m), "ialConn") {
			if in += l.occupancy(m); most == nil || l.occupancy(m) > l.occupancy(most) {
				most = m
			}
		}
	}
	if in < waiting/2 {
		return false
	}
	f := Finding{Severity: SeverityInfo, Check: CheckDependency, Node: n.Key, At: fileLine(n.Place()),
		Message: fmt.Sprintf("Requests of %s wait for new connections: %s a second are made, and %s requests wait for one, each for %v",
			atFrame(n.Place()), words.Rate(words.PerSecond(l.s, n.Departures)), words.Rate(waiting), n.MeanWait()),
		Advice: "Keep connections: let all requests share one http.Client, read the body of each response to its end and close it, and raise MaxIdleConnsPerHost."}
	if lookup(most) {
		f.Severity = SeverityWarning
		f.Message += fmt.Sprintf(", of which %v are for looking up the name (DNS)", most.MeanWait())
		f.Advice += " Use a resolver that is near and caches."
	}
	f.Message += "."
	l.add(waiting, f)
	return true
}

// A holding is a wait in a function that holds something.
type holding struct {
	n      *bgraph.Node
	frame  *bgraph.Frame
	callee string
	in     float64 // goroutines there on average
}

// holdings are the waits of a function before the line where it gives back what others wait for at n, where most time goes first.
func (l *linter) holdings(n *bgraph.Node, by *bgraph.Waker) (all []holding) {
	taken := 0
	if f, _ := frameOf(n, by.Function); f != nil && f.Function == by.Function {
		taken = f.Line
	}
	for i := range l.s.Nodes {
		m := &l.s.Nodes[i]
		f, callee := frameOf(m, by.Function)
		if f == nil || m == n || f.Function == by.Function && (f.Line > by.Line || f.Line < taken) || slices.Contains(lockWaits, m.Reason) && lockOwner(m) == lockOwner(n) {
			continue
		}
		if in := l.occupancy(m); in > 0 && (m.Departures > 0 || m.Now > 0) {
			all = append(all, holding{m, f, callee, in})
		}
	}
	slices.SortStableFunc(all, func(a, b holding) int { return cmp.Compare(b.in, a.in) })
	return all
}

// lockQueue finds which code holds the lock that many tasks wait for at n.
func (l *linter) lockQueue(n *bgraph.Node, waiting float64, by bgraph.Waker) {
	if waiting < convoyTasks && n.Reason != "rwmutex read" && n.Reason != "rwmutex write" {
		return
	}
	place := n.Place()
	if by.Function == "" || funcname.OfStandardLibrary(by.Function) {
		by = bgraph.Waker{Function: place.Function, File: place.File, Line: place.Line}
	}
	by = l.longestHolder(n, by)
	ran, system := l.after(n)
	if by.Function == place.Function && n.MeanWait() < convoyFactor/2*(ran+system) {
		return // it is taken again and again, by few
	}
	l.convoys[n.Key] = true
	f := Finding{Severity: SeverityWarning, Check: CheckConvoy, Node: n.Key, Advice: "Do less while the lock is held, or use several locks, one for each part of what it guards."}
	what := "its " + lockWord(n)
	if owner := lockOwner(n); owner != "" {
		what = "the " + lockWord(n) + " of " + owner
	}
	slot := l.s.Span / bgraph.Nanos(max(n.Departures, 1))
	held := l.holdings(n, &by)
	for i := 0; len(held) == 0 && i < len(n.Stack) && slot >= convoyFactor*(ran+system); i++ { // a function that others lock by
		outer := &n.Stack[i]
		if declared(outer.Function) == declared(place.Function) || funcname.OfStandardLibrary(outer.Function) {
			continue
		}
		all := l.holdings(n, &bgraph.Waker{Function: outer.Function, Line: math.MaxInt})
		if len(all) > 0 && all[0].in >= oneHolds && all[0].in <= 1/oneHolds {
			held = all
		}
	}
	var lead string
	switch {
	case len(held) > 0 && held[0].in >= 0.1 && held[0].n.MeanWait() >= ran+system:
		h := held[0]
		f.At = fileLine(h.frame)
		f.To = h.n.Key
		lead = fmt.Sprintf("%s holds %s while it %s, for %v each time", atFrame(h.frame), what, doing(h.n, h.callee), max(h.n.MeanWait(), l.perHold(h, slot)))
		f.Advice = "Release the lock before that wait, or use several locks, one for each part of what it guards."
	case system > ran:
		lead = fmt.Sprintf("%s holds %s while it makes system calls, for %v each time", atFrame(place), what, min(slot, system))
	default:
		lead = fmt.Sprintf("%s holds %s while it computes, for %v each time", atFrame(place), what, ran)
	}
	f.Message = fmt.Sprintf("%s; %s goroutines queue for it at %s. Each waits for %v, at most %v; %s a second get it.",
		lead, words.Rate(waiting), atFrame(place), n.MeanWait(), n.Wait.Max, words.Rate(words.PerSecond(l.s, n.Departures)))
	f.Name = l.name(n.Key)
	l.addTimed(waiting, n.Wait.Sum, f)
}

// perHold is how long a holder is in the wait, which it may enter several times, each time that a lock changes hands.
func (l *linter) perHold(h holding, slot bgraph.Nanos) bgraph.Nanos {
	return words.Nanos(h.in * float64(slot))
}

// longestHolder is the function that has the lock at n for most of the time while it waits, of all functions that end waits for the lock:
// a function that has it for a moment may end most of the waits, though another one caused them. Readers of an RWMutex often wait for a
// writer that waits for a reader.
func (l *linter) longestHolder(n *bgraph.Node, by bgraph.Waker) bgraph.Waker {
	longest := 0.0
	for i := range l.s.Nodes {
		m := &l.s.Nodes[i]
		if m != n && !(strings.HasPrefix(n.Reason, "rwmutex") && strings.HasPrefix(m.Reason, "rwmutex") && lockOwner(m) == lockOwner(n)) {
			continue
		}
		for _, w := range m.Wakers {
			if w.Function == "" || funcname.OfStandardLibrary(w.Function) {
				continue
			}
			if held := l.holdings(m, &w); len(held) > 0 && held[0].in > longest {
				longest, by = held[0].in, w
			}
		}
	}
	return by
}

func lockWord(n *bgraph.Node) string {
	switch {
	case strings.HasPrefix(n.Reason, "rwmutex"):
		return "RWMutex"
	case n.Reason == "semaphore":
		return "semaphore"
	}
	return "mutex"
}

// after is what a step from n takes on average: running, and in short system calls.
func (l *linter) after(n *bgraph.Node) (ran, system bgraph.Nanos) {
	var steps, cpu, calls float64
	for _, e := range l.from(n.Key) {
		steps += float64(e.Count)
		cpu += float64(e.TotalCPU())
		calls += float64(e.Parts.System)
	}
	return words.Nanos(words.Ratio(cpu, steps)), words.Nanos(words.Ratio(calls, steps))
}

// serverQueue finds that what goroutines wait for at n is done by few others, and these are always busy.
func (l *linter) serverQueue(n *bgraph.Node, waiting float64, by bgraph.Waker) bool {
	start := l.serversOf(n, &by)
	if start == nil {
		return false
	}
	servers, idle := float64(start.Now), 0.0
	var most *holding
	for i := range l.s.Nodes {
		m := &l.s.Nodes[i]
		if startOf(m) != start.Function {
			continue
		}
		in := l.occupancy(m)
		f, callee := frameOf(m, by.Function)
		if callee == "" && slices.Contains(idleOrSelect, m.Reason) || calls(m) == nil && slices.Contains(idleOrSelect, m.Reason) && f == nil {
			idle += in
		} else if f != nil && (most == nil || in > most.in) {
			most = &holding{m, f, callee, in}
		}
	}
	if waiting < manyToOne*servers || idle > (1-alwaysBusy)*servers {
		return false
	}
	each := words.Nanos(servers * float64(l.s.Span) / float64(n.Departures))
	who := words.Plural(int(start.Now), "goroutine") + " of " + funcname.Short(start.Function)
	verb := "serve"
	if start.Now == 1 {
		verb = "serves"
	}
	what := fmt.Sprintf("computes in %s", words.At(by.Function, by.File, by.Line))
	f := Finding{Severity: SeverityWarning, Check: CheckQueue, Node: n.Key, At: by.File + fmt.Sprintf(":%d", by.Line),
		Advice: "Start more of them, make each piece cheaper, or hand over several pieces at a time; if their number is meant, turn work away earlier."}
	if most != nil && most.in >= 0.3*servers {
		f.At, f.To = fileLine(most.frame), most.n.Key
		what = fmt.Sprintf("%s at %s", doing(most.n, most.callee), atFrame(most.frame))
	}
	f.Message = fmt.Sprintf("%s %s %s that wait at %s, and %s always busy: each piece takes %v, in which it %s. A goroutine waits for %v on average; %s pieces a second are done.",
		who, verb, words.Rate(waiting), atFrame(n.Place()), isAre(start.Now), each, what, n.MeanWait(), words.Rate(words.PerSecond(l.s, n.Departures)))
	f.Name = l.name(n.Key)
	l.convoys[n.Key] = true
	l.blamed[start.Function] = true
	l.addTimed(waiting, n.Wait.Sum, f)
	return true
}

func isAre(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// idleOrSelect are waits of goroutines for work.
var idleOrSelect = []string{"channel receive", "select", "cond", "semaphore"}

// serversOf returns the goroutines that end the waits at n, if they are long-lived workers of another kind than the waiting
// goroutines; else nil.
func (l *linter) serversOf(n *bgraph.Node, by *bgraph.Waker) *bgraph.Start {
	var found *bgraph.Start
	for i := range l.s.Starts {
		st := &l.s.Starts[i]
		if st.Now <= 0 || st.Created > uint64(st.Now)/2 || st.Function == startOf(n) || ofNetHTTP(st.Function) {
			continue
		}
		runs := declared(st.Function) == declared(by.Function) || slices.ContainsFunc(l.s.Nodes, func(m bgraph.Node) bool {
			f, _ := frameOf(&m, by.Function)
			return f != nil && startOf(&m) == st.Function
		})
		if runs && (found == nil || st.CPU > found.CPU) {
			found = st
		}
	}
	return found
}

// slotQueue finds a channel that lets few goroutines through at a time, as a semaphore does.
func (l *linter) slotQueue(n *bgraph.Node, waiting float64, by bgraph.Waker) {
	own := n.Place()
	if f, _ := frameOf(n, by.Function); f == nil {
		return
	}
	var most *holding
	inside := 0.0
	for i := range l.s.Nodes {
		m := &l.s.Nodes[i]
		if f, callee := frameOf(m, by.Function); f != nil && m != n {
			in := l.occupancy(m)
			if inside += in; most == nil || in > most.in {
				most = &holding{m, f, callee, in}
			}
		}
	}
	if most == nil || inside < 0.5 || waiting < manyToOne*inside {
		return
	}
	l.convoys[n.Key] = true
	l.addTimed(waiting, n.Wait.Sum, Finding{Severity: SeverityWarning, Check: CheckQueue, Node: n.Key, To: most.n.Key, Name: l.name(n.Key), At: fileLine(most.frame),
		Message: fmt.Sprintf("%s lets %.0f goroutines through at a time, and the limit is always reached: %s wait at %s, each for %v. A goroutine inside %s, for %v.",
			funcname.Short(declared(own.Function)), inside, words.Rate(waiting), atFrame(own), n.MeanWait(), doing(most.n, most.callee), most.n.MeanWait()),
		Advice: "If the limit is not meant to be that low, raise it; else do less inside, or turn work away earlier."})
}

func fileLine(f *bgraph.Frame) string {
	if f.File == "" || f.Line <= 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", f.File, f.Line)
}

// streams finds requests that wait for a stream of an HTTP/2 connection.
func (l *linter) streams() {
	slots := 0.0
	for i := range l.s.Nodes {
		if n := &l.s.Nodes[i]; n.Reason == "stream" {
			slots += l.occupancy(n)
		}
	}
	if slots < 0.5 { // there are slots for half of the time
		return
	}
	var most *bgraph.Node
	for i := range l.s.Nodes {
		n := &l.s.Nodes[i]
		through := slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool { return strings.HasPrefix(funcname.OfHTTP2(f.Function), "(*ClientConn).") })
		if through && ownPlace(n) != nil && (most == nil || l.occupancy(n) > l.occupancy(most)) {
			most = n
		}
	}
	if most == nil || l.occupancy(most) < leastQueue {
		return
	}
	by := l.caller(most)
	took := fmt.Sprintf("each for %v", most.MeanWait())
	if most.Departures == 0 {
		took = "and none was answered in " + l.s.Span.String()
	}
	f := Finding{Severity: SeverityWarning, Check: CheckQueue, Node: most.Key, At: fileLine(by),
		Message: fmt.Sprintf("Requests of %s wait for a stream of their HTTP/2 connection, of which the other side allows few at a time: %s wait or are answered, %s.",
			atFrame(by), words.Rate(l.occupancy(most)), took),
		Advice: "Use more connections (several transports, or HTTP/1), or have the server allow more streams (MaxConcurrentStreams)."}
	l.convoys[most.Key] = true
	l.add(l.occupancy(most), f)
}
