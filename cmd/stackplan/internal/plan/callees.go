package plan

import (
	"slices"

	"golang.org/x/tools/go/ssa"
)

// callees are the functions of the source that a call may lead to. Functions that it passes
// on, to be called by what it calls, are among them.
func (p *Program) callees(f *ssa.Function, call ssa.CallInstruction) []*ssa.Function {
	relays := p.graph.relays
	if to := call.Common().StaticCallee(); to != nil {
		all := []*ssa.Function{to}
		// In the program's functions, each call has a place of its own: none is counted elsewhere.
		if !p.ofProgram(packageOf(to)) {
			for _, x := range relays.from(f, call, p.ofProgram(packageOf(f))) {
				all = append(all, x.to)
			}
		}
		return all
	}
	if relays.covers(f, call) && !p.ofProgram(packageOf(f)) {
		return nil
	}
	targets := p.src.targets[call]
	if ofRuntime(packageOf(f)) {
		return slices.DeleteFunc(slices.Clone(targets), func(to *ssa.Function) bool { return !ofRuntime(packageOf(to)) })
	}
	return targets
}

// leadingTo are the functions of a kind and all that may call them, directly or not.
func (p *Program) leadingTo(kind func(*ssa.Function) bool) map[*ssa.Function]bool {
	callers := make(map[*ssa.Function][]*ssa.Function)
	var found []*ssa.Function
	for f := range p.src.used {
		for call := range callsOf(f) {
			for _, to := range p.callees(f, call) {
				callers[to] = append(callers[to], f)
			}
		}
		if kind(f) {
			found = append(found, f)
		}
	}
	return closure(slices.Values(found), func(f *ssa.Function, add func(*ssa.Function)) {
		for _, c := range callers[f] {
			add(c)
		}
	})
}
