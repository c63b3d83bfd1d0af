package rewrite

import (
	"bytes"
	"fmt"
	"go/token"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
)

// A unit is one checkpoint of a file that is rewritten.
type unit struct {
	*target
	checkpoint plan.Checkpoint
	text       parts
}

// parts are the text of the functions that are generated for a call.
type parts struct {
	typeParams string // as they are declared
	typeNames  string // the same, as arguments
	params     string // as they are declared
	results    string
	pass       string   // the parameters, as arguments
	given      []string // names of the parameters
	names      []string // of the results
	fields     []string // parameters and results, as fields of a struct
	call       string   // the call itself
}

// name is that of the generated function, made of the place of the parenthesis, as
// several calls may begin in one place.
func (t *target) name() string {
	p := t.file.pkg.Fset.PositionFor(t.site.call.Lparen, false)
	base := t.file.name[strings.LastIndexByte(t.file.name, '/')+1:]
	var b strings.Builder
	for _, c := range strings.TrimSuffix(base, ".go") {
		if c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' {
			b.WriteRune(c)
		} else {
			fmt.Fprintf(&b, "_%x", c)
		}
	}
	return fmt.Sprintf("%s%s_%d_%d", prefix, &b, p.Line, p.Column)
}

// write makes the parts, which depend on types.
func (t *target) write(n *namer) (p parts) {
	var params, args, results []string
	switch t.kind {
	case byValue:
		params, args, p.given = []string{prefix + "f " + n.typ(t.sig)}, []string{prefix + "f"}, []string{prefix + "f"}
	case byMethod:
		params, args, p.given = []string{prefix + "r " + n.typ(t.over)}, []string{prefix + "r"}, []string{prefix + "r"}
	}
	handed := len(args)
	p.fields = slices.Clone(params)
	for i, typ := range variables(t.sig.Params()) {
		name := fmt.Sprintf("%sp%d", prefix, i)
		written := n.typ(typ)
		p.given = append(p.given, name)
		p.fields = append(p.fields, name+" "+written)
		if t.sig.Variadic() && i == t.sig.Params().Len()-1 {
			var slice bool
			if written, slice = strings.CutPrefix(written, "[]"); !slice {
				n.fail("its variadic parameter is no slice")
			}
			written = "..." + written
			params, args = append(params, name+" "+written), append(args, name+"...")
			continue
		}
		params, args = append(params, name+" "+written), append(args, name)
	}
	for i, typ := range variables(t.sig.Results()) {
		name := fmt.Sprintf("%sx%d", prefix, i)
		p.names = append(p.names, name)
		results = append(results, name+" "+n.typ(typ))
	}
	p.fields = append(p.fields, results...)
	p.params, p.pass = strings.Join(params, ", "), strings.Join(args, ", ")
	if len(results) > 0 {
		p.results = "(" + strings.Join(results, ", ") + ") "
	}
	p.call = t.callee(n) + "(" + strings.Join(args[handed:], ", ") + ")"
	p.typeParams, p.typeNames = n.typeParams()
	return p
}

// callee is what a generated function calls.
func (t *target) callee(n *namer) string {
	switch t.kind {
	case byValue:
		return prefix + "f"
	case byMethod:
		return prefix + "r." + t.method
	}
	name := t.function.Name()
	if p := t.function.Pkg(); p.Path() != t.file.pkg.Types.Path() {
		name = n.pkg(p) + "." + name
	} else {
		n.plain[name] = true
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

// A writer copies the source of a file and puts calls of generated functions in place.
type writer struct {
	r     *Rewriter
	f     *file
	units []*unit // outer ones first
	chunk string  // name of package stackchunk
	sync  string  // name of package sync
	aside int     // what to add to the lines of what is generated
	buf   bytes.Buffer
}

// write makes the text of a file with checkpoints. The lines of what is generated are asideLine
// further down if aside is set.
func (r *Rewriter) write(f *file, units []*unit, minChunk plan.Bytes, aside bool) ([]byte, error) {
	im := f.newImports()
	slices.SortFunc(units, func(a, b *unit) int {
		x, y := a.site.call, b.site.call
		if x.Pos() != y.Pos() {
			return int(x.Pos() - y.Pos())
		}
		return int(y.End() - x.End())
	})
	for _, u := range units {
		n := u.namer(im)
		if u.text = u.write(n); n.failed != "" {
			return nil, fmt.Errorf("%s: %s, which was not noticed before", u.checkpoint.Site, n.failed)
		}
	}
	w := &writer{r: r, f: f, units: units, chunk: im.name(chunkPath), sync: im.name("sync")}
	behind := f.syntax.Name.End()
	head := f.text[:f.offset(behind)]
	w.directive(behind)
	w.copy(behind, f.tok.Pos(f.tok.Size()), nil)
	w.buf.WriteByte('\n')
	if aside {
		w.aside = asideLine
	}
	for _, u := range units {
		w.declare(u)
	}
	if minChunk > 0 {
		fmt.Fprintf(&w.buf, "\nfunc init() { %s.SetMinChunk(%d) }\n", w.chunk, minChunk)
	}
	return slices.Concat(head, []byte(im.clause(w.buf.String())), w.buf.Bytes()), nil
}

func (w *writer) directive(pos token.Pos) {
	if bytes.HasSuffix(w.buf.Bytes(), []byte("/")) {
		w.buf.WriteByte(' ') // a division, which would begin a comment
	}
	w.buf.WriteString(w.f.lineDirective(pos, w.aside))
}

// copy writes a range of the source with the units in it, except self.
func (w *writer) copy(lo, hi token.Pos, self *unit) {
	at := lo
	for _, u := range w.units {
		call := u.site.call
		if u == self || call.Pos() < at || call.End() > hi {
			continue
		}
		w.raw(at, call.Pos())
		w.emit(u)
		at = call.End()
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

// emit writes the call of the generated function, which takes the place of a unit.
func (w *writer) emit(u *unit) {
	call := u.site.call
	w.directive(call.Pos())
	w.buf.WriteString(u.name() + u.text.typeNames + "(")
	switch u.kind {
	case byValue:
		w.source(u.fun.Pos(), u.fun.End(), u)
	case byMethod:
		w.buf.WriteString(u.before)
		w.source(u.recv.Pos(), u.recv.End(), u)
		w.buf.WriteString(u.path)
	}
	if len(call.Args) > 0 {
		if u.over != nil {
			w.buf.WriteString(", ")
		}
		w.source(call.Lparen+1, call.Rparen, u)
	}
	w.buf.WriteString(")")
}

// declare writes the generated declarations of a unit, one to a line and each at the
// position of the call: a function that makes the call if there is room, and calls another
// one if not.
func (w *writer) declare(u *unit) {
	p, name, at := &u.text, u.name(), w.f.lineDirective(u.site.call.Pos(), w.aside)
	room := fmt.Sprintf("%s.Room(%d)", w.chunk, u.checkpoint.Need)
	link := fmt.Sprintf("%s.Call(%d, ", w.chunk, u.checkpoint.Need)
	if w.r.cfg.Profile {
		fmt.Fprintf(&w.buf, "\nvar %s_site = %s.NewSite(%q, %d)\n", name, w.chunk, u.checkpoint.Site, u.checkpoint.Need)
		room, link = name+"_site.Room()", name+"_site.Call("
	}
	call, linked := p.call+"; return", name+"_linked"+p.typeNames+"("+p.pass+")"
	if len(p.names) > 0 {
		call, linked = "return "+p.call, "return "+linked
	}
	fmt.Fprintf(&w.buf, "\n%sfunc %s%s(%s) %s{ if %s { %s }; %s }\n", at, name, p.typeParams, p.params, p.results, room, call, linked)
	w.declareLinked(u, at, link)
}

// declareLinked writes the function that links. What it hands to the other stack lies
// on the heap, as no pointer may lead from one stack to another; so that this costs no
// allocation each time, it is used again.
func (w *writer) declareLinked(u *unit, at, link string) {
	p, name := &u.text, u.name()
	names := strings.Join(p.names, ", ")
	head := fmt.Sprintf("\n//go:noinline\n%sfunc %s_linked%s(%s) %s{ ", at, name, p.typeParams, p.params, p.results)
	switch {
	case len(p.fields) == 0:
		fmt.Fprintf(&w.buf, "%s%s%s) }\n", head, link, strings.TrimSuffix(p.call, "()"))
		return
	case p.typeParams != "": // there are no generic variables
		call := p.call
		if names != "" {
			call = names + " = " + call
		}
		fmt.Fprintf(&w.buf, "%s%sfunc() { %s }); return }\n", head, link, call)
		return
	}
	kept := func(names []string) string { // as fields of the struct
		return "§arg." + strings.Join(names, ", §arg.")
	}
	load, store, give, take := "", "", "", ""
	if given := strings.Join(p.given, ", "); given != "" {
		load = given + " := " + kept(p.given) + "; "
		give = kept(p.given) + " = " + given + "; "
	}
	if names != "" {
		store = kept(p.names) + " = "
		take = names + " = " + kept(p.names) + "; "
	}
	text := "\ntype §name_args struct { §run func(); " + strings.Join(p.fields, "; ") + " }\n" +
		"\nvar §name_pool " + w.sync + ".Pool\n" +
		"\n" + at + "func (§arg *§name_args) call() { " + load + "*§arg = §name_args{§run: §arg.§run}; " + store + p.call + " }\n" +
		head + "§arg, _ := §name_pool.Get().(*§name_args); if §arg == nil { §arg = new(§name_args); §arg.§run = §arg.call }; " +
		give + link + "§arg.§run); " + take + "*§arg = §name_args{§run: §arg.§run}; §name_pool.Put(§arg); return }\n"
	w.buf.WriteString(strings.NewReplacer("§name", name, "§arg", prefix+"a", "§run", prefix+"run").Replace(text))
}
