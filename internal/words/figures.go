package words

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// PerSecond is the rate of count in the time that s covers, 0 if that is not known.
func PerSecond(s *bgraph.Snapshot, count uint64) float64 {
	if s.Span <= 0 {
		return 0
	}
	return float64(count) / s.Span.Duration().Seconds()
}

// Requests returns how many requests to net/http have ended: those of HTTP/1 by their waits with reason "response", those of HTTP/2
// by their goroutines.
func Requests(s *bgraph.Snapshot) (count uint64) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Reason == "response" {
			count += n.Arrivals
		}
	}
	for i := range s.Starts {
		if st := &s.Starts[i]; funcname.OfHTTP2(st.Function) == funcname.HTTP2Request {
			count += st.Ended
		}
	}
	return count
}

// ServesHTTP2 reports whether n is a wait of a connection of HTTP/2 for all of its requests. It may be below a handler, which has made it one
// of HTTP/2 (h2c).
func ServesHTTP2(n *bgraph.Node) bool {
	return slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool { return funcname.OfHTTP2(f.Function) == funcname.HTTP2Connection })
}

// Waiting is how many tasks or goroutines waited at n on average.
func Waiting(s *bgraph.Snapshot, n *bgraph.Node) float64 {
	if s.Span <= 0 {
		return 0
	}
	if n.Departures == 0 {
		return float64(max(n.Now, 0))
	}
	return n.Wait.Estimate(n.Departures) / float64(s.Span)
}

// Occupancy is how many tasks or goroutines are at n: on average, or at the end if that are more, as waits that have not
// ended are in no average. Places where tasks wait are ranked by it.
func Occupancy(s *bgraph.Snapshot, n *bgraph.Node) float64 {
	return max(Waiting(s, n), float64(n.Now))
}

// leastForQuantile is how many times it takes to speak of quantiles.
const leastForQuantile = 10

// Quantile is the quantile q of t, 0 if t has fewer than leastForQuantile times.
func Quantile(t *bgraph.Times, q float64) bgraph.Nanos {
	if t.Count < leastForQuantile {
		return 0
	}
	return t.Quantile(q)
}

// QuantileText is Quantile as text, "–" if t has too few times.
func QuantileText(t *bgraph.Times, q float64) string {
	if t.Count > 0 && t.Count < leastForQuantile {
		return "–"
	}
	return Duration(t.Quantile(q))
}

// EdgeCPU estimates the CPU time of all steps of an edge in nanoseconds. Unlike Edge.TotalCPU it does not saturate.
func EdgeCPU(e *bgraph.Edge) float64 {
	return max(e.CPU.Estimate(e.Count), 0)
}

// TotalCPU is the sum of EdgeCPU over all edges.
func TotalCPU(s *bgraph.Snapshot) (sum float64) {
	for i := range s.Edges {
		sum += EdgeCPU(&s.Edges[i])
	}
	return sum
}

// takenShare is the least share of the CPU time of all steps that Taken reports.
const takenShare = 0.05

// Taken is for how long steps kept loops while the process had no processor, as the kernel took it or
// they blocked natively; 0 if that is little. Of a trace, Stalled tells.
func Taken(s *bgraph.Snapshot) float64 {
	all := TotalCPU(s)
	if d := all - float64(s.ProcessCPU); s.ProcessCPU > 0 && s.Kind != bgraph.KindGoroutines && d >= takenShare*all {
		return d
	}
	return 0
}

// stalledShare is the share of the time from which on CPU times mean little.
const stalledShare = 0.02

// Stalled reports whether the kernel took so much of the time that CPU times mean little.
func Stalled(s *bgraph.Snapshot) bool {
	return s.Stalled.Sum > 0 && float64(s.Stalled.Sum) >= stalledShare*float64(s.Span)
}

// BusyEdges are the edges with at least that share of all steps or of all CPU time, linked the
// nodes that they join. A share of 0 or less keeps all.
func BusyEdges(s *bgraph.Snapshot, share float64) (edges []*bgraph.Edge, linked map[bgraph.Key]bool) {
	var count float64
	for i := range s.Edges {
		count += float64(s.Edges[i].Count)
	}
	cpu := TotalCPU(s)
	linked = map[bgraph.Key]bool{}
	for i := range s.Edges {
		e := &s.Edges[i]
		if share > 0 && float64(e.Count) < share*count && EdgeCPU(e) < share*cpu {
			continue
		}
		linked[e.From], linked[e.To] = true, true
		edges = append(edges, e)
	}
	return edges, linked
}

// Working is how many loops do not rest.
func Working(s *bgraph.Snapshot) (n int) {
	for _, l := range s.Loops {
		if !l.Rests {
			n++
		}
	}
	return n
}

// MeanChange is the mean change of the steps that were measured.
func MeanChange(c *bgraph.Change) float64 { return Ratio(float64(c.Sum), float64(c.Steps)) }

// Loops is how many loops there are to do work, and how many beside them rest.
func Loops(s *bgraph.Snapshot) string {
	working := Working(s)
	text := Plural(working, TermsOf(s).Loop)
	if rest := len(s.Loops) - working; rest > 0 {
		text += fmt.Sprintf(", %s more at rest", Count(rest))
	}
	return text
}

// OrUnknown is the name, made fit for a terminal, or "unknown".
func OrUnknown(name string) string {
	if name = Clean(name); name == "" {
		return "unknown"
	}
	return name
}

// Plural counts things: "1 task", "2 tasks".
func Plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return Count(n) + " " + thing
}

// TooLong is how often a step was too long for the watchdog.
func TooLong(n uint64) string {
	if n == 1 {
		return "once too long"
	}
	return Count(n) + " times too long"
}

// Changes reports what a step takes (+) of each resource or gives back (-), "" if
// nothing.
func Changes(s *bgraph.Snapshot, e *bgraph.Edge) string {
	var parts []string
	for i := range e.Changes {
		c := &e.Changes[i]
		if c.Sum == 0 {
			continue
		}
		name, unit := fmt.Sprintf("resource %d", i), ""
		if i < len(s.Resources) {
			name, unit = s.Resources[i].Name, s.Resources[i].Unit
		}
		parts = append(parts, Signed(Amount(MeanChange(c), unit))+" "+name)
	}
	return strings.Join(parts, ", ")
}

// StepNotes say what the time of a step of a trace went into besides running, and in which
// functions a CPU profile found it; none, if that is not known.
func StepNotes(e *bgraph.Edge) []string {
	return slices.DeleteFunc([]string{Parts(e), functions(e)}, func(text string) bool { return text == "" })
}

// Parts reports what the time of a step went into besides running, "" if nothing did.
func Parts(e *bgraph.Edge) string {
	p := &e.Parts
	if *p == (bgraph.Parts{}) || e.Count == 0 {
		return ""
	}
	var parts []string
	each := func(sum bgraph.Nanos) bgraph.Nanos { return Nanos(float64(sum) / float64(e.Count)) }
	mean := func(sum bgraph.Nanos, what string) {
		if d := each(sum); d > 0 {
			parts = append(parts, Duration(d)+" "+what)
		}
	}
	if p.Calls > 0 {
		parts = append(parts, fmt.Sprintf("%s system calls (%s)", Rate(float64(p.Calls)/float64(e.Count)), Duration(each(p.System))))
	}
	mean(p.Preempted, "preempted")
	mean(p.Folded, "waiting for the collector")
	mean(p.Assist, "helping the collector")
	if moves := float64(p.Moves) / float64(e.Count); moves >= 0.1 {
		parts = append(parts, Rate(moves)+" moves to another P")
	}
	if p.Samples > 0 {
		parts = append(parts, Plural(int(p.Samples), "sample")+" in all")
	}
	if len(parts) == 0 {
		return ""
	}
	return "a step: " + strings.Join(parts, ", ")
}

// functions names where a CPU profile found the steps, "" if there was none.
func functions(e *bgraph.Edge) string { return shares("in ", e.Functions, e.Parts.Samples) }

// Wakers names what ended the waits at a node, "" if that is not known.
func Wakers(n *bgraph.Node) string {
	var all uint64
	for i := range n.Wakers {
		all += n.Wakers[i].Count
	}
	return shares("woken by ", n.Wakers, all)
}

// shares names the first three behind the word, each with its share of all; "" if there is none.
func shares(word string, some []bgraph.Waker, all uint64) string {
	var parts []string
	for i := range some[:min(len(some), 3)] {
		parts = append(parts, fmt.Sprintf("%s %s", Waker(&some[i]), Percent(Ratio(float64(some[i].Count), float64(all)))))
	}
	if len(parts) == 0 {
		return ""
	}
	return word + strings.Join(parts, ", ")
}

// Waker names what ended a wait.
func Waker(w *bgraph.Waker) string {
	if w.Function == "" {
		return "the scheduler"
	}
	if w.Line == 0 {
		return funcname.Short(w.Function)
	}
	return fmt.Sprintf("%s:%d", funcname.Short(w.Function), w.Line)
}
