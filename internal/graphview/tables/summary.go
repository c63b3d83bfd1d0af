package tables

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/words"
)

// The bounds of a summary, which fits on most screens.
const (
	summaryWidth = 100 // columns
	summaryNodes = 6
	summaryEdges = 5
	summaryRuns  = 3
	summaryRes   = 4
)

// WriteSummary writes the most important things of the Snapshot in at most 40 lines of 100
// columns: where most tasks wait, which steps use most CPU, which ran longest without
// yielding, what is nearest to its limit, and how often loops wake each other's tasks. It does not park.
func WriteSummary(w io.Writer, s *bgraph.Snapshot) error {
	names := words.Names(s)
	var b bytes.Buffer
	for _, line := range headsWithin(s, summaryWidth) {
		fmt.Fprintln(&b, line)
	}
	if rows := nodeCrossings(s, names); len(rows) > 0 {
		var sum uint64
		for _, r := range rows {
			sum += r.count
		}
		text := fmt.Sprintf("between loops %s wakes (%s/s); most: %s → %s", words.Count(sum), words.Rate(words.PerSecond(s, sum)), rows[0].from, rows[0].to)
		fmt.Fprintln(&b, words.Shorten(text, summaryWidth))
	}
	nodes := nodeTable(s, names)
	nodes.title = "Most tasks wait at"
	nodes.columns = pick(nodes.columns, "node", "now", "waiting", "arrivals", "wait", "wait-p99", "oldest", "ready-p99")
	nodes.width, nodes.limit = summaryWidth, summaryNodes
	nodes.write(&b)

	edges := edgeTable(s, names)
	edges.title = "Most CPU goes into the steps"
	edges.columns = pick(edges.columns, "from", "to", "count", "cpu", "cpu-mean", "cpu-max")
	edges.width, edges.limit = summaryWidth, summaryEdges
	edges.write(&b)

	runTable(s, names).write(&b)
	resources := resourceTable(s)
	resources.title = "Resources"
	resources.width, resources.limit = summaryWidth, summaryRes
	resources.write(&b)
	_, err := w.Write(b.Bytes())
	return err
}

// runTable has the runs that were far longer than the rest.
func runTable(s *bgraph.Snapshot, names map[bgraph.Key]string) *textTable[[]string] {
	t := &textTable[[]string]{title: "Longest without yielding", width: summaryWidth, limit: summaryRuns,
		columns: plainColumns("from", "to", " longest", " p99", " mean", " too long")}
	for _, r := range longRuns(s) {
		row := []string{words.NameIn(names, r.from), "→ " + words.NameIn(names, r.to), words.Duration(r.longest), "", "", ""}
		if r.Edge == nil && r.to == bgraph.KeyStart {
			row[1] = "→ (had not ended)"
		}
		if r.Edge != nil {
			row[3], row[4], row[5] = words.QuantileText(&r.CPU, 0.99), words.Duration(r.MeanCPU()), words.Count(r.Overruns)
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// pick returns the columns with those names.
func pick[R any](columns []column[R], names ...string) []column[R] {
	var out []column[R]
	for _, name := range names {
		for _, c := range columns {
			if c.name == name {
				c.head = strings.TrimPrefix(c.head, "→ ")
				out = append(out, c)
			}
		}
	}
	return out
}
