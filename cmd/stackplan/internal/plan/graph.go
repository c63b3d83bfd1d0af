package plan

import (
	"cmp"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// A graph is the call graph of the binary, weighted with stack. Its nodes are the
// functions of the binary by their index.
type graph struct {
	p     *Program
	nodes []node
	sites []*site
	push  int // bytes that a call instruction pushes
	roots []int
	tasks map[int]bool    // those of the roots that are started as tasks
	own   map[string]bool // import paths of what may be rewritten

	bySite    map[ssa.CallInstruction]*site
	byName    map[string][]int
	lineSites map[lineKey][]*site
	unknown   map[string]bool // indirect calls for which the analysis found no target
	relays    *relays
}

type lineKey struct {
	file string
	line int
}

// A node is a function of the binary.
type node struct {
	name  string
	frame int
	out   []edge
	bound Bytes // trusted, if leaf
	leaf  bool
	open  bool   // a rare one that is looked into for bounds
	why   string // the annotation's verb: "bound", "rare", "ends", "panics"; or ""
	in    []*ssa.Function
	defs  bool // has deferred calls that deferreturn makes
}

// An edge is one or more calls of a function in another.
type edge struct {
	to     int
	depth  int   // what the caller takes of the stack meanwhile
	mid    int   // the part of depth that is taken by functions between, which call what they are given
	site   *site // the call in the source that it stems from; nil: none that may be rewritten
	defers bool  // it is made when the function returns or panics
	fatal  bool  // its result is for a panic
}

// canCheck reports whether the call can be a checkpoint.
func (e *edge) canCheck() bool { return e.site != nil && e.site.refused == "" }

func newGraph(p *Program) *graph {
	g := &graph{p: p, byName: make(map[string][]int), bySite: make(map[ssa.CallInstruction]*site),
		lineSites: make(map[lineKey][]*site), unknown: make(map[string]bool), tasks: make(map[int]bool), own: make(map[string]bool)}
	if p.bin.Arch == "amd64" {
		g.push = 8
	}
	g.nodes = make([]node, len(p.bin.Funcs))
	for i := range p.bin.Funcs {
		f := &p.bin.Funcs[i]
		n := &g.nodes[i]
		n.name, n.frame = f.Name, max(f.Frame, 0)
		if p.bin.Arch == "arm64" {
			n.frame += 8 // the frame pointer is stored below the stack pointer
		}
		g.byName[f.Name] = append(g.byName[f.Name], i)
		if r := p.notes.find(f.Name, "bound", "rare", "ends", "panics"); r != nil {
			n.leaf, n.why, n.bound = r.verb != "panics", r.verb, r.bound
			if r.verb == "rare" && !r.sized {
				n.leaf, n.open = false, true
			}
		}
		n.in = p.src.functionsAt(f.Name, f.File, f.StartLine)
		n.in = n.in[:len(n.in):len(n.in)]
		for _, in := range f.Inlined {
			n.in = append(n.in, p.src.functionsAt(in.Name, in.File, in.StartLine)...)
		}
	}
	for _, pkg := range p.own {
		g.own[pkg.PkgPath] = true
	}
	g.relays = newRelays(g)
	g.findSites()
	for i := range g.nodes {
		if !g.nodes[i].leaf {
			g.addDirect(i)
			g.addIndirect(i)
		}
	}
	for i := range g.nodes {
		g.merge(i)
	}
	g.findRoots()
	return g
}

// skips reports whether an edge does not count: it ends the program or starts a panic.
func (g *graph) skips(from int, e *edge) bool {
	to := g.nodes[e.to].why
	if e.fatal && g.nodes[from].why != "panics" {
		return true
	}
	return to == "ends" || to == "panics" && g.nodes[from].why != "panics"
}

// addDirect adds the calls that the machine code of a function shows.
func (g *graph) addDirect(i int) {
	f := &g.p.bin.Funcs[i]
	n := &g.nodes[i]
	for _, c := range f.Calls {
		file := f.File
		if c.In >= 0 {
			file = f.Inlined[c.In].File
		}
		e := edge{to: c.Target, depth: max(c.Depth, 0), fatal: g.p.src.fatal[lineKey{file, c.Line}]}
		if g.nodes[c.Target].name == "runtime.deferreturn" {
			n.defs = true
		}
		// Which of several calls on a line it is can't be told: it may be each of them.
		known := false
		for _, s := range g.lineSites[lineKey{file, c.Line}] {
			if s.callees[c.Target] {
				known = true
				e.site = s
				n.out = append(n.out, e)
			}
		}
		// Functions without a body are called by the name that go:linkname gives them, or
		// are in assembly.
		for _, s := range g.lineSites[lineKey{file, c.Line}] {
			if !known && s.external && !ofRuntime(g.nodes[c.Target].name) {
				known = true
				e.site = s
				n.out = append(n.out, e)
			}
		}
		if !known {
			n.out = append(n.out, e)
		}
	}
}

// merge makes one edge of all those to the same function by the same call.
func (g *graph) merge(i int) {
	out := g.nodes[i].out
	slices.SortStableFunc(out, func(x, y edge) int {
		if c := cmp.Or(x.to-y.to, x.siteNumber()-y.siteNumber()); c != 0 || x.fatal == y.fatal {
			return cmp.Or(c, y.depth-x.depth, y.mid-x.mid)
		}
		return map[bool]int{true: 1, false: -1}[x.fatal]
	})
	kept := out[:0]
	for _, e := range out {
		if k := len(kept); k > 0 && kept[k-1].to == e.to && kept[k-1].site == e.site && (e.fatal || !kept[k-1].fatal) {
			kept[k-1].defers = kept[k-1].defers || e.defers && !e.fatal // a panic runs it too
			continue
		}
		kept = append(kept, e)
	}
	g.nodes[i].out = kept
}

func (e *edge) siteNumber() int {
	if e.site == nil {
		return -1
	}
	return e.site.id
}
