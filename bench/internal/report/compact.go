package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// A series is the rows of one system and metric in a results file. It has only the samples, as medians and spreads follow from them.
type series struct {
	System  string      `json:"system"`
	Metric  string      `json:"metric"`
	Unit    string      `json:"unit"`
	X       []float64   `json:"x"`
	Samples [][]float64 `json:"samples"`
}

// compact is a report in the JSON that is kept, which has series in place of rows.
type compact struct {
	Report
	Rows   []Row    `json:"rows,omitempty"` // hides that of the report
	Series []series `json:"series,omitempty"`
}

// Read reads a report that WriteJSON or WriteCompact has written.
func Read(data []byte) (*Report, error) {
	var c compact
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, err
	}
	r := &c.Report
	r.Rows = c.Rows
	for _, s := range c.Series {
		if len(s.X) != len(s.Samples) {
			return nil, fmt.Errorf("%s %s: %d parameters, but samples of %d", s.System, s.Metric, len(s.X), len(s.Samples))
		}
		for i, x := range s.X {
			if len(s.Samples[i]) == 0 {
				return nil, fmt.Errorf("%s %s at x=%v: no samples", s.System, s.Metric, x)
			}
			r.Rows = append(r.Rows, rowOf(key{s.System, s.Metric, x}, s.Unit, s.Samples[i]))
		}
	}
	return r, nil
}

// keptDigits are enough for the bytes of a process.
const keptDigits = 8

// WriteCompact writes the report as it is kept: a line for each series.
func (r *Report) WriteCompact(w io.Writer) error {
	var head, lines bytes.Buffer
	enc := json.NewEncoder(&head)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(compact{Report: *r}); err != nil {
		return err
	}
	for i, s := range r.series() {
		line, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if i > 0 {
			lines.WriteString(",\n")
		}
		lines.Write(line)
	}
	_, err := fmt.Fprintf(w, "%s,\n \"series\": [\n%s\n ]\n}\n", bytes.TrimSuffix(head.Bytes(), []byte("\n}\n")), &lines)
	return err
}

// series are the rows, those of one system and metric together.
func (r *Report) series() (all []series) {
	for _, row := range r.Rows {
		i := slices.IndexFunc(all, func(s series) bool {
			return s.System == row.System && s.Metric == row.Metric && s.Unit == row.Unit
		})
		if i < 0 {
			i = len(all)
			all = append(all, series{System: row.System, Metric: row.Metric, Unit: row.Unit})
		}
		var rounded []float64
		for _, v := range row.Samples {
			v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', keptDigits, 64), 64) // of what it has formatted itself
			rounded = append(rounded, v)
		}
		all[i].X = append(all[i].X, row.X)
		all[i].Samples = append(all[i].Samples, rounded)
	}
	return all
}
