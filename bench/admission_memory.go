package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	admissionLimit = 256 << 20 // GOMEMLIMIT
	admissionCap   = 512 << 20 // above it a process is killed
	fixedLimit     = "fixed-limit"
)

// memorySystems are the systems without a limit to the producers, and the flags of their
// workers.
var memorySystems = []struct {
	system, scheduler string
	flags             []string
}{
	{"capriccio", "resource", []string{"-declare", "entrance"}},
	{"capriccio-declared", "resource", []string{"-declare", "resource"}},
	{"capriccio-undeclared", "resource", nil},
	{"capriccio-fifo", "fifo", nil},
	{"goroutine", "", []string{"-goroutines"}},
}

// admissionMemoryExperiment is the Capriccio paper's section 5.3: producers that would fill any
// memory, and how many of them each system lets go on.
var admissionMemoryExperiment = experiment{
	name: "admission-memory",
	doc:  "producers that would fill any memory, under a limit (section 5.3)",
	parts: []part{{
		points: pointsAt("ops", 0),
		systems: func(r *run) (all []contender) {
			for _, s := range memorySystems {
				all = append(all, r.memoryContender(s.system, s.scheduler, s.flags))
			}
			return all
		},
		length:   2 * time.Second,
		reserved: quickBudget / 2,
	}, {
		points:  pointsAt("ops", 5, 10, 20, 22, 24, 40, 80),
		quick:   pointsAt("ops", 10, 20, 22, 24, 40),
		systems: func(r *run) []contender { return []contender{r.memoryContender(fixedLimit, "fifo", nil)} },
		length:  2 * time.Second,
	}},
	after: func(r *run) error { return r.prepare(0, r.addShareOfBest) },
	notes: []string{
		fmt.Sprintf("%d producers of %d KiB each, which take %v an item and the processor, and %d consumers, which take %v: they can do %.0f a second. GOMEMLIMIT=%dMiB, killed above %d MiB",
			memoryProducers, memoryBuffer>>10, produceTime, memoryConsumers, consumeTime, memoryConsumers/consumeTime.Seconds(), admissionLimit>>20, admissionCap>>20),
		"x is the producers that may produce at a time, by a semaphore, under fifo (fixed-limit); 0: all. ops-of-best is in percent of the best fixed limit",
		"capriccio: an item enters through a ressched.Entrance and leaves when it was consumed; -declared: a ressched.Resource counts the buffers' bytes, limit unknown; -undeclared: nothing but the memory limit is known",
		"gc-share: the garbage collector's share of the processor time that the program used; gc-of-core: of all there was, like runtime.MemStats.GCCPUFraction",
		"ops of a killed system: what was consumed before, over the whole time; rss-mb is the most there was",
	},
	charts: []report.Chart{
		{Title: "Items consumed a second", Metric: "ops", XLabel: "producers at a time, 0: all", Bars: true},
		{Title: "Memory, most there was", Metric: "rss-mb", XLabel: "producers at a time, 0: all", Bars: true},
	},
}

// memoryContender runs the program once; with a point's x, if it is not 0, as the limit of
// producers.
func (r *run) memoryContender(system, scheduler string, flags []string) contender {
	return contender{system: system, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		env := []string{"GOMEMLIMIT=" + strconv.Itoa(admissionLimit)}
		if scheduler != "" {
			env = append(env, capriccio.EnvSched+"="+scheduler)
		}
		args := append([]string{"memory", "-for", d.String(), "-producers", strconv.Itoa(int(p.x))}, flags...)
		return runBelowCap(ctx, r.ownOnServerCore(env, args...), admissionCap, p.x, d)
	}}
}

// runBelowCap runs a worker, see belowCap, that prints how much it has consumed.
func runBelowCap(ctx context.Context, command proc.Command, most int64, x float64, d time.Duration) ([]sample, error) {
	printed, peak, killed, err := belowCap(ctx, memoryWarmUp+d, command, most)
	if err != nil {
		return nil, err
	}
	var samples []sample
	consumed := 0.0
	for _, one := range printed {
		if one.metric == "consumed" {
			consumed = one.value
		} else {
			samples = append(samples, one)
		}
	}
	samples = append(samples, sample{"rss-mb", "MB", x, peak})
	if killed {
		samples = append(samples, sample{"ops", "ops/s", x, consumed / d.Seconds()})
	}
	return append(samples, sample{"killed", "1", x, choose(killed, 1.0, 0)}), nil
}

// addShareOfBest compares the systems without a limit with the best fixed one.
func (r *run) addShareOfBest() error {
	best := 0.0
	rows := r.samples.Rows()
	for _, row := range rows {
		if row.System == fixedLimit && row.Metric == "ops" {
			best = max(best, row.Value)
		}
	}
	for _, row := range rows {
		if row.System != fixedLimit && row.Metric == "ops" && best > 0 {
			if err := r.add(row.System, []sample{{"ops-of-best", "%", 0, 100 * row.Value / best}}); err != nil {
				return err
			}
		}
	}
	return nil
}
