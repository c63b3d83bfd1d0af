// Package sample makes up a program whose blocking graph changes as time passes,
// for tests of what shows graphs and for trying it out. The same steps give the same
// graph.
package sample

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/buckets"
)

// A Place is a node of a program that is made up.
type Place struct {
	Reason string
	Label  string
	Stack  []string // functions, innermost first
	Wait   time.Duration
	Ready  time.Duration
	Held   int64 // tasks that are there however little goes on
	Grows  bool  // tasks pile up
}

// A Step is an edge of a program that is made up; from and to are indices of places, or
// Start or End.
type Step struct {
	From, To int
	Rate     float64 // per second
	CPU      time.Duration
	Heap     int64
	Changes  []int64
}

// Start and End are where tasks begin and end.
const (
	Start = -1
	End   = -2
)

// A Program is a program that is made up. Its methods may be called from any goroutine;
// it is a source of snapshots.
type Program struct {
	mu     sync.Mutex
	name   string
	snap   *bgraph.Snapshot // guarded by mu
	places []Place
	steps  []Step
	carry  []float64  // guarded by mu: of each step, the part of a step that is due
	random *rand.Rand // guarded by mu
	fails  error      // guarded by mu
}

// Began is when programs are started.
var Began = time.Date(2026, time.March, 14, 3, 11, 45, 0, time.UTC)

// NewProgram makes a program in which nothing has happened yet.
func NewProgram(name string, loops int, resources []bgraph.Resource, places []Place, steps []Step) *Program {
	p := &Program{name: name, places: places, steps: steps, carry: make([]float64, len(steps)), random: rand.New(rand.NewPCG(1, 2))}
	p.snap = &bgraph.Snapshot{
		Program:   bgraph.Program{Name: name, PID: 4711, Host: "web-3", Go: "go1.26.8", Started: Began},
		Taken:     Began,
		Sampling:  20,
		HeapEvery: 320,
		Loops:     make([]bgraph.LoopStat, loops),
		Resources: resources,
		Overflow:  bgraph.Overflow{MaxNodes: 4096, MaxEdges: 16384},
	}
	for i := range p.snap.Loops {
		p.snap.Loops[i].Index = i
	}
	node := func(key bgraph.Key, reason string) bgraph.Node {
		n := bgraph.Node{Key: key, Reason: reason, Loops: make([]bgraph.NodeLoop, loops)}
		for i := range n.Loops {
			n.Loops[i].Loop = i
		}
		return n
	}
	p.snap.Nodes = append(p.snap.Nodes, node(bgraph.KeyStart, "start"), node(bgraph.KeyEnd, "end"))
	for i, place := range places {
		n := node(keyOf(i), place.Reason)
		n.Label = place.Label
		for j, f := range place.Stack {
			n.Stack = append(n.Stack, bgraph.Frame{Function: f, File: fmt.Sprintf("/src/shop/%c.go", 'a'+j%20), Line: 40 + 7*i + j, Offset: 3 + j})
		}
		p.snap.Nodes = append(p.snap.Nodes, n)
	}
	for _, s := range steps {
		p.snap.Edges = append(p.snap.Edges, bgraph.Edge{From: keyOf(s.From), To: keyOf(s.To)})
	}
	return p
}

func keyOf(place int) bgraph.Key {
	switch place {
	case Start:
		return bgraph.KeyStart
	case End:
		return bgraph.KeyEnd
	}
	return bgraph.Key(uint64(place+1)*0x1f3a5c7e90b2d + 16)
}

// Name is the name of the program.
func (p *Program) Name() string { return "sample " + p.name }

// Snapshot returns a copy of the graph as it is now, or the error set with Fail.
func (p *Program) Snapshot(context.Context) (*bgraph.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails != nil {
		return nil, p.fails
	}
	s := p.snap.Clone()
	s.Edges = slices.DeleteFunc(s.Edges, func(e bgraph.Edge) bool { return e.Count == 0 })
	s.Sort()
	return s, nil
}

// Fail makes Snapshot return an error with this text from now on; with "", no longer.
func (p *Program) Fail(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fails = nil
	if text != "" {
		p.fails = errors.New(text)
	}
}

// Restart begins the program anew under another process id.
func (p *Program) Restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	again := NewProgram(p.name, len(p.snap.Loops), p.snap.Resources, p.places, p.steps)
	again.snap.Program.PID = p.snap.Program.PID + 1
	again.snap.Program.Started = p.snap.Taken
	again.snap.Taken = p.snap.Taken
	p.snap = again.snap
}

// Advance lets d pass.
func (p *Program) Advance(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.snap
	s.Taken = s.Taken.Add(d)
	s.Span += bgraph.Nanos(d)
	at := s.Span.Duration().Seconds()
	load := 1 + 0.35*math.Sin(at/9) + 0.2*math.Sin(at/2.3)
	arrived := make(map[bgraph.Key]uint64)
	left := make(map[bgraph.Key]uint64)
	for i := range p.steps {
		p.carry[i] += p.steps[i].Rate * load * d.Seconds()
		n := uint64(p.carry[i])
		p.carry[i] -= float64(n)
		e := &s.Edges[i]
		p.take(e, &p.steps[i], n)
		arrived[e.To] += n
		left[e.From] += n
	}
	for i := range s.Nodes {
		p.move(&s.Nodes[i], arrived[s.Nodes[i].Key], left[s.Nodes[i].Key], d, load)
	}
	for i := range s.Loops {
		s.Loops[i].Tasks = 0
		for j := range s.Nodes {
			s.Loops[i].Tasks += s.Nodes[j].Loops[i].Now
		}
	}
}

// take lets a step happen n times.
func (p *Program) take(e *bgraph.Edge, step *Step, n uint64) {
	s := p.snap
	e.Count += n
	p.measure(&e.CPU, n, step.CPU)
	e.Recent = bgraph.Moments{Mean: float64(step.CPU) * (0.9 + 0.2*p.random.Float64()), Variance: math.Pow(float64(step.CPU)*0.4, 2)}
	e.Heap.Steps += n / 320
	e.Heap.Sum += int64(n/320) * step.Heap
	for j, c := range step.Changes {
		if len(e.Changes) <= j {
			e.Changes = append(e.Changes, bgraph.Change{})
		}
		e.Changes[j].Steps += n
		e.Changes[j].Sum += int64(n) * c
		e.Changes[j].Recent.Mean = float64(c)
		r := &s.Resources[j]
		if c > 0 {
			r.Acquired += n * uint64(c)
		} else {
			r.Released += min(n*uint64(-c), r.Acquired-r.Released)
		}
		r.InUse = int64(r.Acquired - r.Released)
	}
	for i := range s.Loops {
		s.Loops[i].Steps += part(n, i, len(s.Loops))
	}
}

// spread is how measured times lie around their mean, per bucket from two below to
// seven above.
var spread = []float64{0.06, 0.2, 0.42, 0.2, 0.07, 0.03, 0.012, 0.005, 0.002, 0.001}

// measure adds n durations to t; one in Sampling of them counts as timed.
func (p *Program) measure(t *bgraph.Times, n uint64, mean time.Duration) {
	timed := (n + 10) / uint64(p.snap.Sampling)
	if timed == 0 {
		return
	}
	at := buckets.Of(bgraph.Nanos(mean))
	for i, share := range spread {
		count := uint64(share*float64(timed) + p.random.Float64())
		bucket := min(max(at+i-2, 0), buckets.Count-1)
		if count == 0 {
			continue
		}
		for len(t.Hist) <= bucket {
			t.Hist = append(t.Hist, 0)
		}
		typical := bgraph.Nanos(buckets.From(bucket)) * 3 / 2
		t.Hist[bucket] += count
		t.Count += count
		t.Sum += typical * bgraph.Nanos(count)
		t.Max = max(t.Max, typical)
	}
}

// move lets in and out tasks come to a node and leave it.
func (p *Program) move(n *bgraph.Node, in, out uint64, d time.Duration, load float64) {
	n.Arrivals += in
	n.Departures += out
	i := -1
	for j := range p.places {
		if keyOf(j) == n.Key {
			i = j
		}
	}
	if i < 0 {
		return
	}
	place := &p.places[i]
	p.measure(&n.Wait, out, place.Wait)
	p.measure(&n.Ready, out, place.Ready)
	now := float64(place.Held) + float64(in)/d.Seconds()*place.Wait.Seconds()*load
	if place.Grows {
		now += p.snap.Span.Duration().Seconds() * 9
	}
	n.Now = int64(now)
	n.Arrivals, n.Departures = max(n.Arrivals, n.Departures+uint64(n.Now)), min(n.Departures, n.Arrivals)
	n.Peak = max(n.Peak, n.Now)
	n.Oldest = 0
	if n.Now > 0 {
		n.Oldest = bgraph.Nanos(place.Wait)*3 + bgraph.Nanos(place.Held)*1000
	}
	for j := range n.Loops {
		l := &n.Loops[j]
		l.Arrivals, l.Departures = part(n.Arrivals, j, len(n.Loops)), part(n.Departures, j, len(n.Loops))
		l.Now = int64(part(uint64(n.Now), j, len(n.Loops)))
		l.Peak = max(l.Peak, l.Now)
	}
}

// part is the share of loop i in a count; it never falls if the count does not.
func part(count uint64, i, loops int) uint64 {
	return (count + uint64(loops-1-i)) / uint64(loops)
}
