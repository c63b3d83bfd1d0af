package rewrite

import (
	"fmt"
	"go/ast"
	"go/token"
	"os"

	"golang.org/x/tools/go/packages"
)

// A file is one source file.
type file struct {
	name    string
	pkg     *packages.Package
	syntax  *ast.File
	text    []byte // nil until it is needed
	tok     *token.File
	sites   map[span]*site
	judged  bool
	refused string // why there can be no checkpoints in it
}

// A span is a range of bytes in a file.
type span struct{ offset, end int }

// A site is a call expression and where it stands.
type site struct {
	call  *ast.CallExpr
	outer []ast.Node // from the file to the parent of the call
}

// parent is what the call is directly in.
func (s *site) parent() ast.Node { return s.outer[len(s.outer)-1] }

// function is the declaration that the call is in, or nil.
func (s *site) function() *ast.FuncDecl {
	for _, n := range s.outer {
		if d, ok := n.(*ast.FuncDecl); ok {
			return d
		}
	}
	return nil
}

// body is that of the function or literal that the call is in, or nil.
func (s *site) body() *ast.BlockStmt {
	for i := len(s.outer) - 1; i >= 0; i-- {
		switch n := s.outer[i].(type) {
		case *ast.FuncLit:
			return n.Body
		case *ast.FuncDecl:
			return n.Body
		}
	}
	return nil
}

// load reads the text of the file and finds its calls.
func (f *file) load() error {
	text, err := os.ReadFile(f.name)
	if err != nil {
		return err
	}
	f.tok = f.pkg.Fset.File(f.syntax.Package)
	if f.tok.Size() != len(text) {
		return fmt.Errorf("%s has changed since it was loaded", f.name)
	}
	f.text = text
	f.sites = map[span]*site{}
	var outer []ast.Node
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if n == nil {
			outer = outer[:len(outer)-1]
			return true
		}
		if call, ok := n.(*ast.CallExpr); ok {
			at := span{f.offset(call.Pos()), f.offset(call.End())}
			f.sites[at] = &site{call: call, outer: append([]ast.Node(nil), outer...)}
		}
		outer = append(outer, n)
		return true
	})
	return nil
}

func (f *file) offset(pos token.Pos) int { return f.tok.Offset(pos) }

// lineDirective makes what follows it appear at pos, some lines further down. The name of the
// file is the one before.
func (f *file) lineDirective(pos token.Pos, down int) string {
	p := f.pkg.Fset.Position(pos)
	return fmt.Sprintf("/*line :%d:%d*/", p.Line+down, max(p.Column, 1))
}
