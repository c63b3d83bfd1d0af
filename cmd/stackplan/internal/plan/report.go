package plan

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	"golang.org/x/tools/go/ssa"
)

// A Report is what the analysis found out about a program.
type Report struct {
	Package   string      `json:"package"`
	Go        string      `json:"go"`
	Arch      string      `json:"arch"`
	Functions int         `json:"functions"` // in the binary
	Reached   int         `json:"reached"`   // of them, by what Entries begin with
	Entries   []Entry     `json:"entries"`   // by Bound, descending
	Recursion []Recursion `json:"recursion"` // the largest first
	Plan      *Plan       `json:"plan"`
	Parks     []ParkCall  `json:"parks"`    // calls in sources that may be rewritten on which a task may park
	Unknown   []string    `json:"unknown"`  // indirect calls without a known target
	NoFrame   []string    `json:"no_frame"` // functions that are reached and whose stack is not known from the binary but trusted
	Sweep     []SweepRow  `json:"sweep"`    // Figure 7
}

// An Entry is a function that stacks begin with.
type Entry struct {
	Function string `json:"function"`
	Kind     string `json:"kind"` // "task" or "goroutine"
	// Bound is never exceeded by what runs on the stack from the entry of Function on,
	// without checkpoints, if there is no panic and no recursion goes round more than once more.
	Bound     Bytes  `json:"bound"`
	Recursive bool   `json:"recursive"` // it can reach a recursion
	Panic     Bytes  `json:"panic"`     // that a panic adds: the runtime's part or the way to it, and the deepest deferred function
	First     Bytes  `json:"first"`     // needed down to the first checkpoints of Plan
	Path      []Step `json:"path"`      // the deepest one
}

// A Step is a function on a path.
type Step struct {
	Function string `json:"function"`
	Takes    Bytes  `json:"takes"` // of the stack, while the next step runs
	Again    bool   `json:"again"` // the recursion goes round from here
}

// A Recursion is a set of functions that can call each other in a circle.
type Recursion struct {
	Functions   []string `json:"functions"`
	Checkpoints int      `json:"checkpoints"` // that break it
	Open        int      `json:"open"`        // circles that no checkpoint can break, as all calls are in sources that may not be rewritten
}

// A ParkCall is a call on which a task may park.
type ParkCall struct {
	Site    string `json:"site"`
	Caller  string `json:"caller"`
	Callees string `json:"callees"`
}

// A SweepRow says what a value of MaxPath would mean.
type SweepRow struct {
	MaxPath     Bytes   `json:"max_path"`
	Checkpoints int     `json:"checkpoints"`
	CallSites   int     `json:"call_sites"`
	Share       float64 `json:"share"`   // of call sites that are checkpoints, 0 to 1
	Longest     Bytes   `json:"longest"` // path between checkpoints
}

// SweepSizes are the values of MaxPath in a sweep.
var SweepSizes = []Bytes{512, 724, 1 << 10, 1448, 2 << 10, 2896, 4 << 10, 5793, 8 << 10, 11585, 16 << 10, 32 << 10, 64 << 10}

// Report analyses the program, with checkpoints for maxPath and minChunk.
func (p *Program) Report(maxPath, minChunk Bytes) (*Report, error) {
	plan, err := p.Place(maxPath, minChunk)
	if err != nil {
		return nil, err
	}
	r := &Report{Package: p.Package, Go: p.Go, Arch: p.Arch, Functions: len(p.graph.nodes), Plan: plan}
	p.reportEntries(r)
	p.reportRecursion(r)
	p.reportParks(r)
	p.reportTrust(r)
	if r.Sweep, err = p.Sweep(SweepSizes); err != nil {
		return nil, err
	}
	return r, nil
}

// Sweep places checkpoints for each size.
func (p *Program) Sweep(sizes []Bytes) ([]SweepRow, error) {
	var rows []SweepRow
	for _, size := range sizes {
		plan, err := p.Place(size, 0)
		if err != nil {
			return nil, err
		}
		row := SweepRow{MaxPath: size, Checkpoints: len(plan.Checkpoints), CallSites: plan.CallSites, Longest: plan.Longest}
		if row.CallSites > 0 {
			row.Share = float64(row.Checkpoints) / float64(row.CallSites)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// bounds measures the whole program without checkpoints, rare paths included.
func (p *Program) bounds() *paths { return p.graph.measureAll(p.graph.withPanics()) }

// withPanics are the roots and the functions that start panics.
func (g *graph) withPanics() []int {
	from := append([]int(nil), g.roots...)
	for i := range g.nodes {
		if g.nodes[i].why == "panics" {
			from = append(from, i)
		}
	}
	return from
}

// measureAll measures what some nodes lead to, without checkpoints, rare paths included.
func (g *graph) measureAll(from []int) *paths {
	c := g.newCutting(from)
	c.full = true
	c.breakCycles(false)
	return c.measure(c.order(), 0)
}

// panics is what a panic adds to any bound before a deferred function runs: the runtime's part, or what is called on the
// way to it, as for its message. What is called nowhere else has no length in full, and is measured apart, so that
// recursions are entered where they were.
func (g *graph) panics(full *paths) (most Bytes) {
	var messages []int
	for i, reached := range g.reachable(g.withPanics()) {
		n := &g.nodes[i]
		if n.why == "panics" {
			most = max(most, full.length[i]+Bytes(g.push))
		}
		for _, e := range n.out {
			if reached && e.fatal && g.nodes[e.to].why == "" {
				messages = append(messages, e.to)
			}
		}
	}
	apart := g.measureAll(messages)
	for _, m := range messages {
		most = max(most, apart.length[m]+Bytes(g.push))
	}
	return most
}

func (p *Program) reportEntries(r *Report) {
	g := p.graph
	full := p.bounds()
	fresh := g.newCutting(g.roots)
	cyclic := fresh.components()
	for _, reached := range fresh.reach {
		if reached {
			r.Reached++
		}
	}
	panics := g.panics(full)
	first := make(map[string]Bytes)
	for _, e := range r.Plan.Entries {
		first[e.Function] = max(first[e.Function], e.First)
	}
	for _, root := range g.roots {
		e := Entry{Function: g.nodes[root].name, Kind: "goroutine", Bound: full.length[root], Path: full.steps(g, root)}
		if g.tasks[root] {
			e.Kind = "task"
		}
		e.First = first[e.Function]
		var deferred Bytes
		for v, reached := range g.reachable([]int{root}) {
			if !reached {
				continue
			}
			e.Recursive = e.Recursive || cyclic != nil && cyclic[v] >= 0
			for _, x := range g.calls(v) {
				if x.defers {
					deferred = max(deferred, full.length[x.to])
				}
			}
		}
		e.Panic = panics + deferred
		r.Entries = append(r.Entries, e)
	}
	sort.SliceStable(r.Entries, func(i, j int) bool { return r.Entries[i].Bound > r.Entries[j].Bound })
}

// steps follows the longest path from a node.
func (p *paths) steps(g *graph, v int) []Step {
	var steps []Step
	for p != nil {
		n := &g.nodes[v]
		i := p.next[v]
		if i < 0 {
			steps = append(steps, Step{Function: n.name, Takes: p.length[v]})
			break
		}
		e := &n.out[i]
		again := p.length[v] != Bytes(e.depth)+p.length[e.to]
		steps = append(steps, Step{Function: n.name, Takes: Bytes(e.depth), Again: again})
		if again {
			p = p.before
		}
		v = e.to
	}
	return steps
}

func (p *Program) reportRecursion(r *Report) {
	g := p.graph
	component := g.newCutting(g.roots).components()
	if component == nil {
		return
	}
	placed, _ := p.place(r.Plan.MaxPath)
	byNumber := make(map[int]*Recursion)
	type broken struct {
		component int
		by        *site
	}
	seen := make(map[broken]bool)
	for v, k := range component {
		if k < 0 {
			continue
		}
		if byNumber[k] == nil {
			byNumber[k] = new(Recursion)
		}
		x := byNumber[k]
		x.Functions = append(x.Functions, g.nodes[v].name)
		for _, e := range g.nodes[v].out {
			if component[e.to] != k {
				continue
			}
			if at := (broken{k, e.site}); placed.back[e.site] && !seen[at] {
				seen[at] = true
				x.Checkpoints++
			}
		}
	}
	for e := range placed.broken {
		if x := byNumber[component[e[0]]]; x != nil {
			x.Open++
		}
	}
	for _, x := range byNumber {
		sort.Strings(x.Functions)
		r.Recursion = append(r.Recursion, *x)
	}
	sort.Slice(r.Recursion, func(i, j int) bool {
		a, b := &r.Recursion[i], &r.Recursion[j]
		if len(a.Functions) != len(b.Functions) {
			return len(a.Functions) > len(b.Functions)
		}
		return a.Functions[0] < b.Functions[0]
	})
}

// reportParks lists the calls on which a task may park. They come from the source, as the
// machine code has no calls of what the compiler inlined, as it does with most of package task.
func (p *Program) reportParks(r *Report) {
	g := p.graph
	parks, reach, callees := p.leadingTo(parker), g.reachable(g.roots), make(nameSets)
	held := make(map[*ssa.Function]bool)
	for v := range g.nodes {
		for _, f := range g.nodes[v].in {
			held[f] = held[f] || reach[v] && !g.nodes[v].leaf
		}
	}
	for call, s := range g.bySite {
		if !held[call.Parent()] {
			continue
		}
		for _, to := range p.callees(call.Parent(), call) {
			if parks[to] {
				callees.add(s, linkName(to))
			}
		}
	}
	for _, s := range callees.inOrder() {
		r.Parks = append(r.Parks, ParkCall{s.name, s.caller, names(callees[s])})
	}
}

func (p *Program) reportTrust(r *Report) {
	g := p.graph
	reach := g.reachable(g.roots)
	seen := make(map[string]bool)
	for v := range g.nodes {
		n := &g.nodes[v]
		if !reach[v] || seen[n.name] {
			continue
		}
		// Indirect calls in assembly can't be seen; its own frame is known.
		if trusted := n.why == "bound" || n.why == "rare"; trusted || p.bin.Funcs[v].Asm {
			seen[n.name] = true
			what := fmt.Sprintf("%s: assembly, %v", n.name, Bytes(n.frame))
			if trusted {
				what = fmt.Sprintf("%s: %s %v", n.name, n.why, n.bound)
			}
			r.NoFrame = append(r.NoFrame, what)
		}
	}
	sort.Strings(r.NoFrame)
	r.Unknown = slices.Sorted(maps.Keys(g.unknown))
}
