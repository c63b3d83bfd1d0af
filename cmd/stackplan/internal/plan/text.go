package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// pathSteps is how many steps of a path are written, and of the members of a recursion.
const pathSteps = 24

// WriteText writes the report for people, in plain text; with all set, it has all checkpoints, parking calls, trusted
// functions, and steps of all paths.
func (r *Report) WriteText(w io.Writer, all bool) error {
	t := &textWriter{all: all}
	t.f("Stacks of %s (%s, %s)\n", r.Package, r.Go, r.Arch)
	t.f("%d of %d functions are reached.\n", r.Reached, r.Functions)
	t.entries(r)
	t.recursion(r)
	t.plan(r)
	var parks []string
	for _, p := range r.Parks {
		parks = append(parks, p.Site+"  "+t.short(p.Callees))
	}
	t.names("Calls on which a task may park", parks, "call")
	t.names("Indirect calls whose targets are not known", r.Unknown, "call")
	t.names("Trusted: assembly, and what annotations give a bound to", r.NoFrame, "function")
	t.sweep(r)
	_, err := w.Write(t.b.Bytes())
	return err
}

type textWriter struct {
	b   bytes.Buffer
	all bool
}

func (t *textWriter) f(format string, args ...any) { fmt.Fprintf(&t.b, format, args...) }

func (t *textWriter) title(title string) { t.f("\n%s\n%s\n", title, strings.Repeat("-", len(title))) }

// more says how many lines were left out.
func (t *textWriter) more(n int, what string) {
	if n > 0 {
		t.f("  … and %s (-v writes all)\n", count(n, "more "+what))
	}
}

// count is a number with its noun.
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// limit is how many of n lines are written.
func (t *textWriter) limit(n, most int) int {
	if t.all {
		return n
	}
	return min(n, most)
}

func (t *textWriter) entries(r *Report) {
	t.title("Where stacks begin")
	t.f("%10s %12s %10s  %s\n", "bound", "with a panic", "to the 1st", "function")
	t.f("%10s %12s %10s\n", "", "", "checkpoint")
	for _, e := range r.Entries {
		mark := ""
		if e.Recursive {
			mark = ", recursive"
		}
		t.f("%10v %12v %10v  %s (%s%s)\n", e.Bound, e.Bound+e.Panic, e.First, e.Function, e.Kind, mark)
	}
	t.f("A recursion counts as going round once more than it need.\n")
	for i, e := range r.Entries {
		if i > 0 && !t.all {
			t.more(len(r.Entries)-1, "path")
			return
		}
		t.f("\nThe deepest path from %s:\n", e.Function)
		var sum Bytes
		n := t.limit(len(e.Path), pathSteps)
		for _, s := range e.Path[:n] {
			sum += s.Takes
			again := ""
			if s.Again {
				again = "   (round again from here)"
			}
			t.f("%8d %8d  %s%s\n", s.Takes, sum, s.Function, again)
		}
		t.more(len(e.Path)-n, "step")
	}
}

func (t *textWriter) recursion(r *Report) {
	t.title("Recursion")
	if len(r.Recursion) == 0 {
		t.f("There is none.\n")
	}
	n := t.limit(len(r.Recursion), 10)
	for _, x := range r.Recursion[:n] {
		t.f("%s, broken by %s", count(len(x.Functions), "function"), count(x.Checkpoints, "checkpoint"))
		if x.Open > 0 {
			t.f("; left open at %s, in circles without a call that may be rewritten", count(x.Open, "call"))
		}
		t.f("\n")
		k := t.limit(len(x.Functions), 6)
		for _, f := range x.Functions[:k] {
			t.f("    %s\n", f)
		}
		if k < len(x.Functions) {
			t.f("    …\n")
		}
	}
	t.more(len(r.Recursion)-n, "recursion")
}

func (t *textWriter) plan(r *Report) {
	p := r.Plan
	t.title("Checkpoints")
	t.f("MaxPath %v, MinChunk %v: %d of %d calls are checkpoints (%s).\n", p.MaxPath, p.MinChunk, len(p.Checkpoints), p.CallSites, percent(len(p.Checkpoints), p.CallSites))
	t.f("The longest path between two of them takes %v.\n", p.Longest)
	n := t.limit(len(p.Checkpoints), 20)
	for _, c := range p.Checkpoints[:n] {
		mark := ""
		if c.BackEdge {
			mark = "  breaks a recursion"
		}
		t.f("%10v  %s  %s%s\n", c.Need, c.Site, t.short(c.Callee), mark)
	}
	t.more(len(p.Checkpoints)-n, "checkpoint")
}

// short cuts lists of many functions.
func (t *textWriter) short(names string) string {
	all := strings.Split(names, ", ")
	if n := t.limit(len(all), 2); n < len(all) {
		return fmt.Sprintf("%s and %d others", strings.Join(all[:n], ", "), len(all)-n)
	}
	return names
}

func percent(part, whole int) string {
	if whole == 0 {
		return "0 %"
	}
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(whole))
}

// names lists names.
func (t *textWriter) names(title string, list []string, what string) {
	t.title(title)
	if len(list) == 0 {
		t.f("There is none.\n")
	}
	n := t.limit(len(list), 10)
	for _, name := range list[:n] {
		t.f("  %s\n", name)
	}
	t.more(len(list)-n, what)
}

func (t *textWriter) sweep(r *Report) {
	t.title("Share of the calls that are checkpoints")
	t.f("%10s %12s %8s %8s %14s\n", "MaxPath", "checkpoints", "calls", "share", "longest path")
	for _, s := range r.Sweep {
		t.f("%10v %12d %8d %8s %14v\n", s.MaxPath, s.Checkpoints, s.CallSites, percent(s.Checkpoints, s.CallSites), s.Longest)
	}
}

// WriteJSON writes the report as indented JSON.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}
