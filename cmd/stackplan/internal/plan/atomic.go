package plan

import (
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
)

// AtomicMark stands in the comment above a function that no other task may run in the middle of.
const AtomicMark = "//capriccio:atomic"

// An Atomic is a function with an AtomicMark: a critical section without a lock. It holds if no call
// in it leads to a place where a task gives its turn away, nor to one where the thread may block so long
// that the loop is taken from the task.
type Atomic struct {
	Function string   `json:"function"`
	At       string   `json:"at"`
	Waits    []string `json:"waits,omitempty"`  // what leads to each place where it may wait: calls, outermost first
	Unused   bool     `json:"unused,omitempty"` // the program does not have it
}

// blockingCalls are functions of the standard library that block the thread's goroutine. System calls are not among
// them: nothing says which take long.
var blockingCalls = []string{
	"(*sync.Mutex).Lock", "(*sync.RWMutex).Lock", "(*sync.RWMutex).RLock", "(*sync.rlocker).Lock", "(*sync.WaitGroup).Wait", "(*sync.Cond).Wait",
	"time.Sleep",
}

// Atomics looks into each function that has an AtomicMark. A mark that is above nothing but a function
// is an error.
func (p *Program) Atomics() ([]Atomic, error) {
	var found []Atomic
	var pkgs []*packages.Package
	for _, pkg := range p.all {
		if p.ofProgram(pkg.PkgPath) {
			pkgs = append(pkgs, pkg)
		}
	}
	slices.SortFunc(pkgs, func(a, b *packages.Package) int { return strings.Compare(a.ID, b.ID) })
	seen := make(map[string]bool) // a package may be there with and without its tests
	for _, pkg := range pkgs {
		for _, file := range pkg.Syntax {
			marks := marksOf(file)
			for _, decl := range file.Decls {
				f, ok := decl.(*ast.FuncDecl)
				if !ok || f.Doc == nil {
					continue
				}
				for _, c := range f.Doc.List {
					if !marks[c.Pos()] {
						continue
					}
					delete(marks, c.Pos())
					at := p.src.position(f.Name.Pos())
					a := Atomic{Function: pkg.PkgPath + "." + f.Name.Name, At: fmt.Sprintf("%s:%d", filepath.Base(at.Filename), at.Line)}
					if key := at.String(); !seen[key] {
						seen[key] = true
						found = append(found, p.atomic(a, p.src.byPlace[place{at.Filename, at.Line, false}]))
					}
				}
			}
			for pos := range marks {
				return nil, fmt.Errorf("%v: %s has to stand in the comment right above a function", p.src.position(pos), AtomicMark)
			}
		}
	}
	return found, nil
}

// marksOf are the positions of the atomic marks of a file.
func marksOf(file *ast.File) map[token.Pos]bool {
	marks := make(map[token.Pos]bool)
	for _, group := range file.Comments {
		for _, c := range group.List {
			if strings.TrimSpace(c.Text) == AtomicMark {
				marks[c.Pos()] = true
			}
		}
	}
	return marks
}

// atomic finds the waits that a function, in all the forms that were compiled, leads to: the shortest way to each
// place.
func (p *Program) atomic(a Atomic, forms []*ssa.Function) Atomic {
	from := make(map[*ssa.Function]*ssa.Function) // how each function was reached
	var work []*ssa.Function
	for _, f := range forms {
		if p.src.used[f] {
			a.Function = linkName(f)
			from[f] = nil
			work = append(work, f)
		}
	}
	a.Unused = len(work) == 0
	way := func(f *ssa.Function, last string) string {
		names := []string{last}
		for ; f != nil; f = from[f] {
			names = append(names, linkName(f))
		}
		slices.Reverse(names)
		return strings.Join(names, " → ")
	}
	for len(work) > 0 {
		f := work[0]
		work = work[1:]
		for _, wait := range p.nativeWaits(f) {
			a.Waits = append(a.Waits, way(f, wait))
		}
		called := p.reflected(f)
		for call := range callsOf(f) {
			called = append(called, p.callees(f, call)...)
		}
		for _, to := range called {
			if _, known := from[to]; known {
				continue
			}
			from[to] = f
			if parker(to) {
				a.Waits = append(a.Waits, way(f, linkName(to)))
				continue
			}
			work = append(work, to)
		}
	}
	slices.Sort(a.Waits)
	return a
}

// reflected are what f may call by reflection, in the same order each time; see addReflected.
func (p *Program) reflected(f *ssa.Function) []*ssa.Function {
	if linkName(f) != reflectCall {
		return nil
	}
	s := p.src
	if r := p.notes.find(reflectCall, "calls"); r != nil {
		return slices.DeleteFunc(slices.Clone(s.ordered), func(f *ssa.Function) bool {
			return !slices.ContainsFunc(r.targets, func(pattern string) bool { return match(pattern, linkName(f)) })
		})
	}
	funcs, methods := s.reflected()
	all := slices.DeleteFunc(append(funcs, methods...), func(f *ssa.Function) bool { return !s.used[f] })
	slices.SortFunc(all, func(a, b *ssa.Function) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// ofTaskRuntime reports whether a package is one of this project's that wait for other threads for short times only, if
// they do so natively.
func ofTaskRuntime(pkg string) bool {
	rest, of := strings.CutPrefix(pkg, projectPath)
	first, _, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	return of && slices.Contains([]string{"", "internal", "task", "ressched", "bgraph", "netpoll", "aio", "stackchunk"}, first)
}

// nativeWaits are the operations of a function of the program that may block its thread's goroutine.
func (p *Program) nativeWaits(f *ssa.Function) (waits []string) {
	if pkg := packageOf(f); !p.ofProgram(pkg) || ofTaskRuntime(pkg) {
		return nil
	}
	add := func(what string, pos token.Pos) {
		at := p.src.position(pos)
		waits = append(waits, fmt.Sprintf("%s (%s:%d)", what, filepath.Base(at.Filename), at.Line))
	}
	for in := range instrs(f) {
		switch in := in.(type) {
		case *ssa.Send:
			add("send on a Go channel", in.Pos())
		case *ssa.Select:
			if in.Blocking {
				add("select", in.Pos())
			}
		case *ssa.UnOp:
			if in.Op == token.ARROW {
				add("receive from a Go channel", in.Pos())
			}
		case *ssa.Call, *ssa.Defer:
			for _, name := range p.blocking(f, in.(ssa.CallInstruction)) {
				add(name, in.Pos())
			}
		}
	}
	return waits
}

// blocking are those of blockingCalls that a call of f may be: by name, as a sync.Locker, as a method value, or through
// the wrapper of a method that a struct has from an embedded field.
func (p *Program) blocking(f *ssa.Function, call ssa.CallInstruction) (names []string) {
	reached := closure(slices.Values(p.callees(f, call)), func(to *ssa.Function, add func(*ssa.Function)) {
		if packageOf(to) != "" {
			return // not a wrapper, which has no source
		}
		for next := range callsOf(to) {
			for _, behind := range p.callees(to, next) {
				add(behind)
			}
		}
	})
	for to := range reached {
		if slices.Contains(blockingCalls, to.String()) {
			names = append(names, to.String())
		}
	}
	return names
}
