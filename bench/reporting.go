package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

// The blocks of the document that are about all experiments: what was lost to a peer, and aims that were missed.
const (
	lossesName = "losses"
	missedName = "missed"
)

// reportCommand writes the tables and plots of a document from kept results. Of each experiment
// the newest full run on each kind of processor counts, or, without one, the newest quick run.
func reportCommand(from, document string, out io.Writer) error {
	reports, err := findReports(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	text, plots := string(data), strings.TrimSuffix(filepath.Base(document), filepath.Ext(document))
	if err := os.MkdirAll(filepath.Join(filepath.Dir(document), plots), 0o777); err != nil {
		return err
	}
	var used []*report.Report
	for _, e := range experiments {
		best := newest(e.name, reports)
		if len(best) == 0 {
			continue
		}
		if text, err = reportBlock(text, e, best, document, plots); err != nil {
			return err
		}
		for _, r := range best {
			fmt.Fprintf(out, "%s: of %s, on %s\n", e.name, r.Env.Time, r.Env.CPU)
		}
		used = append(used, best...)
	}
	if len(used) == 0 {
		return fmt.Errorf("%s has no results of experiments", from)
	}
	var losses, missed strings.Builder
	if err := errors.Join(report.WriteLosses(&losses, used, ours...), report.WriteMissed(&missed, used, aims)); err != nil {
		return err
	}
	if text, err = report.ReplaceBlock(text, lossesName, losses.String(), true); err != nil {
		return err
	}
	if text, err = report.ReplaceBlock(text, missedName, missed.String(), true); err != nil {
		return err
	}
	return os.WriteFile(document, []byte(text), 0o666)
}

// newest are the reports of an experiment that count, one for each kind of processor.
func newest(name string, reports []*report.Report) []*report.Report {
	var best []*report.Report
	for _, r := range reports {
		if r.Name != name {
			continue
		}
		i := 0
		for i < len(best) && best[i].Env.CPU != r.Env.CPU {
			i++
		}
		if i == len(best) {
			best = append(best, r)
		} else if b := best[i]; b.Env.Quick && !r.Env.Quick || b.Env.Quick == r.Env.Quick && b.Env.Time < r.Env.Time {
			best[i] = r
		}
	}
	return best
}

// reportBlock writes one experiment's part of a document, and its pictures, of which plots is the folder.
func reportBlock(text string, e experiment, reports []*report.Report, document, plots string) (string, error) {
	var block strings.Builder
	for i, r := range reports {
		picture := filepath.Join(plots, e.name+".svg")
		if i > 0 {
			picture = filepath.Join(plots, fmt.Sprintf("%s-%d.svg", e.name, i+1))
			block.WriteString("\n")
		}
		path := filepath.Join(filepath.Dir(document), picture)
		drawn := false
		if err := writeFile(path, func(w io.Writer) (err error) {
			drawn, err = r.WriteSVG(w, r.Charts)
			return err
		}); err != nil {
			return "", err
		}
		if !drawn {
			picture = ""
			if err := os.Remove(path); err != nil {
				return "", err
			}
		}
		if err := r.WriteMarkdown(&block, filepath.ToSlash(picture), ours...); err != nil {
			return "", err
		}
		if err := errors.Join(r.WriteAims(&block, aims[e.name]), r.WriteClaims(&block, published[e.name])); err != nil {
			return "", err
		}
	}
	return report.ReplaceBlock(text, e.name, block.String(), false)
}
