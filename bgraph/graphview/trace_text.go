package graphview

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

// What only graphs of goroutines have, as text.

// traceHead says whose trace it is, how much there is of it, and how far to trust it.
func traceHead(s *bgraph.Snapshot, steps uint64, cpu float64) []string {
	var now int64
	for i := range s.Starts {
		now += s.Starts[i].Now
	}
	first := orUnknown(s.Program.Name) + ", an execution trace of " + durationText(s.Span)
	if !s.Taken.IsZero() {
		first += " up to " + clockText(s.Taken)
	}
	second := fmt.Sprintf("%s; %s (%s/s), CPU %s", plural(int(now), "goroutine"), plural(int(steps), "step"), rateText(perSecond(s, steps)), durationText(nanosOf(cpu)))
	if len(s.Loops) > 0 && s.Span > 0 {
		used := cpu / float64(s.Span) // processors: there may be far fewer of them than Ps
		second += fmt.Sprintf(" (%s processors, %s of %s)", rateText(used), percentText(used/float64(len(s.Loops))), plural(len(s.Loops), "P"))
	}
	third := fmt.Sprintf("collections %s, %s of CPU by their workers; the world stopped %s, %s at most",
		countText(s.Collections.Count), durationText(s.CollectorCPU), plural(int(s.Stopped.Count), "time"), durationText(s.Stopped.Max))
	lines := []string{first, second, third}
	if stalledFor(s) {
		lines = append(lines, fmt.Sprintf("%s of the CPU time may be the kernel's: %s a goroutine had a P for 30 ms or more", durationText(s.Stalled.Sum), plural(int(s.Stalled.Count), "time")))
	}
	lines = append(lines, s.Notes...)
	if o := &s.Overflow; o.Nodes > 0 || o.Edges > 0 {
		lines = append(lines, fmt.Sprintf("no room for %s waits (at most %s nodes) and %s steps (at most %s edges)",
			countText(o.Nodes), countText(o.MaxNodes), countText(o.Edges), countText(o.MaxEdges)))
	}
	return lines
}

// partsText reports what the time of a step went into besides running, "" if nothing did.
func partsText(e *bgraph.Edge) string {
	p := &e.Parts
	if *p == (bgraph.Parts{}) || e.Count == 0 {
		return ""
	}
	var parts []string
	each := func(sum bgraph.Nanos) bgraph.Nanos { return nanosOf(float64(sum) / float64(e.Count)) }
	mean := func(sum bgraph.Nanos, what string) {
		if d := each(sum); d > 0 {
			parts = append(parts, durationText(d)+" "+what)
		}
	}
	if p.Calls > 0 {
		parts = append(parts, fmt.Sprintf("%s system calls (%s)", rateText(float64(p.Calls)/float64(e.Count)), durationText(each(p.System))))
	}
	mean(p.Preempted, "preempted")
	mean(p.Folded, "waiting for the collector")
	mean(p.Assist, "helping the collector")
	if moves := float64(p.Moves) / float64(e.Count); moves >= 0.1 {
		parts = append(parts, rateText(moves)+" moves to another P")
	}
	if p.Samples > 0 {
		parts = append(parts, plural(int(p.Samples), "sample")+" in all")
	}
	if len(parts) == 0 {
		return ""
	}
	return "a step: " + strings.Join(parts, ", ")
}

// StepNotes say what the time of a step of a trace went into besides running, and in which
// functions a CPU profile found it; none, if that is not known.
func StepNotes(e *bgraph.Edge) []string {
	return slices.DeleteFunc([]string{partsText(e), functionsText(e)}, func(text string) bool { return text == "" })
}

// functionsText names where a CPU profile found the steps, "" if there was none.
func functionsText(e *bgraph.Edge) string {
	var parts []string
	for i := range e.Functions[:min(len(e.Functions), 3)] {
		f := &e.Functions[i]
		parts = append(parts, fmt.Sprintf("%s %s", ShortWaker(f), percentText(ratio(float64(f.Count), float64(e.Parts.Samples)))))
	}
	if len(parts) == 0 {
		return ""
	}
	return "in " + strings.Join(parts, ", ")
}

// wakersText names what ended the waits at a node, "" if that is not known.
func wakersText(n *bgraph.Node) string {
	var parts []string
	var all uint64
	for i := range n.Wakers {
		all += n.Wakers[i].Count
	}
	for i := range n.Wakers[:min(len(n.Wakers), 3)] {
		w := &n.Wakers[i]
		name := ShortWaker(w)
		parts = append(parts, fmt.Sprintf("%s %s", name, percentText(ratio(float64(w.Count), float64(all)))))
	}
	if len(parts) == 0 {
		return ""
	}
	return "woken by " + strings.Join(parts, ", ")
}

// ShortWaker names what ended a wait.
func ShortWaker(w *bgraph.Waker) string {
	if w.Function == "" {
		return "the scheduler"
	}
	return fmt.Sprintf("%s:%d", funcname.Short(w.Function), w.Line)
}

func startTable(s *bgraph.Snapshot) *textTable[[]string] {
	t := &textTable[[]string]{title: "GOROUTINES by where they began", columns: plainColumns("function", " now", " created/s", " ended/s", " CPU", " life", " oldest", " leaked")}
	leaked := slices.ContainsFunc(s.Starts, func(st bgraph.Start) bool { return st.Leaked > 0 })
	_, all := mostUsing(s)
	for i := range s.Starts {
		st := &s.Starts[i]
		cpu := ""
		if all > 0 {
			cpu = percentText(ratio(float64(st.CPU), all))
		}
		t.rows = append(t.rows, []string{
			cmp.Or(funcname.Short(st.Function), "not known"), countText(st.Now), rateText(perSecond(s, st.Created)), rateText(perSecond(s, st.Ended)), cpu,
			durationText(st.Life.Mean()), durationText(st.Oldest), leakedText(st, leaked),
		})
	}
	return t
}

// mostUsing is where the goroutines began that used most CPU time, nil if that is not known, and what all have used.
func mostUsing(s *bgraph.Snapshot) (most *bgraph.Start, all float64) {
	for i := range s.Starts {
		st := &s.Starts[i]
		if all += float64(st.CPU); st.CPU > 0 && (most == nil || st.CPU > most.CPU) {
			most = st
		}
	}
	return most, all
}

// leakedText is "" for all if nothing is known of any.
func leakedText(st *bgraph.Start, known bool) string {
	if !known {
		return ""
	}
	return countText(st.Leaked)
}

// WriteSpans writes how long the tasks or the regions of package runtime/trace took, by type, the
// type that took most time in all first, and with tasks, how long after their begin they logged
// something, by category; kind is "task" or "region", limit how many, 0: all. It does not park.
func WriteSpans(w io.Writer, s *bgraph.Snapshot, kind string, limit int) error {
	only := *s
	only.Spans = slices.DeleteFunc(slices.Clone(s.Spans), func(sp bgraph.Span) bool { return sp.Kind != kind && (kind != "task" || sp.Kind != "log") })
	t := spanTable(&only)
	t.title, t.limit, t.width = "", limit, defaultWidth
	var b bytes.Buffer
	if t.write(&b); len(t.rows) == 0 {
		fmt.Fprintf(&b, "No %s of package runtime/trace ended in %s.\n", kind, orUnknown(s.Program.Name))
	}
	names := distinctNames(s)
	for i := range only.Spans[:min(len(only.Spans), cmp.Or(limit, len(only.Spans)))] {
		writePath(&b, &only.Spans[i], names, limit)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// writePath writes where the time of the tasks of a type went, for one task on average.
func writePath(b *bytes.Buffer, sp *bgraph.Span, names map[bgraph.Key]string, limit int) {
	if len(sp.Path) == 0 {
		return
	}
	t := &textTable[[]string]{title: "WHERE THE TIME OF " + sp.Name + " GOES, with what it waits for", limit: limit, width: defaultWidth,
		columns: plainColumns("node", " share", " a task", " wait", " ready", " steps from there")}
	mean := func(d bgraph.Nanos) string {
		return durationText(nanosOf(ratio(float64(d), float64(sp.Times.Count))))
	}
	known := bgraph.Nanos(0)
	for i := range sp.Path {
		p := &sp.Path[i]
		known += p.Total()
		name := "not known"
		if p.Node != 0 {
			name = nameIn(names, p.Node)
		}
		t.rows = append(t.rows, []string{name, percentText(ratio(float64(p.Total()), float64(sp.Times.Sum))), mean(p.Total()), mean(p.Wait), mean(p.Ready), mean(p.Step)})
	}
	t.write(b)
	if left := sp.Times.Sum - known; float64(left) > 0.01*float64(sp.Times.Sum) {
		fmt.Fprintf(b, "  %s of the time is not known: it was too long ago, or in too many pieces\n", percentText(ratio(float64(left), float64(sp.Times.Sum))))
	}
}

func spanTable(s *bgraph.Snapshot) *textTable[[]string] {
	t := &textTable[[]string]{title: "TASKS AND REGIONS", columns: plainColumns("name", "kind", " count", " mean", " p99", " max")}
	for i := range s.Spans {
		sp := &s.Spans[i]
		t.rows = append(t.rows, []string{
			sp.Name, sp.Kind, countText(sp.Times.Count), durationText(sp.Times.Mean()), durationText(sp.Times.Quantile(0.99)), durationText(sp.Times.Max),
		})
	}
	return t
}
