package plan

import (
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// What variable type analysis loses: values that are stored through a pointer that a
// function has returned, and values stored in a field of a struct whose pointer then
// becomes one to another type with the same fields. Both are rare. The former are taken
// to be wherever their types allow it; the latter where the value of a call can be traced
// to the field of the other type.

// strays are values that may be where the analysis does not expect them.
type strays struct {
	kinds map[types.Type]bool
	funcs map[*ssa.Function]bool
}

// addStray adds them to the targets of indirect calls.
func (s *source) addStray() {
	anywhere := s.strays(s.storedThroughResults())
	twins := make(map[fieldKey]strays)
	for key, from := range s.twinFields() {
		twins[key] = s.strays(from)
	}
	if len(anywhere.kinds)+len(anywhere.funcs)+len(twins) == 0 {
		return
	}
	for _, f := range s.ordered {
		for in := range instrs(f) {
			call, ok := in.(ssa.CallInstruction)
			if !ok || !indirect(call) {
				continue
			}
			s.addTo(call, anywhere)
			if len(twins) == 0 {
				continue
			}
			look := &search{t: s.trace, seen: make(map[ssa.Value]bool), ok: true, to: twins}
			look.follow(f, call.Common().Value, 0)
			for key := range look.met {
				s.addTo(call, twins[key])
			}
		}
	}
}

// strays finds out what values may be.
func (s *source) strays(stored []made) strays {
	x := strays{make(map[types.Type]bool), make(map[*ssa.Function]bool)}
	for _, m := range stored {
		found, ok := s.trace.origins(m.f, m.v)
		for _, o := range found {
			switch v := o.v.(type) {
			case *ssa.MakeInterface:
				x.kinds[v.X.Type()] = true
			case *ssa.MakeClosure:
				x.funcs[v.Fn.(*ssa.Function)] = true
			case *ssa.Function:
				x.funcs[v] = true
			}
		}
		if !ok {
			s.addAll(m.v.Type(), x.kinds, x.funcs)
		}
	}
	return x
}

// addAll adds everything that a variable of a type may hold.
func (s *source) addAll(of types.Type, kinds map[types.Type]bool, funcs map[*ssa.Function]bool) {
	iface, ok := of.Underlying().(*types.Interface)
	for _, f := range s.ordered {
		for in := range instrs(f) {
			if v, made := in.(*ssa.MakeInterface); ok && made && types.Implements(v.X.Type(), iface) {
				kinds[v.X.Type()] = true
			}
		}
	}
	if sig, ok := of.Underlying().(*types.Signature); ok {
		for _, f := range s.valued[signature(sig)] {
			funcs[f] = true
		}
	}
}

// addTo adds those targets to a call that its type allows.
func (s *source) addTo(call ssa.CallInstruction, x strays) {
	c := call.Common()
	add := func(to *ssa.Function) {
		if to != nil && !slices.Contains(s.targets[call], to) {
			s.targets[call] = append(s.targets[call], to)
		}
	}
	if !c.IsInvoke() {
		for f := range x.funcs {
			if signature(f.Signature) == signature(c.Signature()) {
				add(f)
			}
		}
		return
	}
	iface, ok := c.Value.Type().Underlying().(*types.Interface)
	if !ok {
		return
	}
	for kind := range x.kinds {
		if types.Implements(kind, iface) {
			add(s.prog.LookupMethod(kind, c.Method.Pkg(), c.Method.Name()))
		}
	}
}

// storedThroughResults are the values that are stored through a pointer that a function
// has returned.
func (s *source) storedThroughResults() (all []made) {
	returned := make(map[string]bool) // types of what is pointed to
	for _, f := range s.ordered {
		for v := range f.Signature.Results().Variables() {
			if p, ok := v.Type().Underlying().(*types.Pointer); ok && callable(p.Elem()) {
				returned[p.Elem().String()] = true
			}
		}
	}
	if len(returned) == 0 {
		return nil
	}
	for _, f := range s.ordered {
		for in := range instrs(f) {
			store, ok := in.(*ssa.Store)
			if ok && callable(store.Val.Type()) && !followed(store.Addr) && returned[store.Addr.Type().Underlying().(*types.Pointer).Elem().String()] {
				all = append(all, made{f, store.Val})
			}
		}
	}
	return all
}

// twinFields are the fields of types that structs of other types become, and what is
// stored in the same fields of those.
func (s *source) twinFields() map[fieldKey][]made {
	twins := make(map[[2]*types.TypeName]bool)
	for _, f := range s.ordered {
		for in := range instrs(f) {
			change, ok := in.(*ssa.ChangeType)
			if !ok {
				continue
			}
			if a, b := pointedStruct(change.X.Type()), pointedStruct(change.Type()); a != nil && b != nil && a != b {
				twins[[2]*types.TypeName{a, b}], twins[[2]*types.TypeName{b, a}] = true, true
			}
		}
	}
	all := make(map[fieldKey][]made)
	for pair := range twins {
		fields := pair[0].Type().Underlying().(*types.Struct)
		for i := range fields.NumFields() {
			from, key := s.trace.fields[fieldKey{pair[0], i}], fieldKey{pair[1], i}
			if to := s.trace.fields[key]; from != nil && len(from.from) > 0 && to != nil && to.read && callable(fields.Field(i).Type()) {
				all[key] = append(all[key], from.from...)
			}
		}
	}
	return all
}

func pointedStruct(t types.Type) *types.TypeName {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	return structOf(t)
}

func callable(t types.Type) bool {
	_, function := t.Underlying().(*types.Signature)
	return function || types.IsInterface(t)
}

// followed reports whether variable type analysis knows what an address is of.
func followed(at ssa.Value) bool {
	switch at.(type) {
	case *ssa.Alloc, *ssa.FieldAddr, *ssa.IndexAddr, *ssa.Global:
		return true
	}
	return false
}
