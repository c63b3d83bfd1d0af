package metrics

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// written are the metrics, after Prometheus's own parser has read them.
func written(t *testing.T, targets ...Target) string {
	t.Helper()
	var out bytes.Buffer
	testenv.Must(t, Write(&out, Of(targets)))
	problems := testenv.Need(promlint.New(bytes.NewReader(out.Bytes())).Lint())(t)
	testenv.Equal(t, len(problems), 0, "%v in\n%s", problems, out.String())
	series := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		name, _, _ := strings.Cut(line, "} ")
		testenv.True(t, !series[name] || line[0] == '#', "%s is there twice", name)
		series[name] = true
	}
	return out.String()
}

func TestMetricsOfAGraph(t *testing.T) {
	s := graphcases.Sample()
	m := s.Node(graphcases.SampleMutex)
	m.Now, m.Departures, m.Arrivals = 7, 1000, 1200
	m.Wait = graphcases.TimesOfMean(1000, s.Span/100) // ten tasks wait there on average
	text := written(t, Target{"shop-1", s}, Target{Name: "shop-2"})
	for _, want := range []string{
		"# TYPE bgraph_up gauge\nbgraph_up{source=\"shop-1\"} 1\nbgraph_up{source=\"shop-2\"} 0\n",
		fmt.Sprintf("bgraph_period_seconds{source=\"shop-1\"} %g\n", s.Span.Duration().Seconds()),
		`bgraph_findings{source="shop-1",severity="error"} `,
		`bgraph_finding{source="shop-1",severity="`,
		"bgraph_place_tasks{source=\"shop-1\",place=\"mutex web.(*sessions).find\"} 7\n",
		"bgraph_place_waiting{source=\"shop-1\",place=\"mutex web.(*sessions).find\"} 10\n",
		fmt.Sprintf("bgraph_place_arrivals_per_second{source=\"shop-1\",place=\"mutex web.(*sessions).find\"} %.6g\n", 1200/s.Span.Duration().Seconds()),
	} {
		testenv.Contains(t, text, want)
	}
	testenv.Equal(t, strings.Count(text, "shop-2"), 1, "lines about a program without a graph")
}

// Whatever names and figures a graph has, Prometheus can read the metrics, and there are not too many of them.
func TestMetricsOfOddGraphs(t *testing.T) {
	all := []*bgraph.Snapshot{graphcases.Hostile(), {}, graphcases.RandomGraph(testenv.Rand(t, 1), 2000, 6000)}
	for _, s := range graphcases.Odd() {
		all = append(all, s)
	}
	for i, s := range all {
		text := written(t, Target{fmt.Sprintf("a\"\\\n\xff%d", i), s}, Target{"again", s}, Target{"again", s})
		for line := range strings.Lines(text) {
			testenv.AtMost(t, len(line), 2000, "bytes of a line")
		}
		for _, f := range families {
			testenv.AtMost(t, strings.Count(text, "\nbgraph_"+f.name+"{source=\"again\""), 3*mostPlaces, f.name)
		}
	}
}
