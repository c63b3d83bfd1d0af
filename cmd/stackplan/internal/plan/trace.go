package plan

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// Variable type analysis does not tell callers apart: for it, io.WriteString writes to the
// writers of all callers. A trace follows one value back to where it was made, through
// variables and fields whose stores are all known, and results of functions that are
// called by name.
type trace struct {
	fields  map[fieldKey]*stores
	globals map[*ssa.Global]*stores
}

type fieldKey struct {
	of    *types.TypeName // of a struct
	index int
}

// stores are the values that a variable is set to.
type stores struct {
	values []ssa.Value
	hidden bool // its address goes elsewhere
}

func newTrace(s *source) *trace {
	t := &trace{fields: make(map[fieldKey]*stores), globals: make(map[*ssa.Global]*stores)}
	for _, f := range s.ordered {
		for in := range instrs(f) {
			t.note(in)
		}
	}
	return t
}

// note notes what an instruction does with variables.
func (t *trace) note(in ssa.Instruction) {
	switch in := in.(type) {
	case *ssa.FieldAddr:
		if key, ok := fieldOf(in.X.Type(), in.Field); ok {
			entry(t.fields, key).note(in)
		}
	case *ssa.ChangeType: // between structs with the same fields
		t.hide(in.X.Type())
		t.hide(in.Type())
	case *ssa.Convert: // to and from unsafe.Pointer
		t.hide(in.X.Type())
		t.hide(in.Type())
	}
	for g := range globalsOf(in) {
		entry(t.globals, g).use(g, in)
	}
}

func entry[K comparable](m map[K]*stores, key K) *stores {
	if m[key] == nil {
		m[key] = new(stores)
	}
	return m[key]
}

// note notes all that is done with an address of the variable.
func (to *stores) note(at ssa.Value) {
	for _, in := range *at.Referrers() {
		to.use(at, in)
	}
}

func (to *stores) use(at ssa.Value, in ssa.Instruction) {
	switch in := in.(type) {
	case *ssa.UnOp, *ssa.DebugRef:
	case *ssa.Store:
		to.hidden = to.hidden || in.Val == at
		if in.Addr == at {
			to.values = append(to.values, in.Val)
		}
	default:
		to.hidden = true
	}
}

// hide gives up the fields of a struct that is taken for another.
func (t *trace) hide(typ types.Type) {
	if key, ok := fieldOf(typ, 0); ok {
		for i := range key.of.Type().Underlying().(*types.Struct).NumFields() {
			entry(t.fields, fieldKey{key.of, i}).hidden = true
		}
	}
}

// fieldOf is false if the type is neither a struct with a name nor a pointer to one.
func fieldOf(typ types.Type, index int) (fieldKey, bool) {
	if p, ok := typ.Underlying().(*types.Pointer); ok {
		typ = p.Elem()
	}
	named, ok := types.Unalias(typ).(*types.Named)
	if !ok {
		return fieldKey{}, false
	}
	_, ok = named.Underlying().(*types.Struct)
	return fieldKey{named.Origin().Obj(), index}, ok
}

// A search looks for the origins of a value.
type search struct {
	t      *trace
	found  []ssa.Value
	seen   map[ssa.Value]bool
	failed bool // some can't be seen
}

// origins are the values that v may have been made as: what an interface was made of, a
// function, nil constants aside. It is false if not all can be seen.
func (t *trace) origins(v ssa.Value) ([]ssa.Value, bool) {
	s := &search{t: t, seen: make(map[ssa.Value]bool)}
	s.follow(v)
	return s.found, !s.failed
}

func (s *search) follow(values ...ssa.Value) {
	for _, v := range values {
		if !s.failed && !s.seen[v] {
			s.seen[v] = true
			s.step(v)
		}
	}
}

// step goes one step back.
func (s *search) step(v ssa.Value) {
	if before := bareValue(v); before != v {
		s.follow(before)
		return
	}
	switch v := v.(type) {
	case *ssa.Const:
	case *ssa.Function, *ssa.MakeClosure, *ssa.MakeInterface:
		s.found = append(s.found, v)
	case *ssa.Phi:
		s.follow(v.Edges...)
	case *ssa.Call:
		s.result(v, 0)
	case *ssa.Extract:
		if call, ok := v.Tuple.(*ssa.Call); ok {
			s.result(call, v.Index)
			return
		}
		s.failed = true
	case *ssa.Field:
		s.field(v.X.Type(), v.Field)
	case *ssa.UnOp:
		s.load(v)
	default:
		s.failed = true
	}
}

// result follows what a function returns that is called by its name.
func (s *search) result(call *ssa.Call, index int) {
	to := call.Call.StaticCallee()
	if to == nil || len(to.Blocks) == 0 || to.Recover != nil { // results may be set when it recovers
		s.failed = true
		return
	}
	for in := range instrs(to) {
		if ret, ok := in.(*ssa.Return); ok && index < len(ret.Results) {
			s.follow(ret.Results[index])
		}
	}
}

// load follows what a variable may hold.
func (s *search) load(v *ssa.UnOp) {
	var from *stores
	switch at := v.X.(type) {
	case *ssa.FieldAddr:
		s.field(at.X.Type(), at.Field)
		return
	case *ssa.Global:
		from = s.t.globals[at]
	case *ssa.Alloc:
		from = new(stores)
		from.note(at)
	}
	s.stored(from, v.Op == token.MUL)
}

func (s *search) field(of types.Type, index int) {
	key, ok := fieldOf(of, index)
	s.stored(s.t.fields[key], ok)
}

func (s *search) stored(from *stores, ok bool) {
	if !ok || from == nil || from.hidden {
		s.failed = true
		return
	}
	s.follow(from.values...)
}
