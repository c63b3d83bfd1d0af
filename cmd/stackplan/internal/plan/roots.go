package plan

import (
	"sort"

	"golang.org/x/tools/go/ssa"
)

// findRoots finds where stacks begin: the functions that tasks run, and, if they are
// wanted or there are no tasks, main and what go statements start.
func (g *graph) findRoots() {
	roots := make(map[int]bool)
	for _, to := range taskFuncs(g.p.src, func(_ *ssa.Function, call ssa.CallInstruction) []int { return g.targetsOf(call) }) {
		roots[to], g.tasks[to] = true, true
	}
	if len(roots) == 0 || g.p.cfg.All {
		for _, id := range g.byName["main.main"] {
			roots[id] = true
		}
		for _, n := range g.nodes {
			for _, f := range n.in {
				if !g.p.modules[packageOf(f)] {
					continue
				}
				for in := range instrs(f) {
					if call, is := in.(*ssa.Go); is {
						for _, to := range g.targetsOf(call) {
							roots[to] = true
						}
					}
				}
			}
		}
	}
	for r := range roots {
		g.roots = append(g.roots, r)
	}
	sort.Slice(g.roots, func(i, j int) bool {
		if a, b := g.nodes[g.roots[i]].name, g.nodes[g.roots[j]].name; a != b {
			return a < b
		}
		return g.roots[i] < g.roots[j]
	})
}

// taskFuncs is what targets finds of the calls in the engine that run the functions of tasks.
func taskFuncs[T any](s *source, targets func(*ssa.Function, ssa.CallInstruction) []T) (all []T) {
	for f := range s.used {
		if packageOf(f) != enginePackage || f.Name() != "runTasks" {
			continue
		}
		for call := range callsOf(f) {
			if _, made := call.Common().Value.(*ssa.Call); made { // what begins returns
				all = append(all, targets(f, call)...)
			}
		}
	}
	return all
}
