package report

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestTheIntervalHoldsTheTrueRatioNineteenTimesInTwenty(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	draw := func(mean float64, n int) []float64 {
		var s []float64
		for range n {
			s = append(s, mean*math.Exp(0.1*rnd.NormFloat64()))
		}
		return s
	}
	for _, n := range []int{3, 7, 30} {
		held := 0
		const rounds = 4000
		for range rounds {
			if r := RatioOf(draw(10, n), draw(12, n)); r.Low <= 1.2 && 1.2 <= r.High {
				held++
			}
		}
		if share := float64(held) / rounds; share < 0.94 || share > 0.985 {
			t.Errorf("of %d samples: %.3f of the intervals hold the ratio, want 0.95", n, share)
		}
	}
}

func TestRatioOfFewOrOddSamples(t *testing.T) {
	if r := RatioOf([]float64{10}, []float64{12}); r.Value < 1.1999 || r.Value > 1.2001 || !math.IsNaN(r.Low) {
		t.Errorf("one each: %+v", r)
	}
	if r := RatioOf([]float64{0, 1, 2}, []float64{1, 2, 3}); r.Value != 2 || !math.IsNaN(r.Low) {
		t.Errorf("with a 0: %+v", r)
	}
	if r := RatioOf([]float64{2, 2}, []float64{3, 3}); math.Abs(r.Low-1.5) > 1e-9 || math.Abs(r.High-1.5) > 1e-9 {
		t.Errorf("without spread: %+v", r)
	}
}

// What was never refused, or always served, and is so no more, is a change like any other.
func TestComparedCountsMayBeZero(t *testing.T) {
	report := func(refused, goodput []float64) *Report {
		return &Report{Name: "e", Rows: []Row{{System: "knot", Metric: "refused", Unit: "req/s", Samples: refused}, {System: "knot", Metric: "goodput", Unit: "req/s", Samples: goodput}}}
	}
	none, some, all := []float64{0, 0, 0}, []float64{0, 3, 0}, []float64{5, 4, 9}
	for _, c := range []struct {
		name                              string
		before, after                     *Report
		worse                             int
		refusedLow, goodputLow, goodputHi float64
	}{
		{"nothing new", report(none, none), report(none, none), 0, 1, 1, 1},
		{"now refused and unserved", report(none, all), report(all, none), 2, math.Inf(1), 0, 0},
		{"the other way round", report(all, none), report(none, all), 0, 0, math.Inf(1), math.Inf(1)},
		{"sometimes", report(none, all), report(some, all), 0, math.NaN(), 0.387, 2.584},
		{"few runs", report(none[:2], all), report(all[:2], all), 0, math.NaN(), 0.387, 2.584},
	} {
		found := Compare(c.before, c.after, nil)
		worse, err := WriteDifferences(&strings.Builder{}, found, 0.05)
		like := func(got, want float64) bool {
			return got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) < 0.01
		}
		if r := found[0].Ratio; worse != c.worse || err != nil || !like(r.Low, c.refusedLow) || math.IsNaN(r.Value) {
			t.Errorf("%s: %d are worse, %v; refused %+v", c.name, worse, err, r)
		}
		if r := found[1].Ratio; !like(r.Low, c.goodputLow) || !like(r.High, c.goodputHi) {
			t.Errorf("%s: goodput %+v", c.name, r)
		}
	}
}

func TestWhichDirectionIsGood(t *testing.T) {
	for _, m := range []struct {
		metric, unit string
		want         int
	}{
		{"rps", "req/s", 1}, {"reads", "reads/s", 1}, {"p99", "ms", -1}, {"goodput-share", "%", 1}, {"refused", "%", -1},
		{"cpu-per-request", "ns", -1}, {"bytes-per-conn", "B", -1}, {"clients", "1", 1}, {"cpu-per-client", "ms/s", -1}, {"throughput", "MB/s", 1},
		{"lost", "req/s", -1}, {"refused", "req/s", -1}, {"server-busy", "%", 0}, {"read-from-disk", "MB/s", 0}, {"requests-served", "%", 1},
		{"newcomers-answered", "%", 1}, {"pollers-released", "%", 1}, {"passed", "cases", 1}, {"failed", "cases", -1}, {"chi", "tests", 1},
	} {
		testenv.Equal(t, Direction(m.metric, m.unit), m.want, "%s [%s]: direction", m.metric, m.unit)
	}
}

func TestWorseIsByDirection(t *testing.T) {
	one := func(metric, unit string, values ...float64) *Report {
		var s Samples
		for _, v := range values {
			testenv.Must(t, s.Add("knot", metric, unit, 1, v))
		}
		return &Report{Name: "e", Rows: s.Rows()}
	}
	for _, c := range []struct {
		metric, unit  string
		before, after float64
		worse         bool
	}{
		{"p99", "ms", 10, 20, true}, {"p99", "ms", 20, 10, false}, {"rps", "req/s", 20, 10, true}, {"rps", "req/s", 10, 20, false},
	} {
		spread := func(v float64) []float64 { return []float64{v, v * 1.01, v * 1.02} }
		all := Compare(one(c.metric, c.unit, spread(c.before)...), one(c.metric, c.unit, spread(c.after)...), []string{"knot"})
		var out strings.Builder
		n, err := WriteDifferences(&out, all, 0.05)
		if err != nil || (n == 1) != c.worse || len(all) != 1 {
			t.Errorf("%s from %v to %v: %d worse, %v\n%s", c.metric, c.before, c.after, n, err, &out)
		}
	}
	testenv.Equal(t, len(Compare(one("p99", "ms", 1), one("p99", "ms", 1), []string{"nginx"})), 0, "a system that was not asked for")
}

func TestReplaceBlock(t *testing.T) {
	doc, err := ReplaceBlock("# A\n", "x", "one\n")
	if err != nil || doc != "# A\n\n<!-- bench x -->\none\n<!-- end of x -->\n" {
		t.Errorf("%q, %v", doc, err)
	}
	doc, err = ReplaceBlock(doc+"after\n", "x", "two\n")
	if err != nil || strings.Contains(doc, "one") || !strings.HasSuffix(doc, "two\n<!-- end of x -->\nafter\n") {
		t.Errorf("%q, %v", doc, err)
	}
	testenv.ErrorSays(t, testenv.Err(ReplaceBlock("<!-- bench x -->\n", "x", "")), "end of x", "no end")
}

func TestVerdictOfTheMarkdownTable(t *testing.T) {
	r := &Report{Name: "e"}
	add := func(system string, low, high float64) {
		r.Rows = append(r.Rows, Row{System: system, Metric: "rps", Unit: "req/s", X: 1, Value: (low + high) / 2, Min: low, Max: high, N: 3})
	}
	add("knot", 90, 110)
	add("nginx", 140, 160)
	add("net-http", 10, 12)
	add("knot-2", 900, 1000) // ours, too, with a setting
	testenv.Contains(t, r.Markdown("", "knot"), "0.67: **loses** to nginx")
	r.Profiles = []Profile{{"knot rps at 1", []string{"40 % tcp_sendmsg [k]"}}}
	testenv.Contains(t, LossesTable([]*Report{r}, "knot"), "| e | rps [req/s] | 1 | knot: 100 ±10% | nginx: 150 ±7% | 0.67 | `go run ./bench run e`")
	testenv.Contains(t, LossesTable([]*Report{r}, "knot"), "e, knot rps at 1: 40 % tcp_sendmsg [k]")
	r.Env.Others = 60
	testenv.Contains(t, LossesTable([]*Report{r}, "knot"), "on a busy machine |", "others had much of the machine")
	r.Rows[0].Max = 145
	if lost := r.Losses("knot"); len(lost) != 0 {
		t.Errorf("spreads overlap: lost %+v", lost)
	}
	testenv.Contains(t, r.Markdown("", "knot"), "0.67: like nginx", "spreads overlap")
}

func TestMarkdownPutsTogetherWhatFits(t *testing.T) {
	r := &Report{Name: "e"}
	add := func(system, metric, unit string, x, v float64) {
		r.Rows = append(r.Rows, Row{System: system, Metric: metric, Unit: unit, X: x, Value: v, Min: v, Max: v, N: 1})
	}
	add("knot", "p50", "ms", 8, 3)
	add("knot", "p99", "ms", 8, 7)
	add("knot", "server-busy", "%", 8, 90)
	for x := range 5 {
		add("knot", "refused", "1", float64(x), max(float64(x)-3, 0))
	}
	_, got, _ := strings.Cut(r.Markdown("", "knot"), "\n")
	if want := `A full run, each point measured 1 times.

| | x | knot |
|---|---|---|
| p50 [ms], less is better | 8 | 3 |
| p99 [ms], less is better | 8 | 7 |

**refused** [1], less is better

0 for all (knot) at x = 0; 1; 2; 3.

| x | knot |
|---|---|
| 4 | 1 |
`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
