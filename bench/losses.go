package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	lossesProfiled = 3 // the worst of an experiment's losses, in points of their own
	profileLines   = 8 // functions
)

// profileLosses measures the worst of what was lost to a peer once more, and notes where the time of the
// server's core goes meanwhile. What perf can't do is left out.
func (r *run) profileLosses(points []point, contenders []contender, length time.Duration) {
	rows := report.Report{Rows: r.samples.Rows(), Details: r.details}
	done := map[string]bool{}
	for _, p := range r.profiles {
		done[p.Of] = true
	}
	for _, loss := range rows.Losses(ours...) {
		i := slices.IndexFunc(points, func(p point) bool { return p.x == loss.Our.X && p.metric == loss.Our.Metric })
		if i < 0 {
			i = slices.IndexFunc(points, func(p point) bool { return p.x == loss.Our.X })
		}
		j := slices.IndexFunc(contenders, func(c contender) bool { return c.system == loss.Our.System })
		if i < 0 || j < 0 || done[contenders[j].system+" "+points[i].String()] {
			continue
		}
		if len(done) >= lossesProfiled {
			return
		}
		of := contenders[j].system + " " + points[i].String()
		done[of] = true
		fmt.Fprintf(r.progress, "profile of %s, which lost to %s\n", of, loss.Peer.System)
		functions, err := r.profile(func() error {
			_, err := contenders[j].sample(r.ctx, points[i], length)
			return err
		})
		if r.ctx.Err() != nil {
			return
		}
		if err != nil {
			r.skip("profile of "+of, err)
			continue
		}
		r.profiles = append(r.profiles, report.Profile{Of: of, Functions: functions})
	}
}

// profile samples the server core while f runs: the kernel's clock, as a virtual machine often has no
// counters.
func (r *run) profile(f func() error) ([]string, error) {
	tool, err := exec.LookPath("perf")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(r.scratch, "perf.data")
	ctx, stop := context.WithCancel(r.ctx)
	defer stop()
	record := exec.CommandContext(ctx, tool, "record", "-q", "-e", "cpu-clock", "-C", strconv.Itoa(serverCore), "-o", data)
	record.Cancel = func() error { return record.Process.Signal(os.Interrupt) } // then it writes what it has
	if err := record.Start(); err != nil {
		return nil, err
	}
	err = f()
	stop()
	_ = record.Wait() // it was interrupted; if there was another reason, the report has it
	if err != nil {
		return nil, err
	}
	text, err := exec.CommandContext(r.ctx, tool, "report", "-i", data, "--stdio", "--sort", "symbol", "-t", "|").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("perf report: %w: %s", err, lastLine(text))
	}
	functions := topFunctions(string(text))
	if len(functions) == 0 {
		return nil, errors.New("perf report names no function")
	}
	return functions, nil
}

// topFunctions reads the first lines of what perf report prints with | between the fields.
func topFunctions(text string) []string {
	var found []string
	for line := range strings.Lines(text) {
		share, rest, ok := strings.Cut(strings.TrimSpace(line), "|")
		if !ok || strings.HasPrefix(share, "#") || len(found) == profileLines {
			continue
		}
		symbol, _, _ := strings.Cut(rest, "|")
		space, name, ok := strings.Cut(strings.TrimSpace(symbol), " ")
		if !ok {
			continue
		}
		name = strings.TrimSpace(name)
		if space == "[k]" {
			name += " [k]"
		}
		found = append(found, strings.TrimSuffix(strings.TrimSpace(share), "%")+" % "+name)
	}
	return found
}
