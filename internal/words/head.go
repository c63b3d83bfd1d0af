package words

import (
	"fmt"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// Head lines say whose graph it is, how much there is of it, and how far to trust it.
func Head(s *bgraph.Snapshot) []string {
	p := &s.Program
	var tasks int64
	for i := range s.Loops {
		tasks += s.Loops[i].Tasks
	}
	var steps uint64
	for i := range s.Edges {
		steps += s.Edges[i].Count
	}
	cpu := TotalCPU(s)
	busy := ""
	if working := Working(s); s.Span > 0 && working > 0 {
		busy = fmt.Sprintf(" (%s of %s)", Percent(cpu/float64(s.Span)/float64(working)), Loops(s))
	}
	if s.ProcessCPU > 0 {
		used := float64(s.ProcessCPU)
		busy += fmt.Sprintf("; the process used %s: %s in steps", Duration(s.ProcessCPU), Percent(min(cpu/used, 1)))
		if s.CollectorCPU > 0 {
			busy += fmt.Sprintf(", %s in the collector", Percent(min(float64(s.CollectorCPU)/used, 1)))
		}
	}
	if s.Kind == bgraph.KindGoroutines {
		return traceHead(s, steps, cpu)
	}
	process := "several processes"
	if p.PID != 0 {
		process = fmt.Sprintf("pid %d", p.PID)
	}
	lines := []string{
		fmt.Sprintf("%s, %s on %s, %s, at %s", OrUnknown(p.Name), process, OrUnknown(p.Host), OrUnknown(p.Go), Clock(s.Taken)),
		fmt.Sprintf("%s; in %s %s (%s/s), CPU %s%s", Plural(int(tasks), "task"), Duration(s.Span),
			Plural(int(steps), "step"), Rate(PerSecond(s, steps)), Duration(Nanos(cpu)), busy),
	}
	trust := "every wait was timed"
	if s.Sampling > 1 {
		trust = fmt.Sprintf("times, and their maxima, are of 1 wait in %s, counts of all", Count(s.Sampling))
	}
	if s.HeapEvery > 0 {
		trust += fmt.Sprintf("; heap is of 1 timed step in %s", Count(s.HeapEvery))
	} else {
		trust += "; heap was not measured"
	}
	lines = append(lines, trust)
	if d := Taken(s); d > 0 {
		lines = append(lines, fmt.Sprintf("%s of that the process did not use: the kernel took its processors, or calls block", Duration(Nanos(d))))
	}
	if c := &s.Chunks; c.Links > 0 || c.InPlace > 0 {
		line := fmt.Sprintf("stack chunks: %s links (%s/s), at most %s at a time, %s; %s calls grew a stack instead", Count(c.Links),
			Rate(PerSecond(s, c.Links)), Count(c.Most), Amount(float64(c.Peak), "bytes"), Count(c.InPlace))
		if c.Direct > 0 {
			line += "; " + Percent(Ratio(float64(c.Links), float64(c.Links+c.Direct))) + " of the checkpoints passed linked"
		}
		lines = append(lines, line)
	}
	if o := &s.Overflow; o.Nodes > 0 || o.Edges > 0 {
		lines = append(lines, fmt.Sprintf("no room for %s waits (at most %s nodes) and %s steps (at most %s edges a loop)",
			Count(o.Nodes), Count(o.MaxNodes), Count(o.Edges), Count(o.MaxEdges)))
	}
	return lines
}

// traceHead says whose trace it is, how much there is of it, and how far to trust it.
func traceHead(s *bgraph.Snapshot, steps uint64, cpu float64) []string {
	var now int64
	for i := range s.Starts {
		now += s.Starts[i].Now
	}
	first := OrUnknown(s.Program.Name) + ", an execution trace of " + Duration(s.Span)
	if !s.Taken.IsZero() {
		first += " up to " + Clock(s.Taken)
	}
	second := fmt.Sprintf("%s; %s (%s/s), CPU %s", Plural(int(now), "goroutine"), Plural(int(steps), "step"), Rate(PerSecond(s, steps)), Duration(Nanos(cpu)))
	if len(s.Loops) > 0 && s.Span > 0 {
		used := cpu / float64(s.Span) // processors: there may be far fewer of them than Ps
		second += fmt.Sprintf(" (%s processors, %s of %s)", Rate(used), Percent(used/float64(len(s.Loops))), Plural(len(s.Loops), "P"))
	}
	third := fmt.Sprintf("collections %s, %s of CPU by their workers; the world stopped %s, %s at most",
		Count(s.Collections.Count), Duration(s.CollectorCPU), Plural(int(s.Stopped.Count), "time"), Duration(s.Stopped.Max))
	lines := []string{first, second, explained(s), third}
	if Stalled(s) {
		lines = append(lines, fmt.Sprintf("%s of the CPU time may be the kernel's: %s a goroutine had a P for 30 ms or more", Duration(s.Stalled.Sum), Plural(int(s.Stalled.Count), "time")))
	}
	lines = append(lines, s.Notes...)
	if o := &s.Overflow; o.Nodes > 0 || o.Edges > 0 {
		lines = append(lines, fmt.Sprintf("no room for %s waits (at most %s nodes) and %s steps (at most %s edges)",
			Count(o.Nodes), Count(o.MaxNodes), Count(o.Edges), Count(o.MaxEdges)))
	}
	return lines
}

// enoughSamples is how many samples of a CPU profile tell shares to about a tenth.
const enoughSamples = 25

// explained says how much CPU the process used, and how much of that the graph of its goroutines explains.
func explained(s *bgraph.Snapshot) string {
	c := &s.Sampled
	steps, calls, collector, rest := float64(c.Steps), float64(c.Calls), float64(c.Collector), []struct {
		n  float64
		of string
	}{{float64(c.Scheduler), "the Go scheduler's"}, {float64(c.Tracer), "the tracer's"}, {float64(c.Foreign), "of threads that Go has not started"}}
	all := steps + calls + collector
	for _, r := range rest {
		all += r.n
	}
	used, in := "", "it"
	if s.ProcessCPU > 0 && s.Span > 0 {
		used = fmt.Sprintf("the process used about %s processors; ", Rate(float64(s.ProcessCPU)/float64(s.Span)))
	}
	switch {
	case all == 0 && used == "":
		return "how much CPU the process used is not known: no CPU profile ran beside the trace"
	case all == 0:
		return used + "in what is not known: no CPU profile ran beside the trace"
	case all < enoughSamples:
		return used + fmt.Sprintf("the CPU profile beside the trace has too few samples to tell in what: %.0f", all)
	case used == "":
		used, in = fmt.Sprintf("a CPU profile beside the trace has %.0f samples; ", all), "them"
	}
	share := func(n float64) string { return Percent(n / all) }
	text := used + fmt.Sprintf("the graph explains %s of %s: %s in steps, %s in system calls, %s in the collector",
		share(steps+calls+collector), in, share(steps), share(calls), share(collector))
	for _, r := range rest {
		if r.n > 0 {
			text += fmt.Sprintf("; %s is %s", share(r.n), r.of)
		}
	}
	return text
}

// Clock is a moment in its own time zone.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return Clean(t.Format("2006-01-02 15:04:05 MST"))
}
