package rewrite

import (
	"bufio"
	"bytes"
	"fmt"
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A function that runs on another stack must not point into this one, as a stack can move. So what
// is handed over at a checkpoint goes to the heap, and the compiler puts variables
// there whose address is among it, whether the stack has room or not. A checkpoint that
// has this effect costs more than the stack it saves. Which ones do is found out by
// asking the compiler (go build -gcflags=-m=2) before and after.

// escapes is what the compiler says of some packages.
type escapes struct {
	moved  map[string]*flow  // to the heap, by place and text
	leaks  map[string]*flow  // parameters, by place and target
	inline map[string]string // names of functions that can be inlined, with their packages, by place
	called map[string]bool   // names of the functions that are inlined somewhere
}

// A flow is how a value gets to the heap, as far as it is through calls.
type flow struct {
	at    position
	calls []callFlow
}

type callFlow struct {
	expr string
	at   position
}

// position is a place in a file.
type position struct {
	file      string // absolute
	line, col int
}

var (
	escaping   = regexp.MustCompile(`^(.*) escapes to heap in .*:$`)
	leaking    = regexp.MustCompile(`^parameter (.*) leaks to (.*) for .* with derefs=\d+:$`)
	handedOver = regexp.MustCompile(`^    from (.*) \(call parameter\) at (.+?):(\d+):(\d+)$`)
	inlining   = regexp.MustCompile(`^can inline (\S+) with cost `)
	inlined    = regexp.MustCompile(`^inlining call to (\S+)$`)
	generated  = regexp.MustCompile(`^(` + prefix + `\w+?)(_linked)?(\[.*\])?\(`)
)

// readEscapes reads what go build -gcflags=-m=2 has said, with file names relative to
// the folder dir.
func readEscapes(text []byte, dir string) *escapes {
	e := &escapes{map[string]*flow{}, map[string]*flow{}, map[string]string{}, map[string]bool{}}
	var current *flow
	pkg := "" // the package that the lines are about
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 64<<20) // functions that can be inlined are said in full
	for lines.Scan() {
		at, message, ok := remarkOf(dir, lines.Text())
		if !ok {
			if path, ok := strings.CutPrefix(lines.Text(), "# "); ok {
				pkg = path
			}
			continue
		}
		// Most messages are of other kinds; looking for has is faster than the expressions.
		find := func(re *regexp.Regexp, has string) (m []string) {
			if strings.Contains(message, has) {
				m = re.FindStringSubmatch(message)
			}
			return m
		}
		if m := find(inlining, "can inline "); m != nil {
			e.inline[fmt.Sprint(at)] = pkg + " " + m[1]
		} else if m := find(inlined, "inlining call to "); m != nil {
			e.called[pkg+" "+m[1]] = true
		} else if m := find(escaping, " escapes to heap in "); m != nil {
			current = &flow{at: at}
			e.moved[fmt.Sprint(at)+" "+withoutGenerated(message)] = current
		} else if m := find(leaking, "parameter "); m != nil {
			current = &flow{at: at}
			e.leaks[fmt.Sprint(at)+" "+m[2]] = current
		} else if m := find(handedOver, " (call parameter) at "); m != nil && current != nil {
			current.calls = append(current.calls, callFlow{m[1], makePosition(dir, m[2], m[3], m[4])})
		}
	}
	return e
}

// remarkOf takes "file:line:column: text" apart.
func remarkOf(dir, line string) (at position, text string, ok bool) {
	place, text, ok := strings.Cut(line, ": ")
	col := strings.LastIndexByte(place, ':')
	if !ok || col <= 0 {
		return at, "", false
	}
	row := strings.LastIndexByte(place[:col], ':')
	if row <= 0 {
		return at, "", false
	}
	at = makePosition(dir, place[:row], place[row+1:col], place[col+1:])
	return at, text, at.line > 0 && at.col > 0
}

func makePosition(dir, file, line, col string) position {
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	l, _ := strconv.Atoi(line)
	c, _ := strconv.Atoi(col)
	return position{file, l, c}
}

// withoutGenerated makes the same of a text with checkpoints and without.
func withoutGenerated(message string) string {
	if i := strings.Index(message, prefix); i >= 0 {
		return message[:i]
	}
	return message
}

// asideLine is added to the lines of what is generated: what goes to the heap there does not
// count.
const asideLine = 500_000

// GCFlags are the flags of the go command that make it say what escapes.
func (r *Rewriter) GCFlags() []string {
	paths := map[string]bool{}
	for _, f := range r.files {
		if r.refuseFile(f) == "" {
			paths[strings.TrimSuffix(f.pkg.PkgPath, "_test")] = true
		}
	}
	var flags []string
	for path := range paths {
		flags = append(flags, "-gcflags="+path+"=-m=2")
	}
	slices.Sort(flags)
	return flags
}

// SetBefore takes what the go command said with GCFlags of the sources as they are, run
// in the folder dir. Functions that are inlined can then have no checkpoints: they would
// be no more.
func (r *Rewriter) SetBefore(text []byte, dir string) { r.before = readEscapes(text, dir) }

// Blame takes what the go command said with GCFlags of the result of Files for it,
// and refuses, from now on, the checkpoints that move something to the heap. It returns
// how many these are.
func (r *Rewriter) Blame(text []byte, dir string, result *Result) int {
	b := &blame{r: r, after: readEscapes(text, dir), names: map[string]bool{}, seen: map[*flow]bool{}}
	b.index()
	for key, f := range b.after.moved {
		if f.at.line < asideLine && r.before.moved[key] == nil {
			b.follow(f)
		}
	}
	n := 0
	for _, c := range result.Calls {
		f := r.files[c.File]
		s := f.sites[span{c.Offset, c.End}]
		t := &target{file: f, site: s}
		if b.names[t.name()] && !r.heap[s] {
			r.heap[s] = true
			n++
		}
	}
	return n
}

// A blame finds the checkpoints that a flow goes through.
type blame struct {
	r     *Rewriter
	after *escapes
	names map[string]bool // of generated functions
	seen  map[*flow]bool
	calls map[position]call
	leaks map[string][]*flow // new ones, by file
}

type call struct {
	f    *file
	call *ast.CallExpr
}

func (b *blame) index() {
	b.calls, b.leaks = map[position]call{}, map[string][]*flow{}
	for _, f := range b.r.files {
		for _, s := range f.sites {
			p := f.pkg.Fset.Position(s.call.Lparen)
			b.calls[position{p.Filename, p.Line, p.Column}] = call{f, s.call}
		}
	}
	for key, f := range b.after.leaks {
		if b.r.before.leaks[key] == nil {
			b.leaks[f.at.file] = append(b.leaks[f.at.file], f)
		}
	}
}

func (b *blame) follow(f *flow) {
	if b.seen[f] {
		return
	}
	b.seen[f] = true
	for _, c := range f.calls {
		if m := generated.FindStringSubmatch(c.expr); m != nil {
			b.names[m[1]] = true
			continue
		}
		at, known := b.calls[c.at]
		if !known {
			continue
		}
		fn := staticCallee(at.f.pkg.TypesInfo, at.call)
		if fn == nil {
			continue
		}
		d, known := b.r.callees.decls[fn.Origin().FullName()]
		if !known {
			continue
		}
		from, to := d.pkg.Fset.Position(d.decl.Pos()), d.pkg.Fset.Position(d.decl.Type.End())
		for _, leak := range b.leaks[from.Filename] {
			if from.Line <= leak.at.line && leak.at.line <= to.Line {
				b.follow(leak)
			}
		}
	}
}

// refuseCost reports why a checkpoint that could be had would cost too much.
func (r *Rewriter) refuseCost(f *file, s *site) string {
	if r.heap[s] {
		return "something that is handed over would have to be on the heap, even if the stack has room"
	}
	if r.before == nil {
		return ""
	}
	for i := len(s.outer) - 1; i >= 0; i-- {
		var p position
		_, literal := s.outer[i].(*ast.FuncLit)
		switch n := s.outer[i].(type) {
		case *ast.FuncLit:
			at := f.pkg.Fset.Position(n.Pos())
			p = position{at.Filename, at.Line, at.Column}
		case *ast.FuncDecl:
			at := f.pkg.Fset.Position(n.Name.Pos())
			p = position{at.Filename, at.Line, at.Column}
		default:
			continue
		}
		// A literal that could be inlined but never is, as it is only used as a value,
		// may have them, unless it is inlined with what it stands in.
		if name := r.before.inline[fmt.Sprint(p)]; name != "" && (!literal || r.before.called[name]) {
			return "the function that it is in is so small that the compiler inlines it"
		}
	}
	return ""
}
