package main

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/sched"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

const testSubscriptions = 20_000

// naiveMatch is what match is compared with.
func naiveMatch(n int, values *eventValues) (found []uint32) {
	for i := range n {
		s := subscriptionAt(i)
		satisfied := true
		for _, p := range s.predicates[:s.n] {
			satisfied = satisfied && p.holds(values)
		}
		if satisfied {
			found = append(found, uint32(i))
		}
	}
	return found
}

// satisfying is an event that satisfies subscription i, its other values drawn by chance.
func satisfying(i int) (values eventValues) {
	l := newRNG(uint64(i) + 1<<50)
	for a := range values {
		values[a] = uint8(l.below(pubsubValues))
	}
	s := subscriptionAt(i)
	for _, p := range s.predicates[:s.n] {
		for !p.holds(&values) {
			values[p>>7] = uint8(l.below(pubsubValues))
		}
	}
	return values
}

func TestMatchingFindsWhatTheNaiveMatcherFinds(t *testing.T) {
	all := newSubscriptions(testSubscriptions)
	for i := range 60 {
		var e matching
		e.begin(i)
		if i%2 == 0 { // few events as drawn satisfy any of so few subscriptions
			e.values = satisfying(i * 300)
			e.bits.fill(&e.values)
		}
		touched := 0
		for stage := range stageNames {
			if e.needs(stage) {
				e.match(all, stage)
				m := modelEvent{matching: e, stage: stage + 1}
				touched += m.touch(all, func(uint64) {})
			}
		}
		want := naiveMatch(testSubscriptions, &e.values)
		slices.Sort(e.found)
		if !slices.Equal(e.found, want) {
			t.Fatalf("event %d: found %v, want %v", i, e.found, want)
		}
		testenv.MustEqual(t, touched, len(want), "event %d: the model finds", i)
		if i%2 == 0 && !slices.Contains(want, uint32(i*300)) {
			t.Fatalf("event %d does not satisfy the subscription that it was made for", i)
		}
	}
}

func TestModelCacheForgetsWhatWasNotUsedForLongest(t *testing.T) {
	const sets = 8
	c := newLRUCache(sets * modelWays * lineBytes)
	var naive [sets][]uint64 // of each set, the last used at the end
	misses := 0
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		line := 1 + rng.Uint64N(sets*modelWays*2)
		set := &naive[line%sets]
		if i := slices.Index(*set, line); i >= 0 {
			*set = slices.Delete(*set, i, i+1)
		} else if misses++; len(*set) == modelWays {
			*set = slices.Delete(*set, 0, 1)
		}
		*set = append(*set, line)
		c.touch(line)
		testenv.MustEqual(t, c.misses, misses, "line %d: N misses", line)
	}
	if misses < 5000 || misses > 15_000 {
		t.Errorf("%d misses: the test does not test", misses)
	}
}

func TestModelSeesWhatLargeCohortsSpare(t *testing.T) {
	testenv.NeedsFull(t, "a model of caches")
	all := newSubscriptions(100_000)
	const flight = 300
	one := countMisses(all, &queueOrder{}, 1)
	queue := countMisses(all, &queueOrder{}, flight)
	cohorts := countMisses(all, &cohortOrder{policy: sched.NewCohort(sched.CohortConfig{})}, flight)
	if cohorts[0] > 0.8*queue[0] || cohorts[0] > 0.8*one[0] {
		t.Errorf("an event misses %.0f lines in cohorts, %.0f in a queue, %.0f alone", cohorts[0], queue[0], one[0])
	}
	if last := len(modelCaches) - 1; cohorts[last] > 100 || queue[last] > 100 {
		t.Errorf("where all fits an event misses %.0f and %.0f lines", cohorts[last], queue[last])
	}
}

func TestPubsubWorkersMeasure(t *testing.T) {
	r := measuringRun(t)
	for _, system := range []string{"capriccio", "capriccio-fifo", "goroutine"} {
		samples, err := r.pubsubSamples(t.Context(), time.Second, "-system", system, "-size", "4", "-flight", "10",
			"-subscriptions", "2000", "-events", "100", "-for", "1ms")
		if err != nil || len(samples) != 2 || samples[0].metric != "events" || samples[0].x != 4 || samples[0].value <= 0 || samples[1].value <= 0 {
			t.Errorf("%s: %v, %v", system, samples, err)
		}
	}
}
