package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Markdown is the report as a part of a document: where, when and by which command it
// was measured, a table for each metric, notes and what was skipped. picture is a link to its
// charts, "" if there is none.
func (r *Report) Markdown(picture string, ours ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "`%s`, %s, commit %.12s, on %s, %d cores, Linux %s, %s.\n",
		r.command(), strings.Replace(r.Env.Time, "T", " ", 1), r.Commit, r.Env.CPU, r.Env.Cores, r.Env.Kernel, r.Env.Go)
	if r.Env.Quick {
		b.WriteString("A quick run: few rounds of little time, so look at the spread.\n")
	} else {
		most := 0
		for _, row := range r.Rows {
			most = max(most, row.N)
		}
		fmt.Fprintf(&b, "A full run, each point measured %d times.\n", most)
	}
	for _, metrics := range r.tables() {
		r.markdownTable(&b, metrics, ours)
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
	for _, what := range slices.Sorted(maps.Keys(r.Env.Skipped)) {
		reason, _, _ := strings.Cut(r.Env.Skipped[what], "\n")
		fmt.Fprintf(&b, "- skipped: %s: %s\n", what, reason)
	}
	return b.String()
}

// command is what was typed.
func (r *Report) command() string {
	text := "go run ./bench run " + r.Name
	if r.Env.Quick {
		text += " -quick"
	}
	return strings.TrimSpace(text + " " + r.Env.Args)
}

// fewParameters is up to how many of them metrics share a table.
const fewParameters = 3

// tables are the metrics that say how good something is, those together that fit into one table:
// of the same systems, at the same few parameters.
func (r *Report) tables() [][]string {
	var all [][]string
	at := map[string]int{}
	for _, metric := range r.metrics() {
		systems, xs, unit := r.axes(metric)
		if Direction(metric, unit) == 0 {
			continue
		}
		shape := fmt.Sprint(systems, xs)
		if i, ok := at[shape]; ok && len(xs) <= fewParameters {
			all[i] = append(all[i], metric)
			continue
		}
		at[shape] = len(all)
		all = append(all, []string{metric})
	}
	return all
}

// markdownTable has a line for each parameter of each metric.
func (r *Report) markdownTable(b *strings.Builder, metrics, ours []string) {
	better := func(metric, unit string) string {
		if Direction(metric, unit) > 0 {
			return "more is better"
		}
		return "less is better"
	}
	systems, xs, unit := r.axes(metrics[0])
	columns := strings.Join(systems, " | ") + " |"
	peers := slices.ContainsFunc(systems, func(s string) bool { return !Own(ours, s) })
	if peers {
		columns += " against the best of the peers |"
	}
	columns += "\n|" + strings.Repeat("---|", strings.Count(columns, "|")+1) + "\n"
	line := func(metric string, x float64) {
		r.markdownCells(b, metric, x, systems)
		if peers {
			fmt.Fprintf(b, " %s |", r.verdict(metric, x, ours))
		}
		b.WriteByte('\n')
	}
	if len(metrics) > 1 {
		fmt.Fprintf(b, "\n| | x | %s", strings.Replace(columns, "|---|", "|---|---|", 1))
		for _, metric := range metrics {
			_, _, unit := r.axes(metric)
			for _, x := range xs {
				fmt.Fprintf(b, "| %s [%s], %s | %s |", metric, unit, better(metric, unit), r.label(x))
				line(metric, x)
			}
		}
		return
	}
	metric := metrics[0]
	fmt.Fprintf(b, "\n**%s** [%s], %s\n\n", metric, unit, better(metric, unit))
	good := slices.DeleteFunc(slices.Clone(xs), func(x float64) bool { return !r.allZero(metric, x) })
	if Direction(metric, unit) < 0 && len(good) > 3 {
		var names []string
		for _, x := range good {
			names = append(names, r.label(x))
		}
		fmt.Fprintf(b, "0 for all (%s) at x = %s.\n", strings.Join(systems, ", "), strings.Join(names, "; "))
		xs = slices.DeleteFunc(xs, func(x float64) bool { return slices.Contains(good, x) })
		if len(xs) == 0 {
			return
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(b, "| x | %s", columns)
	for _, x := range xs {
		fmt.Fprintf(b, "| %s |", r.label(x))
		line(metric, x)
	}
}

// allZero reports whether every run of every system gave 0.
func (r *Report) allZero(metric string, x float64) bool {
	return !slices.ContainsFunc(r.Rows, func(row Row) bool {
		return row.Metric == metric && row.X == x && (row.Min != 0 || row.Max != 0)
	})
}

func (r *Report) markdownCells(b *strings.Builder, metric string, x float64, systems []string) {
	for _, system := range systems {
		if row, ok := r.Find(system, metric, x); !ok {
			b.WriteString(" – |")
		} else if row.N < 2 {
			fmt.Fprintf(b, " %s |", Number(row.Value))
		} else {
			fmt.Fprintf(b, " %s %s |", Number(row.Value), spread(row))
		}
	}
}

// verdict reports how ours did beside the best of the peers.
func (r *Report) verdict(metric string, x float64, ours []string) string {
	d, ok := r.duel(metric, x, ours)
	switch {
	case !ok:
		return "–"
	case d.Our.N < 2 || d.Peer.N < 2:
		return fmt.Sprintf("%.2f: once, of %s", d.Ratio, d.Peer.System)
	}
	words := map[int]string{1: "wins over", 0: "like", -1: "**loses** to"}[d.Outcome]
	return fmt.Sprintf("%.2f: %s %s", d.Ratio, words, d.Peer.System)
}

// A Duel is our value beside the best peer's, at one parameter.
type Duel struct {
	Our, Peer Row
	Ratio     float64 // ours ÷ theirs
	Outcome   int     // 1 if each of our runs was better than each of theirs, -1 if worse, else 0
}

// Own reports whether a system is one of ours: it is named there, or its name is one of those, a dash
// and a setting, as in "knot-uring".
func Own(ours []string, system string) bool {
	return slices.ContainsFunc(ours, func(name string) bool {
		return system == name || strings.HasPrefix(system, name+"-")
	})
}

// rank is less the earlier a system of ours is named; with a setting it comes after all that are.
func rank(ours []string, system string) int {
	if i := slices.Index(ours, system); i >= 0 {
		return i
	}
	return len(ours)
}

// duel compares ours with the peers: the first that is named and has been measured, else the first of
// those with a setting. It reports false if there is nothing to compare.
func (r *Report) duel(metric string, x float64, ours []string) (Duel, bool) {
	var d Duel
	for _, row := range r.Rows {
		if row.Metric != metric || row.X != x {
			continue
		}
		better := float64(Direction(metric, row.Unit))
		if Own(ours, row.System) {
			if d.Our.System == "" || rank(ours, row.System) < rank(ours, d.Our.System) {
				d.Our = row
			}
		} else if d.Peer.System == "" || better*row.Value > better*d.Peer.Value {
			d.Peer = row
		}
	}
	if d.Our.Value == 0 || d.Peer.Value == 0 || Direction(metric, d.Our.Unit) == 0 {
		return d, false
	}
	d.Ratio = d.Our.Value / d.Peer.Value
	switch {
	case d.Our.N < 2 || d.Peer.N < 2:
	case d.Our.Max < d.Peer.Min:
		d.Outcome = -Direction(metric, d.Our.Unit)
	case d.Our.Min > d.Peer.Max:
		d.Outcome = Direction(metric, d.Our.Unit)
	}
	return d, true
}

// duels are all comparisons with peers.
func (r *Report) duels(ours []string) (all []Duel) {
	for _, metric := range r.metrics() {
		_, xs, _ := r.axes(metric)
		for _, x := range xs {
			if d, ok := r.duel(metric, x, ours); ok {
				all = append(all, d)
			}
		}
	}
	return all
}

// Losses are the comparisons with peers that were lost, the worst first.
func (r *Report) Losses(ours ...string) []Duel {
	lost := slices.DeleteFunc(r.duels(ours), func(d Duel) bool { return d.Outcome >= 0 })
	slices.SortStableFunc(lost, func(a, b Duel) int {
		return cmp.Compare(math.Abs(math.Log(b.Ratio)), math.Abs(math.Log(a.Ratio)))
	})
	return lost
}

// LossesTable is a table of all that was lost to a peer, and below it where our time went then,
// if that is known.
func LossesTable(reports []*Report, ours ...string) string {
	var b, profiles strings.Builder
	usual, processor := processors(reports)
	b.WriteString("What was lost to the best of the peers, by more than the spread: each of our runs was worse than each of theirs.\n" + usual +
		"\n| experiment | metric | x | ours | the peer's | ratio | command, date |\n|---|---|---|---|---|---|---|\n")
	lines := 0
	for _, r := range reports {
		disturbed := ""
		if r.Env.Disturbed() {
			disturbed = ", on a busy machine"
		}
		for _, d := range r.Losses(ours...) {
			lines++
			fmt.Fprintf(&b, "| %s | %s [%s] | %s | %s: %s %s | %s: %s %s | %.2f | `%s`, %.10s%s%s |\n", r.Name, d.Our.Metric, d.Our.Unit, r.label(d.Our.X),
				d.Our.System, Number(d.Our.Value), spread(d.Our), d.Peer.System, Number(d.Peer.Value), spread(d.Peer), d.Ratio, r.command(), r.Env.Time, processor(r), disturbed)
		}
		for _, p := range r.Profiles {
			fmt.Fprintf(&profiles, "- %s, %s: %s\n", r.Name, p.Of, strings.Join(p.Functions, ", "))
		}
	}
	if lines == 0 {
		return "Nothing of what is kept was lost to a peer by more than the spread.\n"
	}
	if profiles.Len() > 0 {
		b.WriteString("\nWhere the time of the server's core went then, the kernel's functions marked [k]:\n\n" + profiles.String())
	}
	return b.String()
}

// A Headline is a row of the first page: one value beside the best peer's.
type Headline struct {
	What               string
	Experiment, Metric string
	X                  float64
	Row                string // name of the parameter's value, instead of X
}

// Headlines is a table of a few values beside the best of the peers, each from the first report of its experiment.
func Headlines(reports []*Report, headlines []Headline, ours ...string) string {
	var b strings.Builder
	b.WriteString("| | | here | the best peer | ratio | tables, date |\n|---|---|---|---|---|---|\n")
	for _, h := range headlines {
		i := slices.IndexFunc(reports, func(r *Report) bool { return r.Name == h.Experiment })
		if i < 0 {
			continue
		}
		r, x := reports[i], h.X
		if h.Row != "" {
			x, _ = r.named(h.Row)
		}
		d, ok := r.duel(h.Metric, x, ours)
		if !ok {
			continue
		}
		goal := "less is better"
		if Direction(h.Metric, d.Our.Unit) > 0 {
			goal = "more is better"
		}
		fmt.Fprintf(&b, "| %s | %s, %s | %s | %s: %s | %.2f | [%s](results/%s.md), %.10s |\n",
			h.What, d.Our.Unit, goal, Number(d.Our.Value), d.Peer.System, Number(d.Peer.Value), d.Ratio, r.Name, r.Name, r.Env.Time)
	}
	return b.String()
}

// named is the parameter's value that has a name.
func (r *Report) named(name string) (x float64, ok bool) {
	for x, n := range r.Env.Names {
		if n == name {
			return float64(x), true
		}
	}
	return 0, false
}

// WorstLosses is a table of how much each experiment has lost to the best of the peers, and where most.
func WorstLosses(reports []*Report, ours ...string) string {
	var b strings.Builder
	usual, processor := processors(reports)
	b.WriteString(usual + "\n| experiment | lost, of all that compare | the worst | here | the peer | ratio |\n|---|---|---|---|---|---|\n")
	for _, r := range reports {
		lost, compared := r.Losses(ours...), len(r.duels(ours))
		if len(lost) == 0 {
			continue
		}
		d := lost[0]
		fmt.Fprintf(&b, "| [%s](results/%s.md)%s | %d of %d | %s [%s], x = %s | %s: %s | %s: %s | %.2f |\n", r.Name, r.Name, processor(r), len(lost), compared,
			d.Our.Metric, d.Our.Unit, r.label(d.Our.X), d.Our.System, Number(d.Our.Value), d.Peer.System, Number(d.Peer.Value), d.Ratio)
	}
	return b.String()
}

// processors tells apart the processors of reports, if there are several: usual says which one goes unnamed, as most have
// it, and name what another is called behind what it is about.
func processors(reports []*Report) (usual string, name func(*Report) string) {
	count := map[string]int{}
	most := ""
	for _, r := range reports {
		if count[r.Env.CPU]++; count[r.Env.CPU] > count[most] {
			most = r.Env.CPU
		}
	}
	if len(count) > 1 {
		usual = fmt.Sprintf("Where no processor is named it was an %s.\n", most)
	}
	return usual, func(r *Report) string {
		if r.Env.CPU == most {
			return ""
		}
		return ", " + r.Env.CPU
	}
}

// The marks of the part of a document that belongs to an experiment.
func blockMarks(name string) (begin, end string) {
	return "<!-- bench " + name + " -->\n", "<!-- end of " + name + " -->\n"
}

// ReplaceBlock puts text between the marks of name in a document, whose other text stays as it
// is. If there are none, the text is added at the end.
func ReplaceBlock(document, name, text string) (string, error) {
	begin, end := blockMarks(name)
	before, rest, found := strings.Cut(document, begin)
	if !found {
		return strings.TrimRight(document, "\n") + "\n\n" + begin + text + end, nil
	}
	_, after, ended := strings.Cut(rest, end)
	if !ended {
		return "", fmt.Errorf("the document has %q without %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + text + end + after, nil
}
