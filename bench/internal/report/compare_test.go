package report

import (
	"math"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

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

func TestWorseIsWhatIsBeyondAllRunsBefore(t *testing.T) {
	one := func(metric, unit string, values []float64) *Report {
		var s Samples
		for _, v := range values {
			testenv.Must(t, s.Add("knot", metric, unit, 1, v))
		}
		return &Report{Name: "e", Rows: s.Rows()}
	}
	low, high, zero := []float64{10, 10.1, 10.2}, []float64{20, 20.2, 20.4}, []float64{0, 0, 0}
	for _, c := range []struct {
		metric, unit  string
		before, after []float64
		worse         float64
	}{
		{"p99", "ms", low, high, 20 / 10.2}, {"p99", "ms", high, low, 1}, {"rps", "req/s", high, low, 20 / 10.2}, {"rps", "req/s", low, high, 1},
		{"p99", "ms", low, []float64{10.2, 20, 30}, 1},                   // overlap
		{"p99", "ms", low, high[:2], 1}, {"p99", "ms", low[:1], high, 1}, // few runs
		{"server-busy", "%", low, high, 1}, // only describes
		{"refused", "req/s", zero, low, math.Inf(1)}, {"refused", "req/s", low, zero, 1},
		{"goodput", "req/s", low, zero, math.Inf(1)}, {"refused", "req/s", zero, zero, 1}, {"refused", "req/s", zero, []float64{0, 3, 0}, 1},
	} {
		all := Compare(one(c.metric, c.unit, c.before), one(c.metric, c.unit, c.after), []string{"knot"})
		var out strings.Builder
		n, err := WriteDifferences(&out, all, 0.05)
		if err != nil || len(all) != 1 || !(math.Abs(all[0].Worse-c.worse) < 1e-9 || all[0].Worse == c.worse) || (n == 1) != (c.worse > 1) || strings.Contains(out.String(), "worse") != (n == 1) {
			t.Errorf("%s from %v to %v: %+v, %d worse, %v\n%s", c.metric, c.before, c.after, all, n, err, &out)
		}
	}
	testenv.Equal(t, len(Compare(one("p99", "ms", low), one("p99", "ms", low), []string{"nginx"})), 0, "a system that was not asked for")
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
