package plan

import (
	"regexp"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// The closures of sync.OnceFunc, OnceValue and OnceValues hold most of what packages do
// at their first use, so that it would be taken to call each other if all of them were one.

// onceName matches clones of the closures in sync.OnceFunc and its relatives, which are
// inlined into most of their callers.
var onceName = regexp.MustCompile(`^(.+)\.Once(Func|Values?)(\[.*\])?\.func[0-9.]+$`)

// onceTargets are what a clone of a closure in sync.OnceFunc may call: only what the
// function passes that it was inlined into. It is nil if i is not one.
func (g *graph) onceTargets(i int, f *ssa.Function, call ssa.CallInstruction) []int {
	if packageOf(f) != "sync" || field(call.Common().Value) != "f" {
		return nil
	}
	m := onceName.FindStringSubmatch(g.nodes[i].name)
	if m == nil {
		return nil
	}
	return g.onces[m[1]]
}

// findOnces collects what is passed to sync.OnceFunc and its relatives, by the name of
// the function that passes it.
func (g *graph) findOnces() {
	g.onces = make(map[string][]int)
	g.oncePassed = make(map[string][]*ssa.Function)
	for f := range g.p.src.used {
		for call := range callsOf(f) {
			to := call.Common().StaticCallee()
			if to == nil || !isOnce(to) {
				continue
			}
			for _, target := range g.relays.values(f, call.Common().Args[0], wish{}, &relay{}) {
				g.oncePassed[linkName(f)] = append(g.oncePassed[linkName(f)], target)
				g.onces[linkName(f)] = append(g.onces[linkName(f)], g.codes(target, false)...)
			}
		}
	}
}

// narrow leaves of the clones of a closure of sync.OnceFunc those of the function from
// which the called value comes, if that can be seen.
func (g *graph) narrow(call ssa.CallInstruction, f *ssa.Function, codes []int) []int {
	if len(codes) < 2 || f.Parent() == nil || packageOf(f) != "sync" {
		return codes
	}
	from := g.madeIn(call.Common().Value, call.Parent())
	if from == "" {
		return codes
	}
	var own []int
	for _, id := range codes {
		if strings.HasPrefix(g.nodes[id].name, from+".Once") {
			own = append(own, id)
		}
	}
	if len(own) > 0 {
		return own
	}
	return codes
}

// isOnce reports whether f is sync.OnceFunc or a relative.
func isOnce(f *ssa.Function) bool {
	return packageOf(f) == "sync" && strings.HasPrefix(f.Name(), "Once") && f.Signature.Recv() == nil && f.Parent() == nil
}

// madeIn is the name of the function in which a value was got from sync.OnceFunc or
// a relative, "" if that is not known.
func (g *graph) madeIn(v ssa.Value, in *ssa.Function) string {
	s := &search{t: g.p.src.trace, once: true, seen: make(map[ssa.Value]bool), ok: true}
	if s.follow(in, v, 0); s.ok && len(s.found) == 1 {
		return linkName(s.found[0].f)
	}
	return ""
}
