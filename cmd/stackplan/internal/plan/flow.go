package plan

import (
	"go/ast"
	"go/token"
	"iter"
	"math/bits"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A flow finds out where a task may wait after a wait. For each function on whose stack
// a task may wait it computes which waits may be the first and the last, and whether
// there need be none at all; along the control flow of a function, each call's firsts
// follow the lasts of those before. Callers are not told apart.
//
// A wait is named after a call of the program. Inside of the task runtime and the
// standard library, it has no name yet: it is bare until a call of the program gives it one.
type flow struct {
	p      *Program
	places []flowPlace // by number; 0 is bare
	byKey  map[string]int
	funcs  map[*ssa.Function]*summary
	roots  []*summary
	edges  []set // for each place those that may follow it
	parens map[token.Pos]*ast.CallExpr
	grown  bool
}

type flowPlace struct {
	key      string
	function string
	used     bool
	lines    []string // keys of the lines that the call may be known by
}

const bare = 0

// A summary is what is known of a function.
type summary struct {
	f           *ssa.Function
	program     bool
	terminal    bool
	first, last set
	all         set
	passes      bool
	from, to    set                         // of edges with a bare end: what may follow a bare wait, and what a bare wait may follow
	site        map[ssa.CallInstruction]int // the place of a call
	calls       map[ssa.CallInstruction][]*summary
	callers     []*summary
	skips       map[ssa.CallInstruction]bool // some target never waits
	queued      bool
}

// A set is a set of places.
type set []uint64

func (s *set) add(i int) {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]>>(i%64)&1 != 0 }

// union adds t and reports whether s has grown.
func (s *set) union(t set) bool {
	grown := false
	for len(*s) < len(t) {
		*s = append(*s, 0)
	}
	for i, w := range t {
		if w&^(*s)[i] != 0 {
			grown = true
			(*s)[i] |= w
		}
	}
	return grown
}

func (s set) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i*64 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// named is s with the bare wait called by a name.
func (s set) named(as int) set {
	if as == bare || !s.has(bare) {
		return s
	}
	t := append(set(nil), s...)
	t[0] &^= 1
	t.add(as)
	return t
}

func newFlow(p *Program) *flow {
	fl := &flow{p: p, places: []flowPlace{{}}, edges: []set{nil}, byKey: make(map[string]int), funcs: make(map[*ssa.Function]*summary),
		parens: make(map[token.Pos]*ast.CallExpr)}
	for _, pkg := range p.all {
		if !p.ofProgram(pkg.PkgPath) {
			continue
		}
		for _, file := range pkg.Syntax {
			ast.Inspect(file, func(n ast.Node) bool {
				if c, ok := n.(*ast.CallExpr); ok {
					fl.parens[c.Lparen] = c
				}
				return true
			})
		}
	}
	fl.findFuncs()
	return fl
}

// callees are what a call may lead to. Functions that a call passes on to be called by
// what it calls are among them.
func (fl *flow) callees(f *ssa.Function, call ssa.CallInstruction) []*ssa.Function {
	g, s := fl.p.graph, fl.p.src
	if to := call.Common().StaticCallee(); to != nil {
		all := []*ssa.Function{to}
		// Of the program, each call has a place of its own: none is counted elsewhere.
		if !fl.p.ofProgram(packageOf(to)) {
			for _, x := range g.relays.from(f, call, fl.p.ofProgram(packageOf(f))) {
				all = append(all, x.to)
			}
		}
		return all
	}
	if g.relays.covers(f, call) && !fl.p.ofProgram(packageOf(f)) {
		return nil
	}
	if sig, lost := s.lost[call]; lost {
		if fromOutside(call.Common().Value, 0) && !ofRuntime(packageOf(f)) && packageOf(f) != coroPackage {
			return s.valued[sig]
		}
		return nil
	}
	targets := s.targets[call]
	if len(targets) > 0 && packageOf(targets[0]) == "sync" && targets[0].Parent() != nil {
		if from := g.madeIn(call.Common().Value, f); from != "" {
			targets = append(targets[1:len(targets):len(targets)], g.oncePassed[from]...)
			return slices.DeleteFunc(targets, isOnceClosure)
		}
	}
	if ofRuntime(packageOf(f)) {
		return slices.DeleteFunc(slices.Clone(targets), func(to *ssa.Function) bool { return !ofRuntime(packageOf(to)) })
	}
	return targets
}

func isOnceClosure(f *ssa.Function) bool {
	return f.Parent() != nil && packageOf(f) == "sync" && strings.HasPrefix(f.Name(), "Once")
}

// findFuncs finds the functions on whose stack a task may wait, and that a task calls.
func (fl *flow) findFuncs() {
	callers := make(map[*ssa.Function][]*ssa.Function)
	var watched []*ssa.Function
	for f := range fl.p.src.used {
		for call := range callsOf(f) {
			for _, to := range fl.callees(f, call) {
				callers[to] = append(callers[to], f)
			}
		}
		if fl.p.src.watched(f) {
			watched = append(watched, f)
		}
	}
	waits := closure(slices.Values(watched), func(f *ssa.Function, add func(*ssa.Function)) {
		for _, c := range callers[f] {
			add(c)
		}
	})
	roots := taskFuncs(fl.p.src, fl.callees)
	roots = slices.DeleteFunc(roots, func(f *ssa.Function) bool { return !waits[f] })
	for f := range closure(slices.Values(roots), func(f *ssa.Function, add func(*ssa.Function)) {
		for call := range callsOf(f) {
			for _, to := range fl.callees(f, call) {
				if waits[to] {
					add(to)
				}
			}
		}
	}) {
		fl.funcs[f] = &summary{f: f, program: fl.p.ofProgram(packageOf(f)),
			calls: make(map[ssa.CallInstruction][]*summary), site: make(map[ssa.CallInstruction]int), skips: make(map[ssa.CallInstruction]bool)}
	}
	for _, f := range roots {
		fl.roots = append(fl.roots, fl.funcs[f])
	}
	for _, f := range watched {
		if x := fl.funcs[f]; x != nil {
			x.terminal, x.passes = true, true
			for _, s := range []*set{&x.first, &x.last, &x.all, &x.from, &x.to} {
				s.add(bare)
			}
		}
	}
	for f, x := range fl.funcs {
		for call := range callsOf(f) {
			for _, to := range fl.callees(f, call) {
				y := fl.funcs[to]
				if y == nil {
					x.skips[call] = true
				} else {
					x.calls[call] = append(x.calls[call], y)
					y.callers = append(y.callers, x)
				}
			}
		}
	}
}

// place is the number of a call in the program.
func (fl *flow) place(f *ssa.Function, pos token.Pos, deferred bool) int {
	at := fl.p.src.position(pos)
	key := placeKey(linkPackage(f), at.Filename, at.Line)
	id, ok := fl.byKey[key]
	if !ok {
		id = len(fl.places)
		fl.byKey[key] = id
		fl.edges = append(fl.edges, nil)
		fl.places = append(fl.places, flowPlace{key: key, function: linkName(f), lines: []string{key}})
	}
	x := &fl.places[id]
	if deferred {
		// A stack shows the line at which the function ends.
		x.lines = append(x.lines, fl.ends(f)...)
	}
	if expr := fl.parens[pos]; expr != nil {
		for _, p := range []token.Pos{expr.Pos(), expr.Fun.End(), expr.Lparen} {
			at := fl.p.src.position(p)
			x.lines = append(x.lines, placeKey(linkPackage(f), at.Filename, at.Line))
		}
	}
	return id
}

// linkPackage is the import path of a function as a stack trace has it.
func linkPackage(f *ssa.Function) string {
	for f.Parent() != nil {
		f = f.Parent()
	}
	if o := f.Origin(); o != nil {
		f = o
	}
	if f.Pkg != nil && f.Pkg.Pkg.Name() == "main" {
		return "main"
	}
	return packageOf(f)
}

// ends are the lines on which a function returns.
func (fl *flow) ends(f *ssa.Function) []string {
	var lines []string
	add := func(pos token.Pos) {
		if pos.IsValid() {
			at := fl.p.src.position(pos)
			lines = append(lines, placeKey(linkPackage(f), at.Filename, at.Line))
		}
	}
	for in := range instrs(f) {
		if _, returns := in.(*ssa.Return); returns {
			add(in.Pos())
		}
	}
	if syntax := f.Syntax(); syntax != nil {
		add(syntax.End() - 1)
	}
	return lines
}

// lines are the places by all lines that they may be known by; their own come first.
func (fl *flow) lines(index map[int]int) map[string][]int {
	all := make(map[string][]int)
	add := func(line string, at int) {
		if !slices.Contains(all[line], at) {
			all[line] = append(all[line], at)
		}
	}
	for id := range fl.places {
		if at, ok := index[id]; ok {
			add(fl.places[id].key, at)
		}
	}
	for id := range fl.places {
		if at, ok := index[id]; ok {
			for _, l := range fl.places[id].lines {
				add(l, at)
			}
		}
	}
	return all
}
