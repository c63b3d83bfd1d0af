package main

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/internal/load"
	"github.com/capriccio-go/capriccio/bench/internal/people"
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
