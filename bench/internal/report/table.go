package report

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable writes the report for people: a block for each metric, a line for
// each parameter, a column for each system. Beside each value stand its spread
// (half the range, in percent of the median) and, for systems other than ours,
// our value divided by theirs.
func (r *Report) WriteTable(w io.Writer, ours ...string) error {
	fmt.Fprintf(w, "%s at commit %s\n%s, %s, Linux %s, %d cores\n",
		r.Name, r.Commit, r.Env.CPU, r.Env.Go, r.Env.Kernel, r.Env.Cores)
	for _, metric := range r.metrics() {
		if err := r.writeMetric(w, metric, ours); err != nil {
			return err
		}
	}
	for _, note := range r.Env.Notes {
		fmt.Fprintf(w, "\nnote: %s", note)
	}
	for _, what := range slices.Sorted(maps.Keys(r.Env.Skipped)) {
		reason, more, _ := strings.Cut(r.Env.Skipped[what], "\n")
		if more != "" {
			reason += " …"
		}
		fmt.Fprintf(w, "\nskipped: %s: %s", what, reason)
	}
	_, err := fmt.Fprintln(w)
	return err
}

func (r *Report) writeMetric(w io.Writer, metric string, ours []string) error {
	systems, xs, unit := r.axes(metric)
	fmt.Fprintf(w, "\n%s [%s]   value ±spread", metric, unit)
	us := ""
	for _, name := range systems {
		if Own(ours, name) && (us == "" || rank(ours, name) < rank(ours, us)) {
			us = name
		}
	}
	if us != "" && len(systems) > 1 {
		fmt.Fprintf(w, " (%s ÷ this system)", us)
	}
	fmt.Fprintln(w)
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tab, "x\t%s\t\n", strings.Join(systems, "\t"))
	for _, x := range xs {
		our, haveOurs := r.Find(us, metric, x)
		fmt.Fprintf(tab, "%s\t", r.label(x))
		for _, system := range systems {
			row, ok := r.Find(system, metric, x)
			switch {
			case !ok:
				fmt.Fprint(tab, "–\t")
			case !haveOurs || system == us || row.Value == 0:
				fmt.Fprintf(tab, "%s %s\t", Number(row.Value), spread(row))
			default:
				fmt.Fprintf(tab, "%s %s (%.2f)\t", Number(row.Value), spread(row), our.Value/row.Value)
			}
		}
		fmt.Fprintln(tab)
	}
	return tab.Flush()
}

// label is a parameter, with its name if it has one.
func (r *Report) label(x float64) string {
	if name, ok := r.Env.Names[int(x)]; ok {
		return name + " " + Number(x)
	}
	return Number(x)
}

// metrics lists the metrics in the order of their first rows.
func (r *Report) metrics() []string {
	var names []string
	for _, row := range r.Rows {
		if !slices.Contains(names, row.Metric) && !slices.Contains(r.Details, row.Metric) {
			names = append(names, row.Metric)
		}
	}
	return names
}

// axes lists the systems (in order of appearance over the whole report) and
// the parameters (ascending) of a metric, with its unit.
func (r *Report) axes(metric string) (systems []string, xs []float64, unit string) {
	has := map[string]bool{}
	for _, row := range r.Rows {
		if row.Metric == metric {
			has[row.System] = true
			unit = row.Unit
			if !slices.Contains(xs, row.X) {
				xs = append(xs, row.X)
			}
		}
	}
	for _, row := range r.Rows {
		if has[row.System] && !slices.Contains(systems, row.System) {
			systems = append(systems, row.System)
		}
	}
	slices.Sort(xs)
	return systems, xs, unit
}

func spread(row Row) string {
	if row.N < 2 || row.Value == 0 {
		return "±?"
	}
	return fmt.Sprintf("±%.0f%%", math.Abs((row.Max-row.Min)/2/row.Value)*100)
}

// Number formats a value with three significant digits at least, and with
// thousands apart: 0.512, 63.1, 1,290,000.
func Number(v float64) string {
	a := math.Abs(v)
	decimals := 0
	switch {
	case v == math.Trunc(v):
	case a < 1:
		decimals = 3
	case a < 10:
		decimals = 2
	case a < 100:
		decimals = 1
	}
	text := strconv.FormatFloat(v, 'f', decimals, 64)
	whole, rest, _ := strings.Cut(text, ".")
	sign := ""
	if strings.HasPrefix(whole, "-") {
		sign, whole = "-", whole[1:]
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if rest != "" {
		rest = "." + rest
	}
	return sign + whole + rest
}
