package report

import (
	"fmt"
	"slices"
	"strings"
)

// A Figure is one line of the README's table: a measured value beside those of the peers that are named.
type Figure struct {
	Fit                string // the first column, for the first line of its kind
	What               string
	Experiment, Metric string
	X                  float64
	Our                string   // the system that is ours
	Peers              []string // as the results name them
	Scale              float64  // the shown value is the measured one times this; 0: 1
}

// FiguresTable is a table of figures, each with a link to its experiment, and under it the processor of each experiment. A figure
// that was not measured is an error.
func FiguresTable(reports []*Report, figures []Figure) (string, error) {
	var b strings.Builder
	b.WriteString("| | | Knot | others |\n|---|---|---|---|\n")
	var processors []string
	experiments := map[string][]string{} // by processor
	for _, f := range figures {
		i := slices.IndexFunc(reports, func(r *Report) bool { return r.Name == f.Experiment })
		if i < 0 {
			return "", fmt.Errorf("%s: no results of %s", f.What, f.Experiment)
		}
		r := reports[i]
		our, err := r.shown(f, f.Our)
		if err != nil {
			return "", err
		}
		var peers []string
		for _, peer := range f.Peers {
			value, err := r.shown(f, peer)
			if err != nil {
				return "", err
			}
			peers = append(peers, strings.Replace(peer, "net-http", "net/http", 1)+" "+value)
		}
		fmt.Fprintf(&b, "| %s | %s | [%s](docs/results/%s.md) | %s |\n", f.Fit, f.What, our, r.Name, strings.Join(peers, ", "))
		if !slices.Contains(processors, r.Env.CPU) {
			processors = append(processors, r.Env.CPU)
		}
		if !slices.Contains(experiments[r.Env.CPU], r.Name) {
			experiments[r.Env.CPU] = append(experiments[r.Env.CPU], r.Name)
		}
	}
	for i, p := range processors {
		processors[i] = strings.Join(experiments[p], ", ") + ": " + p
	}
	fmt.Fprintf(&b, "\n%s.\n", strings.Join(processors, "; "))
	return b.String(), nil
}

func (r *Report) shown(f Figure, system string) (string, error) {
	row, found := r.Find(system, f.Metric, f.X)
	if !found {
		return "", fmt.Errorf("%s: %s has no %s of %s at x = %s", f.What, r.Name, f.Metric, system, r.label(f.X))
	}
	scale := f.Scale
	if scale == 0 {
		scale = 1
	}
	return Number(row.Value * scale), nil
}
