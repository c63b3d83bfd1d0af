package main

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// overloadOf is a matrix whose work is short, and one of its systems.
func overloadOf(t *testing.T, name string) (*matrix, launcher) {
	t.Helper()
	needTwoCores(t)
	m := &matrix{run: testRun(t), steps: 1000}
	system, err := m.behindNginx(name)
	if err != nil {
		t.Skip(err)
	}
	return m, system
}

// serverOf starts a server that ends with the test.
func serverOf(t *testing.T, system launcher, n needs) *server {
	t.Helper()
	s := testenv.Need(system.start(t.Context(), n))(t)
	t.Cleanup(func() { testenv.Must(t, s.end()) })
	return s
}

// hasAll reports the metrics that samples lack.
func hasAll(samples []sample, metrics ...string) error {
	var missing []error
	for _, metric := range metrics {
		_, err := value(samples, metric)
		missing = append(missing, err)
	}
	return errors.Join(missing...)
}

// givenTime measures for longer and longer until there is something to see, as a machine
// that is busy or stalls gets little done in a short time.
func givenTime(t *testing.T, measure func(time.Duration) error) {
	t.Helper()
	for d := 30 * time.Millisecond; ; d *= 4 {
		err := measure(d)
		if err == nil {
			return
		}
		if d > 5*time.Second {
			t.Fatalf("in %v: %v", d, err)
		}
	}
}

// Each experiment measures every system that is there without building, and gives every metric.
func TestOverloadSamplesHaveEveryMetric(t *testing.T) {
	usage := []string{"goodput", "p99", "refused", "cpu", "others", "client-busy", "client-late"}
	metrics := map[point][]string{
		{metric: "load", x: 0.5}: append(usage, "goodput-share", "lost", "capacity"),
		{metric: "step", x: 1.4}: {"settle-ms", "recover-ms", "step-p99-before", "step-p99-top"},
		{metric: "spike", x: 1}:  {"success", "success-in-time", "success-low", "p99", "goodput", "refused", "cpu", "client-late"},
	}
	for _, name := range []string{"capriccio", "capriccio-fifo", "net-http", memlimitSystem, "nginx"} {
		t.Run(name, func(t *testing.T) {
			m, system := overloadOf(t, name)
			times := webTimes{step: load.Steps{Target: latencyTarget, Lead: 50 * ms, High: 100 * ms, Low: 100 * ms, Count: 1}}
			givenTime(t, func(d time.Duration) error {
				times.capacity, times.warm, times.span = d, d, d
				w := &web{matrix: m, webTimes: times}
				for p, want := range metrics {
					sample := w.sample
					if p.metric == "spike" {
						if name != "capriccio" {
							continue
						}
						sample = w.prioritySample
					}
					samples, err := sample(t.Context(), system, p)
					if err = errors.Join(err, hasAll(samples, want...)); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// What a server does of an overload before it has found that out is none of its goodput.
func TestQuickRunMeasuresAnOverloadFromThreeSecondsOn(t *testing.T) {
	for _, c := range []struct {
		quick bool
		load  float64
		want  time.Duration
	}{
		{true, 0.8, webQuick.warm}, {true, 1, webQuick.warm}, {true, 1.5, 3 * time.Second}, {true, 10, 3 * time.Second},
		{false, 0.8, webFull.warm}, {false, 10, webFull.warm},
	} {
		w := &web{matrix: &matrix{run: &run{quick: c.quick}}, webTimes: choose(c.quick, webQuick, webFull)}
		testenv.Equal(t, w.warmAt(c.load), c.want, "quick %v, %v × capacity", c.quick, c.load)
		testenv.AtMost(t, c.want+w.span, w.takes("", point{metric: "load", x: c.load}), "the sample takes as long")
	}
}

func TestServerReportsItsCounts(t *testing.T) {
	for _, name := range []string{"capriccio-fifo", "net-http"} {
		m, system := overloadOf(t, name)
		s := serverOf(t, system, needs{counted: true, env: []string{"GOGC=1"}})
		before := testenv.Need(s.askCounts(t.Context()))(t)
		testenv.Need(m.ownCapacity(t.Context(), s, "/do?alloc=262144", 200*ms))(t)
		after, err := s.askCounts(t.Context())
		if err != nil || after.gc <= before.gc || after.all-before.all < after.gc-before.gc {
			t.Errorf("%s: from %+v to %+v, %v: want the collector to have worked", name, before, after, err)
		}
	}
}

func TestServerOutOfDescriptorsCountsFailures(t *testing.T) {
	for _, name := range []string{"capriccio-fifo", "net-http"} {
		m, system := overloadOf(t, name)
		givenTime(t, func(d time.Duration) error {
			samples, err := m.fdsSample(t.Context(), system, point{x: 100}, 32, d, time.Minute)
			fails, none := value(samples, "accept-errors")
			err = errors.Join(err, none, hasAll(samples, "served", "all-served", "cpu-jammed", "cpu-per-client"))
			if err == nil && fails < 1 {
				err = fmt.Errorf("%s: %+v; want failures", name, samples)
			}
			return err
		})
	}
}

// A server that takes too much memory is killed, and that is a result.
func TestServerThatTakesTooMuchIsKilled(t *testing.T) {
	m, system := overloadOf(t, "net-http")
	n := needs{counted: true, watch: 200 << 20}
	samples, s, err := m.memoryLoad(t.Context(), system, n, memoryShape{clients: 1000, hold: time.Minute, span: time.Minute})
	testenv.Must(t, err)
	if goodput, err := value(samples, "goodput"); err != nil || goodput != 0 || valuesOf(samples)["killed"] != 1 || s.watch.most.Load() <= 200<<20 {
		t.Errorf("got %+v with %d bytes", samples, s.watch.most.Load())
	}
}

func TestKilledServersAreKnown(t *testing.T) {
	for command, want := range map[string]bool{"kill -KILL $$": true, "kill -TERM $$": false, "exit 9": false} {
		child := testenv.Need(proc.Start(proc.Command{Path: "/bin/sh", Args: []string{"-c", command}, Core: proc.AnyCore}))(t)
		<-child.Ended()
		s := &server{child: child}
		testenv.Equal(t, s.killedBy(syscall.SIGKILL, io.EOF), want, "%s: killed", command)
		child.Close()
	}
}

func TestFairnessNeedsTimeForSeveralWaits(t *testing.T) {
	samples := []sample{{"goodput", "req/s", 100, 1000}, {"p99", "ms", 100, 150}}
	if got := fairness(samples, 100, 250*time.Millisecond); len(got) != 1 || got[0].value != 1.5 {
		t.Errorf("got %v, want 1.5 times the mean wait of 100 ms", got)
	}
	if got := fairness(samples, 100, 249*time.Millisecond); got != nil {
		t.Errorf("after too short a time: %v", got)
	}
	if got := fairness(samples[:1], 100, time.Hour); got != nil {
		t.Errorf("with nobody served: %v", got)
	}
}

func TestUnknownSystemIsSkippedWithTheReason(t *testing.T) {
	m := &matrix{run: testRun(t)}
	if got := m.contendersOf(m.system, nil, nil, "nobody"); len(got) > 0 || m.env.Skipped["nobody"] == "" {
		t.Errorf("got %v, skipped %v", got, m.env.Skipped)
	}
}

func TestCapacityIsTheMedianOfTheLatest(t *testing.T) {
	m, system := overloadOf(t, "capriccio-fifo")
	s := serverOf(t, system, needs{counted: true})
	m.known = map[string]known{"capriccio-fifo": {last: []float64{1e9, 4e9, 3e9}}}
	testenv.Got(m.ownCapacity(t.Context(), s, "/do?cpu=1ms", 10*ms))(t, 3e9)
}

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
