package draw

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlayout"
	"github.com/capriccio-go/capriccio/internal/words"
)

// WriteDOT writes the Snapshot as a directed graph for the dot command of Graphviz: the
// same nodes, figures and colours as WriteSVG, placed by dot. An unknown o.Color is an
// error. It does not park.
func WriteDOT(w io.Writer, s *bgraph.Snapshot, o Options) error {
	d, err := layout(s, o)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "digraph %s {\n", quoted("blocking graph of "+words.OrUnknown(s.Program.Name)))
	fmt.Fprintf(&b, "\tgraph [label=%s, labelloc=t, fontname=\"Helvetica\", fontsize=12, ranksep=0.6, nodesep=0.35];\n",
		quoted(strings.Join(words.Head(s)[:2], "\n")))
	fmt.Fprint(&b, "\tnode [shape=box, style=\"rounded,filled\", color=\"#6e7781\", fontname=\"Helvetica\"];\n"+
		"\tedge [fontname=\"Helvetica\", fontsize=9];\n")
	for i := range d.Nodes {
		n := &d.Nodes[i]
		var lines []string
		var size float64
		for _, l := range n.Lines {
			lines = append(lines, l.Text)
			if l.Bold {
				size = l.Size
			}
		}
		shape := ""
		switch n.Key {
		case bgraph.KeyStart, bgraph.KeyEnd:
			shape = ", shape=oval, style=filled"
		case bgraph.KeyOverflow, graphlayout.KeyOthers:
			shape = ", style=\"rounded,filled,dashed\""
		}
		if n.Mark != nil {
			shape += fmt.Sprintf(", color=\"%s\", penwidth=3, xlabel=\"%d\"", n.Mark.Color, n.Mark.Number)
		}
		fmt.Fprintf(&b, "\tn%v [label=%s, tooltip=%s, fillcolor=\"%s\", fontcolor=\"%s\", fontsize=%.1f, width=%.2f, height=%.2f%s];\n",
			n.Key, quoted(strings.Join(lines, "\n")), quoted(n.Title), n.Fill, n.Ink, size, n.W/cssPerInch, n.H/cssPerInch, shape)
	}
	for i := range d.Edges {
		e := &d.Edges[i]
		style := ""
		if e.Back {
			style = ", style=dashed"
		}
		if e.Mark != nil && e.Mark.Step {
			style += fmt.Sprintf(", xlabel=\"%d\"", e.Mark.Number)
		}
		title := quoted(e.Title)
		fmt.Fprintf(&b, "\tn%v -> n%v [label=%s, tooltip=%s, labeltooltip=%s, color=\"%s\", penwidth=%.1f, weight=%d%s];\n",
			e.From, e.To, quoted(e.Label), title, title, e.Stroke, e.Width, 1+int(e.Width), style)
	}
	b.WriteString("}\n")
	_, err = w.Write(b.Bytes())
	return err
}

const cssPerInch = 96

// quoted is a string as DOT has it. Backslashes are doubled, so that only the ends of lines are
// escapes.
func quoted(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(words.Clean(lines[i]))
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}
