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
		if from := g.madeIn(call.Common().Value, f, 0); from != "" {
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

// findFuncs finds the functions on whose stack a task may wait.
func (fl *flow) findFuncs() {
	callers := make(map[*ssa.Function][]*ssa.Function)
	var work []*ssa.Function
	add := func(f *ssa.Function) {
		if fl.funcs[f] == nil {
			fl.funcs[f] = &summary{f: f, program: fl.p.ofProgram(packageOf(f)),
				calls: make(map[ssa.CallInstruction][]*summary), site: make(map[ssa.CallInstruction]int), skips: make(map[ssa.CallInstruction]bool)}
			work = append(work, f)
		}
	}
	for f := range fl.p.src.used {
		for _, call := range callsOf(f) {
			if _, starts := call.(*ssa.Go); starts {
				continue
			}
			for _, to := range fl.callees(f, call) {
				callers[to] = append(callers[to], f)
			}
		}
		if fl.p.src.watched(f) {
			add(f)
			x := fl.funcs[f]
			x.terminal, x.passes = true, true
			x.first.add(bare)
			x.last.add(bare)
			x.all.add(bare)
			x.from.add(bare)
			x.to.add(bare)
		}
	}
	for len(work) > 0 {
		f := work[len(work)-1]
		work = work[:len(work)-1]
		for _, c := range callers[f] {
			add(c)
		}
	}
	fl.findRoots()
	fl.keepReached()
	for f, x := range fl.funcs {
		for _, call := range callsOf(f) {
			if _, starts := call.(*ssa.Go); starts {
				continue
			}
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

// keepReached forgets the functions that no task calls.
func (fl *flow) keepReached() {
	reached := make(map[*ssa.Function]*summary)
	var work []*summary
	add := func(x *summary) {
		if x != nil && reached[x.f] == nil {
			reached[x.f] = x
			work = append(work, x)
		}
	}
	for _, x := range fl.roots {
		add(x)
	}
	for len(work) > 0 {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		for _, call := range callsOf(x.f) {
			if _, starts := call.(*ssa.Go); starts {
				continue
			}
			for _, to := range fl.callees(x.f, call) {
				add(fl.funcs[to])
			}
		}
	}
	fl.funcs = reached
}

// findRoots finds the functions of tasks.
func (fl *flow) findRoots() {
	for f := range fl.p.src.used {
		if packageOf(f) != enginePackage || f.Name() != "runTasks" {
			continue
		}
		for _, call := range callsOf(f) {
			if field(call.Common().Value) != "fn" {
				continue
			}
			for _, to := range fl.callees(f, call) {
				if x := fl.funcs[to]; x != nil {
					fl.roots = append(fl.roots, x)
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
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			if _, returns := in.(*ssa.Return); returns {
				add(in.Pos())
			}
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
