package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Direction is 1 if more of a metric is good, -1 if less is, 0 if it only describes a run. Rates and
// counts of what was achieved are good, times, sizes and losses are not. The unit decides, but
// for a few names.
func Direction(metric, unit string) int {
	named := func(names ...string) bool {
		return slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(metric, name) || strings.HasSuffix(metric, "-"+name)
		})
	}
	switch {
	case named("server-busy", "client-busy", "client-late", "others", "missed", "asked", "read-from-disk", "consumed", "servlets", "capacity"):
		return 0
	case named("score", "goodput", "step-normal", "served", "answered", "released", "success", "clients", "ops-of-best", "sessions", "passed", "least-class-share", "last-to-first"):
		return 1
	case named("cpu", "refused", "lost", "killed"):
		return -1
	case unit == "tests", strings.HasSuffix(unit, "/s") && !strings.HasPrefix(unit, "ms"): // tests that pass
		return 1
	}
	return -1
}

// Difference is one value in two reports of the same experiment.
type Difference struct {
	Experiment    string
	Before, After Row
	// Worse is by which factor each run after is worse than each run before: above 1 if it is. It is 1 of fewer than
	// three runs each, which are all beyond the others by chance more often than once in twenty times.
	Worse float64
}

// Compare compares the values of some systems, or of all if none are named, that two reports
// of the same experiment have in common.
func Compare(before, after *Report, systems []string) []Difference {
	var found []Difference
	for _, b := range before.Rows {
		a, ok := after.Find(b.System, b.Metric, b.X)
		if !ok || systems != nil && !Own(systems, b.System) || slices.Contains(after.Details, b.Metric) {
			continue
		}
		d := Difference{before.Name, b, a, 1}
		switch direction := Direction(b.Metric, b.Unit); {
		case min(a.N, b.N) < 3 || min(a.Min, b.Min) < 0:
		case direction > 0 && a.Max < b.Min:
			d.Worse = b.Min / a.Max
		case direction < 0 && a.Min > b.Max:
			d.Worse = a.Min / b.Max
		}
		found = append(found, d)
	}
	return found
}

// WriteDifferences writes a line for each, marked where it is worse by more than the threshold,
// and returns how many are.
func WriteDifferences(w io.Writer, all []Difference, threshold float64) (worse int, err error) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "experiment\tsystem\tmetric\tx\tbefore\tafter\tratio\t")
	for _, d := range all {
		mark := ""
		if d.Worse > 1+threshold {
			mark = "worse"
			worse++
		}
		ratio := d.After.Value / d.Before.Value
		if d.After.Value == d.Before.Value {
			ratio = 1
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s %s %s\t%s %s\t%.3f\t%s\n", d.Experiment, d.Before.System, d.Before.Metric, Number(d.Before.X),
			Number(d.Before.Value), d.Before.Unit, spread(d.Before), Number(d.After.Value), spread(d.After), ratio, mark)
	}
	return worse, tab.Flush()
}
