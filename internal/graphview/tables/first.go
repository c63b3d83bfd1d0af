package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/words"
)

// The nodes to look at first: findings, and the places where most time goes.

const (
	firstLines   = 20 // lines before the tables, with the description of the program
	firstFacts   = 9
	leastFacts   = 3    // that stay where the first finding needs their room
	firstSteps   = 2    // edges that use most CPU
	firstShare   = 0.05 // of all CPU, from which on they are named
	firstInUse   = 0.8  // of the limit of a resource, from which on it is named
	firstIdle    = 100  // tasks at a node that no task has left, from which on the node is named
	firstReady   = bgraph.Nanos(time.Millisecond)
	firstSamples = 5   // of a CPU profile, to name a function
	firstEnough  = 100 // times that something was ready, to speak of one in a hundred
)

// writeFirst writes findings, the worst of them with their messages, and facts: as many as fit into
// firstLines together with the heads that stand above.
func writeFirst(b *bytes.Buffer, s *bgraph.Snapshot, names map[bgraph.Key]string, heads int, o Options) {
	if len(s.Nodes) == 0 && len(s.Edges) == 0 {
		return
	}
	findings, facts := lint.FindPart(cmp.Or(o.Whole, s), s), factsOf(s, names)
	found := "nothing looks wrong"
	if len(findings) > 0 {
		found = words.Plural(len(findings), "finding") + ", -lint tells more"
	}
	fmt.Fprintf(b, "\nLOOK AT FIRST: %s\n", found)
	room := max(firstLines-heads-2-len(facts), 2)
	if len(findings) > 0 { // the first one is told in full: facts make room
		need := 1 + len(paragraph(findings[0].Message, o.Width)) + min(len(findings)-1, 1)
		cut := min(max(need-room, 0), max(len(facts)-leastFacts, 0))
		facts, room = facts[:len(facts)-cut], max(room+cut, need)
	}
	for i, f := range findings {
		rest := min(len(findings)-i-1, 1) // a line that says how many more there are
		if room < 1+rest {
			fmt.Fprintf(b, "  … and %s more\n", words.Count(len(findings)-i))
			break
		}
		head := fmt.Sprintf("  %s %s: %s", f.Severity, f.Check, f.Name)
		if f.At != "" {
			head += ", " + path.Base(f.At)
		}
		fmt.Fprintln(b, words.Shorten(words.Clean(head), o.Width))
		room--
		if message := paragraph(f.Message, o.Width); room >= len(message)+rest {
			for _, line := range message {
				b.WriteString(line)
			}
			room -= len(message)
			if f.Path != "" && room > rest {
				fmt.Fprintln(b, words.Shorten("    in "+words.Clean(f.Path), o.Width))
				room--
			}
		}
	}
	for _, fact := range facts {
		fmt.Fprintln(b, words.Shorten("  "+fact, o.Width))
	}
}

// paragraph are the lines of a finding's message.
func paragraph(message string, width int) []string {
	var b bytes.Buffer
	words.WriteParagraph(&b, message, min(width, lint.FindingWidth))
	return slices.Collect(strings.Lines(b.String()))
}

// sampledIn says in which function a CPU profile found most steps, and at which of its lines most of these; "" if it does not tell.
func sampledIn(e *bgraph.Edge) string {
	by := map[string]uint64{}
	most := bgraph.Waker{}
	for _, f := range e.Functions {
		by[f.Function] += f.Count
	}
	for _, f := range e.Functions { // the most frequent first
		if f.File != "" && by[f.Function] > by[most.Function] {
			most = f
		}
	}
	share := words.Ratio(float64(by[most.Function]), float64(e.Parts.Samples))
	if most.Function == "" || e.Parts.Samples < firstSamples || share < 2*firstShare {
		return ""
	}
	return fmt.Sprintf("; %s in %s", words.Percent(share), words.At(most.Function, most.File, most.Line))
}

// factsOf are sentences about where CPU time and waiting go.
func factsOf(s *bgraph.Snapshot, names map[bgraph.Key]string) []string {
	var facts []string
	say := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	all := words.TotalCPU(s)
	step := func(from, to bgraph.Key) string {
		if from == to {
			return "between one " + words.NameIn(names, from) + " and the next"
		}
		return "between " + words.NameIn(names, from) + " and " + words.NameIn(names, to)
	}
	edges := slices.Clone(s.Edges)
	slices.SortStableFunc(edges, func(a, b bgraph.Edge) int { return cmp.Compare(words.EdgeCPU(&b), words.EdgeCPU(&a)) })
	for i := range edges[:min(len(edges), firstSteps)] {
		e := &edges[i]
		if share := words.Ratio(words.EdgeCPU(e), all); share >= firstShare {
			say("CPU: %s of it %s, %s/s, %s each%s", words.Percent(share), step(e.From, e.To), words.Rate(words.PerSecond(s, e.Count)), words.Duration(e.MeanCPU()), sampledIn(e))
		}
	}
	most, used := mostUsing(s)
	if most != nil && most.Function != "" && 2*all >= used { // else s is but a part of the program, by -focus
		say("CPU: %s of it in goroutines that began in %s", words.Percent(words.Ratio(float64(most.CPU), used)), funcname.Short(most.Function))
	}
	if running := max(all, used); all > 0 && float64(s.CollectorCPU) >= 2*firstShare*running {
		say("collector: %s of CPU, besides %s of the %s", words.Duration(s.CollectorCPU), words.Duration(words.Nanos(running)), words.TermsOf(s).Tasks)
	}
	var crowded, latest *bgraph.Node
	for i := range s.Nodes {
		n := &s.Nodes[i]
		// Goroutines that have waited all the time say nothing: listeners, idle workers. Nor does a single goroutine, which
		// waits for its next turn, nor the goroutine that net/http has beside each request.
		beside := slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool { return f.Function == "net/http.(*connReader).backgroundRead" })
		if !beside && (n.Departures > 0 && words.Occupancy(s, n) > 1 || n.Now >= firstIdle) && (crowded == nil || words.Occupancy(s, n) > words.Occupancy(s, crowded)) {
			crowded = n
		}
		if n.Ready.Count >= firstEnough && n.Ready.Quantile(0.99) >= firstReady && (latest == nil || n.Ready.Quantile(0.99) > latest.Ready.Quantile(0.99)) {
			latest = n
		}
	}
	if crowded != nil {
		text := fmt.Sprintf("waiting: %s at %s", words.Plural(int(crowded.Now), words.TermsOf(s).Task), words.NameIn(names, crowded.Key))
		if mean := words.Waiting(s, crowded); mean > float64(crowded.Now) {
			text = fmt.Sprintf("waiting: %s %s on average at %s, for %s each", words.Rate(mean), words.TermsOf(s).Tasks, words.NameIn(names, crowded.Key), words.Duration(crowded.MeanWait()))
		} else if crowded.Wait.Count > 0 {
			text += ", for " + words.Duration(crowded.MeanWait()) + " on average"
		}
		say("%s", text)
	}
	if latest != nil {
		say("ready, but not running: 1 in 100 for %s or more, after %s", words.Duration(latest.Ready.Quantile(0.99)), words.NameIn(names, latest.Key))
	}
	if runs := longRuns(s); len(runs) > 0 {
		say("longest without a wait: %s, %s", words.Duration(runs[0].longest), step(runs[0].from, runs[0].to))
	}
	if text := requestFact(s); text != "" {
		say("%s", text)
	}
	for _, r := range s.Resources {
		if len(facts) == firstFacts {
			break
		}
		if used := words.Ratio(float64(r.InUse), float64(r.Limit)); r.Limit > 0 && used >= firstInUse {
			say("resource: %s of %s in use", words.Percent(used), words.Clean(r.Name))
		}
	}
	return facts
}
