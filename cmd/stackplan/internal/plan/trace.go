package plan

import (
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/ssa"
)

// Variable type analysis does not tell callers apart: what io.WriteString writes to is
// what any caller of it passes. A trace follows one value back to where it was made, as
// far as that is in the open: through variables and fields of which all stores are seen,
// and results of functions that are called by name.
type trace struct {
	fields  map[fieldKey]*stores
	globals map[*ssa.Global]*stores
	calls   map[*ssa.Function][]ssa.CallInstruction // by name
	known   map[*ssa.Function]bool                  // called by their names only; nil: not known yet
}

type fieldKey struct {
	of    *types.TypeName
	index int
}

// stores are the values that a variable is set to.
type stores struct {
	from   []made
	hidden bool // its address goes elsewhere
	read   bool
}

// made is a value in a function.
type made struct {
	f *ssa.Function
	v ssa.Value
}

// maxTrace is how many steps back a value is followed.
const maxTrace = 24

func newTrace(s *source) *trace {
	t := &trace{fields: make(map[fieldKey]*stores), globals: make(map[*ssa.Global]*stores),
		calls: make(map[*ssa.Function][]ssa.CallInstruction)}
	for _, f := range s.ordered {
		for in := range instrs(f) {
			t.note(f, in)
		}
	}
	return t
}

// note notes what an instruction does with variables.
func (t *trace) note(f *ssa.Function, in ssa.Instruction) {
	switch in := in.(type) {
	case *ssa.FieldAddr:
		if key, ok := fieldOf(in.X.Type(), in.Field); ok {
			t.uses(f, in, t.field(key))
		}
	case ssa.CallInstruction:
		if to := in.Common().StaticCallee(); to != nil {
			t.calls[to] = append(t.calls[to], in)
		}
	case *ssa.ChangeType: // between structs with the same fields
		t.hide(in.X.Type())
		t.hide(in.Type())
	case *ssa.Convert: // to and from unsafe.Pointer
		t.hide(in.X.Type())
		t.hide(in.Type())
	}
	for g := range globalsOf(in) {
		t.use(f, g, in, t.global(g))
	}
}

// uses goes through what is done with an address.
func (t *trace) uses(f *ssa.Function, at ssa.Value, to *stores) {
	for _, ref := range *at.Referrers() {
		t.use(f, at, ref, to)
	}
}

func (t *trace) use(f *ssa.Function, at ssa.Value, in ssa.Instruction, to *stores) {
	switch in := in.(type) {
	case *ssa.Store:
		if in.Val == at {
			to.hidden = true
		}
		if in.Addr == at {
			to.from = append(to.from, made{f, in.Val})
		}
	case *ssa.UnOp:
		to.read = true
	case *ssa.DebugRef:
	case *ssa.MakeClosure:
		fn := in.Fn.(*ssa.Function)
		for i, b := range in.Bindings {
			if b == at {
				t.uses(fn, fn.FreeVars[i], to)
			}
		}
	default:
		to.hidden = true
	}
}

func (t *trace) field(key fieldKey) *stores {
	if t.fields[key] == nil {
		t.fields[key] = new(stores)
	}
	return t.fields[key]
}

func (t *trace) global(g *ssa.Global) *stores {
	if t.globals[g] == nil {
		t.globals[g] = new(stores)
	}
	return t.globals[g]
}

// hide gives up the fields of a struct that is taken for another.
func (t *trace) hide(typ types.Type) {
	if p, ok := typ.Underlying().(*types.Pointer); ok {
		typ = p.Elem()
	}
	named := structOf(typ)
	if named == nil {
		return
	}
	s := named.Type().Underlying().(*types.Struct)
	for i := range s.NumFields() {
		t.field(fieldKey{named, i}).hidden = true
	}
}

// structOf is the name of a struct type, nil if it is none or has no name.
func structOf(typ types.Type) *types.TypeName {
	named, ok := types.Unalias(typ).(*types.Named)
	if !ok {
		return nil
	}
	if _, ok := named.Underlying().(*types.Struct); !ok {
		return nil
	}
	return named.Origin().Obj()
}

func fieldOf(typ types.Type, index int) (fieldKey, bool) {
	if p, ok := typ.Underlying().(*types.Pointer); ok {
		typ = p.Elem()
	}
	named := structOf(typ)
	return fieldKey{named, index}, named != nil
}

// A search looks for the origins of a value. Ok turns false if some can't be seen.
type search struct {
	t     *trace
	once  bool // wanted is only the call of sync.OnceFunc or a relative, and only if the value was never passed on
	found []made
	seen  map[ssa.Value]bool
	ok    bool

	// If to is set, it goes on where something can't be seen, and met are the fields of
	// those that it came by.
	to  map[fieldKey]strays
	met map[fieldKey]bool
}

// origins are the values that v may have been made as: what an interface was made of, a
// function, nil constants aside.
func (t *trace) origins(f *ssa.Function, v ssa.Value) ([]made, bool) {
	s := &search{t: t, seen: make(map[ssa.Value]bool), ok: true}
	s.follow(f, v, 0)
	return s.found, s.ok
}

func (s *search) follow(f *ssa.Function, v ssa.Value, depth int) {
	if !s.ok && s.to == nil || s.seen[v] {
		return
	}
	s.seen[v] = true
	if depth > maxTrace {
		s.ok = false
		return
	}
	switch v := v.(type) {
	case *ssa.Const:
	case *ssa.Function, *ssa.MakeClosure:
		s.found = append(s.found, made{f, v})
	case *ssa.MakeInterface:
		if !types.IsInterface(v.X.Type()) {
			s.found = append(s.found, made{f, v})
			return
		}
		s.ok = false
	case *ssa.ChangeInterface:
		s.follow(f, v.X, depth+1)
	case *ssa.ChangeType:
		s.follow(f, v.X, depth+1)
	case *ssa.TypeAssert:
		s.assert(f, v, depth)
	case *ssa.Phi:
		for _, e := range v.Edges {
			s.follow(f, e, depth+1)
		}
	case *ssa.Extract:
		switch tuple := v.Tuple.(type) {
		case *ssa.TypeAssert:
			s.assert(f, tuple, depth)
		case *ssa.Call:
			s.result(f, tuple, v.Index, depth)
		default:
			s.ok = false
		}
	case *ssa.Call:
		s.result(f, v, 0, depth)
	case *ssa.UnOp:
		s.load(f, v, depth)
	case *ssa.Parameter:
		s.passed(f, v, depth)
	case *ssa.Field:
		s.loadField(v.X.Type(), v.Field, depth)
	default:
		s.ok = false
	}
}

// assert follows a value that is asserted to have the methods of another interface.
func (s *search) assert(f *ssa.Function, v *ssa.TypeAssert, depth int) {
	if !types.IsInterface(v.AssertedType) {
		s.ok = false
		return
	}
	s.follow(f, v.X, depth+1)
}

// result follows what a function returns that is called by its name.
func (s *search) result(f *ssa.Function, call *ssa.Call, index, depth int) {
	to := call.Call.StaticCallee()
	if to == nil || len(to.Blocks) == 0 {
		s.ok = false
		return
	}
	if s.once {
		s.ok = isOnce(to)
		s.found = append(s.found, made{f, call})
		return
	}
	for _, b := range to.Blocks {
		if ret, ok := b.Instrs[len(b.Instrs)-1].(*ssa.Return); ok && index < len(ret.Results) {
			s.follow(to, ret.Results[index], depth+1)
		}
	}
	if to.Recover != nil { // results may be set when it recovers
		s.ok = false
	}
}

// passed follows what callers pass, if all are known.
func (s *search) passed(f *ssa.Function, v *ssa.Parameter, depth int) {
	i := slices.Index(f.Params, v)
	if !s.t.known[f] || s.once {
		s.ok = false
	}
	if !s.ok && s.to == nil || i < 0 {
		return
	}
	for _, call := range s.t.calls[f] {
		s.follow(call.Parent(), call.Common().Args[i], depth+1)
	}
}

// load follows what a variable may hold.
func (s *search) load(f *ssa.Function, v *ssa.UnOp, depth int) {
	if v.Op != token.MUL {
		s.ok = false
		return
	}
	switch at := v.X.(type) {
	case *ssa.FieldAddr:
		s.loadField(at.X.Type(), at.Field, depth)
	case *ssa.Global:
		s.stored(s.t.globals[at], depth)
	case *ssa.Alloc:
		s.variable(f, at, depth)
	case *ssa.FreeVar:
		s.captured(f, at, depth)
	default:
		s.ok = false
	}
}

func (s *search) loadField(of types.Type, index, depth int) {
	var from *stores
	if key, ok := fieldOf(of, index); ok {
		from = s.t.fields[key]
		if _, wanted := s.to[key]; wanted {
			if s.met == nil {
				s.met = make(map[fieldKey]bool)
			}
			s.met[key] = true
		}
	}
	s.stored(from, depth)
}

func (s *search) variable(f *ssa.Function, at ssa.Value, depth int) {
	from := new(stores)
	s.t.uses(f, at, from)
	s.stored(from, depth)
}

func (s *search) stored(from *stores, depth int) {
	if from == nil || from.hidden {
		s.ok = false
	}
	if from == nil || !s.ok && s.to == nil {
		return
	}
	for _, m := range from.from {
		s.follow(m.f, m.v, depth+1)
	}
}

// captured follows a variable of the function around.
func (s *search) captured(f *ssa.Function, v *ssa.FreeVar, depth int) {
	at := slices.Index(f.FreeVars, v)
	if f.Parent() == nil || at < 0 || depth > maxTrace {
		s.ok = false
		return
	}
	for _, b := range f.Parent().Blocks {
		for _, in := range b.Instrs {
			c, ok := in.(*ssa.MakeClosure)
			if !ok || c.Fn != f {
				continue
			}
			switch x := c.Bindings[at].(type) {
			case *ssa.Alloc:
				s.variable(f.Parent(), x, depth)
			case *ssa.FreeVar:
				s.captured(f.Parent(), x, depth+1)
			default:
				s.ok = false
			}
		}
	}
}
