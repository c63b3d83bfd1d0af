package main

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestFixedLimitBoundsTheProducers(t *testing.T) {
	r := measuringRun(t)
	samples, err := r.memoryContender(fixedLimit, "fifo", nil).sample(t.Context(), point{metric: "ops", x: 2}, 100*time.Millisecond)
	testenv.Must(t, err)
	most := 2 / produceTime.Seconds()
	for _, one := range samples {
		if one.metric == "ops" && (one.value <= 0 || one.value > 1.2*most) || one.x != 2 {
			t.Errorf("got %v; two producers make at most %.0f items a second", one, most)
		}
	}
}

func TestWhoExceedsTheCapIsKilled(t *testing.T) {
	const script = `echo "consumed items 3 500"; x=$(head -c 30000000 /dev/zero | tr '\0' x); read y`
	samples, err := runBelowCap(t.Context(), proc.Command{Path: "/bin/sh", Args: []string{"-c", script}, Core: proc.AnyCore}, 20<<20, 3, 2*time.Second)
	testenv.Must(t, err)
	want := map[string]float64{"ops": 250, "killed": 1}
	for _, one := range samples {
		if v, ok := want[one.metric]; ok && one.value != v || one.x != 3 {
			t.Errorf("got %v, want %v", one, v)
		}
		delete(want, one.metric)
	}
	testenv.Equal(t, len(want), 0, "got %v, lacks %v", samples, want)
}

func TestWorkerThatFailsIsNotTakenForKilled(t *testing.T) {
	_, err := runBelowCap(t.Context(), proc.Command{Path: "/bin/sh", Args: []string{"-c", "echo broken >&2; exit 1"}, Core: proc.AnyCore}, 1<<30, 0, time.Second)
	testenv.ErrorSays(t, err, "broken")
}

func TestShareOfTheBestFixedLimit(t *testing.T) {
	r := testRun(t)
	for _, one := range []struct {
		system   string
		x, value float64
	}{{"capriccio", 0, 90}, {fixedLimit, 5, 50}, {fixedLimit, 20, 100}, {fixedLimit, 40, 60}} {
		testenv.Must(t, r.add(one.system, []sample{{"ops", "ops/s", one.x, one.value}}))
	}
	testenv.Must(t, r.addShareOfBest())
	rows := r.samples.Rows()
	if last := rows[len(rows)-1]; len(rows) != 5 || last.System != "capriccio" || last.Metric != "ops-of-best" || last.Value != 90 {
		t.Errorf("rows %+v", rows)
	}
}
