package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// A stageRow is a stage of the program: the nodes of one label, or the nodes without a label of one function.
type stageRow struct {
	name          string
	label         bool
	nodes         int
	now           int64
	arrivals      uint64
	departures    uint64
	wait, ready   bgraph.Times
	cpu           float64 // of the steps that begin there, nanoseconds
	steps         uint64
	cohorts, ran  uint64
	fromElsewhere uint64 // wakes and starts by other loops, or by goroutines
	loops         map[int]uint64
}

// stageOf is the name of the stage of a node, and whether the program has given it.
func stageOf(n *bgraph.Node) (name string, label bool) {
	if n.Label != "" {
		return words.Clean(n.Label), true
	}
	f := n.Place()
	if f == nil {
		return words.Clean(n.Reason), false
	}
	return words.Clean(funcname.Short(f.Function)), false
}

// A stageView is a graph by stages.
type stageView struct {
	s    *bgraph.Snapshot
	rows []*stageRow
	of   map[bgraph.Key]*stageRow
}

func newStageView(s *bgraph.Snapshot) *stageView {
	v := &stageView{s: s, of: make(map[bgraph.Key]*stageRow, len(s.Nodes))}
	byName := map[string]*stageRow{}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Key == bgraph.KeyEnd || n.Arrivals == 0 && n.Now == 0 && n.Departures == 0 {
			continue
		}
		name, label := stageOf(n)
		id := fmt.Sprint(label, name)
		row := byName[id]
		if row == nil {
			row = &stageRow{name: name, label: label, loops: map[int]uint64{}}
			byName[id] = row
			v.rows = append(v.rows, row)
		}
		v.of[n.Key] = row
		row.nodes++
		row.now += n.Now
		row.arrivals += n.Arrivals
		row.departures += n.Departures
		row.wait.Merge(&n.Wait)
		row.ready.Merge(&n.Ready)
		for _, l := range n.Loops {
			row.loops[l.Loop] += l.Arrivals
		}
	}
	for i := range s.Edges {
		if row := v.of[s.Edges[i].From]; row != nil {
			row.cpu += words.EdgeCPU(&s.Edges[i])
			row.steps += s.Edges[i].Count
		}
	}
	for _, c := range s.Crossings {
		if row := v.of[c.To]; row != nil {
			row.fromElsewhere += c.Count
		}
	}
	if s.Sched != nil {
		for _, n := range s.Sched.Nodes {
			if row := v.of[n.Key]; row != nil {
				row.cohorts += n.Cohorts
				row.ran += n.Ran
			}
		}
	}
	slices.SortStableFunc(v.rows, func(a, b *stageRow) int {
		first := func(r *stageRow) int { // what the program has named goes first
			if r.label {
				return 0
			}
			return 1
		}
		return cmp.Or(first(a)-first(b), cmp.Compare(b.cpu, a.cpu), cmp.Compare(b.arrivals, a.arrivals), strings.Compare(a.name, b.name))
	})
	return v
}

// loopsText reports on which loops tasks come to a stage: on the busiest first, with their share.
func (r *stageRow) loopsText() string {
	type part struct {
		loop int
		n    uint64
	}
	var parts []part
	var all uint64
	for loop, n := range r.loops {
		if n > 0 {
			parts = append(parts, part{loop, n})
			all += n
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.loop, b.loop)) })
	const most = 4
	var texts []string
	for _, p := range parts[:min(len(parts), most)] {
		texts = append(texts, fmt.Sprintf("%d: %s", p.loop, words.Percent(words.Ratio(float64(p.n), float64(all)))))
	}
	if len(parts) > most {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

func (v *stageView) table() *textTable[[]string] {
	t := &textTable[[]string]{
		title: "STAGES: " + words.Count(len(v.rows)) + ", those that the program names first",
		columns: plainColumns("stage", " nodes", " now", " arrivals/s", " wait", " ready", " step", " cohort", " cohort takes", " from elsewhere",
			"on "+words.TermsOf(v.s).Loops),
	}
	for _, r := range v.rows {
		name, step, cohort, its, elsewhere := r.name, "", "", "", ""
		if r.label {
			name = "“" + name + "”"
		}
		mean := words.Ratio(r.cpu, float64(r.steps))
		if r.steps > 0 {
			step = words.Duration(words.Nanos(mean))
		}
		if r.cohorts > 0 {
			length := words.Ratio(float64(r.ran), float64(r.cohorts))
			cohort, its = words.Rate(length), words.Duration(words.Nanos(length*mean))
		}
		if r.fromElsewhere > 0 {
			elsewhere = words.Percent(words.Ratio(float64(r.fromElsewhere), float64(r.arrivals)))
		}
		t.rows = append(t.rows, []string{
			name, words.Count(r.nodes), words.Count(r.now), words.Rate(words.PerSecond(v.s, r.arrivals)), words.Duration(meanTime(&r.wait, r.departures)),
			words.Duration(r.ready.Mean()), step, cohort, its, elsewhere, r.loopsText(),
		})
	}
	return t
}

// meanTime is the mean of n durations, estimated from the timed ones in t.
func meanTime(t *bgraph.Times, n uint64) bgraph.Nanos {
	if n == 0 {
		return t.Mean()
	}
	return words.Nanos(t.Estimate(n) / float64(n))
}

// A crossingRow counts the wakes, or starts, of tasks at one place on a loop by one place on another loop.
type crossingRow struct {
	crossingEnds
	count uint64
	share float64 // of the arrivals at that place on that loop
}

type crossingEnds struct {
	from, to         string
	fromLoop, toLoop int
}

// crossingRows adds up the crossings by the names that name gives the nodes, the most frequent first; arrivals returns
// the number of arrivals at a node on a loop.
func crossingRows(s *bgraph.Snapshot, name func(bgraph.Key) string, arrivals func(k bgraph.Key, loop int) uint64) []*crossingRow {
	var rows []*crossingRow
	byEnds := map[crossingEnds]*crossingRow{}
	for _, c := range s.Crossings {
		ends := crossingEnds{from: "(the loop itself)", to: name(c.To), fromLoop: c.FromLoop, toLoop: c.ToLoop}
		switch {
		case c.From != 0:
			ends.from = name(c.From)
		case c.FromLoop < 0:
			ends.from = "(a goroutine)"
		}
		row := byEnds[ends]
		if row == nil {
			row = &crossingRow{crossingEnds: ends}
			byEnds[ends] = row
			rows = append(rows, row)
		}
		row.count += c.Count
		row.share = words.Ratio(float64(row.count), float64(arrivals(c.To, c.ToLoop)))
	}
	slices.SortStableFunc(rows, func(a, b *crossingRow) int { return cmp.Compare(b.count, a.count) })
	return rows
}

// nodeCrossings are the crossings by node.
func nodeCrossings(s *bgraph.Snapshot, names map[bgraph.Key]string) []*crossingRow {
	return crossingRows(s, func(k bgraph.Key) string { return words.NameIn(names, k) }, func(k bgraph.Key, loop int) uint64 {
		if n := s.Node(k); n != nil {
			for _, l := range n.Loops {
				if l.Loop == loop {
					return l.Arrivals
				}
			}
		}
		return 0
	})
}

func crossingTable(s *bgraph.Snapshot, rows []*crossingRow) *textTable[[]string] {
	t := &textTable[[]string]{title: crossingTitle(s), columns: plainColumns("from", " loop", "to", " loop", " wakes", " per s", " of arrivals")}
	for _, r := range rows {
		loop := ""
		if r.fromLoop >= 0 {
			loop = words.Count(r.fromLoop)
		}
		t.rows = append(t.rows, []string{r.from, loop, "→ " + r.to, words.Count(r.toLoop), words.Count(r.count), words.Rate(words.PerSecond(s, r.count)), words.Percent(r.share)})
	}
	return t
}

func crossingTitle(s *bgraph.Snapshot) string {
	var sum uint64
	for _, c := range s.Crossings {
		sum += c.Count
	}
	title := fmt.Sprintf("BETWEEN LOOPS: %s wakes and starts from elsewhere (%s/s)", words.Count(sum), words.Rate(words.PerSecond(s, sum)))
	if n := s.Overflow.Wakes; n > 0 {
		title += fmt.Sprintf("; no room for %s more", words.Count(n))
	}
	return title
}

// WriteStages writes the Snapshot by the stages of the program (Cohort Scheduling, section 3): places that
// the program has named, see ressched.Stage and ressched.YieldAt, and the others by function. Of each:
// tasks there, arrivals, mean times of waiting, of being ready and of a step; how many tasks the scheduler ran there
// in one go on average, and how long that took; the share of the arrivals that another loop or a
// goroutine woke; and the loops. Then what woke tasks of one loop from another, by stages. limit is how many
// rows of each table, 0: all; width is that of Options. It does not park.
func WriteStages(w io.Writer, s *bgraph.Snapshot, limit, width int) error {
	var b bytes.Buffer
	width = cmp.Or(width, defaultWidth)
	for _, line := range headsWithin(s, width) {
		fmt.Fprintln(&b, line)
	}
	v := newStageView(s)
	rows := crossingRows(s, func(k bgraph.Key) string {
		if row := v.of[k]; row != nil {
			return row.name
		}
		return k.String()
	}, func(k bgraph.Key, loop int) uint64 {
		if row := v.of[k]; row != nil {
			return row.loops[loop]
		}
		return 0
	})
	for _, t := range []*textTable[[]string]{v.table(), crossingTable(s, rows)} {
		t.width, t.limit = width, limit
		t.write(&b)
	}
	if len(rows) == 0 && len(s.Loops) > 1 && s.Kind != bgraph.KindGoroutines {
		fmt.Fprintln(&b, "\nNothing has woken a task of one loop from another.")
	}
	_, err := w.Write(b.Bytes())
	return err
}
