package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The blocks of the document that are about all experiments: what was lost to a peer, and aims that were missed.
const (
	lossesName = "losses"
	missedName = "missed"
)

// reportCommand writes the tables and plots of a document from kept results and from those that it
// was made from before, which stay beside its plots. Of each experiment the newest full run on each
// kind of processor counts. Quick runs count where there is no full one on any.
func reportCommand(from, document string, out io.Writer) error {
	data, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, plots := string(data), strings.TrimSuffix(filepath.Base(document), filepath.Ext(document))
	shown := filepath.Join(filepath.Dir(document), plots, "data")
	if err := os.MkdirAll(shown, 0o777); err != nil {
		return err
	}
	reports, err := findReports(from)
	if err != nil {
		return err
	}
	before, err := keptReports(shown)
	if err != nil {
		return err
	}
	reports = append(reports, before...)
	var used []*report.Report
	for _, e := range experiments {
		best := newest(e.name, reports)
		if len(best) == 0 {
			continue
		}
		if text, err = reportBlock(text, e, best, document, plots); err != nil {
			return err
		}
		for i, r := range best {
			if err := writeFile(filepath.Join(shown, nthName(e.name, i)+".json"), r.WriteJSON); err != nil {
				return err
			}
		}
		for _, r := range best {
			fmt.Fprintf(out, "%s: of %s, on %s\n", e.name, r.Env.Time, r.Env.CPU)
		}
		used = append(used, best...)
	}
	if len(used) == 0 {
		return fmt.Errorf("%s has no results of experiments", from)
	}
	if text, err = report.ReplaceBlock(text, lossesName, report.LossesTable(used, ours...), true); err != nil {
		return err
	}
	if text, err = report.ReplaceBlock(text, missedName, report.MissedTable(used, aims), true); err != nil {
		return err
	}
	return writeFile(document, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}

// newest are the reports of an experiment that count, one for each kind of processor, the newest first.
func newest(name string, reports []*report.Report) []*report.Report {
	isFull := func(r *report.Report) bool { return r.Name == name && !r.Env.Quick }
	full := slices.ContainsFunc(reports, isFull)
	var best []*report.Report
	for _, r := range reports {
		if r.Name != name || full && !isFull(r) {
			continue
		}
		i := 0
		for i < len(best) && best[i].Env.CPU != r.Env.CPU {
			i++
		}
		if i == len(best) {
			best = append(best, r)
		} else if best[i].Env.Time < r.Env.Time {
			best[i] = r
		}
	}
	slices.SortStableFunc(best, func(a, b *report.Report) int { return strings.Compare(b.Env.Time, a.Env.Time) })
	return best
}

// nthName is the name of the i-th file of an experiment, the first of which has no number.
func nthName(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s-%d", name, i+1)
}

// reportBlock writes one experiment's part of a document, and its pictures, of which plots is the folder.
func reportBlock(text string, e experiment, reports []*report.Report, document, plots string) (string, error) {
	var block strings.Builder
	for i, r := range reports {
		picture := filepath.Join(plots, nthName(e.name, i)+".svg")
		if i > 0 {
			block.WriteString("\n")
		}
		drawn, err := draw(r, filepath.Join(filepath.Dir(document), picture))
		if err != nil {
			return "", err
		}
		if !drawn {
			picture = ""
		}
		block.WriteString(r.Markdown(filepath.ToSlash(picture), ours...) + r.AimsTable(aims[e.name]) + r.ClaimsTable(published[e.name]))
	}
	return report.ReplaceBlock(text, e.name, block.String(), false)
}
