package lint

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

const (
	FindingWidth = 96 // columns
	findingStack = 24 // lines of a stack
)

// Write writes what Find found in s as text for people, at most 100 columns
// wide but for names and stacks.
func Write(w io.Writer, s *bgraph.Snapshot, findings []Finding) error {
	out := new(bytes.Buffer)
	process := ""
	if s.Program.PID != 0 { // a trace does not tell
		process = fmt.Sprintf("process %d, ", s.Program.PID)
	}
	what := fmt.Sprintf("%s (%s%s, %s)", words.Clean(s.Program.Name), process, words.Loops(s), words.Duration(s.Span))
	if len(findings) == 0 {
		_, err := fmt.Fprintf(w, "Nothing found in %s.\n", what)
		return err
	}
	fmt.Fprintf(out, "%s in %s\n", words.Plural(len(findings), "finding"), what)
	advised := map[string]bool{}
	for i := range findings {
		f := &findings[i]
		fmt.Fprintf(out, "\n%-7s  %s: %s\n", f.Severity, f.Check, words.Clean(f.Name))
		if f.At != "" {
			fmt.Fprintf(out, "    at %s\n", words.Clean(f.At))
		}
		if f.Path != "" {
			fmt.Fprintf(out, "    in %s\n", words.Clean(f.Path))
		}
		words.WriteParagraph(out, f.Message, FindingWidth)
		if f.Advice != "" && !advised[f.Advice] { // once: several findings of a check have the same
			words.WriteParagraph(out, "→ "+f.Advice, FindingWidth)
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
		fmt.Fprintf(out, "        %s%s\n", indent, words.Clean(strings.TrimLeft(line, "\t")))
	}
}

// ofProgram reports whether a line of a stack names a function that is not of the standard library.
func ofProgram(line string) bool {
	return line != "" && line[0] != '\t' && !funcname.OfStandardLibrary(line)
}
