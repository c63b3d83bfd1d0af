package rewrite

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// A unit is one checkpoint of a file that is rewritten.
type unit struct {
	*target
	checkpoint plan.Checkpoint
	profile    bool
	text       parts
}

// parts are the generated text of a unit.
type parts struct {
	typeParams string   // of the generated functions
	typeNames  string   // the same, as arguments
	typeArgs   string   // at the call
	params     string   // declared
	results    string   // declared
	pass       string   // the parameters, as arguments
	names      string   // of the results
	call       string   // the real call, inside of a generated function
	types      []string // of the results
	fields     []string // parameters and results, as fields of a struct
	given      []string // names of the parameters
}

func (u *unit) lo() token.Pos { return u.node().Pos() }
func (u *unit) hi() token.Pos { return u.node().End() }

// node is what is replaced.
func (u *unit) node() ast.Node {
	if u.form() == FormInline {
		return u.stmt
	}
	return u.site.call
}

// name is that of the generated function, made of the place of the parenthesis, as
// several calls may begin in one place.
func (u *unit) name() string {
	p := u.file.pkg.Fset.PositionFor(u.site.call.Lparen, false)
	base := u.file.name[strings.LastIndexByte(u.file.name, '/')+1:]
	var b strings.Builder
	b.WriteString(prefix)
	for _, c := range strings.TrimSuffix(base, ".go") {
		if c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "_%x", c)
		}
	}
	fmt.Fprintf(&b, "_%d_%d", p.Line, p.Column)
	return b.String()
}

// write makes the parts that depend on types.
func (t *target) write(n *namer, u *unit) {
	p := &u.text
	*p = parts{}
	var params, pass, args []string
	switch {
	case t.infer || t.kind == byValue:
		params = append(params, prefix+"f func"+n.signature(t.sig))
		pass = append(pass, prefix+"f")
	case t.kind == byMethod:
		params = append(params, prefix+"r "+n.typ(t.param))
		pass = append(pass, prefix+"r")
	}
	callee := t.callee(n)
	given := slices.Clone(pass)
	var argNames []string
	for i := range t.sig.Params().Len() {
		name := fmt.Sprintf("%sp%d", prefix, i)
		params = append(params, name+" "+n.param(t.sig, i))
		argNames = append(argNames, name)
		if t.sig.Variadic() && i == t.sig.Params().Len()-1 {
			name += "..."
		}
		args = append(args, name)
	}
	var results, names []string
	for i := range t.sig.Results().Len() {
		name := fmt.Sprintf("%sx%d", prefix, i)
		typ := n.typ(t.sig.Results().At(i).Type())
		results = append(results, name+" "+typ)
		names = append(names, name)
		p.types = append(p.types, typ)
	}
	p.params = strings.Join(params, ", ")
	p.pass = strings.Join(append(pass, args...), ", ")
	p.call = callee + "(" + strings.Join(args, ", ") + ")"
	if len(results) > 0 {
		p.results = "(" + strings.Join(results, ", ") + ") "
		p.names = strings.Join(names, ", ")
	}
	p.given = slices.Concat(given, argNames)
	p.fields = slices.Concat(params, results)
	if last := len(params) - 1; t.sig.Variadic() {
		p.fields[last] = strings.Replace(params[last], " ...", " []", 1)
	}
	p.typeParams, p.typeNames = n.declared()
	p.typeArgs = n.arguments()
}

// callee is what a generated function calls.
func (t *target) callee(n *namer) string {
	switch {
	case t.infer || t.kind == byValue:
		return prefix + "f"
	case t.kind == byMethod:
		return prefix + "r." + t.method
	case t.kind == byMethodExpression:
		return "(" + n.typ(t.of) + ")." + t.method
	}
	name := t.function.Name()
	if p := t.function.Pkg(); p.Path() != t.file.pkg.Types.Path() {
		name = n.imports.name(p.Path()) + "." + name
	}
	if t.typeArgs.Len() == 0 {
		return name
	}
	var list []string
	for a := range t.typeArgs.Types() {
		list = append(list, n.typ(a))
	}
	return name + "[" + strings.Join(list, ", ") + "]"
}

// rewrite makes the text of the file with checkpoints.
func (f *file) rewrite(units []*unit, profile bool, minChunk plan.Bytes, aside bool) ([]byte, error) {
	im := f.newImports()
	chunk := im.name(chunkPath)
	slices.SortFunc(units, func(a, b *unit) int {
		if a.lo() != b.lo() {
			return int(a.lo() - b.lo())
		}
		return int(b.hi() - a.hi())
	})
	for _, u := range units {
		n := u.namer(im)
		u.write(n, u)
		if n.failed != "" {
			return nil, fmt.Errorf("%s: %s, which was not noticed before", u.checkpoint.Site, n.failed)
		}
		u.profile = profile
	}
	w := &writer{f: f, units: units, chunk: chunk, sync: im.name("sync"), setAside: aside}
	behind := f.syntax.Name.End()
	w.copy(f.pkg.Fset.File(f.syntax.Package).Pos(0), behind, nil)
	head := w.buf.String()
	w.buf.Reset()
	w.directive(behind)
	w.copy(behind, f.tok.Pos(f.tok.Size()), nil)
	w.buf.WriteByte('\n')
	w.without()
	for _, u := range units {
		w.declare(u)
	}
	if minChunk > 0 {
		fmt.Fprintf(&w.buf, "\nfunc init() { %s.SetMinChunk(%d) }\n", chunk, minChunk)
	}
	// Types that were looked at but not written may have added imports.
	im.added = slices.DeleteFunc(im.added, func(path string) bool {
		return !bytes.Contains(w.buf.Bytes(), []byte(im.names[path]+"."))
	})
	return append([]byte(head+im.clause()), w.buf.Bytes()...), nil
}

// A writer copies the source and puts units in place.
type writer struct {
	f     *file
	units []*unit // outer ones first
	chunk string  // name of package stackchunk
	sync  string  // name of package sync

	setAside bool // what runs without room gets positions of its own
	aside    int  // what to add to lines here

	buf bytes.Buffer
}

func (w *writer) directive(pos token.Pos) {
	if bytes.HasSuffix(w.buf.Bytes(), []byte("/")) {
		w.buf.WriteByte(' ') // a division, which would begin a comment
	}
	w.buf.WriteString(w.f.lineDirective(pos, w.aside))
}

// without begins what runs only without room.
func (w *writer) without() {
	if w.setAside {
		w.aside = asideLine
	}
}

// copy writes a range of the source with the units in it, except self.
func (w *writer) copy(lo, hi token.Pos, self *unit) {
	at := lo
	for _, u := range w.units {
		if u == self || u.lo() < at || u.hi() > hi {
			continue
		}
		w.raw(at, u.lo())
		w.emit(u)
		at = u.hi()
		w.directive(at)
	}
	w.raw(at, hi)
}

func (w *writer) raw(lo, hi token.Pos) { w.buf.Write(w.f.text[w.f.offset(lo):w.f.offset(hi)]) }

// source is copy with the position of its beginning.
func (w *writer) source(lo, hi token.Pos, self *unit) {
	w.directive(lo)
	w.copy(lo, hi, self)
}

// emit writes what takes the place of a unit.
func (w *writer) emit(u *unit) {
	call := u.site.call
	switch {
	case u.form() == FormFunction:
		w.generated(u, u.name())
		return
	case u.place != isDefined:
		fmt.Fprintf(&w.buf, "if %s { ", w.room(u))
		w.source(u.stmt.Pos(), u.stmt.End(), u)
		w.buf.WriteString(" } else { ")
		was := w.aside
		w.without()
		w.source(u.stmt.Pos(), call.Pos(), u)
		w.generated(u, u.name()+"_linked")
		w.buf.WriteString(" }")
		w.aside = was
		return
	}
	var values []string
	for i := range u.text.types {
		v := fmt.Sprintf("%s_v%d", u.name(), i)
		values = append(values, v)
		fmt.Fprintf(&w.buf, "var %s %s_t%d; ", v, u.name(), i)
	}
	list := strings.Join(values, ", ")
	fmt.Fprintf(&w.buf, "if %s { %s = ", w.room(u), list)
	w.source(call.Pos(), call.End(), u)
	fmt.Fprintf(&w.buf, " } else { %s = ", list)
	was := w.aside
	w.without()
	w.generated(u, u.name()+"_linked")
	w.aside = was
	w.buf.WriteString(" }; ")
	w.source(u.stmt.Pos(), call.Pos(), u)
	w.buf.WriteString(list)
}

// room is the question that a checkpoint asks.
func (w *writer) room(u *unit) string {
	if u.profile {
		return u.name() + "_site.Room()"
	}
	return fmt.Sprintf("%s.Room(%d)", w.chunk, u.checkpoint.Need)
}

// generated writes a call of a generated function.
func (w *writer) generated(u *unit, name string) {
	call := u.site.call
	w.directive(call.Pos())
	w.buf.WriteString(name + u.text.typeArgs + "(")
	first := true
	switch {
	case u.infer || u.kind == byValue:
		w.source(u.fun.Pos(), u.fun.End(), u)
		first = false
	case u.kind == byMethod:
		w.buf.WriteString(u.before)
		w.source(u.recv.Pos(), u.recv.End(), u)
		w.buf.WriteString(u.path)
		first = false
	}
	if len(call.Args) > 0 {
		if !first {
			w.buf.WriteString(", ")
		}
		w.source(call.Lparen+1, call.Rparen, u)
	}
	w.buf.WriteString(")")
}

// declare writes the generated declarations of a unit, one to a line and each at the
// position of the call.
func (w *writer) declare(u *unit) {
	p, name, at := &u.text, u.name(), w.f.lineDirective(u.site.call.Pos(), w.aside)
	if u.profile {
		fmt.Fprintf(&w.buf, "\nvar %s_site = %s.NewSite(%q, %d)\n", name, w.chunk, u.checkpoint.Site, u.checkpoint.Need)
	}
	link := fmt.Sprintf("%s.Call(%d, ", w.chunk, u.checkpoint.Need)
	if u.profile {
		link = name + "_site.Call("
	}
	w.declareLinked(u, at, link)
	body, returned := p.call+"; return", ""
	if p.names != "" {
		body, returned = "return "+p.call, "return "
	}
	switch {
	case u.form() == FormFunction:
		fmt.Fprintf(&w.buf, "\n%sfunc %s%s(%s) %s{ if %s { %s }; %s%s_linked%s(%s) }\n",
			at, name, p.typeParams, p.params, p.results, w.room(u), body, returned, name, p.typeNames, p.pass)
	case u.place == isDefined:
		for i, typ := range p.types {
			fmt.Fprintf(&w.buf, "\ntype %s_t%d = %s\n", name, i, typ)
		}
	}
}

// declareLinked writes the function that links. What it hands to the other stack lies
// on the heap, as no pointer may lead from one stack to another; so that this costs no
// allocation each time, it is used again.
func (w *writer) declareLinked(u *unit, at, link string) {
	p, name := &u.text, u.name()
	call := p.call
	if p.names != "" {
		call = p.names + " = " + p.call
	}
	head := fmt.Sprintf("\n//go:noinline\n%sfunc %s_linked%s(%s) %s{ ", at, name, p.typeParams, p.params, p.results)
	switch {
	case p.params == "" && p.results == "":
		fmt.Fprintf(&w.buf, "%s%s%s) }\n", head, link, strings.TrimSuffix(p.call, "()"))
		return
	case p.typeParams != "": // there are no generic variables
		fmt.Fprintf(&w.buf, "%s%sfunc() { %s }); return }\n", head, link, call)
		return
	}
	kept := func(names []string) string { // as fields of the struct
		return prefix + "a." + strings.Join(names, ", "+prefix+"a.")
	}
	results := strings.Split(p.names, ", ")
	load, store, give, take := "", "", "", ""
	if len(p.given) > 0 {
		load = strings.Join(p.given, ", ") + " := " + kept(p.given) + "; "
		give = kept(p.given) + " = " + strings.Join(p.given, ", ") + "; "
	}
	if p.names != "" {
		store = kept(results) + " = "
		take = p.names + " = " + kept(results) + "; "
	}
	fmt.Fprintf(&w.buf, "\ntype %s_args struct { %srun func(); %s }\n", name, prefix, strings.Join(p.fields, "; "))
	fmt.Fprintf(&w.buf, "\nvar %s_pool %s.Pool\n", name, w.sync)
	fmt.Fprintf(&w.buf, "\n%sfunc (%sa *%s_args) call() { %s*%sa = %s_args{%srun: %sa.%srun}; %s%s }\n",
		at, prefix, name, load, prefix, name, prefix, prefix, prefix, store, p.call)
	fmt.Fprintf(&w.buf, "%s%sa, _ := %s_pool.Get().(*%s_args); if %sa == nil { %sa = new(%s_args); %sa.%srun = %sa.call }; ",
		head, prefix, name, name, prefix, prefix, name, prefix, prefix, prefix)
	fmt.Fprintf(&w.buf, "%s%s%sa.%srun); %s*%sa = %s_args{%srun: %sa.%srun}; %s_pool.Put(%sa); return }\n",
		give, link, prefix, prefix, take, prefix, name, prefix, prefix, prefix, name, prefix)
}
