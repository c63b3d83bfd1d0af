package gotrace

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/exp/trace"

	"github.com/capriccio-go/capriccio/bgraph"
)

// A model is the graph while the trace is read. One goroutine owns all of it.
type model struct {
	o      Options
	events uint64
	first  trace.Time
	now    trace.Time
	wall   time.Time // at wallAt; zero: not known
	wallAt trace.Time

	all     map[trace.GoID]*goroutine
	nodes   map[bgraph.Key]*node
	edges   map[[2]*node]*bgraph.Edge
	special [bgraph.KeyOverflow + 1]*node
	starts  map[startKey]*start
	spans   map[[2]string]*bgraph.Times
	regions map[regionKey][]trace.Time
	tasks   map[trace.TaskID]openTask
	procs   map[trace.ProcID]uint64 // steps that ended there

	// Of one generation: stacks are equal only within it.
	nodeAt  map[nodeAt]*node
	placeAt map[trace.Stack]*place
	replyAt map[trace.Stack]bool
	foldAt  map[trace.Stack]bool
	places  map[place]*place

	overflow    bgraph.Overflow
	left        uint64 // goroutines beyond the limit
	stopped     bgraph.Times
	collections bgraph.Times
	collector   time.Duration // by workers of the collector
	open        map[string]trace.Time
	notes       []string
}

type nodeAt struct {
	reason, label string
	stack         trace.Stack
}

type regionKey struct {
	g    trace.GoID
	name string
}

type openTask struct {
	name  string
	begun trace.Time
}

type node struct {
	bgraph.Node
	wakers map[*place]uint64
}

// A place is a line of a function.
type place struct {
	function, file string
	line           int
}

type startKey struct{ function, file string }

type start struct {
	bgraph.Start
	system bool // of the Go runtime itself
	gc     bool // a worker of the collector
}

func newModel(o Options) *model {
	m := &model{
		o: o, all: map[trace.GoID]*goroutine{}, nodes: map[bgraph.Key]*node{}, edges: map[[2]*node]*bgraph.Edge{},
		starts: map[startKey]*start{}, spans: map[[2]string]*bgraph.Times{}, regions: map[regionKey][]trace.Time{},
		tasks: map[trace.TaskID]openTask{}, procs: map[trace.ProcID]uint64{}, places: map[place]*place{}, open: map[string]trace.Time{},
	}
	m.overflow.MaxNodes, m.overflow.MaxEdges = o.MaxNodes, o.MaxEdges
	for k, reason := range map[bgraph.Key]string{bgraph.KeyStart: "start", bgraph.KeyEnd: "end", bgraph.KeyOverflow: "overflow"} {
		m.special[k] = &node{Node: bgraph.Node{Key: k, Reason: reason}}
		m.nodes[k] = m.special[k]
	}
	m.newGeneration()
	return m
}

func (m *model) newGeneration() {
	m.nodeAt, m.placeAt, m.replyAt = map[nodeAt]*node{}, map[trace.Stack]*place{}, map[trace.Stack]bool{}
	m.foldAt = map[trace.Stack]bool{}
}

func (m *model) note(text string) {
	text = clean(text)
	if len(m.notes) < bgraph.MaxNotes && !slices.Contains(m.notes, text) {
		m.notes = append(m.notes, text)
	}
}

func (m *model) event(e trace.Event) {
	if m.events == 0 {
		m.first = e.Time()
	}
	m.events++
	m.now = max(m.now, e.Time())
	switch e.Kind() {
	case trace.EventSync:
		m.newGeneration()
		if c := e.Sync().ClockSnapshot; c != nil {
			m.wall, m.wallAt = c.Wall, c.Trace
		}
	case trace.EventStateTransition:
		st := e.StateTransition()
		switch st.Resource.Kind {
		case trace.ResourceGoroutine:
			m.transition(e, st)
		case trace.ResourceProc:
			if _, to := st.Proc(); to == trace.ProcRunning {
				m.procs[st.Resource.Proc()] += 0
			}
		}
	case trace.EventRangeBegin, trace.EventRangeActive, trace.EventRangeEnd:
		m.rangeEvent(e)
	case trace.EventStackSample:
		if g := m.all[e.Goroutine()]; g != nil {
			g.parts.Samples++
		}
	case trace.EventTaskBegin:
		t := e.Task()
		m.tasks[t.ID] = openTask{t.Type, m.now}
		m.cut(e, "task begins", t.Type)
	case trace.EventTaskEnd:
		t := e.Task()
		if begun, ok := m.tasks[t.ID]; ok {
			delete(m.tasks, t.ID)
			m.span("task", begun.name, m.now.Sub(begun.begun))
		}
		m.cut(e, "task ends", t.Type)
	case trace.EventRegionBegin:
		k := regionKey{e.Goroutine(), e.Region().Type}
		if len(m.regions) < m.o.MaxGoroutines {
			m.regions[k] = append(m.regions[k], m.now)
		}
	case trace.EventRegionEnd:
		k := regionKey{e.Goroutine(), e.Region().Type}
		if open := m.regions[k]; len(open) > 0 {
			m.span("region", k.name, m.now.Sub(open[len(open)-1]))
			if m.regions[k] = open[:len(open)-1]; len(open) == 1 {
				delete(m.regions, k)
			}
		}
	}
}

func (m *model) span(kind, name string, d time.Duration) {
	k := [2]string{kind, name}
	t := m.spans[k]
	if t == nil {
		if len(m.spans) >= bgraph.MaxSpans {
			m.note("there are more kinds of regions and tasks than are counted")
			return
		}
		t = new(bgraph.Times)
		m.spans[k] = t
	}
	t.Add(bgraph.Nanos(d))
}

// rangeEvent handles phases: of the collector, of the stopped world, of assists.
func (m *model) rangeEvent(e trace.Event) {
	r := e.Range()
	begin := e.Kind() != trace.EventRangeEnd
	if r.Name == "GC mark assist" {
		if g := m.all[e.Goroutine()]; g != nil {
			g.account(m.now)
			g.assisting = begin
		}
		return
	}
	times := &m.collections
	switch {
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

// node returns the node of a wait with that reason and stack.
func (m *model) node(reason, label string, stack trace.Stack) *node {
	at := nodeAt{reason, label, stack}
	n := m.nodeAt[at]
	if n != nil {
		return n
	}
	frames := framesOf(stack)
	reason = refine(reason, frames)
	frames = trim(frames)
	if reason == responseReason {
		if i := slices.IndexFunc(frames, func(f bgraph.Frame) bool { return f.Function == replyFunction }); i > 0 {
			frames = frames[i:] // however it was written
		}
	}
	k := keyOf(reason, label, frames)
	if n = m.nodes[k]; n == nil {
		if len(m.nodes) >= m.o.MaxNodes {
			m.overflow.Nodes++
			return m.special[bgraph.KeyOverflow]
		}
		n = &node{Node: bgraph.Node{Key: k, Reason: clean(reason), Label: clean(label), Stack: frames}}
		m.nodes[k] = n
	}
	m.nodeAt[at] = n
	return n
}

// waker is the place that ended a wait; nil if the scheduler did.
func (m *model) waker(e trace.Event) *place {
	if e.Goroutine() == trace.NoGoroutine {
		return nil
	}
	stack := e.Stack()
	p, ok := m.placeAt[stack]
	if !ok {
		n := bgraph.Node{Stack: trim(framesOf(stack))}
		if f := n.Place(); f != nil {
			p = m.intern(place{f.Function, f.File, f.Line})
		}
		m.placeAt[stack] = p
	}
	return p
}

func (m *model) intern(p place) *place {
	if known := m.places[p]; known != nil {
		return known
	}
	m.places[p] = &p
	return &p
}

func (n *node) wokenBy(p *place) {
	if p == nil {
		p = &scheduler
	}
	if n.wakers == nil {
		n.wakers = map[*place]uint64{}
	}
	if _, known := n.wakers[p]; !known && len(n.wakers) >= bgraph.MaxWakers-1 {
		p = &others
	}
	n.wakers[p]++
}

var (
	scheduler = place{}
	others    = place{function: "others"}
)

// started returns what is known of goroutines that begin at the outermost frame of stack.
func (m *model) started(stack trace.Stack, fresh bool) *start {
	frames := framesOf(stack)
	var f bgraph.Frame
	if len(frames) > 0 {
		f = frames[len(frames)-1]
	}
	return m.startOf(f, fresh)
}

func (m *model) startOf(f bgraph.Frame, fresh bool) *start {
	k := startKey{f.Function, f.File}
	s := m.starts[k]
	if s == nil {
		if len(m.starts) >= bgraph.MaxStarts {
			k = startKey{function: "others"}
			if s = m.starts[k]; s != nil {
				return s
			}
			f = bgraph.Frame{Function: "others"}
		}
		s = &start{Start: bgraph.Start{Function: f.Function, File: f.File, Line: f.Line}}
		s.gc = strings.HasPrefix(f.Function, "runtime.gcBgMarkWorker")
		s.system = f.Function == systemStart || strings.HasPrefix(f.Function, "runtime.") && f.Function != "runtime.main" || strings.HasPrefix(f.Function, "runtime/trace.")
		m.starts[k] = s
	}
	if fresh {
		s.Line = f.Line
	}
	return s
}

// systemStart stands for goroutines of the runtime of which no more is known.
const systemStart = "runtime"

// learn finds out where a goroutine began that ran when the trace did, by its first stack.
func (m *model) learn(g *goroutine, reason string, stack trace.Stack) {
	var f bgraph.Frame
	if frames := framesOf(stack); len(frames) > 0 {
		f = frames[len(frames)-1]
	}
	if reason == "system goroutine wait" && !strings.HasPrefix(f.Function, "runtime") {
		f.Function = systemStart
	}
	if f.Function != "" {
		g.start = m.startOf(f, false)
	}
}

// step counts a step and what its time went into.
func (m *model) step(g *goroutine, to *node, p trace.ProcID) {
	from := g.at
	g.account(m.now)
	if g.start.gc {
		m.collector += g.ran
	}
	if !g.start.system {
		if g.known {
			m.count(g, from, to)
			if p != trace.NoProc {
				m.procs[p]++
			}
		}
	}
	g.ran, g.parts, g.known = 0, bgraph.Parts{}, true
}

func (m *model) count(g *goroutine, from, to *node) {
	k := [2]*node{from, to}
	e := m.edges[k]
	if e == nil {
		if len(m.edges) >= m.o.MaxEdges {
			m.overflow.Edges++
			return
		}
		e = &bgraph.Edge{From: from.Key, To: to.Key}
		m.edges[k] = e
	}
	e.Count++
	e.CPU.Add(bgraph.Nanos(g.ran))
	e.Recent = remember(e.Recent, float64(g.ran), e.Count)
	p, q := &e.Parts, &g.parts
	p.Calls, p.Moves, p.Samples = p.Calls+q.Calls, p.Moves+q.Moves, p.Samples+q.Samples
	p.System, p.Preempted, p.Folded, p.Assist = p.System+q.System, p.Preempted+q.Preempted, p.Folded+q.Folded, p.Assist+q.Assist
}

// remember adds a value to moments in which what came last counts most.
func remember(m bgraph.Moments, v float64, n uint64) bgraph.Moments {
	w := max(1.0/16, 1/float64(n))
	d := v - m.Mean
	m.Mean += w * d
	m.Variance = (1 - w) * (m.Variance + d*w*d)
	return m
}

// snapshot is the graph of what has been read.
func (m *model) snapshot() *bgraph.Snapshot {
	s := &bgraph.Snapshot{
		Kind: bgraph.KindGoroutines, Program: bgraph.Program{Name: clean(m.o.Name), Go: ""}, Sampling: 1,
		Span: bgraph.Nanos(max(m.now.Sub(m.first), 0)), Overflow: m.overflow, Stopped: m.stopped, Collections: m.collections, Notes: m.notes,
	}
	if !m.wall.IsZero() {
		s.Taken = m.wall.Add(m.now.Sub(m.wallAt)).UTC()
		s.Program.Started = s.Taken.Add(-s.Span.Duration())
	}
	m.finish()
	for _, p := range slices.Sorted(maps.Keys(m.procs)) {
		if p >= 0 && int(p) < bgraph.MaxDumpLoops {
			s.Loops = append(s.Loops, bgraph.LoopStat{Index: int(p), Steps: m.procs[p]})
		}
	}
	s.CollectorCPU = bgraph.Nanos(m.collector)
	linked := map[*node]bool{}
	for k := range m.edges {
		linked[k[0]], linked[k[1]] = true, true
	}
	for _, n := range m.nodes {
		if n.Arrivals == 0 && n.Departures == 0 && n.Now == 0 && !linked[n] {
			continue
		}
		n.Wakers = nil
		for p, count := range n.wakers {
			n.Wakers = append(n.Wakers, bgraph.Waker{Function: clean(p.function), File: clean(p.file), Line: p.line, Count: count})
		}
		slices.SortFunc(n.Wakers, func(a, b bgraph.Waker) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Function, b.Function), cmp.Compare(a.Line, b.Line))
		})
		s.Nodes = append(s.Nodes, n.Node)
	}
	for _, e := range m.edges {
		s.Edges = append(s.Edges, *e)
	}
	s.Sort()
	for _, st := range m.starts {
		if !st.system && (st.Created > 0 || st.Now > 0 || st.Ended > 0) {
			s.Starts = append(s.Starts, st.Start)
		}
	}
	for k, t := range m.spans {
		s.Spans = append(s.Spans, bgraph.Span{Kind: k[0], Name: clean(k[1]), Times: *t})
	}
	if m.left > 0 {
		m.note("there were more goroutines at a time than are followed")
	}
	s.Notes = m.notes
	s.SortTrace()
	return s
}

// finish counts what is there at the end.
func (m *model) finish() {
	for _, g := range m.all {
		g.account(m.now)
		if g.start.gc {
			m.collector += g.ran
		}
		st := g.start
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
	for _, n := range m.nodes {
		n.Peak = max(n.Peak, n.Now)
	}
}
