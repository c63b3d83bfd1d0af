package web

import (
	"cmp"
	"errors"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/funcname"
	"github.com/capriccio-go/capriccio/internal/words"
)

// The types of the answer to /api/state; see the package comment.

type stateJSON struct {
	Source    sourceJSON        `json:"source"`
	Program   *bgraph.Program   `json:"program,omitempty"`
	Kind      string            `json:"kind,omitempty"`
	Collector bgraph.Nanos      `json:"collector,omitempty"`
	Moments   momentsJSON       `json:"moments"`
	At        uint64            `json:"at,omitempty"`
	Base      uint64            `json:"base,omitempty"`
	Note      string            `json:"note,omitempty"`
	Live      bool              `json:"live,omitempty"`
	Taken     int64             `json:"taken,omitempty"`
	Span      bgraph.Nanos      `json:"span,omitempty"`
	Sampling  int               `json:"sampling,omitempty"`
	Loops     [][4]int64        `json:"loops"`
	Resources []bgraph.Resource `json:"resources"`
	Overflow  bgraph.Overflow   `json:"overflow"`
	Era       uint64            `json:"era"`
	Places    []placeJSON       `json:"places"`
	Nodes     []nodeJSON        `json:"nodes"`
	Edges     []edgeJSON        `json:"edges"`
	Hidden    hiddenJSON        `json:"hidden"`
	Shape     string            `json:"shape"`
	Findings  []findingJSON     `json:"findings"`
	Overruns  int               `json:"overruns,omitempty"`
	Reports   []reportJSON      `json:"reports,omitempty"`
	Sched     *schedJSON        `json:"sched,omitempty"`
	Starts    [][8]any          `json:"starts,omitempty"`
	Spans     [][6]any          `json:"spans,omitempty"`
	Slowest   [][5]any          `json:"slowest,omitempty"`
	Pauses    *[6]int64         `json:"pauses,omitempty"`
}

type sourceJSON struct {
	Name   string       `json:"name"`
	State  string       `json:"state"`
	Error  string       `json:"error,omitempty"`
	Since  int64        `json:"since"`
	Every  bgraph.Nanos `json:"every"`
	Asking bgraph.Nanos `json:"asking,omitempty"`
	Still  bool         `json:"still,omitempty"`
	Lazy   bool         `json:"lazy,omitempty"`
}

type momentsJSON struct {
	ID    []uint64 `json:"id"`
	Taken []int64  `json:"taken"`
	Tasks []int64  `json:"tasks"`
	Steps []uint64 `json:"steps"`
}

type hiddenJSON struct {
	Nodes int `json:"nodes,omitempty"`
	Edges int `json:"edges,omitempty"`
}

type timesJSON struct {
	N    uint64       `json:"n,omitempty"`
	Sum  bgraph.Nanos `json:"sum,omitempty"`
	Mean bgraph.Nanos `json:"mean,omitempty"`
	Max  bgraph.Nanos `json:"max,omitempty"`
	P50  bgraph.Nanos `json:"p50,omitempty"`
	P99  bgraph.Nanos `json:"p99,omitempty"`
	Hist []uint64     `json:"hist,omitempty"`
}

type nodeJSON struct {
	ID     int          `json:"id"`
	Now    int64        `json:"now,omitempty"`
	Was    int64        `json:"was,omitempty"`
	Peak   int64        `json:"peak,omitempty"`
	In     uint64       `json:"in,omitempty"`
	Out    uint64       `json:"out,omitempty"`
	Wait   timesJSON    `json:"wait"`
	Ready  timesJSON    `json:"ready"`
	Oldest bgraph.Nanos `json:"oldest,omitempty"`
	CPU    bgraph.Nanos `json:"cpu,omitempty"`
	Loops  [][5]int64   `json:"loops,omitempty"`
	Wakers [][3]any     `json:"wakers,omitempty"`
}

type edgeJSON struct {
	From      int          `json:"from"`
	To        int          `json:"to"`
	Count     uint64       `json:"count,omitempty"`
	CPU       timesJSON    `json:"cpu"`
	Total     bgraph.Nanos `json:"total,omitempty"`
	Recent    float64      `json:"recent,omitempty"`
	Deviation float64      `json:"deviation,omitempty"`
	Heap      [2]int64     `json:"heap"`
	Changes   [][2]int64   `json:"changes,omitempty"`
	Overruns  uint64       `json:"overruns,omitempty"`
	Notes     []string     `json:"notes,omitempty"`
}

type findingJSON struct {
	Severity string `json:"severity"`
	Check    string `json:"check"`
	From     int    `json:"from,omitempty"`
	To       int    `json:"to,omitempty"`
	Name     string `json:"name"`
	Message  string `json:"message"`
	At       string `json:"at,omitempty"`
	Path     string `json:"path,omitempty"`
	Advice   string `json:"advice"`
	Stack    string `json:"stack,omitempty"`
}

type reportJSON struct {
	From  int          `json:"from,omitempty"`
	To    int          `json:"to,omitempty"`
	Task  string       `json:"task"`
	Loop  int          `json:"loop"`
	At    int64        `json:"at"`
	Held  bgraph.Nanos `json:"held"`
	Stack string       `json:"stack"`
}

type schedJSON struct {
	Policy    string                 `json:"policy"`
	Admitted  uint64                 `json:"admitted"`
	Deferred  uint64                 `json:"deferred"`
	Refused   uint64                 `json:"refused"`
	Resources []bgraph.SchedResource `json:"resources"`
	Nodes     [][7]any               `json:"nodes"`
}

func (p *Page) serveState(w http.ResponseWriter, r *http.Request) {
	p.look()
	v, err := p.view(r)
	if err != nil && !errors.Is(err, errNothing) {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	out := stateJSON{Source: p.sourceState(time.Now())}
	if v.at != nil {
		params := r.URL.Query()
		p.describe(&out, v, params.Get("want") == "overruns")
		number := p.places.begin(v)
		v.fill(&out, number, p.opts)
		era, _ := strconv.ParseUint(params.Get("era"), 10, 64)
		known, _ := strconv.Atoi(params.Get("places"))
		out.Era, out.Places = number.end(era, known)
	}
	reply(w, r, &out)
}

func (p *Page) sourceState(now time.Time) sourceJSON {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.answer
	out := sourceJSON{
		Name:  clean(p.src.Name(), 500),
		State: a.state,
		Error: clean(a.err, 2000),
		Since: a.since.UnixMilli(),
		Every: bgraph.Nanos(p.opts.Interval),
		Still: a.repeats >= stillAfter && !p.opts.Lazy, Lazy: p.opts.Lazy,
	}
	if !a.asked.IsZero() {
		out.Asking = bgraph.Nanos(now.Sub(a.asked))
	}
	return out
}

// describe fills in what is not about nodes.
func (p *Page) describe(out *stateJSON, v *view, reports bool) {
	s := v.whole
	program := s.Program
	program.Name, program.Host, program.Go = clean(program.Name, 200), clean(program.Host, 200), clean(program.Go, 100)
	out.Program = &program
	n := len(v.moments)
	m := momentsJSON{make([]uint64, n), make([]int64, n), make([]int64, n), make([]uint64, n)}
	for i, moment := range v.moments {
		m.ID[i], m.Taken[i], m.Tasks[i], m.Steps[i] = moment.id, moment.snap.Taken.UnixMilli(), moment.tasks, moment.steps
	}
	out.Moments = m
	out.At, out.Live = v.at.id, v.at.id == v.moments[n-1].id
	if v.base != nil {
		out.Base = v.base.id
	}
	out.Note = clean(v.note, 500)
	out.Kind, out.Collector = clean(s.Kind, 20), s.CollectorCPU
	out.Span, out.Sampling = s.Span, s.Sampling
	if !s.Taken.IsZero() {
		out.Taken = s.Taken.UnixMilli()
	}
	for i := range s.Loops {
		row := [4]int64{int64(s.Loops[i].Index), s.Loops[i].Tasks, int64(s.Loops[i].Steps)}
		if s.Loops[i].Rests {
			row[3] = 1
		}
		out.Loops = append(out.Loops, row)
	}
	for _, r := range s.Resources {
		r.Name, r.Unit = clean(r.Name, 100), clean(r.Unit, 20)
		out.Resources = append(out.Resources, r)
	}
	out.Overflow = s.Overflow
	out.traced(s)
	out.Overruns = len(s.Overruns)
	if !reports {
		return
	}
	out.Reports = make([]reportJSON, len(s.Overruns))
	for i, o := range s.Overruns {
		out.Reports[i] = reportJSON{Task: clean(o.Task, 200), Loop: o.Loop, At: o.At.UnixMilli(), Held: o.Held, Stack: cleanLines(o.Stack, 16<<10)}
	}
}

// The most that is sent of what only traces have.
const (
	mostStarts = 200
	mostWakers = 5
)

// traced fills in what only graphs of goroutines have.
func (out *stateJSON) traced(s *bgraph.Snapshot) {
	if s.Kind != bgraph.KindGoroutines {
		return
	}
	for i := range s.Starts[:min(len(s.Starts), mostStarts)] {
		st := &s.Starts[i]
		out.Starts = append(out.Starts, [8]any{clean(cmp.Or(funcname.Short(st.Function), "not known"), 300), st.Now, st.Created, st.Ended, st.Life.Mean(), st.Oldest, st.Leaked, st.CPU})
	}
	for i := range s.Spans[:min(len(s.Spans), mostStarts)] {
		sp := &s.Spans[i]
		out.Spans = append(out.Spans, [6]any{clean(sp.Name, 200), clean(sp.Kind, 20), sp.Times.Count, sp.Times.Mean(), words.Quantile(&sp.Times, 0.99), sp.Times.Max})
	}
	out.Slowest = slowestOf(s)
	out.Pauses = &[6]int64{int64(s.Collections.Count), int64(s.Stopped.Count), int64(s.Stopped.Sum), int64(s.Stopped.Max), int64(s.Stalled.Count), int64(s.Stalled.Sum)}
}

// fill fills in what is about nodes.
func (v *view) fill(out *stateJSON, number *numbering, o Options) {
	nodes := v.rankedNodes(o.MaxNodes)
	edges := v.rankedEdges(o.MaxEdges)
	out.Hidden = hiddenJSON{len(v.shown.Nodes) - len(nodes), len(v.shown.Edges) - len(edges)}
	out.Nodes = make([]nodeJSON, 0, len(nodes))
	sent := make(map[bgraph.Key]int, len(nodes))
	for _, n := range nodes {
		id := number.id(n.Key)
		sent[n.Key] = id
		out.Nodes = append(out.Nodes, v.node(n, id, number))
	}
	out.Edges = make([]edgeJSON, 0, len(edges))
	for _, e := range edges {
		if from, to := number.id(e.From), number.id(e.To); from != 0 && to != 0 {
			out.Edges = append(out.Edges, edgeOf(e, from, to))
		}
	}
	out.Shape = v.shape()
	out.Findings = make([]findingJSON, len(v.findings))
	for i, f := range v.findings {
		out.Findings[i] = findingJSON{
			Severity: f.Severity, Check: f.Check, From: number.id(f.Node), To: number.id(f.To),
			Name: clean(f.Name, 300), At: clean(f.At, 300), Path: clean(f.Path, 500), Message: clean(f.Message, 2000), Advice: clean(f.Advice, 2000), Stack: cleanLines(f.Stack, 16<<10),
		}
	}
	for i := range out.Reports {
		out.Reports[i].From, out.Reports[i].To = number.id(v.whole.Overruns[i].From), number.id(v.whole.Overruns[i].To)
	}
	out.Sched = schedOf(v.whole.Sched, sent)
}

func (v *view) node(n *bgraph.Node, id int, number *numbering) nodeJSON {
	out := nodeJSON{
		ID: id, Now: n.Now, Peak: n.Peak, In: n.Arrivals, Out: n.Departures,
		Wait: timesOf(&n.Wait, n.MeanWait()), Ready: timesOf(&n.Ready, n.Ready.Mean()), Oldest: n.Oldest, CPU: v.cpu[n.Key],
	}
	if v.base != nil {
		if was := v.base.snap.Node(n.Key); was != nil {
			out.Was = was.Now
		}
	}
	for _, w := range v.wakersOf(n) {
		out.Wakers = append(out.Wakers, [3]any{clean(w.name, 300), finite(w.share), number.id(w.place)})
	}
	for _, l := range n.Loops {
		out.Loops = append(out.Loops, [5]int64{int64(l.Loop), l.Now, l.Peak, int64(l.Arrivals), int64(l.Departures)})
	}
	return out
}

func edgeOf(e *bgraph.Edge, from, to int) edgeJSON {
	out := edgeJSON{
		From: from, To: to, Count: e.Count, CPU: timesOf(&e.CPU, e.MeanCPU()), Total: e.TotalCPU(),
		Recent: finite(e.Recent.Mean), Deviation: finite(math.Sqrt(max(e.Recent.Variance, 0))),
		Heap: [2]int64{int64(e.Heap.Steps), e.Heap.Sum}, Overruns: e.Overruns,
	}
	for _, text := range words.StepNotes(e) {
		out.Notes = append(out.Notes, clean(text, 1000))
	}
	for i := range e.Changes {
		out.Changes = append(out.Changes, [2]int64{int64(e.Changes[i].Steps), e.Changes[i].Sum})
	}
	return out
}

func timesOf(t *bgraph.Times, mean bgraph.Nanos) timesJSON {
	hist := t.Hist
	for len(hist) > 0 && hist[len(hist)-1] == 0 {
		hist = hist[:len(hist)-1]
	}
	return timesJSON{N: t.Count, Sum: t.Sum, Mean: mean, Max: t.Max, P50: words.Quantile(t, 0.5), P99: words.Quantile(t, 0.99), Hist: hist}
}

func schedOf(s *bgraph.Sched, sent map[bgraph.Key]int) *schedJSON {
	if s == nil {
		return nil
	}
	out := &schedJSON{Policy: clean(s.Policy, 100), Admitted: s.Admitted, Deferred: s.Deferred, Refused: s.Refused}
	for _, r := range s.Resources {
		r.Name, r.State = clean(r.Name, 100), clean(r.State, 50)
		r.Utilisation, r.Trend = finite(r.Utilisation), finite(r.Trend)
		out.Resources = append(out.Resources, r)
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; sent[n.Key] != 0 {
			out.Nodes = append(out.Nodes, [7]any{sent[n.Key], n.Loop, finite(n.Priority), n.Tickets, n.Pass, n.Ready, clean(n.Held, 300)})
		}
	}
	return out
}

// finite is f, or 0 if JSON could not hold it.
func finite(f float64) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	return f
}

// shape is a hash of the nodes and edges to be drawn.
func (v *view) shape() string {
	h := fnv.New64a()
	for i := range v.plan.Nodes {
		h.Write(strconv.AppendUint(nil, uint64(v.plan.Nodes[i].Key), 36))
	}
	for i := range v.plan.Edges {
		h.Write(strconv.AppendUint([]byte{'|'}, uint64(v.plan.Edges[i].From), 36))
		h.Write(strconv.AppendUint([]byte{'>'}, uint64(v.plan.Edges[i].To), 36))
	}
	return strconv.FormatUint(h.Sum64(), 36)
}

// rankedNodes returns at most that many nodes, in the order of their keys: a node stays
// if it is high up in one of several respects, so that neither the one busy node nor
// the one stuck task is lost.
func (v *view) rankedNodes(most int) []*bgraph.Node {
	nodes := make([]*bgraph.Node, len(v.shown.Nodes))
	for i := range nodes {
		nodes[i] = &v.shown.Nodes[i]
	}
	return ranked(nodes, most, func(a, b *bgraph.Node) int { return cmp.Compare(a.Key, b.Key) },
		func(n *bgraph.Node) float64 { return words.Occupancy(v.shown, n) },
		func(n *bgraph.Node) float64 { return float64(n.Arrivals) },
		func(n *bgraph.Node) float64 { return float64(v.cpu[n.Key]) },
		func(n *bgraph.Node) float64 { return float64(n.Wait.Sum) },
		func(n *bgraph.Node) float64 { return float64(n.Oldest) },
	)
}

// rankedEdges is rankedNodes for edges.
func (v *view) rankedEdges(most int) []*bgraph.Edge {
	edges := make([]*bgraph.Edge, len(v.shown.Edges))
	for i := range edges {
		edges[i] = &v.shown.Edges[i]
	}
	return ranked(edges, most, func(a, b *bgraph.Edge) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	},
		func(e *bgraph.Edge) float64 { return float64(e.Count) },
		func(e *bgraph.Edge) float64 { return float64(e.TotalCPU()) },
		func(e *bgraph.Edge) float64 { return float64(e.CPU.Max) },
	)
}

func ranked[E comparable](all []E, most int, order func(a, b E) int, merits ...func(E) float64) []E {
	if len(all) <= most {
		return all
	}
	kept := make(map[E]bool, most)
	orders := make([][]E, len(merits))
	for i, merit := range merits {
		orders[i] = slices.Clone(all)
		slices.SortStableFunc(orders[i], func(a, b E) int { return cmp.Compare(merit(b), merit(a)) })
	}
	for rank := 0; len(kept) < most; rank++ {
		for i := 0; i < len(orders) && len(kept) < most; i++ {
			kept[orders[i][rank]] = true
		}
	}
	out := make([]E, 0, most)
	for e := range kept {
		out = append(out, e)
	}
	slices.SortFunc(out, order)
	return out
}
