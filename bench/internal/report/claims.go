package report

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// A Claim is a figure that somebody has published, and which of our values it compares with: the
// value of a system at a parameter or, where Over is set, that value divided by another one's.
type Claim struct {
	What, Source string
	Metric       string
	System       string
	X            float64
	Over         string // system of the other value
	OverMetric   string // "": Metric
	OverX        float64
	Published    float64
}

// WriteClaims writes a table of what was published beside what was measured. A ratio agrees if it
// is on the same side of 1, or within 5 % of 1 where the published one is; a value if it is no worse.
func (r *Report) WriteClaims(w io.Writer, claims []Claim) error {
	if len(claims) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("\n| published | by | there | here | verdict |\n|---|---|---|---|---|\n")
	for _, c := range claims {
		got, verdict := r.judge(c)
		here := "–"
		if !math.IsNaN(got) {
			here = Number(got)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.What, c.Source, Number(c.Published), here, verdict)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) judge(c Claim) (float64, string) {
	row, ok := r.Find(c.System, c.Metric, c.X)
	if !ok {
		return math.NaN(), "not measured"
	}
	if c.Over == "" {
		if better := float64(Direction(c.Metric, row.Unit)); better*row.Value < better*c.Published {
			return row.Value, "**worse than published**"
		}
		return row.Value, "as good as published"
	}
	metric := c.OverMetric
	if metric == "" {
		metric = c.Metric
	}
	over, ok := r.Find(c.Over, metric, c.OverX)
	if !ok || over.Value == 0 {
		return math.NaN(), "not measured"
	}
	side := func(ratio float64) int {
		switch {
		case ratio > 1.05:
			return 1
		case ratio < 1/1.05:
			return -1
		}
		return 0
	}
	ratio := row.Value / over.Value
	if side(ratio) != side(c.Published) {
		return ratio, "**not as published**"
	}
	return ratio, "as published"
}
