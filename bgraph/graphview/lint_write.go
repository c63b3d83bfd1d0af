package graphview

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
)

const (
	findingWidth = 96 // columns
	findingStack = 24 // lines of a stack
)

// WriteFindings writes what Lint found in s as text for people, at most 100 columns
// wide but for names and stacks.
func WriteFindings(w io.Writer, s *bgraph.Snapshot, findings []Finding) error {
	out := new(bytes.Buffer)
	process := ""
	if s.Program.PID != 0 { // a trace does not tell
		process = fmt.Sprintf("process %d, ", s.Program.PID)
	}
	what := fmt.Sprintf("%s (%s%s, %s)", cleanText(s.Program.Name), process, loopsText(s), durationText(s.Span))
	if len(findings) == 0 {
		_, err := fmt.Fprintf(w, "Nothing found in %s.\n", what)
		return err
	}
	fmt.Fprintf(out, "%s in %s\n", plural(len(findings), "finding"), what)
	advised := map[string]bool{}
	for i := range findings {
		f := &findings[i]
		fmt.Fprintf(out, "\n%-7s  %s: %s\n", f.Severity, f.Check, cleanText(f.Name))
		writeWrapped(out, f.Message, findingWidth)
		if f.Advice != "" && !advised[f.Advice] { // once: several findings of a check have the same
			writeWrapped(out, "→ "+f.Advice, findingWidth)
			advised[f.Advice] = true
		}
		writeStack(out, f)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func writeStack(out *bytes.Buffer, f *Finding) {
	if f.Stack == "" {
		return
	}
	fmt.Fprintln(out, "    The stack at its end:")
	lines := strings.Split(strings.TrimRight(f.Stack, "\n"), "\n")
	if own := slices.IndexFunc(lines, ofProgram); len(lines) > findingStack && own > 4 { // else those of the standard library hide it
		lines = slices.Concat(lines[:2], []string{fmt.Sprintf("… %d functions of the standard library", (own-2)/2)}, lines[own:])
	}
	for i, line := range lines {
		if i == findingStack {
			fmt.Fprintf(out, "        … %d more lines\n", len(lines)-i)
			return
		}
		indent := ""
		if strings.HasPrefix(line, "\t") {
			indent = "    "
		}
		fmt.Fprintf(out, "        %s%s\n", indent, cleanText(strings.TrimLeft(line, "\t")))
	}
}

// ofProgram reports whether a line of a stack names a function that is not of the standard library.
func ofProgram(line string) bool {
	return line != "" && line[0] != '\t' && !funcname.OfStandardLibrary(line)
}

// writeWrapped writes text as an indented paragraph.
func writeWrapped(out *bytes.Buffer, text string, width int) {
	const indent = "    "
	column := 0
	for _, word := range strings.Fields(text) {
		word = cleanText(word)
		n := textWidth(word)
		switch {
		case column == 0:
			out.WriteString(indent)
			column = len(indent)
		case column+1+n > width:
			out.WriteString("\n" + indent)
			column = len(indent)
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += n
	}
	out.WriteByte('\n')
}

func plural(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return countText(n) + " " + thing
}
