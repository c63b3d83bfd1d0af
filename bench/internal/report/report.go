// Package report holds what an experiment measured and writes it: as JSON for
// programs, as a table for people, as SVG charts for both.
//
// It starts nothing and measures nothing.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
)

// Row is one measured value: the median of N runs, with the extremes.
type Row struct {
	System string  `json:"system"`
	Metric string  `json:"metric"`
	Unit   string  `json:"unit"`
	X      float64 `json:"x"` // the swept parameter, 0 if there is none
	Value  float64 `json:"value"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
	// Samples are what Value is the median of, in the order of the runs.
	Samples []float64 `json:"samples,omitempty"`
}

// Env is where and when an experiment ran.
type Env struct {
	Time    string            `json:"time"` // RFC 3339, UTC
	Go      string            `json:"go"`
	Kernel  string            `json:"kernel"`
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Quick   bool              `json:"quick"`
	Args    string            `json:"args,omitempty"`   // of the command besides name and -quick
	Others  float64           `json:"others,omitempty"` // share of the processors' time that other programs had, in percent
	Notes   []string          `json:"notes,omitempty"`
	Skipped map[string]string `json:"skipped,omitempty"` // what was left out, and why
	Names   map[int]string    `json:"names,omitempty"`   // of the parameter's values, if it only numbers things
}

// Disturbed reports whether other programs had so much of the machine that values of two runs, or of a
// server of one thread and one of many, can't be compared.
func (e *Env) Disturbed() bool { return e.Others > 10 }

// Report is one run of one experiment.
type Report struct {
	Name   string  `json:"name"`
	Commit string  `json:"commit"`
	Env    Env     `json:"env"`
	Took   float64 `json:"seconds,omitempty"` // that the experiment took
	Charts []Chart `json:"charts,omitempty"`
	Rows   []Row   `json:"rows"`
	// Details are metrics that WriteTable leaves out.
	Details []string `json:"details,omitempty"`
	// Profiles say what the server's core did in some of the points that were lost to a peer.
	Profiles []Profile `json:"profiles,omitempty"`
}

// A Profile is where the time of the server's core went while something was measured.
type Profile struct {
	Of        string   `json:"of"`        // system, metric and parameter
	Functions []string `json:"functions"` // with their shares, the greatest first
}

// WriteJSON writes the report, indented.
func (r *Report) WriteJSON(w io.Writer) error {
	out := *r
	if out.Rows == nil {
		out.Rows = []Row{}
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(out)
}

// Find returns the row of a system, a metric and a parameter.
func (r *Report) Find(system, metric string, x float64) (Row, bool) {
	for _, row := range r.Rows {
		if row.System == system && row.Metric == metric && row.X == x {
			return row, true
		}
	}
	return Row{}, false
}

// key names one cell: the samples that belong together.
type key struct {
	system, metric string
	x              float64
}

// Samples gathers measured values until they become rows. The zero value is
// empty and ready. Not safe for use by several goroutines.
type Samples struct {
	order  []key
	units  map[key]string
	values map[key][]float64
}

// Add records one value. A value that is not a number, or a unit that differs
// from the cell's earlier one, is refused.
func (s *Samples) Add(system, metric, unit string, x, value float64) error {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return fmt.Errorf("%s %s at x=%v: value is %v", system, metric, x, value)
	}
	if s.values == nil {
		s.units, s.values = map[key]string{}, map[key][]float64{}
	}
	k := key{system, metric, x}
	if known, ok := s.units[k]; !ok {
		s.order = append(s.order, k)
		s.units[k] = unit
	} else if known != unit {
		return fmt.Errorf("%s %s at x=%v: unit is %q, was %q", system, metric, x, unit, known)
	}
	s.values[k] = append(s.values[k], value)
	return nil
}

// Rows are the medians so far, in the order in which the cells first appeared.
func (s *Samples) Rows() []Row {
	rows := make([]Row, 0, len(s.order))
	for _, k := range s.order {
		rows = append(rows, rowOf(k, s.units[k], slices.Clone(s.values[k])))
	}
	return rows
}

// rowOf is the row of a cell that has these values.
func rowOf(k key, unit string, values []float64) Row {
	return Row{
		System: k.system, Metric: k.metric, Unit: unit, X: k.x,
		Value: Median(values), Min: slices.Min(values), Max: slices.Max(values), N: len(values), Samples: values,
	}
}

// Median is the middle of the values, or the mean of the middle two; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
