package tables

import (
	"bytes"
	"cmp"
	"fmt"
	"io"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/words"
)

// markdownRows is how many rows of a table WriteMarkdown writes by default.
const markdownRows = 10

// WriteMarkdown writes what is most important as Markdown, for an issue: what program it is,
// what lint finds, where most time goes, and the first rows of the tables of nodes, edges and crossings.
// Of the options it knows Limit (0: 10) and Whole. It does not park.
func WriteMarkdown(w io.Writer, s *bgraph.Snapshot, o Options) error {
	limit := o.Limit
	if limit <= 0 {
		limit = markdownRows
	}
	var b bytes.Buffer
	for _, line := range words.Head(s) {
		fmt.Fprintf(&b, "%s  \n", words.Markdown(line))
	}
	for _, f := range lint.FindPart(cmp.Or(o.Whole, s), s) {
		fmt.Fprintf(&b, "\n- **%s %s**, %s: %s %s\n", f.Severity, f.Check, words.Markdown(f.Name), words.Markdown(f.Message), words.Markdown(f.Advice))
	}
	names := words.Names(s)
	if len(s.Sources) > 0 {
		sources := sourceTable(s, names)
		fmt.Fprintf(&b, "\n%s\n", sources.title)
		writeMarkdownTable(&b, sources, cmp.Or(o.Limit, usualSources))
	}
	for i, fact := range factsOf(s, names) {
		if i == 0 {
			fmt.Fprintln(&b)
		}
		fmt.Fprintf(&b, "- %s\n", words.Markdown(fact))
	}
	nodes, edges := nodeTable(s, names), edgeTable(s, names)
	writeMarkdownTable(&b, nodes, limit)
	writeMarkdownTable(&b, edges, limit)
	if len(s.Crossings) > 0 {
		fmt.Fprintf(&b, "\n%s\n", words.Markdown(crossingTitle(s)))
		writeMarkdownTable(&b, crossingTable(s, nodeCrossings(s, names)), limit)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeMarkdownTable[R any](b *bytes.Buffer, t *textTable[R], limit int) {
	if len(t.rows) == 0 {
		return
	}
	fmt.Fprintln(b)
	t.columns = t.used(t.rows[:min(len(t.rows), limit)])
	rule := ""
	for _, c := range t.columns {
		fmt.Fprintf(b, "| %s ", c.head)
		if c.left {
			rule += "|---"
		} else {
			rule += "|--:"
		}
	}
	fmt.Fprintf(b, "|\n%s|\n", rule)
	for i := range t.rows[:min(len(t.rows), limit)] {
		for _, c := range t.columns {
			fmt.Fprintf(b, "| %s ", words.Markdown(c.text(&t.rows[i])))
		}
		fmt.Fprintln(b, "|")
	}
	if rest := len(t.rows) - limit; rest > 0 {
		fmt.Fprintf(b, "\n… and %s more\n", words.Count(rest))
	}
}
