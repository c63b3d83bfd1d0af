// Package metrics makes metrics of blocking graphs, for Prometheus and for OpenTelemetry: findings, and the busiest
// places. It starts no goroutine, never parks, and may be used from any goroutine.
package metrics

import (
	"bytes"
	"cmp"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/words"
)

// Of each target, so that a list of 500 targets gives some 60,000 series at most.
const (
	mostFindings = 10  // the worst
	mostPlaces   = 10  // with most tasks; and as many again with most CPU time
	mostRunes    = 200 // of the value of a label
)

// A Target is a program by its name, which no other one of a list has.
type Target struct {
	Name  string
	Graph *bgraph.Snapshot // of the latest period; nil: there is none
}

// A Family is a metric, a gauge, with its values.
type Family struct {
	Name, Help string
	Samples    []Sample
}

// A Sample is a value with pairs of names and values of labels. No other sample of its Family has the same labels.
type Sample struct {
	Labels []string
	Value  float64
}

// Of returns the metrics of all targets. Families without a sample are left out.
func Of(targets []Target) []Family {
	var p page
	for _, t := range targets {
		p.add(t)
	}
	var out []Family
	for i := range p.families {
		if f := &p.families[i]; len(f.samples) > 0 {
			out = append(out, Family{"bgraph_" + families[i].name, families[i].help, f.samples})
		}
	}
	return out
}

// Write writes metrics in the text format of Prometheus.
func Write(w io.Writer, all []Family) error {
	var out bytes.Buffer
	for _, f := range all {
		out.WriteString("# HELP " + f.Name + " " + f.Help + "\n# TYPE " + f.Name + " gauge\n")
		for _, s := range f.Samples {
			out.WriteString(f.Name + "{" + labelText(s.Labels) + "} " + strconv.FormatFloat(s.Value, 'g', 6, 64) + "\n")
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

func labelText(labels []string) string {
	var text strings.Builder
	for at := 0; at < len(labels); at += 2 {
		if at > 0 {
			text.WriteByte(',')
		}
		text.WriteString(labels[at] + `="` + escapes.Replace(labels[at+1]) + `"`)
	}
	return text.String()
}

// The families of metrics, in the order in which they are written. All are gauges: of a trace, only its own seconds are known.
const (
	up = iota
	period
	tasks
	cpu
	findings
	finding
	placeTasks
	placeWaiting
	placeReady
	placeCPU
	placeArrivals
	familyCount
)

var families = [familyCount]struct{ name, help string }{
	{"up", "1: the program has given its graph."},
	{"period_seconds", "Time that the other metrics of the source are about: the seconds of a trace, or the time since the agent asked last."},
	{"tasks", "Tasks or goroutines that were waiting, ready or running at the end of the period."},
	{"cpu_cores", "Processors that the steps of the graph used on average."},
	{"findings", "Findings of bgdump -lint by severity."},
	{"finding", "1 for each of the ten worst findings: which check, in which place, and where that is in the source code."},
	{"place_tasks", "Tasks or goroutines at a place at the end of the period; for the places with most tasks, most CPU time, or a finding."},
	{"place_waiting", "Tasks or goroutines that waited at a place on average."},
	{"place_ready", "Tasks or goroutines that were ready to go on from a place and had no processor, on average."},
	{"place_cpu_cores", "Processors that the steps that begin at a place used on average."},
	{"place_arrivals_per_second", "Waits that began at a place."},
}

// A page is the metrics of several targets under construction.
type page struct {
	families [familyCount]family
}

// A family has the samples of one metric. A scrape in which two have the same labels is refused as a whole.
type family struct {
	samples []Sample
	known   map[string]bool // the labels of samples
}

// sample adds a value, with pairs of names and values of labels.
func (p *page) sample(i int, v float64, labels ...string) {
	labels = slices.Clone(labels)
	for at := 1; at < len(labels); at += 2 {
		labels[at] = words.Shorten(words.Clean(labels[at]), mostRunes)
	}
	f := &p.families[i]
	if f.known == nil {
		f.known = map[string]bool{}
	}
	if text := labelText(labels); !f.known[text] {
		f.known[text] = true
		f.samples = append(f.samples, Sample{labels, v})
	}
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (p *page) add(t Target) {
	if t.Graph == nil {
		p.sample(up, 0, "source", t.Name)
		return
	}
	s, names := t.Graph, words.Names(t.Graph)
	p.sample(up, 1, "source", t.Name)
	p.sample(period, s.Span.Duration().Seconds(), "source", t.Name)
	var now int64
	for i := range s.Nodes {
		now += max(s.Nodes[i].Now, 0)
	}
	p.sample(tasks, float64(now), "source", t.Name)
	p.sample(cpu, perSpan(s, words.TotalCPU(s)), "source", t.Name)
	found := lint.Find(s)
	for _, severity := range []string{lint.SeverityError, lint.SeverityWarning, lint.SeverityInfo} {
		n := 0
		for i := range found {
			if found[i].Severity == severity {
				n++
			}
		}
		p.sample(findings, float64(n), "source", t.Name, "severity", severity)
	}
	found = found[:min(len(found), mostFindings)]
	for i := range found {
		f := &found[i]
		p.sample(finding, 1, "source", t.Name, "severity", f.Severity, "check", f.Check, "place", f.Name, "at", f.At)
	}
	p.places(t.Name, s, names, found)
}

// A place is a node with its figures.
type place struct {
	node         *bgraph.Node
	waiting, cpu float64
}

// places adds the places with most tasks, with most CPU time, and with a finding.
func (p *page) places(source string, s *bgraph.Snapshot, names map[bgraph.Key]string, found []lint.Finding) {
	used := map[bgraph.Key]float64{}
	for i := range s.Edges {
		used[s.Edges[i].From] += perSpan(s, words.EdgeCPU(&s.Edges[i]))
	}
	var all []place
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Key > bgraph.KeyOverflow {
			all = append(all, place{n, words.Waiting(s, n), used[n.Key]})
		}
	}
	write := func(x place) {
		labels := []string{"source", source, "place", names[x.node.Key]}
		p.sample(placeTasks, float64(max(x.node.Now, 0)), labels...)
		p.sample(placeWaiting, x.waiting, labels...)
		p.sample(placeReady, perSpan(s, x.node.Ready.Estimate(x.node.Departures)), labels...)
		p.sample(placeCPU, x.cpu, labels...)
		p.sample(placeArrivals, words.PerSecond(s, x.node.Arrivals), labels...)
	}
	for _, weight := range []func(place) float64{
		func(x place) float64 { return words.Occupancy(s, x.node) },
		func(x place) float64 { return x.cpu },
		func(x place) float64 {
			if slices.ContainsFunc(found, func(f lint.Finding) bool { return f.Node == x.node.Key }) {
				return 1
			}
			return 0
		},
	} {
		slices.SortFunc(all, func(a, b place) int {
			return cmp.Or(cmp.Compare(weight(b), weight(a)), cmp.Compare(a.node.Key, b.node.Key))
		})
		for _, x := range all[:min(len(all), mostPlaces)] {
			if weight(x) > 0 {
				write(x) // a place is written once, see sample
			}
		}
	}
}

// perSpan converts nanoseconds in s.Span to how many were waiting, ready or running on average.
func perSpan(s *bgraph.Snapshot, nanos float64) float64 {
	if s.Span <= 0 {
		return 0
	}
	return nanos / float64(s.Span)
}
