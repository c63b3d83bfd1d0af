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
		for _, call := range callsOf(f) {
			to := call.Common().StaticCallee()
			if to == nil || packageOf(to) != "sync" || !strings.HasPrefix(to.Name(), "Once") || to.Signature.Recv() != nil || len(call.Common().Args) != 1 {
				continue
			}
			for _, target := range g.relays.values(f, call.Common().Args[0], wish{field: -1}, &relay{}) {
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
	from := g.madeIn(call.Common().Value, call.Parent(), 0)
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

// madeIn is the name of the function in which a value was got from sync.OnceFunc or
// a relative, "" if that is not known.
func (g *graph) madeIn(v ssa.Value, in *ssa.Function, depth int) string {
	if depth > 5 {
		return ""
	}
	switch v := v.(type) {
	case *ssa.Call:
		if to := v.Call.StaticCallee(); to != nil && packageOf(to) == "sync" && strings.HasPrefix(to.Name(), "Once") {
			return linkName(v.Parent())
		}
	case *ssa.UnOp:
		return g.madeIn(v.X, in, depth+1)
	case *ssa.Global:
		// Variables of functions are set at initialisation, with few exceptions.
		if v.Pkg != nil && g.stored[v] == 1 {
			return linkPath(v.Pkg.Pkg) + ".init"
		}
	case *ssa.Alloc:
		return g.onlyStore(v, in, depth)
	case *ssa.FreeVar:
		for _, b := range in.Parent().Blocks {
			for _, instr := range b.Instrs {
				made, ok := instr.(*ssa.MakeClosure)
				if !ok || made.Fn != in {
					continue
				}
				for i, fv := range in.FreeVars {
					if fv == v {
						return g.madeIn(made.Bindings[i], in.Parent(), depth+1)
					}
				}
			}
		}
	}
	return ""
}

// onlyStore is madeIn of what is stored in a variable, if that happens once.
func (g *graph) onlyStore(at *ssa.Alloc, in *ssa.Function, depth int) string {
	var value ssa.Value
	for _, ref := range *at.Referrers() {
		switch ref := ref.(type) {
		case *ssa.Store:
			if value != nil || ref.Addr != at {
				return ""
			}
			value = ref.Val
		case *ssa.UnOp, *ssa.DebugRef:
		case *ssa.MakeClosure:
			// What captures it must not store to it.
			fn := ref.Fn.(*ssa.Function)
			for i, b := range ref.Bindings {
				if b == at && storesTo(fn.FreeVars[i]) {
					return ""
				}
			}
		default:
			return ""
		}
	}
	if value == nil {
		return ""
	}
	return g.madeIn(value, in, depth+1)
}

func storesTo(v *ssa.FreeVar) bool {
	for _, ref := range *v.Referrers() {
		if _, loads := ref.(*ssa.UnOp); !loads {
			return true
		}
	}
	return false
}

// countStores counts the stores to each package variable; taking the address of one
// for anything else counts as many.
func (g *graph) countStores() {
	g.stored = make(map[*ssa.Global]int)
	for f := range g.p.src.used {
		for _, b := range f.Blocks {
			for _, in := range b.Instrs {
				var operands [8]*ssa.Value
				for _, v := range in.Operands(operands[:0]) {
					at, ok := (*v).(*ssa.Global)
					if !ok {
						continue
					}
					switch in := in.(type) {
					case *ssa.UnOp:
					case *ssa.Store:
						g.stored[at]++
						if in.Val == at {
							g.stored[at] += 100
						}
					default:
						g.stored[at] += 100
					}
				}
			}
		}
	}
}
