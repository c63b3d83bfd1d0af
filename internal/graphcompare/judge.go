package graphcompare

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/graphview/lint"
	"github.com/capriccio-go/capriccio/internal/words"
)

// When a difference counts.
const (
	// A difference is more than spreads times the larger spread within a side. Of three captures a side whose figures vary
	// by chance, one figure in 500 differs so much; of five, one in 30,000.
	spreads = 2
	// least is the smallest difference that counts, as a share of the figure before.
	least = 0.1
	// leastTime is the smallest difference that is listed, as a share of the time that goroutines work or wait at work,
	// or of one goroutine, if that is more.
	leastTime = 0.01
	// leastTimeAlone is leastTime where each side has one capture, in which a figure may be of a few waits.
	leastTimeAlone = 0.1
	// leastRequests is how many requests a capture must have for figures to be told per request.
	leastRequests = 100
)

// Kinds of differences.
const (
	KindFinding  = "finding"  // of lint
	KindWait     = "wait"     // waiting at a place, for each request or for each visit: ns
	KindCPU      = "cpu"      // of a step, for each request or for each time: ns
	KindTask     = "task"     // how long tasks and regions of runtime/trace took: ns
	KindCapacity = "capacity" // goroutines that wait at a place on average
)

// A Verdict says how several captures of a program differ from several others.
type Verdict struct {
	Before      Side         `json:"before"`
	After       Side         `json:"after"`
	Captures    [2]int       `json:"captures"`     // on each side
	PerRequest  bool         `json:"per_request"`  // figures are told by request of net/http
	Regressions []Difference `json:"regressions"`  // the largest first
	Better      []Difference `json:"improvements"` // the largest first
	Other       []Difference `json:"other"`        // of places where goroutines may just have less to do; the largest first
}

// A Difference is a figure that differs by more than it varies.
type Difference struct {
	Kind   string     `json:"kind"`
	Node   bgraph.Key `json:"node"` // 0: it is no place
	Name   string     `json:"name"`
	At     string     `json:"at,omitempty"` // FILE:LINE
	Before float64    `json:"before"`       // median of the captures; of a finding, in how many it was
	After  float64    `json:"after"`
	Spread float64    `json:"spread"`         // the larger one of the two sides; with one capture a side, half of the smaller figure
	Unit   string     `json:"unit,omitempty"` // what a duration is of: "request", "visit", "step"
	Text   string     `json:"text,omitempty"` // of a finding

	size float64 // in goroutines
}

// Judge compares captures of a program before and after a change, or what Snapshot.Filter leaves of them. Each side must have at
// least one capture.
func Judge(before, after []*bgraph.Snapshot, focus, ignore *regexp.Regexp) *Verdict {
	j := newJudge(before, after, focus, ignore)
	v := &Verdict{Before: sideOf(before[0]), After: sideOf(after[0]), Captures: [2]int{len(before), len(after)}, PerRequest: j.perRequest,
		Regressions: []Difference{}, Better: []Difference{}, Other: []Difference{}}
	j.findings(v)
	j.waits(v)
	j.steps(v)
	j.spans(v)
	for _, list := range [][]Difference{v.Regressions, v.Better, v.Other} {
		slices.SortStableFunc(list, func(a, b Difference) int {
			return cmp.Or(cmp.Compare(b.size, a.size), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
		})
	}
	return v
}

// A judge has the figures of all captures, those before the change first. Keys are those of the captures after the change;
// keys of captures before it are translated.
type judge struct {
	whole      []*bgraph.Snapshot // before Filter
	all        []*bgraph.Snapshot
	old        int // of all, how many are before the change
	successor  map[bgraph.Key]bgraph.Key
	nodes      map[bgraph.Key]*bgraph.Node // one of each
	names      map[bgraph.Key]string
	requests   []float64 // a second, of each capture
	perRequest bool
	least      float64 // goroutines, see leastTime
}

func newJudge(before, after []*bgraph.Snapshot, focus, ignore *regexp.Regexp) *judge {
	j := &judge{whole: slices.Concat(before, after), old: len(before), nodes: map[bgraph.Key]*bgraph.Node{}, perRequest: true}
	for _, s := range j.whole {
		j.all = append(j.all, s.Filter(focus, ignore))
	}
	was, is := placesOf(j.all[:j.old]), placesOf(j.all[j.old:])
	j.successor, j.names = successors(was, is), words.Names(is)
	for i := range is.Nodes {
		j.nodes[is.Nodes[i].Key] = &is.Nodes[i]
	}
	oldNames := words.Names(was)
	for i := range was.Nodes {
		k := was.Nodes[i].Key
		if to := j.translate(k); j.nodes[to] == nil {
			j.nodes[to], j.names[to] = &was.Nodes[i], oldNames[k]
		}
	}
	for i, s := range j.all {
		requests := words.Requests(j.whole[i])
		working := words.TotalCPU(s) / math.Max(float64(s.Span), 1)
		for i := range s.Nodes {
			if n := &s.Nodes[i]; atWork(n) {
				working += occupancy(s, n)
			}
		}
		j.requests = append(j.requests, words.PerSecond(s, requests))
		j.perRequest = j.perRequest && requests >= leastRequests
		share := leastTime
		if len(j.all) == 2 {
			share = leastTimeAlone
		}
		j.least = max(j.least, share*max(working, 1))
	}
	return j
}

// placesOf has the nodes of all captures, each once.
func placesOf(all []*bgraph.Snapshot) *bgraph.Snapshot {
	out := &bgraph.Snapshot{Kind: all[0].Kind}
	for _, s := range all {
		out.Nodes = append(out.Nodes, s.Nodes...)
	}
	slices.SortStableFunc(out.Nodes, func(a, b bgraph.Node) int { return cmp.Compare(a.Key, b.Key) })
	out.Nodes = slices.CompactFunc(out.Nodes, func(a, b bgraph.Node) bool { return a.Key == b.Key })
	return out
}

// translate returns the key that a node of a capture before the change has after it. A node that is not there any more
// keeps its key.
func (j *judge) translate(k bgraph.Key) bgraph.Key {
	if to, ok := j.successor[k]; ok {
		return to
	}
	return k
}

// keyIn returns the key that the node k of capture i has after the change.
func (j *judge) keyIn(i int, k bgraph.Key) bgraph.Key {
	if i < j.old {
		return j.translate(k)
	}
	return k
}

// A series is a figure in each capture. A capture without the figure has NaN.
type series []float64

// newSeries returns a series with no value for any capture.
func (j *judge) newSeries() series {
	out := make(series, len(j.all))
	for i := range out {
		out[i] = math.NaN()
	}
	return out
}

// orZero returns s with 0 for the captures without the figure.
func (s series) orZero() series {
	out := slices.Clone(s)
	for i := range out {
		if math.IsNaN(out[i]) {
			out[i] = 0
		}
	}
	return out
}

// compare returns the medians and by how much the figure varies within a side, and reports whether it has changed: 1 if it
// has grown, -1 if it is less, else 0. A figure that is missing in a capture counts as unchanged.
func (j *judge) compare(s series) (d Difference, change int) {
	if slices.ContainsFunc(s, math.IsNaN) {
		return d, 0
	}
	before, after := slices.Sorted(slices.Values(s[:j.old])), slices.Sorted(slices.Values(s[j.old:]))
	d.Before, d.After = median(before), median(after)
	d.Spread = max(before[len(before)-1]-before[0], after[len(after)-1]-after[0])
	if len(s) == 2 { // how much it varies is not known
		d.Spread = min(d.Before, d.After) / spreads
		if d.Spread == 0 {
			return d, 0
		}
	}
	switch diff := d.After - d.Before; {
	case math.Abs(diff) <= spreads*d.Spread || math.Abs(diff) <= least*d.Before:
		return d, 0
	case diff > 0:
		return d, 1
	}
	return d, -1
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func (v *Verdict) add(d Difference, change int) {
	switch {
	case change > 0:
		v.Regressions = append(v.Regressions, d)
	case change < 0:
		v.Better = append(v.Better, d)
	}
}

// findings compares what lint says, but for mere remarks: a finding is new if most captures after the change have it, and
// none before it.
func (j *judge) findings(v *Verdict) {
	type id struct {
		check    string
		node, to bgraph.Key
		name     string
	}
	found := map[id]*Difference{}
	var order []id
	for i, s := range j.all {
		seen := map[id]bool{}
		for _, f := range lint.FindPart(j.whole[i], s) {
			at := id{check: f.Check, node: j.keyIn(i, f.Node), to: j.keyIn(i, f.To)}
			switch {
			case f.Node == 0 || f.Check == lint.CheckGrowing || f.Check == lint.CheckLeaked: // wherever most of the goroutines wait
				at.node, at.name = 0, f.Name
			case f.Check == lint.CheckConvoy || f.Check == lint.CheckQueue: // whatever the holder does for longest
				at.to = 0
			}
			if f.Severity == lint.SeverityInfo || seen[at] {
				continue
			}
			seen[at] = true
			d := found[at]
			if d == nil {
				d = &Difference{Kind: KindFinding, size: math.Inf(1)}
				found[at] = d
				order = append(order, at)
			}
			d.Node, d.Name, d.At = j.keyIn(i, f.Node), f.Check+": "+f.Name, shortPlace(f.At)
			d.Text = f.Message
			if i < j.old {
				d.Before++
			} else {
				d.After++
			}
		}
	}
	for _, at := range order {
		d := found[at]
		switch was, is := d.Before/float64(j.old), d.After/float64(len(j.all)-j.old); {
		case was == 0 && is > 0.5:
			v.add(*d, 1)
		case is == 0 && was > 0.5:
			v.add(*d, -1)
		}
	}
}

// workReasons are waits of tasks in the middle of their work, and so are worse the longer they are.
var workReasons = []string{"mutex", "rwmutex read", "rwmutex write", "semaphore", "pool", "once", "channel send", "disk", "connect", "write", "system call", "native"}

// workFunctions are called for a request or a test: goroutines that wait below them are in the middle of their work.
var workFunctions = []string{".ServeHTTP", "testing.tRunner", "testing.(*B).runN", "testing.(*B).Loop"}

// atWork reports whether goroutines at n are in the middle of their work, rather than idle.
func atWork(n *bgraph.Node) bool {
	return slices.Contains(workReasons, n.Reason) || !words.ServesHTTP2(n) && slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool {
		return slices.ContainsFunc(workFunctions, func(end string) bool { return strings.HasSuffix(f.Function, end) })
	})
}

// occupancy is how many goroutines or tasks are at n on average.
func occupancy(s *bgraph.Snapshot, n *bgraph.Node) float64 {
	return tasksAt(n, words.PerSecond(s, n.Departures)*float64(n.MeanWait()+n.Ready.Mean())/1e9)
}

// waits compares how long goroutines wait at each place.
func (j *judge) waits(v *Verdict) {
	type figures struct{ occupied, mean series }
	places := map[bgraph.Key]*figures{}
	for i, s := range j.all {
		for at := range s.Nodes {
			n := &s.Nodes[at]
			k := j.keyIn(i, n.Key)
			if n.Key <= bgraph.KeyOverflow {
				continue
			}
			if places[k] == nil {
				places[k] = &figures{j.newSeries(), j.newSeries()}
			}
			places[k].occupied[i] = occupancy(s, n)
			if n.Departures > 0 {
				places[k].mean[i] = float64(n.MeanWait() + n.Ready.Mean())
			}
		}
	}
	for k, p := range places {
		occupied := p.occupied.orZero()
		d, change := j.compare(occupied)
		d.Kind, d.Unit, d.size = KindCapacity, words.TermsOf(j.all[0]).Tasks, math.Abs(d.After-d.Before)
		work := atWork(j.nodes[k])
		switch {
		case work && j.perRequest:
			d, change = j.compare(j.byRequest(occupied))
			d.Kind, d.Unit, d.size = KindWait, "request", math.Abs(d.After-d.Before)/1e9*slices.Max(j.requests)
		case work && !slices.ContainsFunc(p.mean, math.IsNaN):
			most := max(d.Before, d.After)
			d, change = j.compare(p.mean)
			d.Kind, d.Unit, d.size = KindWait, "visit", most*d.share()
		}
		d = j.named(d, k)
		switch {
		case d.size < j.least || change == 0:
		case work:
			v.add(d, change)
		default:
			v.Other = append(v.Other, d)
		}
	}
}

// share is the difference as a share of the larger figure.
func (d *Difference) share() float64 {
	return words.Ratio(math.Abs(d.After-d.Before), max(d.Before, d.After))
}

// byRequest divides what goroutines did, in goroutines, by the requests: nanoseconds.
func (j *judge) byRequest(s series) series {
	out := slices.Clone(s)
	for i := range out {
		out[i] *= 1e9 / j.requests[i]
	}
	return out
}

// named says at which place the difference is.
func (j *judge) named(d Difference, k bgraph.Key) Difference {
	d.Node, d.Name = k, words.NameIn(j.names, k)
	if n := j.nodes[k]; n != nil {
		d.At = place(n)
	}
	return d
}

// place is where the program waits at n: its first function that is none of the standard library's.
func place(n *bgraph.Node) string {
	for i := range n.Stack {
		if f := &n.Stack[i]; f.File != "" && !funcname.OfStandardLibrary(f.Function) && !funcname.OfRuntime(f.Function) {
			return fmt.Sprintf("%s:%d", path.Base(f.File), f.Line)
		}
	}
	return ""
}

// shortPlace is a FILE:LINE without folders.
func shortPlace(at string) string { return at[strings.LastIndexByte(at, '/')+1:] }

// steps compares what the steps cost, and the whole program by request.
func (j *judge) steps(v *Verdict) {
	type figures struct{ load, mean series }
	edges := map[[2]bgraph.Key]*figures{}
	total := j.newSeries()
	for i, s := range j.all {
		total[i] = words.TotalCPU(s) / math.Max(float64(s.Span), 1)
		for at := range s.Edges {
			e := &s.Edges[at]
			k := [2]bgraph.Key{j.keyIn(i, e.From), j.keyIn(i, e.To)}
			if edges[k] == nil {
				edges[k] = &figures{j.newSeries(), j.newSeries()}
			}
			edges[k].load[i] = words.Ratio(words.EdgeCPU(e), float64(s.Span))
			if e.Count > 0 {
				edges[k].mean[i] = float64(e.MeanCPU())
			}
		}
	}
	if j.perRequest {
		d, change := j.compare(j.byRequest(total))
		if d.size = math.Abs(d.After-d.Before) / 1e9 * slices.Max(j.requests); d.size >= j.least {
			d.Kind, d.Unit, d.Name = KindCPU, "request", "the whole program"
			if j.all[0] != j.whole[0] { // see Filter
				d.Name = "all steps that are shown"
			}
			v.add(d, change)
		}
	}
	for k, e := range edges {
		d, _ := j.compare(e.load.orZero())
		most := max(d.Before, d.After)
		d, change := j.compare(e.mean)
		d.Kind, d.Unit, d.size = KindCPU, "step", most*d.share()
		if d.size < j.least {
			continue
		}
		d = j.named(d, k[0])
		d.Name += " → " + words.NameIn(j.names, k[1])
		v.add(d, change)
	}
}

// spans compares how long tasks and regions of runtime/trace took.
func (j *judge) spans(v *Verdict) {
	type figures struct {
		mean series
		most float64 // a second, in one capture
	}
	spans := map[[2]string]*figures{}
	for i, s := range j.all {
		for at := range s.Spans {
			sp := &s.Spans[at]
			k := [2]string{sp.Kind, sp.Name}
			if spans[k] == nil {
				spans[k] = &figures{mean: j.newSeries()}
			}
			if sp.Times.Count > 0 {
				spans[k].mean[i] = float64(sp.Times.Mean())
				spans[k].most = max(spans[k].most, words.PerSecond(s, sp.Times.Count))
			}
		}
	}
	for k, sp := range spans {
		d, change := j.compare(sp.mean)
		d.Kind, d.Name, d.Unit, d.size = KindTask, k[0]+" "+words.Clean(k[1]), k[0], math.Abs(d.After-d.Before)/1e9*sp.most
		if k[0] == "log" || k[0] == "request" || d.size < j.least { // a part of a task; the places of requests are compared
			continue
		}
		v.add(d, change)
	}
}
