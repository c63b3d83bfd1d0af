package plan

import (
	"go/ast"
	"iter"

	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/go/ssa"
)

// callExprs yields the calls in the syntax of a package.
func callExprs(pkg *packages.Package) iter.Seq[*ast.CallExpr] {
	return func(yield func(*ast.CallExpr) bool) {
		for _, file := range pkg.Syntax {
			for n := range ast.Preorder(file) {
				if call, is := n.(*ast.CallExpr); is && !yield(call) {
					return
				}
			}
		}
	}
}

// instrs yields the instructions of a function.
func instrs(f *ssa.Function) iter.Seq[ssa.Instruction] {
	return func(yield func(ssa.Instruction) bool) {
		for _, b := range f.Blocks {
			for _, in := range b.Instrs {
				if !yield(in) {
					return
				}
			}
		}
	}
}

// callsOf yields the calls in a function, deferred ones too, but not those of go statements.
func callsOf(f *ssa.Function) iter.Seq[ssa.CallInstruction] {
	return func(yield func(ssa.CallInstruction) bool) {
		for in := range instrs(f) {
			call, is := in.(ssa.CallInstruction)
			if _, starts := in.(*ssa.Go); is && !starts && !yield(call) {
				return
			}
		}
	}
}

// containsFunc reports whether one of some values has a property.
func containsFunc[T any](values iter.Seq[T], has func(T) bool) bool {
	for v := range values {
		if has(v) {
			return true
		}
	}
	return false
}

// globalsOf yields the package variables among the operands of an instruction.
func globalsOf(in ssa.Instruction) iter.Seq[*ssa.Global] {
	return func(yield func(*ssa.Global) bool) {
		var operands [8]*ssa.Value
		for _, v := range in.Operands(operands[:0]) {
			if g, is := (*v).(*ssa.Global); is && !yield(g) {
				return
			}
		}
	}
}

// closure is from and all that it leads to; next adds what one leads to.
func closure[T comparable](from iter.Seq[T], next func(x T, add func(T))) map[T]bool {
	found := make(map[T]bool)
	var work []T
	add := func(x T) {
		if !found[x] {
			found[x] = true
			work = append(work, x)
		}
	}
	for x := range from {
		add(x)
	}
	for len(work) > 0 {
		x := work[len(work)-1]
		work = work[:len(work)-1]
		next(x, add)
	}
	return found
}
