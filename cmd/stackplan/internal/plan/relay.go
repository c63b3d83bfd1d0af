package plan

import (
	"go/types"
	"maps"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// Functions such as sync.Once.Do and slices.SortFunc call what they are given. To take
// every function that is given to any of them for a target of all their callers would
// make one large recursion of most programs. So a call of a function parameter is
// counted where the function is passed, if all callers are known.
//
// A relay means that a function calls its parameter, itself or by passing it on.
type relay struct {
	depth   int                    // from the entry of the function to that of the parameter
	targets map[*ssa.Function]bool // by any caller, as far as is known
}

// A wish is what a function does with a parameter: it calls it, or a method of it.
type wish struct {
	param  int
	method *types.Func // nil: it is a function
}

type relays struct {
	g     *graph
	of    map[*ssa.Function]map[wish]*relay
	known map[*ssa.Function]bool // called by their names only
	grown bool                   // since a round began
}

// relayRounds is how often depths are looked at again: so often around a recursion that
// passes parameters on.
const relayRounds = 6

func newRelays(g *graph) *relays {
	r := &relays{g: g, of: make(map[*ssa.Function]map[wish]*relay), known: make(map[*ssa.Function]bool)}
	byValue := make(map[*ssa.Function]bool)
	for _, targets := range g.p.src.targets {
		for _, f := range targets {
			byValue[f] = true
		}
	}
	for _, fs := range g.p.src.valued {
		for _, f := range fs {
			byValue[f] = true
		}
	}
	for f := range g.p.src.used {
		r.known[f] = !byValue[f]
	}
	for round := 1; round <= relayRounds || r.grown; round++ {
		r.grown = false
		for _, f := range g.p.src.ordered {
			for call := range callsOf(f) {
				r.follow(f, call, round <= relayRounds)
			}
		}
	}
	return r
}

// follow notes that a call in f calls or passes on a parameter of f. Only if deep is set
// does a depth that is known already grow.
func (r *relays) follow(f *ssa.Function, call ssa.CallInstruction, deep bool) {
	c := call.Common()
	depth := r.frame(f) + r.g.push
	if i := parameter(f, c.Value); i >= 0 {
		x := r.note(f, wish{i, c.Method}, depth, deep)
		for _, to := range r.g.p.src.targets[call] {
			r.add(x, to)
		}
		return
	}
	to := c.StaticCallee()
	if to == nil {
		return
	}
	for w, inner := range r.of[to] {
		if w.param >= len(c.Args) {
			continue
		}
		i := parameter(f, c.Args[w.param])
		if i < 0 {
			continue
		}
		x := r.note(f, wish{i, w.method}, depth+inner.depth, deep)
		for t := range inner.targets {
			r.add(x, t)
		}
	}
}

func (r *relays) add(x *relay, to *ssa.Function) {
	if !x.targets[to] {
		x.targets[to], r.grown = true, true
	}
}

func (r *relays) note(f *ssa.Function, w wish, depth int, deep bool) *relay {
	if r.of[f] == nil {
		r.of[f] = make(map[wish]*relay)
	}
	x := r.of[f][w]
	if x == nil {
		x = &relay{targets: make(map[*ssa.Function]bool), depth: depth}
		r.of[f][w], r.grown = x, true
	}
	if deep {
		x.depth = max(x.depth, depth)
	}
	return x
}

// frame is the largest frame of the functions that f was compiled to.
func (r *relays) frame(f *ssa.Function) int {
	frame := 0
	for _, id := range r.g.p.src.inCode[f] {
		frame = max(frame, r.g.deferDepth(&r.g.nodes[id])-r.g.push)
	}
	return frame
}

// parameter is the index of v among the parameters of f, -1 if it is none.
func parameter(f *ssa.Function, v ssa.Value) int {
	v = bareValue(v)
	return slices.IndexFunc(f.Params, func(p *ssa.Parameter) bool { return p == v })
}

// bareValue is v before changes of its static type.
func bareValue(v ssa.Value) ssa.Value {
	for {
		switch change := v.(type) {
		case *ssa.ChangeType:
			v = change.X
		case *ssa.ChangeInterface:
			v = change.X
		case *ssa.TypeAssert:
			if change.CommaOk || !types.IsInterface(change.AssertedType) {
				return v
			}
			v = change.X
		case *ssa.Extract:
			assert, ok := change.Tuple.(*ssa.TypeAssert)
			if !ok || !types.IsInterface(assert.AssertedType) {
				return v
			}
			v = assert.X
		default:
			return v
		}
	}
}

// covers reports whether a call of a parameter is counted at the callers.
func (r *relays) covers(f *ssa.Function, call ssa.CallInstruction) bool {
	return call.Common().StaticCallee() == nil && r.known[f] && parameter(f, call.Common().Value) >= 0
}

// passed is a function that a call passes on to be called.
type passed struct {
	to     *ssa.Function
	depth  int  // from the entry of the called function
	method bool // by an interface
}

// from are the functions that a call of f passes to what calls them. With all set, a
// parameter that f passes on counts as all that it may be.
func (r *relays) from(f *ssa.Function, call ssa.CallInstruction, all bool) []passed {
	c := call.Common()
	to := c.StaticCallee()
	if to == nil {
		return nil
	}
	var found []passed
	for w, x := range r.of[to] {
		if w.param >= len(c.Args) {
			continue
		}
		targets := r.values(f, c.Args[w.param], w, x)
		if all && parameter(f, c.Args[w.param]) >= 0 {
			targets = slices.Collect(maps.Keys(x.targets))
		}
		for _, target := range targets {
			found = append(found, passed{target, x.depth, w.method != nil})
		}
	}
	return found
}

// values are the functions that are called if v is passed to what has a wish.
func (r *relays) values(f *ssa.Function, v ssa.Value, w wish, x *relay) []*ssa.Function {
	if r.known[f] && parameter(f, v) >= 0 {
		return nil // f passes it on: its callers count it
	}
	origins, ok := r.g.p.src.trace.origins(v)
	var all []*ssa.Function
	for _, v := range origins {
		switch v := v.(type) {
		case *ssa.MakeInterface:
			if w.method == nil {
				ok = false
				continue
			}
			// A value that lacks a method fails the assertion that comes before the call.
			if sel := f.Prog.MethodSets.MethodSet(v.X.Type()).Lookup(w.method.Pkg(), w.method.Name()); sel != nil {
				all = append(all, f.Prog.MethodValue(sel))
			}
		default:
			all = append(all, functionOf(v))
		}
	}
	if !ok {
		return slices.Collect(maps.Keys(x.targets))
	}
	return all
}

// functionOf is the function that a value is, nil if it is none.
func functionOf(v ssa.Value) *ssa.Function {
	switch v := v.(type) {
	case *ssa.Function:
		return v
	case *ssa.MakeClosure:
		return v.Fn.(*ssa.Function)
	}
	return nil
}
