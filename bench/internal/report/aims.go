package report

import (
	"fmt"
	"strings"
)

// An Aim is what a value of ours is to reach: at most Limit where less is better, at least Limit where
// more is. Where Over is set, it is the value divided by that system's.
type Aim struct {
	Metric, System string
	X              float64
	Row            string // name of the parameter's value, instead of X
	Over           string // system of the other value
	OverX          float64
	Limit          float64
}

// result is what was measured, and whether the aim is reached; known is false if it was not measured.
func (r *Report) result(a Aim) (got float64, reached, known bool) {
	if a.Row != "" {
		x, found := r.named(a.Row)
		if !found {
			return 0, false, false
		}
		a.X, a.OverX = x, x
	}
	row, ok := r.Find(a.System, a.Metric, a.X)
	if !ok {
		return 0, false, false
	}
	got = row.Value
	if a.Over != "" {
		over, ok := r.Find(a.Over, a.Metric, a.OverX)
		if !ok || over.Value == 0 {
			return 0, false, false
		}
		got /= over.Value
	}
	if Direction(a.Metric, row.Unit) > 0 {
		return got, got >= a.Limit, true
	}
	return got, got <= a.Limit, true
}

// text reports what the aim is about, and its limit.
func (r *Report) text(a Aim) (what, limit string) {
	at := a.Row
	if at == "" {
		at = r.label(a.X)
	}
	what, unit := fmt.Sprintf("%s: %s, x = %s", a.System, a.Metric, at), ""
	for _, row := range r.Rows {
		if row.Metric == a.Metric {
			unit = row.Unit
		}
	}
	sign := "≤"
	if Direction(a.Metric, unit) > 0 {
		sign = "≥"
	}
	switch {
	case a.Over != "" && a.OverX != a.X:
		what += fmt.Sprintf(" ÷ %s, x = %s", a.Over, r.label(a.OverX))
		unit = ""
	case a.Over != "":
		what += " ÷ " + a.Over
		unit = ""
	}
	return what, strings.TrimSpace(fmt.Sprintf("%s %s %s", sign, Number(a.Limit), unit))
}

// AimsTable is a table of the aims of an experiment and what was measured, in Markdown.
func (r *Report) AimsTable(aims []Aim) string {
	var b strings.Builder
	for i, a := range aims {
		if i == 0 {
			b.WriteString("\n| aim | | here | |\n|---|---|---|---|\n")
		}
		what, limit := r.text(a)
		got, reached, known := r.result(a)
		switch {
		case !known:
			fmt.Fprintf(&b, "| %s | %s | – | not measured |\n", what, limit)
		case reached:
			fmt.Fprintf(&b, "| %s | %s | %s | reached |\n", what, limit, Number(got))
		default:
			fmt.Fprintf(&b, "| %s | %s | %s | **missed** |\n", what, limit, Number(got))
		}
	}
	return b.String()
}

// MissedTable says how many of the aims, by experiment, are reached, with a table of the missed aims.
func MissedTable(reports []*Report, aims map[string][]Aim) string {
	var b strings.Builder
	reached, measured := 0, 0
	usual, processor := processors(reports)
	for _, r := range reports {
		for _, a := range aims[r.Name] {
			got, ok, known := r.result(a)
			if !known {
				continue
			}
			measured++
			if ok {
				reached++
				continue
			}
			what, limit := r.text(a)
			fmt.Fprintf(&b, "| %s%s | %s | %s | %s |\n", r.Name, processor(r), what, limit, Number(got))
		}
	}
	head := fmt.Sprintf("Of %d aims that were measured %d are reached.\n", measured, reached)
	if b.Len() > 0 {
		head = strings.TrimSuffix(head, "\n") + " These are not:\n" + usual + "\n| experiment | aim | | here |\n|---|---|---|---|\n"
	}
	return head + b.String()
}
