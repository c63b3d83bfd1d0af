package graphview

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
)

// Checks of graphs of goroutines only.
const (
	CheckSystemCalls = "system-calls" // steps spend much time in many short system calls
	CheckAssist      = "assist"       // steps help the collector
	CheckStopped     = "stopped"      // the world was stopped for long
	CheckChurn       = "churn"        // goroutines that live for a moment
)

const (
	callsLimit   = 10                    // system calls a step
	callsShare   = 0.05                  // of the time of all Ps, in such steps
	assistShare  = 0.05                  // of all CPU time
	stoppedLimit = 10 * time.Millisecond // a time
	churnRate    = 10_000                // goroutines a second
	churnLife    = 100 * time.Microsecond
)

// trace makes the checks for which only a trace has the figures.
func (l *linter) trace() {
	if l.s.Kind != bgraph.KindGoroutines {
		return
	}
	room := float64(l.s.Span) * float64(max(len(l.s.Loops), 1))
	var assist bgraph.Nanos
	for i := range l.s.Edges {
		e := &l.s.Edges[i]
		assist += e.Parts.Assist
		calls := ratio(float64(e.Parts.Calls), float64(e.Count))
		if calls < callsLimit || float64(e.Parts.System) < callsShare*room {
			continue
		}
		l.add(float64(e.Parts.System), Finding{
			Severity: SeverityWarning, Check: CheckSystemCalls, Node: e.From, To: e.To,
			Message: fmt.Sprintf("A step makes %s system calls on average; all together took %v of %v.", rateText(calls), e.Parts.System, l.s.Span),
			Advice:  "Read and write larger pieces: a bufio.Reader or Writer where there is none, or a larger one; look at the stack to see which calls these are.",
		})
	}
	if all := totalCPU(l.s); all > 0 && float64(assist) >= assistShare*all && assist >= bgraph.Nanos(time.Millisecond) {
		l.add(float64(assist), Finding{
			Severity: SeverityWarning, Check: CheckAssist,
			Message: fmt.Sprintf("Goroutines spent %s of their CPU time (%v) helping the collector, because they allocate faster than it can keep up with.", percentText(float64(assist)/all), assist),
			Advice:  "Allocate less (a heap profile says where), or give the collector more room: raise GOGC, with GOMEMLIMIT as the bound.",
		})
	}
	if t := &l.s.Stopped; t.Max >= bgraph.Nanos(stoppedLimit) {
		l.add(float64(t.Max), Finding{
			Severity: SeverityWarning, Check: CheckStopped,
			Message: fmt.Sprintf("The world was stopped %s times, once for %v; the mean is %v.", countText(t.Count), t.Max, t.Mean()),
			Advice:  "Something keeps the runtime from stopping a goroutine (a long loop without calls, in code that cannot be preempted), or something asks often: runtime.ReadMemStats, GOMAXPROCS, profiles of goroutines.",
		})
	}
	for i := range l.s.Starts {
		st := &l.s.Starts[i]
		rate := perSecond(l.s, st.Created)
		if rate < churnRate || st.Life.Count < l.o.MinSamples || st.Life.Quantile(0.5) > bgraph.Nanos(churnLife) {
			continue
		}
		l.add(rate, Finding{
			Severity: SeverityInfo, Check: CheckChurn, Name: "goroutines of " + bgraph.ShortFunction(st.Function),
			Message: fmt.Sprintf("%s goroutines a second begin here, and half of them live for less than %v.", rateText(rate), st.Life.Quantile(0.5)),
			Advice:  "If what they do is shorter than what it takes to start one and to wake whoever waits for it, do it in place, or let a few workers take it from a channel in batches.",
		})
	}
}
