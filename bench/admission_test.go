package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/people"
	"github.com/capriccio-go/capriccio/bench/internal/proc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestRowsAreNumberedAndPicked(t *testing.T) {
	for _, quick := range []bool{true, false} {
		all := testenv.Need(pickRows(admissionRows(quick), nil))(t)
		seen := map[any]bool{}
		for _, r := range all {
			if seen[r.name] || seen[r.number] {
				t.Errorf("%s, number %d: there twice", r.name, r.number)
			}
			seen[r.name], seen[r.number] = true, true
			if r.overload != (r.number > overloadNumber) || r.load == nil {
				t.Errorf("%s: number %d, overload %v, load %T", r.name, r.number, r.overload, r.load)
			}
		}
	}
	picked := testenv.Need(pickRows(admissionRows(true), []string{"cpu-1ms-*", "deploy"}))(t)
	if len(picked) != 6 || picked[0].name != "deploy" || picked[1].name != "cpu-1ms-0.8x" || picked[1].number <= overloadNumber {
		t.Errorf("picked %d rows, the first %+v", len(picked), picked[0])
	}
	if left, err := pickRows(admissionRows(true), []string{"ordinary"}); err != nil || slices.ContainsFunc(left, func(r row) bool { return r.overload }) || len(left) < 40 {
		t.Errorf("%d rows of ordinary life, %v", len(left), err)
	}
	var usage *usageError
	if _, err := pickRows(admissionRows(true), []string{"fly"}); !errors.As(err, &usage) || !strings.Contains(err.Error(), "pollers-200") {
		t.Errorf("no such row: %v", err)
	}
}

func TestLoadIsMultiplesOfCapacity(t *testing.T) {
	l := openLoad{
		classes: []class{{path: "/a", share: 2}, {path: "POST /b", urgency: urgent, share: 0.5, aside: true}},
		phases:  []phase{{span: time.Second, times: 1}, {span: 2 * time.Second, times: 0.25}, {span: time.Second, rate: 100, burst: 5}},
		from:    500 * time.Millisecond, patience: time.Second,
	}
	e := extent{capacity: 1000}
	got := l.config(load.Target{}, &e, 3)
	want := []load.Phase{
		{For: time.Second, Rates: []float64{2000, 500}}, {For: 2 * time.Second, Rates: []float64{500, 125}},
		{For: time.Second, Rates: []float64{200, 50}, Burst: 5},
	}
	if !slices.EqualFunc(got.Phases, want, func(a, b load.Phase) bool {
		return a.For == b.For && a.Burst == b.Burst && slices.Equal(a.Rates, b.Rates)
	}) {
		t.Errorf("phases %+v, want %+v", got.Phases, want)
	}
	// Half a second at capacity, two at half of it, one at 200.
	if could := (500.0 + 1000 + 200) / 3.5; math.Abs(e.could-could) > 1e-6 || e.most != 2000 {
		t.Errorf("could %v, at most %v; want %v and 2000", e.could, e.most, could)
	}
	steps := openLoad{}.stepping(load.Steps{Lead: 3, High: 1, Low: 2, Count: 2}, 0.5, 1.4).phases
	if len(steps) != 5 || steps[0].span != 3 || steps[3].times != 1.4 || steps[4].span != 2 || steps[4].times != 0.5 {
		t.Errorf("steps %+v", steps)
	}
	testenv.Equal(t, string(got.Requests[1]), "POST /b HTTP/1.1\r\nHost: 127.0.0.1\r\nPriority: u=1\r\n\r\n", "request")
	mix, clients := (&row{load: l}).capacityMix()
	if len(mix) != 1 || !strings.HasPrefix(string(mix[0].Request), "GET /a ") || clients != capacityClients {
		t.Errorf("capacity is of %+v with %d clients", mix, clients)
	}
}

func TestToolsAreUnderstood(t *testing.T) {
	const wrk = "Running 1s test\n  Latency Distribution\n     50%  1.26ms\n     99%  25.10ms\n  1230 requests in 1.50s, 1MB read\n" +
		"  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 230\nRequests/sec:    820.00\n"
	const ab = "Requests per second:    50.00 [#/sec] (mean)\nComplete requests:      100\nFailed requests:        30\n" +
		"   (Connect: 0, Receive: 0, Length: 25, Exceptions: 5)\nNon-2xx responses:      25\n  99%    241\n"
	const h2load = "finished in 1.00s, 100.00 req/s, 2KB/s\nrequests: 100 total, 110 started, 100 done, 90 succeeded, 10 failed, 3 errored, 1 timeout\n" +
		"status codes: 90 2xx, 0 3xx, 1 4xx, 6 5xx\n"
	for tool, c := range map[string]struct {
		text                             string
		served, refused, failed, timeout int
		p99, span                        time.Duration
	}{
		"wrk":    {wrk, 1000, 230, 6, 4, 25100 * time.Microsecond, 1500 * time.Millisecond},
		"ab":     {ab, 70, 25, 5, 0, 241 * time.Millisecond, 2 * time.Second},
		"h2load": {h2load, 90, 7, 3, 1, 0, time.Second},
	} {
		got, err := (toolLoad{tool: tool, span: time.Second}).result(c.text)
		if err != nil {
			t.Errorf("%s: %v", tool, err)
			continue
		}
		all := got.All
		if all.Served != c.served || all.Refused != c.refused || all.Failed != c.failed || all.TimedOut != c.timeout || all.P99 != c.p99 || got.Span != c.span {
			t.Errorf("%s: got %+v", tool, got)
		}
		testenv.Fails(t, testenv.Err((toolLoad{tool: tool}).result("nonsense")), "%s: nonsense is no error", tool)
	}
}

// testMatrix is a matrix with short work and files.
func testMatrix(t *testing.T) *matrix {
	t.Helper()
	needTwoCores(t)
	m := &matrix{run: testRun(t), steps: 1000, limits: map[string]int64{}}
	testenv.Must(t, m.writeFiles())
	return m
}

func TestServersOfTheMatrixDoTheirChores(t *testing.T) {
	m := testMatrix(t)
	for _, name := range []string{"capriccio", "capriccio-fifo", "net-http", "nginx", "limit-listener"} {
		t.Run(name, func(t *testing.T) {
			system, err := m.system(name)
			if err != nil {
				t.Skip(err)
			}
			s := testenv.Need(system.start(t.Context(), needs{}))(t)
			defer s.end()
			want := map[string]string{chores.HelloPath: chores.HelloText, fileOf100KB: strings.Repeat("\x00", 100_000)}
			if name != "nginx" {
				want["/do?cpu=10us&sleep=1ms&alloc=5000"] = chores.DoneText
				want["/lock?n=1&cpu=1us"] = chores.DoneText
				want[chores.AdaptPrefix+"/hello"] = chores.HelloText
				want["/backend"] = chores.DoneText
				want["/bytes?n=2"] = "\x01\x00"
			}
			for path, text := range want {
				response, body := testenv.Get(t, http.DefaultClient, "http://"+s.addr+path)
				if response.StatusCode != 200 || body != text {
					t.Errorf("%s: %s, %d bytes, want %d", path, response.Status, len(body), len(text))
				}
			}
		})
	}
}

// The smallest of each kind of row gives the samples that are promised.
func TestRowsOfEachKindAreMeasured(t *testing.T) {
	m := testMatrix(t)
	little := []class{{path: "/do?sleep=1ms", share: 1}}
	for _, c := range []struct {
		row  row
		want []string
	}{
		{row{name: "open", load: openLoad{classes: little, phases: []phase{{span: 200 * ms, rate: 100, burst: 5}}, patience: time.Minute}},
			[]string{"ordinary-refused", "throughput", "p99", "others"}},
		{row{name: "people", load: people.Config{For: 100 * ms, Drain: time.Minute, Groups: []people.Group{{Count: 3, Path: "/hello", Patience: time.Minute}}}},
			[]string{"ordinary-refused", "throughput", "p99"}},
		{row{name: "overload", overload: true, extra: leastClass, load: openLoad{classes: little, phases: []phase{{span: 200 * ms, times: 0.5}}, patience: time.Minute}},
			[]string{"goodput-share", "false-refused", "capacity", "least-class-share"}},
		{row{name: "closed", overload: true, reference: 4, load: load.ClosedConfig{Mix: mixed(little...), Clients: 20, For: 200 * ms}},
			[]string{"goodput-share", "capacity"}},
	} {
		for _, name := range []string{"capriccio-fifo", "net-http"} {
			system := testenv.Need(m.system(name))(t)
			samples, err := m.sample(t.Context(), system, c.row)
			testenv.Must(t, err, "%s, %s", c.row.name, name)
			for _, metric := range c.want {
				testenv.Check(t, testenv.Err(value(samples, metric)), "%s, %s", c.row.name, name)
			}
			if n, err := value(samples, "ordinary-refused"); err == nil && n != 0 {
				t.Errorf("%s, %s: refused %v", c.row.name, name, n)
			}
		}
	}
}

func TestOracleFindsALimit(t *testing.T) {
	m := testMatrix(t)
	system := testenv.Need(m.system(oracleSystem))(t)
	r := row{name: "x", overload: true, load: openLoad{
		classes: alone("/do?sleep=1ms"), phases: []phase{{span: 100 * ms, rate: 100}}, patience: 200 * ms,
	}}
	limit, err := m.bestLimit(t.Context(), system, r, extent{})
	if err != nil || !slices.Contains(oracleLimits, limit) || m.limits["x"] != limit {
		t.Errorf("limit %d, %v", limit, err)
	}
	testenv.Got(m.bestLimit(t.Context(), system, r, extent{}))(t, limit, "asked again")
}

func TestServerThatTakesTooMuchMemoryHasNoGoodput(t *testing.T) {
	m := testMatrix(t)
	system := testenv.Need(m.system("net-http"))(t)
	r := row{name: "x", number: overloadNumber + 1, overload: true, extra: released, needs: needs{watch: 1}, load: openLoad{
		classes: alone("/do?sleep=1ms"), phases: []phase{{span: 300 * ms, times: 1}}, patience: 200 * ms,
	}}
	samples := testenv.Need(m.sample(t.Context(), system, r))(t)
	if goodput, err := value(samples, "goodput-share"); err != nil || valuesOf(samples)["killed"] != 1 || goodput != 0 {
		t.Errorf("%+v, %v", samples, err)
	}
}

func TestRowsAreComparedWithFifoAndWithTheSameBelowCapacity(t *testing.T) {
	m := &matrix{run: testRun(t), rows: []row{{name: "a", number: 1}, {name: "b-0.8x", number: 101}, {name: "b-2x", number: 102}}}
	m.env.Names = map[int]string{1: "a", 101: "b-0.8x", 102: "b-2x"}
	for _, s := range []struct {
		system, metric string
		x, value       float64
	}{
		{"capriccio", "throughput", 1, 50}, {"capriccio-fifo", "throughput", 1, 100},
		{"capriccio", "p99", 1, 30}, {"capriccio-fifo", "p99", 1, 10},
		{"capriccio", "p99", 101, 10}, {"capriccio", "p99", 102, 25},
	} {
		testenv.Must(t, m.samples.Add(s.system, s.metric, "1", s.x, s.value))
	}
	m.compare()
	got := map[string]float64{}
	for _, r := range m.samples.Rows() {
		got[fmt.Sprint(r.System, " ", r.Metric, " ", r.X)] = r.Value
	}
	for name, want := range map[string]float64{
		"capriccio ordinary-slower 1": 3, "capriccio-fifo ordinary-slower 1": 1, "capriccio p99-to-0.8x 102": 2.5,
	} {
		testenv.Equal(t, got[name], want, name)
	}
}

func TestTheBackendIsNormalAgainWhenAllIsServedToTheEnd(t *testing.T) {
	r := &clientResult{Windows: make([]window, 21)}
	for i := range r.Windows {
		r.Windows[i] = window{Due: 100, InTime: 100}
	}
	r.Windows[5].InTime, r.Windows[13].InTime, r.Windows[20].InTime = 0, 94, 0 // the last one is not whole
	testenv.Got(value(recovered(time.Second)(r, extent{}), "normal-after"))(t, 0.4, "seconds until all is normal")
	r.Windows[13].InTime = 95
	testenv.Got(value(recovered(time.Second)(r, extent{}), "normal-after"))(t, 0, "seconds until all is normal")
}

// overloadOf is a matrix whose work is short, and one of its systems.
func overloadOf(t *testing.T, name string) (*matrix, launcher) {
	t.Helper()
	needTwoCores(t)
	m := &matrix{run: testRun(t), steps: 1000}
	system, err := m.overloadSystem(name)
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
