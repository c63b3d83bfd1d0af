package lint

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Checks of graphs of goroutines only.
const (
	CheckSystemCalls = "system-calls" // steps spend much time in many short system calls
	CheckAssist      = "assist"       // steps help the collector
	CheckStopped     = "stopped"      // the world was stopped for long
	CheckStalled     = "stalled"      // the kernel took processors away
	CheckChurn       = "churn"        // goroutines that live for a moment
	CheckUnfair      = "unfair"       // some wait for a lock far longer than most
	CheckGrowing     = "growing"      // goroutines begin and do not end
	CheckLeaked      = "leaked"       // goroutines that nothing can wake any more
)

const (
	callsLimit   = 10                    // system calls a step
	callsShare   = 0.05                  // of the time of all Ps, in such steps
	assistShare  = 0.05                  // of all CPU time
	assistLeast  = 0.01                  // of the time of all Ps, from which on it is more than a remark
	stoppedLimit = 10 * time.Millisecond // a time
	stoppedOften = 3                     // times: a thread may have had to wait for a processor
	stoppedVery  = 10 * stoppedLimit     // if it happened once
	stoppedShare = 0.02                  // of the time, from which on it is more than a remark
	churnRate    = 10_000                // goroutines a second
	churnLife    = 100 * time.Microsecond
	pingRate     = 1_000 // steps a second
	pingMoves    = 0.5   // to another P in a step
	pingStep     = 20 * time.Microsecond
	moveCost     = 5 * time.Microsecond // to wake a thread and fill the caches of another processor, at a guess
	moveShare    = 0.05                 // of the time of all Ps, from which on it is more than a remark
	handRate     = 100_000              // steps a second that each begin with a value handed over
	handStep     = 2 * time.Microsecond
	handShare    = 0.05 // of the time of all Ps
	unfairFactor = 100  // times the usual wait
	unfairWait   = 10 * time.Millisecond
	leastGrown   = 50   // goroutines
	grownFactor  = 4    // times as many as the rate of starts and the life of the ended goroutines explain
	leastWorked  = 5    // pieces of work of each goroutine, on average, to be a pool of workers
	fullShare    = 0.05 // of the waits or steps of a trace found no room in the graph: from here on that is more than a remark
	takenLimit   = 0.33 // of the CPU time of goroutines, from which on it is more than a remark that the kernel took it
)

// trace makes the checks for which only a trace has the figures.
func (l *linter) trace() {
	if l.s.Kind != bgraph.KindGoroutines {
		return
	}
	room := float64(l.s.Span) * float64(max(len(l.s.Loops), 1))
	var assist bgraph.Nanos
	var handed *bgraph.Edge // most often
	for i := range l.s.Edges {
		e := &l.s.Edges[i]
		assist += e.Parts.Assist
		calls := words.Ratio(float64(e.Parts.Calls), float64(e.Count))
		if !l.pingPong(e, room) && l.handsOver(e, room) && (handed == nil || e.Count > handed.Count) {
			handed = e
		}
		if calls < callsLimit || float64(e.Parts.System) < callsShare*room {
			continue
		}
		l.add(float64(e.Parts.System), Finding{
			Severity: severityIf(l.isOwnStep(e)), Check: CheckSystemCalls, Node: e.From, To: e.To,
			Message: fmt.Sprintf("A step makes %s system calls on average; all together took %v of %v.", words.Rate(calls), e.Parts.System, l.s.Span),
			Advice:  "Read and write larger pieces: a bufio.Reader or Writer where there is none, or a larger one; look at the stack to see which calls these are.",
		})
	}
	l.handedOver(handed)
	if all := words.TotalCPU(l.s); all > 0 && float64(assist) >= assistShare*all && assist >= bgraph.Nanos(time.Millisecond) {
		sure := float64(assist) - l.stalledOf(float64(assist)/all)
		f := Finding{
			Severity: severityIf(sure >= assistLeast*room && sure >= assistShare*(all-float64(l.s.Stalled.Sum))), Check: CheckAssist,
			Message: fmt.Sprintf("Goroutines allocate faster than the collector can keep up with, and spent %s of their CPU time (%v) helping it.", words.Percent(float64(assist)/all), assist),
			Advice:  "Allocate less (a heap profile says where), or give the collector more room: raise GOGC, with GOMEMLIMIT as the bound.",
		}
		if by := l.mostAssisted(); by == nil { // net/http, say: the program allocates less
			f.Severity = SeverityInfo
		} else if by.Line > 0 {
			f.Name, f.At = funcname.Short(by.Function), fmt.Sprintf("%s:%d", by.File, by.Line)
			f.Message = words.At(by.Function, by.File, by.Line) + " allocates most of what goroutines had to help the collector for. " + f.Message
		}
		l.add(1, f)
	}
	if t := &l.s.Stopped; t.Max >= bgraph.Nanos(stoppedLimit) {
		again := t.Count >= stoppedOften && t.Quantile(1-(stoppedOften-0.5)/float64(t.Count)) >= bgraph.Nanos(stoppedLimit) || t.Max >= bgraph.Nanos(stoppedVery)
		l.add(float64(t.Max), Finding{
			Severity: severityIf(again && float64(t.Sum) >= stoppedShare*float64(l.s.Span)), Check: CheckStopped,
			Message: fmt.Sprintf("The world was stopped %s times, once for %v; the mean is %v.", words.Count(t.Count), t.Max, t.Mean()),
			Advice:  "Something keeps the runtime from stopping a goroutine (a long loop without calls, in code that cannot be preempted), or something asks often: runtime.ReadMemStats, GOMAXPROCS, profiles of goroutines. On a machine that is short of processors the kernel does that, too.",
		})
	}
	if t := &l.s.Stalled; words.Stalled(l.s) {
		all := words.TotalCPU(l.s)
		much := float64(t.Sum) >= takenLimit*max(all, float64(l.s.Span))
		lead := ""
		if much {
			lead = fmt.Sprintf("The program is short of processors: of the time in which its goroutines had one, %s was the kernel's, as with a CPU quota. ", words.Percent(words.Ratio(float64(t.Sum), all)))
		}
		l.add(float64(t.Sum), Finding{
			Severity: severityIf(much), Check: CheckStalled,
			Message: lead + fmt.Sprintf("%s a goroutine had a P for 30 ms or longer, at most %v, all together %v, though the Go runtime preempts what runs for 10 ms: the kernel had taken the processor. That time counts as CPU time of steps, and others wait for locks, the collector and their turn meanwhile.",
				words.Plural(int(t.Count), "time"), t.Max, t.Sum),
			Advice: "Look for a limit of CPU time (cpu.max of the container: nr_throttled in its cpu.stat) that is below GOMAXPROCS, and for other programs on the machine. Only a loop that cannot be preempted, of assembly, looks the same.",
		})
	}
	for i := range l.s.Nodes {
		l.unfair(&l.s.Nodes[i])
	}
	l.begun()
}

// stalledOf is how much of the time that the kernel took from steps it can have taken from a share of them, with a probability of 95 %.
func (l *linter) stalledOf(share float64) float64 {
	t := &l.s.Stalled
	likely := share * float64(t.Sum)
	return min(likely+2*float64(t.Mean())*math.Sqrt(float64(t.Count)*share*(1-share)), float64(t.Sum))
}

// mostAssisted is where the program allocated most often when it had to help the collector: not known if it has no line, nil if most of
// it was within the standard library.
func (l *linter) mostAssisted() (most *bgraph.Waker) {
	var own, all uint64
	for i := range l.s.Assists {
		w := &l.s.Assists[i]
		if all += w.Count; w.Line == 0 || funcname.OfStandardLibrary(w.Function) {
			continue
		}
		if own += w.Count; most == nil {
			most = w
		}
	}
	switch {
	case all == 0:
		return &bgraph.Waker{}
	case own < all/2:
		return nil
	}
	return most
}

// begun looks at goroutines by where they begin.
func (l *linter) begun() {
	for i := range l.s.Starts {
		st := &l.s.Starts[i]
		if st.Leaked > 0 && !ofNetHTTP(st.Function) {
			l.add(float64(st.Leaked), Finding{
				// The list of leaked goroutines is younger than the trace: there may be more of them than were there at its end.
				Severity: SeverityError, Check: CheckLeaked, Name: "goroutines of " + funcname.Short(st.Function),
				Message: fmt.Sprintf("%s of the %s goroutines that began here have leaked: nothing that still runs can reach what they wait for.", words.Count(st.Leaked), words.Count(max(uint64(max(st.Now, 0)), st.Leaked))),
				Advice:  "See where they wait (-stacks, or goroutineleak?debug=2 of net/http/pprof): nobody receives from the channel, or closes it, on some path.",
			})
		}
		rate := words.PerSecond(l.s, st.Created)
		// net/http has a goroutine for each request that notices when the client disconnects; a program can't change that. Nor does
		// package sync tell which function of the program it called.
		if rate < churnRate || funcname.OfStandardLibrary(st.Function) || st.Life.Count < minSamples || st.Life.Quantile(0.5) > bgraph.Nanos(churnLife) {
			continue
		}
		l.add(rate, Finding{
			Severity: SeverityInfo, Check: CheckChurn, Name: "goroutines of " + funcname.Short(st.Function),
			Message: fmt.Sprintf("%s goroutines a second begin here, and half of them live for less than %v.", words.Rate(rate), st.Life.Quantile(0.5)),
			Advice:  "If what they do is shorter than what it takes to start one and to wake what waits for it, do it in place, or let a few workers take it from a channel in batches.",
		})
	}
}

// isOwnStep reports whether a step begins or ends where the program waits, or a profile has found it there: else it is one of the
// standard library, about which there is no advice.
func (l *linter) isOwnStep(e *bgraph.Edge) bool {
	for _, k := range []bgraph.Key{e.From, e.To} {
		if n := l.s.Node(k); n != nil && ownPlace(n) != nil {
			return true
		}
	}
	var own, all uint64
	for _, w := range e.Functions {
		if all += w.Count; !funcname.OfStandardLibrary(w.Function) {
			own += w.Count
		}
	}
	return own > all/2
}

// pingPong finds short steps that mostly run on another P than the one before: for each the
// Go runtime woke a thread, and the caches of the other processor were cold.
func (l *linter) pingPong(e *bgraph.Edge, room float64) bool {
	rate, moves := words.PerSecond(l.s, e.Count), words.Ratio(float64(e.Parts.Moves), float64(e.Count))
	n := l.s.Node(e.From)
	if rate < pingRate || moves < pingMoves || e.MeanCPU() > bgraph.Nanos(pingStep) || !wokenInProgram(n) {
		return false
	}
	l.add(rate*moves, Finding{
		Severity: severityIf(float64(e.Parts.Moves)*float64(moveCost) >= moveShare*room), Check: CheckPingPong, Node: e.From, To: e.To,
		Message: fmt.Sprintf("A step takes %v, and %s of them a second run on another P than the one before, woken by %s: to hand the work over costs more than the work.",
			e.MeanCPU(), words.Rate(rate*moves), words.Waker(&n.Wakers[0])),
		Advice: handAdvice,
	})
	return true
}

// timedChecks are the checks whose findings may be the kernel's doing, if it has taken processors away.
var timedChecks = []string{CheckLongStep, CheckConvoy, CheckStarvation, CheckSaturated, CheckUnbalanced, CheckStopped, CheckUnfair}

// severityIf is that of what matters only if there is much of it.
func severityIf(much bool) string {
	if much {
		return SeverityWarning
	}
	return SeverityInfo
}

const handAdvice = "Hand over several pieces at a time (slices, or a channel with a buffer), or do the work where it comes up."

// handedOver speaks of such a step, if there is one.
func (l *linter) handedOver(e *bgraph.Edge) {
	if e == nil {
		return
	}
	by := l.s.Node(e.From).Wakers[0]
	l.add(float64(e.Count), Finding{
		Severity: SeverityInfo, Check: CheckPingPong, Node: e.From, To: e.To,
		Message: fmt.Sprintf("A step takes %v, and %s of them a second begin with being woken by %s: to hand the work over costs as much as the work.",
			e.MeanCPU(), words.Rate(words.PerSecond(l.s, e.Count)), words.Waker(&by)),
		Advice: handAdvice,
	})
}

// handsOver reports whether much time goes into very short steps that other goroutines wake.
func (l *linter) handsOver(e *bgraph.Edge, room float64) bool {
	n := l.s.Node(e.From)
	return words.PerSecond(l.s, e.Count) >= handRate && e.MeanCPU() <= bgraph.Nanos(handStep) && words.EdgeCPU(e) >= handShare*room &&
		wokenInProgram(n)
}

// wokenInProgram reports whether goroutines wake those at n, and the program can change that.
func wokenInProgram(n *bgraph.Node) bool {
	if n == nil || len(n.Wakers) == 0 || n.Wakers[0].Function == "" {
		return false
	}
	return ownPlace(n) != nil || len(n.Stack) == 0
}

// unfair finds locks for which some wait far longer than most.
func (l *linter) unfair(n *bgraph.Node) {
	usual, p99 := n.Wait.Quantile(0.5), n.Wait.Quantile(0.99)
	if !isPlace(n.Key) || l.foreign(n) || !slices.Contains(lockWaits, n.Reason) || n.Wait.Count < minSamples ||
		p99 < bgraph.Nanos(unfairWait) || p99/unfairFactor < usual {
		return
	}
	l.add(float64(p99), Finding{
		Severity: SeverityWarning, Check: CheckUnfair, Node: n.Key,
		Message: fmt.Sprintf("Half of those that wait here have the lock within %v, but one in a hundred waits for %v or more, at most %v: those that come later take it first.",
			usual, p99, n.Wait.Max),
		Advice: "Something takes the lock again right after it gave it back, or keeps it for long now and then. Do less while it is held, or let a queue decide what is next.",
	})
}
