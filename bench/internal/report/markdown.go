package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// WriteMarkdown writes the report as a part of a document: where, when and by which command it
// was measured, a table for each metric, notes and what was skipped. picture is a link to its
// charts, "" if there is none.
func (r *Report) WriteMarkdown(w io.Writer, picture string, ours ...string) error {
	var b strings.Builder
	quick := ""
	if r.Env.Quick {
		quick = " -quick"
	}
	fmt.Fprintf(&b, "`go run ./bench run %s%s`, %s, commit %.12s, on %s, %d cores, Linux %s, %s.\n",
		r.Name, quick, strings.Replace(r.Env.Time, "T", " ", 1), r.Commit, r.Env.CPU, r.Env.Cores, r.Env.Kernel, r.Env.Go)
	if r.Env.Quick {
		b.WriteString("**A quick run**: it shows that the experiment works, and no more.\n")
	}
	for _, metric := range r.metrics() {
		r.markdownMetric(&b, metric, ours)
	}
	if picture != "" {
		fmt.Fprintf(&b, "\n![%s](%s)\n", r.Name, picture)
	}
	for i, note := range r.Env.Notes {
		if i == 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "- %s\n", note)
	}
	for _, what := range sortedKeys(r.Env.Skipped) {
		reason, _, _ := strings.Cut(r.Env.Skipped[what], "\n")
		fmt.Fprintf(&b, "- skipped: %s: %s\n", what, reason)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) markdownMetric(b *strings.Builder, metric string, ours []string) {
	systems, xs, unit := r.axes(metric)
	us := ""
	if i := slices.IndexFunc(ours, func(name string) bool { return slices.Contains(systems, name) }); i >= 0 {
		us = ours[i]
	}
	best, direction := "lowest", "less"
	if HigherIsBetter(metric, unit) {
		best, direction = "highest", "more"
	}
	fmt.Fprintf(b, "\n**%s** [%s], %s is better\n\n| x | %s | against the %s of the peers |\n|---|%s---|\n",
		metric, unit, direction, strings.Join(systems, " | "), best, strings.Repeat("---|", len(systems)))
	for _, x := range xs {
		fmt.Fprintf(b, "| %s |", r.label(x))
		for _, system := range systems {
			if row, ok := r.Find(system, metric, x); ok {
				fmt.Fprintf(b, " %s %s |", Number(row.Value), spread(row))
			} else {
				b.WriteString(" – |")
			}
		}
		fmt.Fprintf(b, " %s |\n", r.verdict(us, metric, x, systems, ours))
	}
}

// verdict compares our value with the best peer's.
func (r *Report) verdict(us, metric string, x float64, systems, ours []string) string {
	our, ok := r.Find(us, metric, x)
	if !ok {
		return "–"
	}
	var best Row
	for _, system := range systems {
		row, ok := r.Find(system, metric, x)
		if !ok || slices.Contains(ours, system) {
			continue
		}
		if better := row.Value < best.Value; best.System == "" || better != HigherIsBetter(metric, row.Unit) && row.Value != best.Value {
			best = row
		}
	}
	if best.System == "" || best.Value == 0 || our.Value == 0 {
		return "–"
	}
	ratio := our.Value / best.Value
	verdict := "like"
	switch higher := HigherIsBetter(metric, our.Unit); {
	case our.N < 2 || best.N < 2:
		verdict = "once, of"
	case our.Max < best.Min:
		verdict = map[bool]string{true: "**loses** to", false: "wins over"}[higher]
	case our.Min > best.Max:
		verdict = map[bool]string{true: "wins over", false: "**loses** to"}[higher]
	}
	return fmt.Sprintf("%.2f: %s %s", ratio, verdict, best.System)
}

// The marks of the part of a document that belongs to an experiment.
func blockMarks(name string) (begin, end string) {
	return "<!-- bench " + name + " -->\n", "<!-- end of " + name + " -->\n"
}

// ReplaceBlock puts text between the marks of name in a document, whose other text stays as it
// is. If there are none, the text is appended under a heading of that name.
func ReplaceBlock(document, name, text string) (string, error) {
	begin, end := blockMarks(name)
	before, rest, found := strings.Cut(document, begin)
	if !found {
		return strings.TrimRight(document, "\n") + "\n\n## " + name + "\n\n" + begin + text + end, nil
	}
	_, after, found := strings.Cut(rest, end)
	if !found {
		return "", fmt.Errorf("the document has %q without %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}
