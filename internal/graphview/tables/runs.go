package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A longRun is an edge whose steps are, or once were, far longer than those of the
// program in general: the yield profile (Capriccio 4.2 asks for it: a task that does not
// yield keeps all others of its loop waiting).
type longRun struct {
	*bgraph.Edge                // nil if the step has not ended
	from, to     bgraph.Key     // to is KeyStart then
	longest      bgraph.Nanos   // by the statistics or the watchdog
	latest       bgraph.Overrun // the watchdog's last report; zero if there is none
	reports      int            // of the watchdog's that are kept
}

const (
	farAbove     = 10        // times the usual is far above it
	leastLongRun = 1_000_000 // ns: shorter runs delay no other task much
)

// longRuns returns edges with a single run, or a 99th percentile, far above the rest,
// and edges that the watchdog reported; the longest first.
func longRuns(s *bgraph.Snapshot) []longRun {
	type pair struct{ from, to bgraph.Key }
	reported := map[pair]*longRun{}
	for _, o := range s.Overruns {
		p := pair{o.From, o.To}
		r := reported[p]
		if r == nil {
			r = &longRun{from: o.From, to: o.To}
			reported[p] = r
		}
		r.longest, r.latest = max(r.longest, o.Held), o
		r.reports++
	}
	var all bgraph.Times
	for i := range s.Edges {
		all.Merge(&s.Edges[i].CPU)
	}
	usual, usualMost := all.Quantile(0.5), all.Quantile(0.99)
	var runs []longRun
	for i := range s.Edges {
		e := &s.Edges[i]
		p := pair{e.From, e.To}
		r := longRun{from: e.From, to: e.To}
		if known := reported[p]; known != nil {
			r = *known
			delete(reported, p)
		}
		r.Edge, r.longest = e, max(r.longest, e.CPU.Max)
		often := e.CPU.Quantile(0.99)
		far := e.CPU.Max >= leastLongRun && e.CPU.Max/farAbove >= usualMost ||
			often >= leastLongRun && often/farAbove >= usual
		if far || r.reports > 0 || e.Overruns > 0 {
			runs = append(runs, r)
		}
	}
	for _, r := range reported {
		runs = append(runs, *r)
	}
	slices.SortFunc(runs, func(a, b longRun) int {
		return cmp.Or(cmp.Compare(b.longest, a.longest), cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	return runs
}

// title is the edge in words, both ends cut alike if width asks for that; a step that has not ended
// leads nowhere yet.
func (r *longRun) title(names map[bgraph.Key]string, width int) string {
	from, to := words.Clean(words.NameIn(names, r.from)), words.Clean(words.NameIn(names, r.to))
	if r.Edge == nil && r.to == bgraph.KeyStart {
		to = "(had not ended)"
	}
	const arrow = " → "
	room := width - words.Width(arrow)
	return words.Shorten(from, max(room/2, room-words.Width(to))) + arrow + words.Shorten(to, max(room/2, room-words.Width(from)))
}

// figures are what is known of its length.
func (r *longRun) figures() string {
	text := "longest " + words.Duration(r.longest)
	if r.Edge != nil {
		text += fmt.Sprintf(", p99 %s, mean %s", words.QuantileText(&r.CPU, 0.99), words.Duration(r.MeanCPU()))
		if r.Overruns > 0 {
			text += fmt.Sprintf("; %s for the watchdog", words.TooLong(r.Overruns))
		}
	}
	return text
}

const (
	runFrames  = 5  // of the stack at the end of a long run
	traceLines = 12 // of the watchdog's
)

// writeRuns writes the long runs, each with the stack at its end, which is that of the
// node where the task waited next, and the last report of the watchdog.
func writeRuns(b *bytes.Buffer, s *bgraph.Snapshot, names map[bgraph.Key]string, width int) {
	runs := longRuns(s)
	if len(runs) == 0 {
		return
	}
	line := func(indent int, text string) {
		fmt.Fprintf(b, "%s%s\n", strings.Repeat(" ", indent), words.Shorten(words.Clean(text), max(width-indent, narrowest)))
	}
	most := longestRuns
	if s.Kind == bgraph.KindGoroutines {
		most = traceRuns
	}
	fmt.Fprintf(b, "\nLONGEST RUNS: steps far above the rest, with the stack at their end\n")
	for i := range runs {
		if i == most {
			fmt.Fprintf(b, "  … and %s more\n", words.Count(len(runs)-i))
			break
		}
		r := &runs[i]
		line(2, r.title(names, width-2))
		line(4, r.figures())
		if n := s.Node(r.to); n != nil {
			for _, text := range stackLines(n.Stack, runFrames) {
				line(6, text)
			}
		}
		if r.reports > 0 {
			line(4, fmt.Sprintf("watchdog, %s: task %s held loop %s for %s", words.Clock(r.latest.At),
				words.OrUnknown(r.latest.Task), words.Count(r.latest.Loop), words.Duration(r.latest.Held)))
			for _, text := range traceOf(r.latest.Stack) {
				line(6, text)
			}
		}
	}
}

// traceOf are the first lines of a stack as the Go runtime prints it, calls and places
// on one line each, without arguments.
func traceOf(stack string) []string {
	var lines []string
	for text := range strings.Lines(words.ProgramStack(stack)) {
		place, indented := strings.CutPrefix(strings.TrimRight(text, "\n"), "\t")
		switch {
		case indented && len(lines) > 0:
			place, _, _ = strings.Cut(place, " +0x")
			lines[len(lines)-1] += "  " + place[strings.LastIndexByte(place, '/')+1:]
		case len(lines) == traceLines:
			return append(lines, "…")
		case !strings.HasPrefix(place, "goroutine "):
			if i := strings.LastIndexByte(place, '('); i > 0 && strings.HasSuffix(place, ")") {
				place = place[:i]
			}
			lines = append(lines, funcname.Short(place))
		}
	}
	return lines
}
