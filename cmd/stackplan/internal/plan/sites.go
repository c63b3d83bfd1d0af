package plan

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// A site is a call in a source that may be rewritten.
type site struct {
	id          int // index in the graph's sites
	file        string
	line, col   int
	offset, end int
	name        string // in plans and reports: where its parenthesis stands, as several calls may begin in one place
	caller      string
	pkg         string
	callees     map[int]bool
	external    bool   // it calls a function without a body
	refused     string // why it can't be a checkpoint
}

// A span is a range of bytes in a file: x.A().B() are two calls that begin at one offset.
type span struct {
	file        string
	offset, end int
}

// findSites lists the calls in the sources that may be rewritten. Code may be there as several
// instances.
func (g *graph) findSites() {
	exprs := make(map[token.Pos]*ast.CallExpr)
	for _, pkg := range g.p.own {
		for call := range callExprs(pkg) {
			exprs[call.Lparen] = call
		}
	}
	known := make(map[span]*site)
	for _, f := range g.p.src.ordered {
		if !g.own[packageOf(f)] {
			continue
		}
		for call := range callsOf(f) {
			expr := exprs[call.Pos()]
			if _, plain := call.(*ssa.Call); !plain || expr == nil {
				continue
			}
			to := call.Common().StaticCallee()
			if to == nil && !indirect(call) {
				continue // of a builtin function
			}
			s := g.site(f, expr, known)
			g.bySite[call] = s
			if to != nil && to.Blocks == nil && to.Synthetic == "" {
				s.external = true
			}
			for _, to := range g.targetsOf(call) {
				s.callees[to] = true
			}
		}
	}
}

// site is that of a call expression, which it gets here if it is not known.
func (g *graph) site(f *ssa.Function, expr *ast.CallExpr, known map[span]*site) *site {
	fset := g.p.src.prog.Fset
	// The binary knows lines as //line comments say, the file system does not.
	at, shown := fset.PositionFor(expr.Pos(), false), g.p.src.position(expr.Pos())
	place := span{at.Filename, at.Offset, fset.PositionFor(expr.End(), false).Offset}
	if s := known[place]; s != nil {
		return s
	}
	paren := fset.PositionFor(expr.Lparen, false)
	if !strings.HasSuffix(paren.Filename, ".go") { // of cgo, in the build cache
		paren = fset.Position(expr.Lparen)
	}
	s := &site{id: len(g.sites), file: at.Filename, line: at.Line, col: at.Column, offset: at.Offset, end: place.end,
		name:   fmt.Sprintf("%s/%s:%d:%d", packageOf(f), filepath.Base(paren.Filename), paren.Line, paren.Column),
		caller: linkName(f), pkg: packageOf(f), callees: make(map[int]bool)}
	known[place] = s
	g.sites = append(g.sites, s)
	lines := map[int]bool{shown.Line: true, fset.Position(expr.Lparen).Line: true, fset.Position(expr.Fun.End()).Line: true}
	if sel, ok := expr.Fun.(*ast.SelectorExpr); ok {
		lines[fset.Position(sel.Sel.Pos()).Line] = true
	}
	for line := range lines {
		key := lineKey{shown.Filename, line}
		g.lineSites[key] = append(g.lineSites[key], s)
	}
	return s
}

// targetsOf are the functions of the binary that a call may lead to.
func (g *graph) targetsOf(call ssa.CallInstruction) []int {
	if to := call.Common().StaticCallee(); to != nil {
		return g.codes(to, false)
	}
	var all []int
	for _, to := range g.p.src.targets[call] {
		all = append(all, g.codes(to, call.Common().IsInvoke())...)
	}
	return all
}

// nameSets are names of functions by the calls that lead to them.
type nameSets map[*site]map[string]bool

func (n nameSets) add(s *site, name string) {
	if n[s] == nil {
		n[s] = make(map[string]bool)
	}
	n[s][name] = true
}

// inOrder are the calls in the order of the sources.
func (n nameSets) inOrder() []*site {
	return slices.SortedFunc(maps.Keys(n), func(a, b *site) int {
		return cmp.Or(strings.Compare(a.file, b.file), a.offset-b.offset, a.end-b.end)
	})
}

func names(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ", ") }
