package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Options say how WriteText writes. The zero value is useful.
type Options struct {
	// Sort names the column that the tables of nodes or edges are sorted by, see Columns:
	// the highest figure first, names from A to Z; with a minus in front the other way
	// round. "": nodes by the tasks there on average, edges by their CPU time.
	Sort string
	// Limit is how many rows of a table are written. 0: all.
	Limit int
	// Stacks writes the stack of each node below its row.
	Stacks bool
	// Prune is the share of all steps and of all CPU time from which on an edge of a trace is
	// written, with the nodes that it links; nodes with waiting tasks are always written. 0: all edges.
	Prune float64
	// Whole is the Snapshot before Filter, if the one to write was filtered: findings are made in it, see
	// lint.FindPart. nil: the snapshot was not filtered.
	Whole *bgraph.Snapshot
	// Width is how many columns of a terminal a line may take. Where it takes more,
	// names are cut in the middle, though not to less than 16 columns; figures are
	// never cut. 0: 160.
	Width int
}

const (
	defaultWidth = 160
	longestRuns  = 8 // how many are written
	traceRuns    = 3 // of a trace
	chainIndent  = 9 // columns in front of the functions that lead to a node
)

// WriteText writes the Snapshot as text for people: what program it is, and what to look at
// first, in twenty lines; then tables of nodes, edges, the longest runs, resources, loops and the
// wakes between loops, and the state of the scheduler. The times of nodes are those of waiting, and
// of being ready before running. The times of edges are the CPU time of a step; below an edge stands
// what its steps take of resources (+) and give back (-). An unknown Options.Sort is an error that
// lists the known columns, and then nothing is written. It does not park.
func WriteText(w io.Writer, s *bgraph.Snapshot, o Options) error {
	if o.Width <= 0 {
		o.Width = defaultWidth
	}
	names := words.Names(s)
	nodes, edges := nodeTable(s, names), edgeTable(s, names)
	byNode, byEdge, err := sortTables(o.Sort, nodes, edges)
	if err != nil {
		return err
	}
	found, places := len(edges.rows), len(nodes.rows)
	if o.Prune > 0 {
		pruneTables(s, nodes, edges, o.Prune)
	}
	var b bytes.Buffer
	for _, line := range headsWithin(s, o.Width) {
		fmt.Fprintln(&b, line)
	}
	writeSources(&b, s, names, o)
	if len(nodes.rows) == 0 && len(edges.rows) == 0 {
		fmt.Fprintln(&b, "\nNothing has waited yet.")
	}
	writeFirst(&b, s, names, len(words.Head(s)), o)
	nodes.title = fmt.Sprintf("NODES: %s, sorted by %s", words.Count(places), byNode)
	nodes.width, nodes.limit = o.Width, o.Limit
	if o.Stacks {
		nodes.below = func(r *nodeRow) []string { return stackLines(r.Stack, len(r.Stack)) }
	} else {
		nodes.below = func(r *nodeRow) (texts []string) {
			if chain := words.Chain(r.Node, o.Width-chainIndent); chain != "" {
				texts = append(texts, "in "+chain)
			}
			if text := words.Wakers(r.Node); text != "" {
				texts = append(texts, text)
			}
			return texts
		}
	}
	nodes.write(&b)
	edges.title = fmt.Sprintf("EDGES: %s, sorted by %s", words.Count(found), byEdge)
	edges.width, edges.limit = o.Width, o.Limit
	edges.below = func(r *edgeRow) []string {
		texts := words.StepNotes(r.Edge)
		if text := words.Changes(s, r.Edge); text != "" && words.Parts(r.Edge) == "" {
			texts = append(texts, text)
		}
		return texts
	}
	edges.write(&b)
	writeRuns(&b, s, names, o.Width)
	for _, t := range []*textTable[[]string]{startTable(s), spanTable(s), resourceTable(s), loopTable(s), crossingTable(s, nodeCrossings(s, names))} {
		t.width, t.limit = o.Width, o.Limit
		t.write(&b)
	}
	writeSched(&b, s, names, o)
	_, err = w.Write(b.Bytes())
	return err
}

// headsWithin are the lines of words.Head, broken between two statements rather than cut in a figure where
// they are wider than that.
func headsWithin(s *bgraph.Snapshot, width int) (lines []string) {
	for _, line := range words.Head(s) {
		lines = append(lines, words.Fold(line, "; ", width)...)
	}
	return lines
}

// stackLines are the first most frames of a stack.
func stackLines(stack []bgraph.Frame, most int) []string {
	var lines []string
	for i := range stack {
		if i == most {
			return append(lines, "… and "+words.Count(len(stack)-i)+" more")
		}
		f := &stack[i]
		file := f.File[strings.LastIndexByte(f.File, '/')+1:]
		lines = append(lines, fmt.Sprintf("%s  %s:%d", funcname.Short(f.Function), file, f.Line))
	}
	return lines
}

// plainColumns are columns of rows that are written out already; those whose head begins
// with a blank are aligned to the right.
func plainColumns(heads ...string) []column[[]string] {
	var out []column[[]string]
	for i, head := range heads {
		out = append(out, column[[]string]{
			head: strings.TrimLeft(head, " "), left: !strings.HasPrefix(head, " "),
			text: func(r *[]string) string { return (*r)[i] },
		})
	}
	return out
}

// resourceTable has a row for every resource, the resources nearest to their limits first.
func resourceTable(s *bgraph.Snapshot) *textTable[[]string] {
	t := &textTable[[]string]{title: "RESOURCES", columns: plainColumns("resource", " in use", " limit", " used", " taken/s", " given back/s")}
	sorted := slices.Clone(s.Resources)
	used := func(r bgraph.Resource) float64 { return words.Ratio(float64(r.InUse), float64(max(r.Limit, 0))) }
	slices.SortStableFunc(sorted, func(a, b bgraph.Resource) int { return cmp.Compare(used(b), used(a)) })
	for _, r := range sorted {
		limit, share := "", ""
		if r.Limit > 0 {
			limit, share = words.Amount(float64(r.Limit), r.Unit), words.Percent(used(r))
		}
		t.rows = append(t.rows, []string{
			r.Name, words.Amount(float64(r.InUse), r.Unit), limit, share,
			words.Amount(words.PerSecond(s, r.Acquired), r.Unit), words.Amount(words.PerSecond(s, r.Released), r.Unit),
		})
	}
	return t
}

func loopTable(s *bgraph.Snapshot) *textTable[[]string] {
	heads := []string{" loop", " tasks", " steps", " steps/s"}
	resting := words.Working(s) < len(s.Loops)
	if resting {
		heads = append(heads, "new tasks")
	}
	t := &textTable[[]string]{title: "LOOPS", columns: plainColumns(heads...)}
	trace := s.Kind == bgraph.KindGoroutines
	if trace {
		t.title, t.columns[0].head = "Ps, on which goroutines run", "P"
	}
	for _, l := range s.Loops {
		tasks := words.Count(l.Tasks)
		if trace {
			tasks = "" // no P has goroutines of its own for long
		}
		row := []string{words.Count(l.Index), tasks, words.Count(l.Steps), words.Rate(words.PerSecond(s, l.Steps))}
		if resting {
			row = append(row, map[bool]string{true: "no", false: "yes"}[l.Rests])
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// writeSched writes the state of the scheduler: the resources that it watches,
// and the nodes, beginning with the nodes whose tasks it holds back.
func writeSched(b *bytes.Buffer, s *bgraph.Snapshot, names map[bgraph.Key]string, o Options) {
	if s.Sched == nil {
		return
	}
	title := fmt.Sprintf("SCHEDULER: %s; %s tasks admitted, %s deferred, %s refused", words.OrUnknown(s.Sched.Policy),
		words.Count(s.Sched.Admitted), words.Count(s.Sched.Deferred), words.Count(s.Sched.Refused))
	fmt.Fprintf(b, "\n%s\n", words.Shorten(title, o.Width))
	for _, r := range s.Sched.Refusals {
		fmt.Fprintln(b, words.Shorten(fmt.Sprintf("refused %s: %s", words.Count(r.Count), r.Why), o.Width))
	}
	watched := &textTable[[]string]{width: o.Width, columns: plainColumns("watches", " used", " change/s", "state")}
	for _, r := range s.Sched.Resources {
		watched.rows = append(watched.rows, []string{r.Name, words.Percent(r.Utilisation), words.Signed(words.Percent(max(-1, min(r.Trend, 1)))), r.State})
	}
	watched.write(b)
	ranked := &textTable[[]string]{width: o.Width, limit: o.Limit,
		columns: plainColumns("node", " loop", " priority", " tickets", " pass", " ready", "held back")}
	sorted := slices.Clone(s.Sched.Nodes)
	held := func(n bgraph.SchedNode) float64 { return float64(min(len(n.Held), 1)) }
	slices.SortStableFunc(sorted, func(a, b bgraph.SchedNode) int {
		return cmp.Or(cmp.Compare(held(b), held(a)), cmp.Compare(b.Ready, a.Ready), cmp.Compare(b.Priority, a.Priority))
	})
	for _, n := range sorted {
		ranked.rows = append(ranked.rows, []string{
			words.NameIn(names, n.Key), words.Count(n.Loop), priorityText(n.Priority), words.Count(n.Tickets),
			words.Count(n.Pass), words.Count(n.Ready), n.Held,
		})
	}
	ranked.write(b)
}

func priorityText(v float64) string {
	if math.IsNaN(v) || math.Abs(v) >= 1e6 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}
