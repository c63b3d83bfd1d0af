package capriccio_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// In a text a word in camel case, and what stands behind a dot, is a name of the code.
var (
	camel  = regexp.MustCompile(`\b[A-Za-z][a-z0-9]+[A-Z][a-z]\w*\b`)
	dotted = regexp.MustCompile(`([A-Za-z_][\w-]+)\.([A-Za-z_]\w*)(\.\w+)*\b`)
	drawn  = regexp.MustCompile(`(?m)^.*[─│→].*$`) // states, without what their constants begin with
	quoted = regexp.MustCompile("`[^`\n]+`")
	word   = regexp.MustCompile(`\w+`)
)

// elsewhere are names in texts that belong to others: files, languages, settings of the kernel.
var elsewhere = map[string]bool{
	"JavaScript": true, "OpenMetrics": true, "NetworkInput": true, "NetworkOutput": true, "WriterTo": true,
	"cpu.max": true, "cpu.cfs_quota_us": true, "line.column": true,
	"nats.go": true, "symtab.go": true, "abi-internal.md": true, "protocol.txt": true,
}

// A members is what may stand behind the name of a type, or of a package.
type members struct {
	names  map[string]bool
	embeds []string
}

// names are those of the source.
type names struct {
	known map[string]bool     // all words of the code
	wrong []string            // comments that begin with another name than that of what they are about
	types map[string]*members // of all types of one name together
	pkgs  map[string]*members
	texts map[string][]string // by place
}

// Comments and documents name functions, methods and fields that there are.
func TestTextsNameWhatThereIs(t *testing.T) {
	n := names{known: map[string]bool{}, types: map[string]*members{}, pkgs: map[string]*members{}, texts: map[string][]string{}}
	testenv.Must(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if d != nil && d.Name() == ".git" {
				return fs.SkipDir
			}
			return err
		}
		return n.read(path)
	}))
	for _, w := range n.wrong {
		t.Error(w)
	}
	for at, all := range n.texts {
		for _, text := range all {
			document := strings.HasSuffix(at, ".md") // with variables of examples, and keys of JSON
			text = drawn.ReplaceAllString(text, "")
			for _, w := range camel.FindAllString(dotted.ReplaceAllString(text, ""), -1) {
				if !n.known[w] && !elsewhere[w] {
					t.Errorf("%s: %s: there is no such name in this module; of another package it needs that before it", at, w)
				}
			}
			for _, w := range dotted.FindAllStringSubmatch(text, -1) {
				if w[3] == "" && (!document || ast.IsExported(w[2]) || w[2] == "go") && !n.has(w[1], w[2], 0) && !elsewhere[w[0]] {
					t.Errorf("%s: %s: %s has no %s", at, w[0], w[1], w[2])
				}
			}
		}
	}
}

func (n *names) read(path string) error {
	n.known[filepath.Base(path)] = true
	src, err := os.ReadFile(path)
	switch {
	case err != nil || len(src) > 1<<20 || strings.HasPrefix(path, "docs/results") || strings.HasPrefix(path, "docs/adr"):
		return err
	case strings.HasSuffix(path, ".md"):
		n.texts[path] = quoted.FindAllString(string(src), -1)
	case !strings.HasSuffix(path, ".go"):
		n.words(string(src))
	default:
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil // for a test
		}
		for _, group := range f.Comments {
			at := set.Position(group.Pos())
			n.texts[path+":"+strconv.Itoa(at.Line)] = []string{group.Text()}
		}
		n.file(f)
	}
	return nil
}

func (n *names) words(text string) {
	for _, w := range word.FindAllString(text, -1) {
		n.known[w] = true
	}
}

func (n *names) file(f *ast.File) {
	pkg := of(n.pkgs, strings.TrimSuffix(f.Name.Name, "_test"))
	ast.Inspect(f, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.Ident:
			n.known[x.Name] = true
			pkg.names[x.Name] = true
		case *ast.BasicLit:
			n.words(x.Value)
		case *ast.FuncDecl:
			if first, _, _ := strings.Cut(x.Doc.Text(), " "); first != x.Name.Name && !strings.HasPrefix(x.Name.Name, "Test") && camel.FindString(first) == first && first != "" {
				n.wrong = append(n.wrong, f.Name.Name+"."+x.Name.Name+": the comment begins with "+first)
			}
			if x.Recv != nil {
				of(n.types, typeName(x.Recv.List[0].Type)).names[x.Name.Name] = true
			}
		case *ast.TypeSpec:
			of(n.types, x.Name.Name).define(x.Type)
		}
		return true
	})
}

func of(m map[string]*members, name string) *members {
	if m[name] == nil {
		m[name] = &members{names: map[string]bool{}}
	}
	return m[name]
}

// define adds what the type x has.
func (m *members) define(x ast.Expr) {
	var fields *ast.FieldList
	switch x := x.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		m.embeds = append(m.embeds, typeName(x))
		return
	}
	for _, f := range fields.List {
		for _, name := range f.Names {
			m.names[name.Name] = true
		}
		if f.Names == nil {
			name := typeName(f.Type)
			m.names[name] = true
			m.embeds = append(m.embeds, name)
		}
		if s, ok := f.Type.(*ast.StructType); ok {
			m.define(s)
		}
	}
}

// typeName is the last word of the name of the type x, "" if it has none.
func typeName(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.StarExpr:
		return typeName(x.X)
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.IndexExpr:
		return typeName(x.X)
	case *ast.IndexListExpr:
		return typeName(x.X)
	}
	return ""
}

// has reports whether what is called x may have a member; what is no type and no package of this module may.
func (n *names) has(x, member string, depth int) bool {
	switch {
	case member == "go" || member == "md":
		return n.known[x+"."+member]
	case !ast.IsExported(x) && n.known[member] && (ast.IsExported(member) || n.pkgs[x] != nil):
		return true // x may be a variable
	}
	typ, isType := n.types[x]
	pkg, isPkg := n.pkgs[x]
	if !isType && !isPkg || depth > 4 {
		return true
	}
	if isPkg && pkg.names[member] || isType && typ.names[member] {
		return true
	}
	if isType {
		for _, e := range typ.embeds {
			if _, ours := n.types[e]; e == "" || ours && n.has(e, member, depth+1) || !ours && ast.IsExported(e) {
				return true
			}
		}
	}
	return false
}
