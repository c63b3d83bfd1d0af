package plan

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/capriccio-go/capriccio/internal/bgraph"
)

// A Blocking is the static blocking graph: at which calls of the program tasks may
// wait, and where they may wait next. It holds for every run, if the targets of all
// indirect calls are known. With a dump it says what a run made of it.
type Blocking struct {
	Places []BlockingPlace `json:"places"` // by Name, after "start" and "end"
	Edges  []BlockingEdge  `json:"edges"`  // by From, then To
	Dump   string          `json:"dump,omitempty"`

	// With a dump, how many edges are which; Unexpected must be 0.
	Seen       int `json:"seen"`
	Unseen     int `json:"unseen"`     // possible
	Unexpected int `json:"unexpected"` // seen but not predicted

	Atomic []Atomic `json:"atomic,omitempty"` // functions that claim to have no place to wait

	lines map[string][]int // places by all lines that a stack may name them by
}

// A BlockingPlace is a call of the program below which a task may wait: the innermost
// one outside of the task runtime and the standard library.
type BlockingPlace struct {
	Name     string `json:"name"` // package/file.go:line; of tasks without code of the program, where their function begins
	Function string `json:"function"`
	Seen     uint64 `json:"seen"` // arrivals in the dump
}

// A BlockingEdge means that a task may wait at To after From.
type BlockingEdge struct {
	From     int    `json:"from"` // in Places
	To       int    `json:"to"`
	Possible bool   `json:"possible"` // by the analysis
	Seen     uint64 `json:"seen"`     // steps in the dump
}

// The first places of every Blocking.
const (
	placeStart = iota
	placeEnd
	placeFirst
)

// parker reports whether f is one of the engine's functions in which a task gives
// its turn away.
func parker(f *ssa.Function) bool { return ofEngineThatCalls(f, enginePackage, "handOver") }

// watched reports whether f is one of the engine's functions that record a wait, or a wait
// that was not needed.
func watched(f *ssa.Function) bool { return ofEngineThatCalls(f, recorderPackage, "Park") }

func ofEngineThatCalls(f *ssa.Function, pkg, name string) bool {
	return packageOf(f) == enginePackage && containsFunc(callsOf(f), func(call ssa.CallInstruction) bool {
		to := call.Common().StaticCallee()
		return to != nil && to.Name() == name && packageOf(to) == pkg
	})
}

// runtimePackages are what a place is not in, see bgraph.Node.Place.
var runtimePackages = map[string]bool{
	enginePackage: true, taskPackage: true, resschedPackage: true, chunkPackage: true, projectPath + "/netpoll": true, projectPath + "/aio": true, coroPackage: true,
}

// ofProgram reports whether a function's package is neither the task runtime's nor of the
// standard library.
func (p *Program) ofProgram(pkg string) bool {
	if pkg == "" || runtimePackages[pkg] {
		return false
	}
	if known, ok := p.modules[pkg]; ok {
		return known
	}
	return !Standard(pkg)
}

// placeKey is how a place is found from both sides.
func placeKey(pkg, file string, line int) string {
	return fmt.Sprintf("%s/%s:%d", pkg, filepath.Base(file), line)
}

// Blocking computes the static blocking graph.
func (p *Program) Blocking() *Blocking {
	fl := newFlow(p)
	b := &Blocking{Places: []BlockingPlace{{Name: "start"}, {Name: "end"}}}
	ids := make([]int, len(fl.places))
	for id := range ids {
		ids[id] = id
	}
	slices.SortFunc(ids, func(i, j int) int { return strings.Compare(fl.places[i].key, fl.places[j].key) })
	index := make(map[int]int)
	for _, id := range ids {
		index[id] = len(b.Places)
		b.Places = append(b.Places, BlockingPlace{Name: fl.places[id].key, Function: fl.places[id].function})
	}
	var starts set
	for _, root := range fl.roots {
		starts.union(root.all)
	}
	for id := range starts.all() {
		b.Edges = append(b.Edges, BlockingEdge{From: placeStart, To: index[id], Possible: true})
	}
	for from, to := range fl.edges {
		for id := range to.all() {
			b.Edges = append(b.Edges, BlockingEdge{From: index[from], To: index[id], Possible: true})
		}
	}
	b.Edges = append(b.Edges, BlockingEdge{From: placeStart, To: placeEnd, Possible: true})
	// A wait can be a task's last: the runtime may shut down.
	for i := placeFirst; i < len(b.Places); i++ {
		b.Edges = append(b.Edges, BlockingEdge{From: i, To: placeEnd, Possible: true})
	}
	b.sort()
	b.lines = fl.lines(index)
	return b
}

func (b *Blocking) sort() {
	slices.SortFunc(b.Edges, func(x, y BlockingEdge) int { return cmp.Or(x.From-y.From, x.To-y.To) })
}

// Compare adds what a dump holds of a run.
func (b *Blocking) Compare(name string, s *bgraph.Snapshot, p *Program) {
	b.Dump = name
	at := make(map[bgraph.Key][]int) // a line may hold several places
	known := make(map[string]int)
	for i := range b.Places {
		known[b.Places[i].Name] = i
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		switch n.Key {
		case bgraph.KeyStart:
			at[n.Key] = []int{placeStart}
		case bgraph.KeyEnd:
			at[n.Key] = []int{placeEnd}
		case bgraph.KeyOverflow:
			continue
		default:
			at[n.Key] = b.placeOf(n, known, p)
			b.Places[at[n.Key][0]].Seen += n.Arrivals
		}
	}
	edges := make(map[[2]int]int)
	for i, e := range b.Edges {
		edges[[2]int{e.From, e.To}] = i
	}
	for _, e := range s.Edges {
		from, to := at[e.From], at[e.To]
		if len(from) == 0 || len(to) == 0 || e.Count == 0 {
			continue
		}
		k := [2]int{from[0], to[0]}
		for _, f := range from {
			for _, t := range to {
				if _, ok := edges[[2]int{f, t}]; ok {
					k = [2]int{f, t}
				}
			}
		}
		i, ok := edges[k]
		if !ok {
			i = len(b.Edges)
			edges[k] = i
			b.Edges = append(b.Edges, BlockingEdge{From: k[0], To: k[1]})
		}
		b.Edges[i].Seen += e.Count
	}
	b.sort()
	for _, e := range b.Edges {
		switch {
		case e.Seen == 0:
			b.Unseen++
		case e.Possible:
			b.Seen++
		default:
			b.Unexpected++
		}
	}
}

// placeOf finds the places that a node may be, or makes one that is not expected.
func (b *Blocking) placeOf(n *bgraph.Node, known map[string]int, p *Program) []int {
	key, function := "?", n.Name()
	for i := range n.Stack {
		f := &n.Stack[i]
		if pkg := packageOfName(f.Function); p.ofProgram(pkg) && f.File != "<autogenerated>" {
			key, function = placeKey(pkg, f.File, f.Line), f.Function
			if at, ok := b.lines[key]; ok {
				return at
			}
			break
		}
		if i == len(n.Stack)-1 {
			key, function = placeKey(packageOfName(f.Function), f.File, f.Line-f.Offset), f.Function
		}
	}
	at, ok := known[key]
	if !ok {
		at = len(b.Places)
		known[key] = at
		b.Places = append(b.Places, BlockingPlace{Name: key, Function: function})
	}
	return []int{at}
}
