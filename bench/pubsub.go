package main

import (
	"context"
	"fmt"
	"strconv"
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

// runCohortPubsub is the publish-subscribe server of the Cohort Scheduling paper, section
// 5.2: what it gains to match many events against one part of the subscriptions after the
// other.
func runCohortPubsub(r *run) error {
	points := pointsAt("events", cohortSizes...)
	contenders := []contender{r.pubsubContender("capriccio"), r.pubsubContender("capriccio-fifo"), r.pubsubContender("goroutine")}
	r.reserved = quickBudget * 6 / 10 // for the model, and the clients
	r.measure(points, slower(pubsubOverhead, contenders), 3*time.Second)
	r.reserved = 0
	if err := r.prepare(modelTime, r.addPubsubModel); err != nil {
		return err
	}
	points, contenders = pointsAt("response", 1, 4, 16, 32), r.clientContenders() // of Figure 8
	if r.quick {
		points = points[2:3]
	}
	r.measure(points, slower(pubsubOverhead, contenders), time.Second)
	r.note("response: x clients, each with one event under way; capriccio-one-stage: cohorts, but all of the matching in one stage, so that nothing is put together by the part of the data that it needs")
	r.note("%d subscriptions in 64 MB, %d events in flight; x is the size of a cohort, 0: unlimited", allSubscriptions, eventsInFlight)
	r.note("capriccio-fifo has the same stages; goroutine has none and matches each event from beginning to end; neither has cohorts: one measurement stands at every x")
	r.note("model-misses: cache lines that an event does not find in a cache of x KiB, 16 ways, by the order of the matching; capriccio with unlimited cohorts. " +
		"model-l2, model-l3: the same for 1 MiB and 32 MiB, by the size of a cohort")
	r.charts = []report.Chart{
		{Title: "Events a second by size of a cohort (0: unlimited)", Metric: "events", XLabel: "cohort size", Bars: true},
		{Title: "Response time by clients", Metric: "response", XLabel: "clients", LogY: true},
		{Title: "Lines missing in the cache, model", Metric: "model-misses", XLabel: "KiB of cache", LogY: true},
	}
	return nil
}

// clientContenders match the events of a few clients.
func (r *run) clientContenders() (found []contender) {
	for _, c := range []struct{ name, system, oneStage string }{
		{"capriccio", "capriccio", "false"}, {"capriccio-one-stage", "capriccio", "true"},
		{"capriccio-fifo", "capriccio-fifo", "false"}, {"goroutine", "goroutine", "false"},
	} {
		found = append(found, contender{system: c.name, sample: func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
			return r.pubsubSamples(ctx, d, "-by-clients", "-system", c.system, "-one-stage="+c.oneStage, "-flight", fmt.Sprint(int(p.x)), "-for", d.String())
		}})
	}
	return found
}

// pubsubContender measures one system. Those without cohorts are measured once a round.
func (r *run) pubsubContender(system string) contender {
	c := contender{system: system}
	if system != "capriccio" {
		c.lacks = without("has no cohorts: its figure was measured once, at 0", func(p point) bool { return p.x != 0 })
	}
	c.sample = func(ctx context.Context, p point, d time.Duration) ([]sample, error) {
		samples, err := r.pubsubSamples(ctx, d, "-system", system, "-size", strconv.FormatFloat(p.x, 'f', -1, 64), "-for", d.String())
		if err != nil || c.lacks == nil {
			return samples, err
		}
		var everywhere []sample
		for _, size := range cohortSizes {
			for _, one := range samples {
				one.x = size
				everywhere = append(everywhere, one)
			}
		}
		return everywhere, nil
	}
	return c
}

func (r *run) pubsubSamples(ctx context.Context, d time.Duration, args ...string) ([]sample, error) {
	return samplesOf(ctx, d, r.ownOnServerCore(nil, append([]string{"pubsub"}, args...)...))
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
		if err != nil {
			return err
		}
		s := samples[0]
		kilobytes, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(s.metric, "model-misses-"), "K"))
		if err != nil {
			return fmt.Errorf("model: %q: %w", line, err)
		}
		if s.x == 0 {
			one := sample{"model-misses", "lines", float64(kilobytes), s.value}
			if err := r.add(system, []sample{one}); err != nil {
				return err
			}
		}
		for metric, of := range map[string]int{"model-l2": 1 << 10, "model-l3": 32 << 10} {
			if kilobytes == of {
				if err := r.add(system, []sample{{metric, "lines", s.x, s.value}}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
