package plan

import "golang.org/x/tools/go/ssa"

// solve computes the summaries: a function is looked at again whenever one of those
// that it calls has grown.
func (fl *flow) solve() {
	var work []*summary
	push := func(x *summary) {
		if !x.queued && !x.terminal {
			x.queued = true
			work = append(work, x)
		}
	}
	for _, x := range fl.funcs {
		push(x)
	}
	for len(work) > 0 {
		x := work[0]
		work = work[1:]
		x.queued = false
		if fl.visit(x) {
			for _, c := range x.callers {
				push(c)
			}
		}
	}
	// Tasks without code of the program are one place.
	for _, x := range fl.roots {
		if x.first.has(bare) || x.last.has(bare) || len(x.from) > 0 || len(x.to) > 0 {
			as := fl.place(x.f, x.f.Pos(), false)
			fl.places[as].used = true
			x.first = x.first.named(as)
			fl.addEdges(x, as)
		}
	}
	for _, x := range fl.roots {
		fl.use(x.first)
	}
	for from, to := range fl.edges {
		for range to.all() {
			fl.places[from].used = true
			break
		}
		fl.use(to)
	}
}

func (fl *flow) use(s set) {
	for i := range s.all() {
		fl.places[i].used = true
	}
}

// addEdges adds the edges of x with a bare end, with a name for that.
func (fl *flow) addEdges(x *summary, as int) {
	fl.edges[as].union(x.from.named(as))
	for a := range x.to.named(as).all() {
		fl.edges[a].add(as)
	}
}

// A state is what may be true at a point of a function: the last waits, and whether
// there has been none since its entry.
type state struct {
	last  set
	fresh bool
	live  bool
}

func (s *state) join(t *state) bool {
	grown := s.last.union(t.last)
	if t.fresh && !s.fresh {
		s.fresh, grown = true, true
	}
	if t.live && !s.live {
		s.live, grown = true, true
	}
	return grown
}

// visit computes the summary of x from those of what it calls; it reports whether that
// has grown.
func (fl *flow) visit(x *summary) bool {
	fl.grown = false
	blocks := x.f.Blocks
	if len(blocks) == 0 {
		return false
	}
	in := make([]state, len(blocks))
	in[0] = state{fresh: true, live: true}
	if r := x.f.Recover; r != nil {
		in[r.Index] = state{live: true}
	}
	work := []int{0}
	if x.f.Recover != nil {
		work = append(work, x.f.Recover.Index)
	}
	for len(work) > 0 {
		b := work[0]
		work = work[1:]
		now := state{last: append(set(nil), in[b].last...), fresh: in[b].fresh, live: true}
		for _, instr := range blocks[b].Instrs {
			fl.step(x, instr, &now)
		}
		for _, next := range blocks[b].Succs {
			if in[next.Index].join(&now) {
				work = append(work, next.Index)
			}
		}
	}
	return fl.grown
}

// step takes the state over an instruction.
func (fl *flow) step(x *summary, instr ssa.Instruction, now *state) {
	switch instr := instr.(type) {
	case *ssa.Call:
		fl.call(x, instr, now)
		if len(x.calls[instr]) > 1 && instr.Call.StaticCallee() != nil {
			// A function and what is passed to it wait in turn.
			for range 2 {
				once := state{last: append(set(nil), now.last...), fresh: now.fresh}
				fl.call(x, instr, now)
				now.join(&once)
			}
		}
	case *ssa.RunDefers:
		fl.defers(x, now)
	case *ssa.Return:
		fl.grown = x.last.union(now.last) || fl.grown
		if now.fresh && !x.passes {
			x.passes, fl.grown = true, true
		}
	}
}

// defers takes the state over deferred calls. They may also run after any of the
// function's waits, when a panic or the end of the runtime ends it, and in any number.
func (fl *flow) defers(x *summary, now *state) {
	any := false
	for call := range x.calls {
		if _, deferred := call.(*ssa.Defer); deferred {
			any = true
		}
	}
	if !any {
		return
	}
	now.last.union(x.all)
	for range 2 {
		for call := range x.calls {
			if _, deferred := call.(*ssa.Defer); !deferred {
				continue
			}
			skipped := state{last: append(set(nil), now.last...), fresh: now.fresh}
			fl.call(x, call, now)
			now.join(&skipped)
		}
	}
}

// call takes the state over a call.
func (fl *flow) call(x *summary, call ssa.CallInstruction, now *state) {
	callees := x.calls[call]
	if len(callees) == 0 {
		return
	}
	as := bare
	if x.program {
		var ok bool
		if as, ok = x.site[call]; !ok {
			_, deferred := call.(*ssa.Defer)
			as = fl.place(x.f, call.Pos(), deferred)
			x.site[call] = as
		}
	}
	var after state
	// A target that never waits has no summary; the call may be over without a wait.
	passes := x.skips[call]
	var first set
	for _, y := range callees {
		first.union(y.first.named(as))
		fl.grown = x.all.union(y.all.named(as)) || fl.grown
		after.last.union(y.last.named(as))
		passes = passes || y.passes
		if as != bare {
			fl.addEdges(y, as)
			continue
		}
		fl.grown = x.from.union(y.from) || fl.grown
		fl.grown = x.to.union(y.to) || fl.grown
	}
	if now.fresh {
		fl.grown = x.first.union(first) || fl.grown
	}
	for a := range now.last.all() {
		fl.follow(x, a, first)
	}
	if passes {
		after.last.union(now.last)
		after.fresh = now.fresh
	}
	now.last, now.fresh = after.last, after.fresh
}

// follow notes that waits may follow one at a.
func (fl *flow) follow(x *summary, a int, first set) {
	if a == bare {
		fl.grown = x.from.union(first) || fl.grown
		if !first.has(bare) {
			return
		}
	} else if fl.edges[a].union(first); !first.has(bare) {
		return
	} else {
		fl.edges[a][0] &^= 1
	}
	if !x.to.has(a) {
		x.to.add(a)
		fl.grown = true
	}
}
