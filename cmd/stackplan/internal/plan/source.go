package plan

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/vta"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/frames"
)

// A source is the program as SSA, found by place: the binary knows of each function
// where its source begins, under whatever name and however often it was compiled.
type source struct {
	prog    *ssa.Program
	byPlace map[place][]*ssa.Function
	inCode  map[*ssa.Function][]int // functions of the binary that were made of it
	used    map[*ssa.Function]bool  // functions that may run: the functions in the binary, and their callees
	ordered []*ssa.Function         // the used ones, in the same order in each run
	targets map[ssa.CallInstruction][]*ssa.Function
	valued  map[string][]*ssa.Function // functions used as values, by signature
	trace   *trace
	fatal   map[lineKey]bool // lines with no code but on the way to a panic
}

// A place is where a function begins.
type place struct {
	file    string
	line    int
	literal bool // a closure; one can begin on the same line as what it stands in
}

var literalName = regexp.MustCompile(`\.(func)?\d+$|-range\d+$`)

// initName matches init functions, which are numbered too.
var initName = regexp.MustCompile(`^[^.]+\.init\.\d+$`)

// literal reports whether the linker's name of a function is one of a closure.
func literal(name string) bool {
	return literalName.MatchString(name) && !initName.MatchString(name[strings.LastIndexByte(name, '/')+1:])
}

func newSource(p *Program, prog *ssa.Program) *source {
	s := &source{
		prog:    prog,
		byPlace: make(map[place][]*ssa.Function),
		inCode:  make(map[*ssa.Function][]int),
		used:    make(map[*ssa.Function]bool),
		targets: make(map[ssa.CallInstruction][]*ssa.Function),
		valued:  make(map[string][]*ssa.Function),
	}
	all := ssautil.AllFunctions(prog)
	for f := range all {
		if pl, ok := s.placeOf(f); ok {
			s.byPlace[pl] = append(s.byPlace[pl], f)
		}
	}
	s.matchBinary(p.bin)
	s.findUsed(all)
	s.order()
	s.resolve()
	s.findFatal()
	return s
}

// position is a place as the binary has it. A //line comment may name no file.
func (s *source) position(pos token.Pos) token.Position {
	at := s.prog.Fset.Position(pos)
	if at.Filename == "" {
		at.Filename = unknownFile
	}
	return at
}

// unknownFile is what the compiler calls a file without a name.
const unknownFile = "??"

// nameFiles makes the names of files absolute that //line comments have made relative, as
// go/token does.
func (p *Program) nameFiles() {
	folders := make(map[string]string)
	for _, pkg := range p.all {
		if len(pkg.GoFiles) > 0 {
			folders[pkg.PkgPath] = filepath.Dir(pkg.GoFiles[0])
		}
	}
	if len(p.main.GoFiles) > 0 {
		folders["main"] = filepath.Dir(p.main.GoFiles[0])
	}
	rename := func(file *string, function string) {
		folder, known := folders[packageOfName(function)]
		if known && *file != "" && *file != unknownFile && !filepath.IsAbs(*file) && !strings.HasPrefix(*file, "<") {
			*file = filepath.Join(folder, *file)
		}
	}
	for i := range p.bin.Funcs {
		f := &p.bin.Funcs[i]
		rename(&f.File, f.Name)
		for k := range f.Inlined {
			rename(&f.Inlined[k].File, f.Inlined[k].Name)
		}
	}
}

func (s *source) placeOf(f *ssa.Function) (place, bool) {
	if !f.Pos().IsValid() || open(f) || f.Synthetic != "" && f.Origin() == nil && f.Parent() == nil {
		return place{}, false
	}
	pos := s.position(f.Pos())
	return place{pos.Filename, pos.Line, f.Parent() != nil}, true
}

// open reports whether f still has type parameters: such code never runs.
func open(f *ssa.Function) bool {
	for ; f != nil; f = f.Parent() {
		if f.TypeParams().Len() > len(f.TypeArgs()) {
			return true
		}
	}
	return false
}

// functionsAt are the SSA functions that a function of the binary was made of.
func (s *source) functionsAt(name, file string, line int) []*ssa.Function {
	if file == "" {
		return nil
	}
	return s.byPlace[place{file, line, literal(name)}]
}

func (s *source) matchBinary(bin *frames.Binary) {
	for i := range bin.Funcs {
		f := &bin.Funcs[i]
		for _, fn := range s.functionsAt(f.Name, f.File, f.StartLine) {
			s.inCode[fn] = append(s.inCode[fn], i)
			s.used[fn] = true
		}
		for _, in := range f.Inlined {
			for _, fn := range s.functionsAt(in.Name, in.File, in.StartLine) {
				s.used[fn] = true
			}
		}
	}
}

// findUsed adds to what has code in the binary what is called from there without
// having any left, because it was inlined and then folded away, and what has no place.
func (s *source) findUsed(all map[*ssa.Function]bool) {
	for f := range all {
		if _, ok := s.placeOf(f); !ok && !open(f) {
			s.used[f] = true
		}
	}
	s.used = closure(maps.Keys(s.used), func(f *ssa.Function, add func(*ssa.Function)) {
		for in := range instrs(f) {
			if call, ok := in.(ssa.CallInstruction); ok && call.Common().StaticCallee() != nil {
				add(call.Common().StaticCallee())
			}
		}
	})
}

// order sorts the used functions, so that the same program has the same plan each time.
func (s *source) order() {
	s.ordered = slices.SortedFunc(maps.Keys(s.used), func(a, b *ssa.Function) int {
		if a.Pos() == b.Pos() {
			return strings.Compare(a.String(), b.String())
		}
		x, y := s.position(a.Pos()), s.position(b.Pos())
		return cmp.Or(strings.Compare(x.Filename, y.Filename), x.Line-y.Line, x.Column-y.Column)
	})
}

// resolve finds the targets of indirect calls.
func (s *source) resolve() {
	first := vta.CallGraph(s.used, nil)
	for f, n := range vta.CallGraph(s.used, first).Nodes {
		if f == nil {
			continue
		}
		for _, e := range n.Out {
			if e.Site != nil && e.Site.Common().StaticCallee() == nil {
				s.targets[e.Site] = append(s.targets[e.Site], e.Callee.Func)
			}
		}
	}
	for _, f := range s.ordered {
		for in := range instrs(f) {
			s.noteValues(in)
		}
	}
	s.trace = newTrace(s)
}

// noteValues notes which functions an instruction uses as values.
func (s *source) noteValues(in ssa.Instruction) {
	var operands [8]*ssa.Value
	for i, v := range in.Operands(operands[:0]) {
		f, ok := (*v).(*ssa.Function)
		if !ok {
			continue
		}
		if call, ok := in.(ssa.CallInstruction); ok && i == 0 && !call.Common().IsInvoke() {
			continue
		}
		sig := signature(f.Signature)
		if known := s.valued[sig]; len(known) == 0 || known[len(known)-1] != f {
			s.valued[sig] = append(known, f)
		}
	}
}

// signature groups functions by the number and types of arguments and results.
func signature(sig *types.Signature) string {
	bare := types.NewSignatureType(nil, nil, nil, unnamed(sig.Params()), unnamed(sig.Results()), sig.Variadic())
	return strings.TrimPrefix(types.TypeString(bare, nil), "func")
}

func unnamed(t *types.Tuple) *types.Tuple {
	var vars []*types.Var
	for v := range t.Variables() {
		vars = append(vars, types.NewVar(token.NoPos, nil, "", v.Type()))
	}
	return types.NewTuple(vars...)
}

// toPanic reports whether nothing but a panic comes behind a block.
func toPanic(b *ssa.BasicBlock) bool {
	if b == nil || len(b.Instrs) == 0 {
		return false
	}
	_, panics := b.Instrs[len(b.Instrs)-1].(*ssa.Panic)
	return panics
}

// findFatal finds the lines on which messages of panics are made.
func (s *source) findFatal() {
	s.fatal = make(map[lineKey]bool)
	normal := make(map[lineKey]bool)
	for f := range s.used {
		for _, b := range f.Blocks {
			to := normal
			if toPanic(b) {
				to = s.fatal
			}
			for _, in := range b.Instrs {
				if in.Pos().IsValid() {
					at := s.position(in.Pos())
					to[lineKey{at.Filename, at.Line}] = true
				}
			}
		}
		// Of conditions, not all instructions have a place.
		if syntax := f.Syntax(); syntax != nil {
			for _, line := range conditions(s, syntax) {
				normal[line] = true
			}
		}
	}
	for line := range normal {
		delete(s.fatal, line)
	}
}

// conditions are the lines on which if, for, switch and case stand, and functions begin.
func conditions(s *source, n ast.Node) []lineKey {
	var lines []lineKey
	add := func(pos token.Pos) {
		at := s.position(pos)
		lines = append(lines, lineKey{at.Filename, at.Line})
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit, *ast.FuncDecl, *ast.ReturnStmt:
			add(n.Pos())
		case *ast.CaseClause:
			add(n.Pos())
		}
		return true
	})
	return lines
}
