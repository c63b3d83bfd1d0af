package plan

import (
	"go/ast"
	"go/token"
	"iter"
	"maps"
	"math/bits"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// A flow finds out where a task may wait after a wait. A wait is named after the innermost
// call of the program on the stack, which leads into the task runtime or the standard
// library; that call is a place. Any call may be over without a wait. So a wait at one call
// may be followed by one at each call that the control flow of the same function leads to,
// and by those of all functions that these call. Callers are not told apart.
type flow struct {
	p      *Program
	places []flowPlace
	byKey  map[string]int
	funcs  map[*ssa.Function]*waiter
	roots  []*waiter
	edges  []set // by place, the places that may follow it
	parens map[token.Pos]*ast.CallExpr
}

type flowPlace struct {
	key      string
	function string
	lines    []string // keys of the lines that the call may be known by
}

// A waiter is a function of the program in which a task may wait.
type waiter struct {
	f     *ssa.Function
	sites []*waitSite
	all   set // places of its waits, and of the functions that it calls
	last  set // those after which it may return
}

// A waitSite is a call in a waiter that may lead to a wait.
type waitSite struct {
	block    *ssa.BasicBlock
	index    int // in the block
	deferred bool
	own      set       // its place, if a task may wait in code that is not the program's
	calls    []*waiter // functions of the program that it leads to
	again    bool      // through other code, which may call them in any order, and again
}

// A set is a set of places.
type set []uint64

func (s *set) add(i int) {
	for len(*s) <= i/64 {
		*s = append(*s, 0)
	}
	(*s)[i/64] |= 1 << (i % 64)
}

// union adds t and reports whether s has grown.
func (s *set) union(t set) bool {
	grown := false
	for len(*s) < len(t) {
		*s = append(*s, 0)
	}
	for i, w := range t {
		grown = grown || w&^(*s)[i] != 0
		(*s)[i] |= w
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

// waits are the places at which a task may wait in a call; of last ones, the call may then be over.
func (s *waitSite) waits(last bool) (all set) {
	all.union(s.own)
	for _, x := range s.calls {
		if last {
			all.union(x.last)
		} else {
			all.union(x.all)
		}
	}
	return all
}

func newFlow(p *Program) *flow {
	fl := &flow{p: p, byKey: make(map[string]int), funcs: make(map[*ssa.Function]*waiter), parens: make(map[token.Pos]*ast.CallExpr)}
	for _, pkg := range p.all {
		if p.ofProgram(pkg.PkgPath) {
			for call := range callExprs(pkg) {
				fl.parens[call.Lparen] = call
			}
		}
	}
	waits := p.leadingTo(watched)
	for _, root := range taskFuncs(p.src, p.callees) {
		if waits[root] {
			fl.roots = append(fl.roots, fl.root(root, waits))
		}
	}
	fl.solve()
	return fl
}

// root is the waiter that a task begins with. A function that is not the program's has one
// place for all waits in such code, its own.
func (fl *flow) root(f *ssa.Function, waits map[*ssa.Function]bool) *waiter {
	if fl.p.ofProgram(packageOf(f)) {
		return fl.waiter(f, waits)
	}
	x := &waiter{f: f}
	fl.funcs[f] = x
	s := &waitSite{}
	fl.lead(s, []*ssa.Function{f}, waits, func() int { return fl.place(f, f.Pos(), false) })
	x.sites = []*waitSite{s}
	return x
}

// waiter looks into a function of the program once.
func (fl *flow) waiter(f *ssa.Function, waits map[*ssa.Function]bool) *waiter {
	if x := fl.funcs[f]; x != nil {
		return x
	}
	x := &waiter{f: f}
	fl.funcs[f] = x
	for _, b := range f.Blocks {
		for i, in := range b.Instrs {
			call, is := in.(ssa.CallInstruction)
			if _, starts := in.(*ssa.Go); !is || starts {
				continue
			}
			_, deferred := in.(*ssa.Defer)
			s := &waitSite{block: b, index: i, deferred: deferred}
			fl.lead(s, fl.p.callees(f, call), waits, func() int { return fl.place(f, call.Pos(), deferred) })
			if len(s.own) > 0 || len(s.calls) > 0 {
				x.sites = append(x.sites, s)
			}
		}
	}
	return x
}

// lead follows a call through code that is not the program's.
func (fl *flow) lead(s *waitSite, callees []*ssa.Function, waits map[*ssa.Function]bool, place func() int) {
	reached := closure(slices.Values(callees), func(f *ssa.Function, add func(*ssa.Function)) {
		if fl.p.ofProgram(packageOf(f)) || !waits[f] {
			return
		}
		leading := 0
		for call := range callsOf(f) {
			callees := fl.p.callees(f, call)
			for _, to := range callees {
				add(to)
			}
			if slices.ContainsFunc(callees, func(to *ssa.Function) bool { return waits[to] }) {
				leading++
				s.again = s.again || leading > 1 || after(call.Block())[call.Block()]
			}
		}
	})
	for f := range reached {
		switch {
		case watched(f) && len(s.own) == 0:
			s.own.add(place())
			s.again = true
		case waits[f] && fl.p.ofProgram(packageOf(f)):
			s.calls = append(s.calls, fl.waiter(f, waits))
		}
	}
}

// solve finds the waits of each function, and then which may follow each other.
func (fl *flow) solve() {
	fl.edges = make([]set, len(fl.places))
	for grown := true; grown; {
		grown = false
		for _, x := range fl.funcs {
			for _, s := range x.sites {
				grown = x.all.union(s.waits(false)) || grown
				if x.returnsAfter(s) {
					grown = x.last.union(s.waits(true)) || grown
				}
			}
		}
	}
	for _, x := range fl.funcs {
		for _, s := range x.sites {
			last := s.waits(true)
			for _, next := range x.sites {
				if next.follows(s) || next == s && s.again {
					for place := range last.all() {
						fl.edges[place].union(next.waits(false))
					}
				}
			}
		}
	}
}

// returnsAfter reports whether the function may return after a call. Where a panic may be
// recovered, it always may.
func (x *waiter) returnsAfter(s *waitSite) bool {
	if s.deferred || s.block == nil || x.f.Recover != nil {
		return true
	}
	returns := func(b *ssa.BasicBlock) bool {
		_, is := b.Instrs[len(b.Instrs)-1].(*ssa.Return)
		return is
	}
	return returns(s.block) || slices.ContainsFunc(slices.Collect(maps.Keys(after(s.block))), returns)
}

// follows reports whether a call may come after another in a function. Deferred ones may
// come after any, also when a panic or the end of the runtime ends the function.
func (s *waitSite) follows(t *waitSite) bool {
	switch {
	case s.block == nil:
		return false
	case s.deferred || t.deferred:
		return s.deferred
	}
	return s.block == t.block && s.index > t.index || after(t.block)[s.block]
}

// after are the blocks that the control flow leads to from the end of one.
func after(b *ssa.BasicBlock) map[*ssa.BasicBlock]bool {
	return closure(slices.Values(b.Succs), func(b *ssa.BasicBlock, add func(*ssa.BasicBlock)) {
		for _, next := range b.Succs {
			add(next)
		}
	})
}

// place is the number of a call in the program.
func (fl *flow) place(f *ssa.Function, pos token.Pos, deferred bool) int {
	key := fl.line(f, pos)
	id, ok := fl.byKey[key]
	if !ok {
		id = len(fl.places)
		fl.byKey[key] = id
		fl.places = append(fl.places, flowPlace{key: key, function: linkName(f), lines: []string{key}})
	}
	x := &fl.places[id]
	if deferred {
		// A stack shows the line at which the function ends.
		for in := range instrs(f) {
			if _, returns := in.(*ssa.Return); returns && in.Pos().IsValid() {
				x.lines = append(x.lines, fl.line(f, in.Pos()))
			}
		}
		if syntax := f.Syntax(); syntax != nil {
			x.lines = append(x.lines, fl.line(f, syntax.End()-1))
		}
	}
	if expr := fl.parens[pos]; expr != nil {
		for _, p := range []token.Pos{expr.Pos(), expr.Fun.End(), expr.Lparen} {
			x.lines = append(x.lines, fl.line(f, p))
		}
	}
	return id
}

// line is how a line of a function is found in a stack trace.
func (fl *flow) line(f *ssa.Function, pos token.Pos) string {
	at := fl.p.src.position(pos)
	pkg := packageOf(f)
	if outer := outermost(f); outer.Pkg != nil && outer.Pkg.Pkg.Name() == "main" {
		pkg = "main"
	}
	return placeKey(pkg, at.Filename, at.Line)
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
		add(fl.places[id].key, index[id])
	}
	for id := range fl.places {
		for _, l := range fl.places[id].lines {
			add(l, index[id])
		}
	}
	return all
}
