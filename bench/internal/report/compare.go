package report

import (
	"fmt"
	"io"
	"math"
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
	case named("goodput", "step-normal", "served", "answered", "released", "success", "clients", "ops-of-best", "sessions", "passed", "least-class-share", "last-to-first"):
		return 1
	case named("cpu", "refused", "lost", "killed"):
		return -1
	case unit == "tests", strings.HasSuffix(unit, "/s") && !strings.HasPrefix(unit, "ms"): // those that pass
		return 1
	}
	return -1
}

// Ratio is how a value has changed: after divided by before, with the bounds of the interval
// that holds the true ratio with 95 % confidence; both are NaN if there are not enough samples
// to know.
type Ratio struct{ Value, Low, High float64 }

// RatioOf compares two sets of samples of a positive value: the ratio of their geometric
// means, and Welch's interval of the difference of their logarithms. A 0 has no logarithm: see apart.
func RatioOf(before, after []float64) Ratio {
	m0, v0, ok0 := logMoments(before)
	m1, v1, ok1 := logMoments(after)
	r := Ratio{math.Exp(m1 - m0), math.NaN(), math.NaN()}
	if !ok0 || !ok1 {
		return apart(before, after)
	}
	n0, n1 := float64(len(before)), float64(len(after))
	if n0 < 2 || n1 < 2 {
		return r
	}
	e0, e1 := v0/n0, v1/n1
	if e0+e1 == 0 {
		return Ratio{r.Value, r.Value, r.Value}
	}
	freedom := (e0 + e1) * (e0 + e1) / (e0*e0/(n0-1) + e1*e1/(n1-1))
	half := student975(freedom) * math.Sqrt(e0+e1)
	r.Low, r.High = r.Value*math.Exp(-half), r.Value*math.Exp(half)
	return r
}

// apart compares samples of which some are 0, as of what was refused, or served by a server that was killed. It knows
// more than the ratio of the medians if all are 0, or if three of each or more do not overlap, which two sets alike do
// by chance once in twenty times: the ratio is then between those of the ends.
func apart(before, after []float64) Ratio {
	r := Ratio{Median(after) / Median(before), math.NaN(), math.NaN()}
	if Median(after) == Median(before) {
		r.Value = 1
	}
	if min(len(before), len(after)) == 0 {
		return r
	}
	least0, most0, least1, most1 := slices.Min(before), slices.Max(before), slices.Min(after), slices.Max(after)
	switch {
	case min(least0, least1) < 0:
	case max(most0, most1) == 0:
		r.Low, r.High = 1, 1
	case min(len(before), len(after)) >= 3 && (least1 > most0 || most1 < least0):
		r.Low, r.High = least1/most0, most1/least0
	}
	return r
}

// logMoments are the mean and the variance of the logarithms; false if a value has none.
func logMoments(values []float64) (mean, variance float64, ok bool) {
	for _, v := range values {
		if v <= 0 {
			return 0, 0, false
		}
		mean += math.Log(v) / float64(len(values))
	}
	for _, v := range values {
		d := math.Log(v) - mean
		variance += d * d / float64(max(len(values)-1, 1))
	}
	return mean, variance, len(values) > 0
}

// student975 is the 97.5 % quantile of Student's distribution, with the degrees of freedom
// rounded down, so that intervals are rather too wide.
func student975(freedom float64) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120}
	i := int(freedom) - 1
	switch {
	case i < 0:
		return table[0]
	case i < len(table):
		return table[i]
	case freedom < 30:
		return 2.11
	}
	return 2.04
}

// Difference is one value in two reports of the same experiment.
type Difference struct {
	Experiment    string
	Before, After Row
	Ratio         Ratio
	// Worse is by which factor it has become worse at least, with 95 % confidence: above 1
	// if it has; 1 if that is not known.
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
		d := Difference{before.Name, b, a, RatioOf(b.Samples, a.Samples), 1}
		switch {
		case math.IsNaN(d.Ratio.Low):
		case Direction(b.Metric, b.Unit) > 0:
			d.Worse = 1 / d.Ratio.High
		case Direction(b.Metric, b.Unit) < 0:
			d.Worse = d.Ratio.Low
		}
		found = append(found, d)
	}
	return found
}

// WriteDifferences writes a line for each, marked where it is worse by more than the threshold,
// and returns how many are.
func WriteDifferences(w io.Writer, all []Difference, threshold float64) (worse int, err error) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "experiment\tsystem\tmetric\tx\tbefore\tafter\tratio\t95 %\t")
	for _, d := range all {
		mark := ""
		if d.Worse > 1+threshold {
			mark = "worse"
			worse++
		}
		interval := "one run only"
		if min(len(d.Before.Samples), len(d.After.Samples)) > 1 {
			interval = "not known" // see apart
		}
		if !math.IsNaN(d.Ratio.Low) {
			interval = fmt.Sprintf("%.3f to %.3f", d.Ratio.Low, d.Ratio.High)
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s %s\t%s\t%.3f\t%s\t%s\n", d.Experiment, d.Before.System, d.Before.Metric, Number(d.Before.X),
			Number(d.Before.Value), d.Before.Unit, Number(d.After.Value), d.Ratio.Value, interval, mark)
	}
	return worse, tab.Flush()
}
