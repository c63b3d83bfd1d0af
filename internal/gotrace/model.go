package gotrace

import (
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// A model is the graph while the trace is read. One goroutine owns all of it.
type model struct {
	o      Options
	events uint64
	syncs  uint64 // events that only begin a generation
	first  trace.Time
	now    trace.Time
	wall   time.Time // at wallAt; zero: not known
	wallAt trace.Time

	all     goroutines
	nodes   map[bgraph.Key]*node
	edges   map[[2]*node]*edge
	special [bgraph.KeyOverflow + 1]*node
	unknown *node // not in the graph: where goroutines wait whose stack the trace has not told yet
	starts  map[startKey]*start
	spans   map[[2]string]*bgraph.Times
	inside  int // regions that are followed
	tasks   map[trace.TaskID]openTask
	trails  trails
	serving serving
	paths   map[[2]string]pathParts // by kind and name of a span
	procs   []procStat              // by index
	places  map[place]*place

	// Of one generation: stacks are equal only within it.
	stacks map[trace.Stack]*stack

	overflow    bgraph.Overflow
	left        uint64 // goroutines beyond the limit
	stopped     bgraph.Times
	stalled     bgraph.Times
	collections bgraph.Times
	collector   time.Duration // by workers of the collector
	assists     []waker       // where goroutines began to help it
	profiled    bgraph.CPUSamples
	open        map[string]trace.Time
	notes       []string
}

// A procStat is what is known of a P.
type procStat struct {
	seen  bool
	steps uint64 // that ended there
}

type openTask struct {
	name  string
	begun trace.Time
}

type node struct {
	bgraph.Node
	outside    bool   // a goroutine here waits for the network or for time
	place      *place // see placeOf; nil: not asked yet
	here       int64
	wakers     []waker
	role       nodeRole
	route      *place     // of requests that wait here
	routeDepth int        // on the stack
	by         *goroutine // whose Broadcast has ended a wait last
	byStep     uint64     // the number of its step
	out        [4]link    // edges from here that were used of late
	turn       uint8      // which of them makes room next

	near     [4]nearStack
	nearTurn uint8
}

type link struct {
	to   *node
	edge *edge
}

// An edge has the functions that samples were taken in, by use.
type edge struct {
	bgraph.Edge
	functions []waker
}

// mostSampled is how many samples of one step are told apart.
const mostSampled = 64

type waker struct {
	*place
	count uint64
}

// A place is a line of a function.
type place struct {
	function, file string
	line           int
}

func newModel(o Options) *model {
	m := &model{
		o: o, all: newGoroutines(), nodes: map[bgraph.Key]*node{}, edges: map[[2]*node]*edge{},
		starts: map[startKey]*start{}, spans: map[[2]string]*bgraph.Times{},
		tasks: map[trace.TaskID]openTask{}, places: map[place]*place{}, paths: map[[2]string]pathParts{}, open: map[string]trace.Time{},
	}
	m.unknown = new(node)
	m.overflow.MaxNodes, m.overflow.MaxEdges = o.MaxNodes, o.MaxEdges
	for k, reason := range map[bgraph.Key]string{bgraph.KeyStart: "start", bgraph.KeyEnd: "end", bgraph.KeyOverflow: "overflow"} {
		m.special[k] = &node{Node: bgraph.Node{Key: k, Reason: reason}}
		m.nodes[k] = m.special[k]
	}
	m.newGeneration()
	return m
}

func (m *model) newGeneration() {
	m.stacks = map[trace.Stack]*stack{}
	for _, n := range m.nodes {
		n.near = [4]nearStack{} // they would keep all of the last one
	}
	m.unknown.near = [4]nearStack{}
}

func (m *model) note(text string) {
	text = clean(text)
	if len(m.notes) < graphlimits.Notes && !slices.Contains(m.notes, text) {
		m.notes = append(m.notes, text)
	}
}

func (m *model) event(e *trace.Event) {
	if m.events == 0 {
		m.first = e.Time()
	}
	m.events++
	m.now = max(m.now, e.Time())
	switch e.Kind() {
	case trace.EventSync:
		m.syncs++
		m.newGeneration()
		if c := e.Sync().ClockSnapshot; c != nil {
			m.wall, m.wallAt = c.Wall, c.Trace
		}
	case trace.EventStateTransition:
		st := e.StateTransition()
		switch st.Resource.Kind {
		case trace.ResourceGoroutine:
			m.transition(e, &st)
		case trace.ResourceProc:
			if _, to := st.Proc(); to == trace.ProcRunning {
				m.proc(st.Resource.Proc())
			}
		}
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		m.rangeEvent(e)
	case trace.EventStackSample:
		g := m.all.get(e.Goroutine())
		m.countSample(g)
		if g != nil {
			m.addSample(g, e.Stack())
		}
	case trace.EventTaskBegin:
		t := e.Task()
		if len(m.tasks) < m.o.MaxGoroutines {
			m.tasks[t.ID] = openTask{t.Type, m.now}
		} else {
			m.note("there were more tasks at a time than are followed")
		}
		m.cut(e, "task begins", t.Type)
	case trace.EventTaskEnd:
		t := e.Task()
		m.cut(e, "task ends", t.Type)
		if begun, ok := m.tasks[t.ID]; ok {
			delete(m.tasks, t.ID)
			m.span("task", begun.name, m.now.Sub(begun.begun))
			if g := m.all.get(e.Goroutine()); g != nil {
				m.ended(g, begun)
			}
		}
	case trace.EventLog:
		l := e.Log()
		if begun, ok := m.tasks[l.Task]; ok {
			m.span("log", strings.TrimSuffix(begun.name+": "+l.Category, ": "), m.now.Sub(begun.begun))
		}
	case trace.EventRegionBegin:
		if g := m.all.get(e.Goroutine()); g != nil {
			m.beginRegion(g)
		}
	case trace.EventRegionEnd:
		if g := m.all.get(e.Goroutine()); g != nil {
			m.endRegion(g, e.Region().Type)
		}
	}
}

// proc is what is known of P p; nil if it is none, or beyond the limit.
func (m *model) proc(p trace.ProcID) *procStat {
	if p < 0 || p >= graphlimits.Loops {
		return nil
	}
	for int(p) >= len(m.procs) {
		m.procs = append(m.procs, procStat{})
	}
	m.procs[p].seen = true
	return &m.procs[p]
}

func (m *model) span(kind, name string, d time.Duration) {
	k := [2]string{kind, name}
	t := m.spans[k]
	if t == nil {
		if len(m.spans) >= graphlimits.Spans {
			m.note("there are more kinds of regions and tasks than are counted")
			return
		}
		t = new(bgraph.Times)
		m.spans[k] = t
	}
	t.Add(bgraph.Nanos(d))
}

// rangeEvent handles phases: of the collector, of the stopped world, of assists.
func (m *model) rangeEvent(e *trace.Event) {
	r := e.Range()
	begin := e.Kind() != trace.EventRangeEnd
	if r.Name == "GC mark assist" {
		if g := m.all.get(e.Goroutine()); g != nil {
			m.account(g)
			if g.assisting = begin; begin {
				m.assisted(e.Stack())
			}
		}
		return
	}
	times := &m.collections
	switch {
	case r.Name == "stop-the-world (start trace)", r.Name == "stop-the-world (stop trace)": // no doing of the program's
		return
	case strings.HasPrefix(r.Name, "stop-the-world"):
		times = &m.stopped
	case r.Name != "GC concurrent mark phase":
		return
	}
	if begin {
		m.open[r.Name] = m.now
	} else if begun, ok := m.open[r.Name]; ok {
		times.Add(bgraph.Nanos(m.now.Sub(begun)))
		delete(m.open, r.Name)
	}
}

func (m *model) intern(p place) *place {
	if known := m.places[p]; known != nil {
		return known
	}
	m.places[p] = &p
	return &p
}

// tracing reports whether the node is of a request for the trace itself, or for the CPU profile beside it.
func (n *node) tracing() bool {
	return slices.ContainsFunc(n.Stack, func(f bgraph.Frame) bool {
		return f.Function == "net/http/pprof.Trace" || f.Function == "net/http/pprof.Profile"
	})
}

// enter and leave follow how many goroutines are at the node.
func (n *node) enter() {
	n.here++
	n.Peak = max(n.Peak, n.here)
}

func (n *node) leave() {
	n.here--
	n.Departures++
}

var (
	scheduler = place{}
	others    = place{function: "others"}
)

// addSample counts a sample of the profiler for the step under way.
func (m *model) addSample(g *goroutine, of trace.Stack) {
	if g.parts.Samples++; len(g.sampled) < mostSampled {
		g.sampled = append(g.sampled, m.sampled(g, of))
	}
}

// countSample counts a sample of a CPU profile by what the process did; g is nil if no goroutine was at work.
func (m *model) countSample(g *goroutine) {
	c := &m.profiled
	switch {
	case g == nil:
		c.Scheduler++
	case g.start.gc || g.start.sweeps:
		c.Collector++
	case g.start.traces || g.at.tracing():
		c.Tracer++
	case g.start.system:
		c.Scheduler++
	case g.state == stateRunning:
		c.Steps++
	case g.state == stateCalling:
		c.Calls++
	default: // it has just parked
		c.Scheduler++
	}
}

// step counts a step and what its time went into.
func (m *model) step(g *goroutine, to *node, p trace.ProcID) {
	from := g.at
	m.account(g)
	if g.start.gc {
		m.collector += g.ran
	}
	if !g.start.system {
		known := g.known
		if !known && g.ran >= longStep {
			from, known = m.running(g.start), true
			from.Departures++
		}
		if known {
			m.count(g, from, to)
			if stat := m.proc(p); stat != nil {
				stat.steps++
			}
		}
	}
	g.start.used(g.ran)
	g.ran, g.parts, g.known, g.sampled = 0, bgraph.Parts{}, true, g.sampled[:0]
}

// longStep is from which CPU time on a step counts although the trace has only a part of it, and so
// does not tell where it began or ended. Shorter ones don't matter.
const longStep = 10 * time.Millisecond

// unfinished counts the long system calls and steps that go on.
func (m *model) unfinished() {
	for _, id := range slices.Sorted(maps.Keys(m.all.byID)) {
		g := m.all.byID[id]
		if g.state == stateCalling && !g.start.system && (m.o.Raw || m.now.Sub(g.since) >= m.o.LongCall) {
			m.longCall(g, g.proc)
			g.state = stateWaiting
		}
		if m.account(g); g.start.system || g.waits() || g.ran < longStep {
			continue
		}
		to := m.running(g.start)
		m.step(g, to, g.proc)
		to.Arrivals++
	}
}

// edge returns the edge between two nodes; nil if there is no room for it.
func (m *model) edge(from, to *node) *edge {
	for i := range from.out {
		if l := &from.out[i]; l.to == to {
			return l.edge
		}
	}
	k := [2]*node{from, to}
	e := m.edges[k]
	if e == nil {
		if len(m.edges) >= m.o.MaxEdges {
			m.overflow.Edges++
			return nil
		}
		e = &edge{Edge: bgraph.Edge{From: from.Key, To: to.Key}}
		m.edges[k] = e
	}
	from.out[from.turn] = link{to, e}
	from.turn = (from.turn + 1) % uint8(len(from.out))
	return e
}

func (m *model) count(g *goroutine, from, to *node) {
	e := m.edge(from, to)
	if e == nil {
		return
	}
	e.Count++
	e.CPU.Add(bgraph.Nanos(g.ran))
	e.Recent = remember(e.Recent, float64(g.ran), e.Count)
	for _, at := range g.sampled {
		e.functions = countAt(e.functions, at)
	}
	p, q := &e.Parts, &g.parts
	p.Calls, p.Moves, p.Samples = p.Calls+q.Calls, p.Moves+q.Moves, p.Samples+q.Samples
	p.System, p.Preempted, p.Folded, p.Assist = p.System+q.System, p.Preempted+q.Preempted, p.Folded+q.Folded, p.Assist+q.Assist
}

// remember adds a value to moments in which what came last counts most.
func remember(m bgraph.Moments, v float64, n uint64) bgraph.Moments {
	w := 1.0 / 16
	if n < 16 {
		w = 1 / float64(n)
	}
	d := v - m.Mean
	m.Mean += w * d
	m.Variance = (1 - w) * (m.Variance + d*w*d)
	return m
}

// snapshot is the graph of what has been read.
func (m *model) snapshot() *bgraph.Snapshot {
	s := &bgraph.Snapshot{
		Kind: bgraph.KindGoroutines, Program: bgraph.Program{Name: clean(m.o.Name), Go: ""}, Sampling: 1,
		Span: bgraph.Nanos(max(m.now.Sub(m.first), 0)), Overflow: m.overflow, Stopped: m.stopped, Stalled: m.stalled, Collections: m.collections, Notes: m.notes,
	}
	if !m.wall.IsZero() {
		s.Taken = m.wall.Add(m.now.Sub(m.wallAt)).UTC()
		s.Program.Started = s.Taken.Add(-s.Span.Duration())
	}
	m.openRequests()
	s.Slowest = m.serving.slowest
	m.finish()
	for i, p := range m.procs {
		if p.seen {
			s.Loops = append(s.Loops, bgraph.LoopStat{Index: i, Steps: p.steps})
		}
	}
	s.CollectorCPU, s.Assists, s.Sampled = bgraph.Nanos(m.collector), counts(m.assists), m.profiled
	linked := map[*node]bool{}
	for k := range m.edges {
		linked[k[0]], linked[k[1]] = true, true
	}
	for _, n := range m.nodes {
		if n.Arrivals == 0 && n.Departures == 0 && n.Now == 0 && !linked[n] || n.tracing() {
			continue
		}
		n.Wakers = counts(n.wakers)
		if n.Reason == callReason && s.Span > 0 { // goroutines come there when their calls have ended; so many were there at least
			n.Peak = max(n.Peak, int64(n.Wait.Sum/s.Span))
		}
		s.Nodes = append(s.Nodes, n.Node)
	}
	for k, e := range m.edges {
		if k[0].tracing() || k[1].tracing() {
			continue
		}
		e.Functions = counts(e.functions)
		s.Edges = append(s.Edges, e.Edge)
	}
	for _, st := range m.starts {
		if !st.system && (st.Created > 0 || st.Now > 0 || st.Ended > 0) {
			s.Starts = append(s.Starts, st.Start)
		}
	}
	for k, t := range m.spans {
		s.Spans = append(s.Spans, bgraph.Span{Kind: k[0], Name: clean(k[1]), Times: *t})
		s.Spans[len(s.Spans)-1].Path = m.path(k[0], k[1])
	}
	if m.left > 0 {
		m.note("there were more goroutines at a time than are followed")
	}
	s.Notes = m.notes
	s.Sort()
	return s
}

// finish counts what is there at the end.
func (m *model) finish() {
	m.unfinished()
	for _, g := range m.all.byID {
		m.account(g)
		if g.start.gc {
			m.collector += g.ran
		}
		st := g.start
		st.used(g.ran)
		st.Now++
		st.Oldest = max(st.Oldest, bgraph.Nanos(m.now.Sub(g.born)))
		if st.system || !g.waits() {
			continue
		}
		n := g.at
		n.Now++
		if n.Key > bgraph.KeyOverflow {
			n.Oldest = max(n.Oldest, bgraph.Nanos(m.now.Sub(g.since)))
		}
	}
}
