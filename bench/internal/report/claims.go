package report

import (
	"fmt"
	"math"
	"strings"
)

// A Claim is a published figure, and which of our values it compares with: the
// value of a system at a parameter or, where Over is set, that value divided by another system's.
type Claim struct {
	What, Source string
	Metric       string
	System       string
	X            float64
	Over         string // system of the other value
	OverX        float64
	Published    float64
}

// ClaimsTable is a table of what was published beside what was measured. A ratio agrees if it
// is on the same side of 1, or within 5 % of 1 where the published one is; a value if it is no worse.
func (r *Report) ClaimsTable(claims []Claim) string {
	if len(claims) == 0 {
		return ""
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
	return b.String()
}

func (r *Report) judge(c Claim) (float64, string) {
	got, reached, known := r.result(Aim{Metric: c.Metric, System: c.System, X: c.X, Over: c.Over, OverX: c.OverX, Limit: c.Published})
	switch {
	case !known:
		return math.NaN(), "not measured"
	case c.Over == "" && reached:
		return got, "as good as published"
	case c.Over == "":
		return got, "**worse than published**"
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
	if side(got) != side(c.Published) {
		return got, "**not as published**"
	}
	return got, "as published"
}
