package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/report"
)

const (
	allSubscriptions = 1_000_000
	allEvents        = 100_000
	eventsInFlight   = 1000
)

// cohortSizes are the points of the experiment; 0 is unlimited. The paper's are those up to
// 20; modelSizes are those of the model.
var (
	cohortSizes = []float64{1, 4, 10, 20, 100, 400, 0}
	modelSizes  = []int{20, 100, 0}
)

const (
	pubsubOverhead = 700 * time.Millisecond // of a sample: a million subscriptions are made
	modelTime      = 8 * time.Second        // of the model of caches
)

// cohortPubsubExperiment is the publish-subscribe server of the Cohort Scheduling paper, section
// 5.2: what it gains to match many events against one part of the subscriptions after the
// other; and Figure 8.
var cohortPubsubExperiment = experiment{
	name: "cohort-pubsub",
	doc:  "matching events against a million subscriptions (Cohort Scheduling, section 5.2 and Figure 8)",
	parts: []part{{
		points: pointsAt("events", cohortSizes...),
		systems: func(r *run) []contender {
			all := slower(pubsubOverhead, eachOf(r.pubsubSampler, "capriccio", "capriccio-fifo", "goroutine"))
			return sittingOut(all, without("has no cohorts: its figure was measured once, at 0", func(p point) bool { return p.x != 0 }), "capriccio-fifo", "goroutine")
		},
		length:   3 * time.Second,
		reserved: quickBudget * 6 / 10, // for the model, and the clients
	}, {
		points: pointsAt("response", 1, 4, 16, 32),
		quick:  pointsAt("response", 16),
		systems: func(r *run) []contender {
			return slower(pubsubOverhead, eachOf(r.responseSampler, "capriccio", oneStageSystem, "capriccio-fifo", "goroutine"))
		},
		length:   time.Second,
		reserved: modelTime,
	}},
	after: func(r *run) error { return r.prepare(modelTime, r.addPubsubModel) },
	notes: []string{
		"response: x clients, each with one event under way; capriccio-one-stage: cohorts, but all of the matching in one stage, so that nothing is put together by the part of the data that it needs",
		fmt.Sprintf("%d subscriptions in 64 MB, %d events in flight; x is the size of a cohort, 0: unlimited", allSubscriptions, eventsInFlight),
		"capriccio-fifo has the same stages; goroutine has none and matches each event from beginning to end; neither has cohorts: one measurement stands at every x",
		"model-misses: cache lines that an event does not find in a cache of x KiB, 16 ways, by the order of the matching; capriccio with unlimited cohorts. " +
			"model-l2, model-l3: the same for 1 MiB and 32 MiB, by the size of a cohort",
	},
	charts: []report.Chart{
		{Title: "Events a second by size of a cohort (0: unlimited)", Metric: "events", XLabel: "cohort size", Bars: true},
		{Title: "Response time by clients", Metric: "response", XLabel: "clients", LogY: true},
		{Title: "Lines missing in the cache, model", Metric: "model-misses", XLabel: "KiB of cache", LogY: true},
	},
}

// oneStageSystem is capriccio with all of the matching in one stage.
const oneStageSystem = "capriccio-one-stage"

// responseSampler matches the events of a few clients.
func (r *run) responseSampler(system string) sampler {
	of, oneStage := strings.CutSuffix(system, "-one-stage")
	return func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		return r.pubsubSamples(ctx, d, "by-clients", true, "system", of, "one-stage", oneStage, "flight", p.x, "for", d)
	}
}

// pubsubSampler measures one system; one without cohorts at all sizes at once.
func (r *run) pubsubSampler(system string) sampler {
	return func(ctx context.Context, p point, d time.Duration) (all []sample, err error) {
		samples, err := r.pubsubSamples(ctx, d, "system", system, "size", p.x, "for", d)
		if system == "capriccio" {
			return samples, err
		}
		for _, size := range cohortSizes {
			all = append(all, allAt(size, slices.Clone(samples))...)
		}
		return all, err
	}
}

func (r *run) pubsubSamples(ctx context.Context, d time.Duration, flags ...any) ([]sample, error) {
	return samplesOf(ctx, d, r.ownOnServerCore(nil, append([]string{"pubsub"}, flagPairs(flags...)...)...))
}

// addPubsubModel runs the model of caches.
func (r *run) addPubsubModel() error {
	lines, err := linesOf(r.ctx, time.Minute, r.ownOnServerCore(nil, "pubsub", "-model"))
	if err != nil {
		return err
	}
	for _, line := range lines {
		system, rest, _ := strings.Cut(line, " ")
		samples, err := parseSamples([]string{rest})
		if err == nil {
			err = r.add(system, samples)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
