package capriccio_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// filled matches the types that programs fill in: the comment of each number says what it counts, and what 0 means.
var filled = regexp.MustCompile(`^(\w*Config|Options|Limits|Server|Endpoint|Dialer|Pool|Canary|Check|Mirror)$`)

// units matches what a number of a configuration may count; a time.Duration needs no unit.
var units = regexp.MustCompile(`(?i)\b(bytes|share|between 0 and 1|how (many|often|long)|in a row|number of|most|tasks|connections|requests|descriptors|times|header lines|factor|loops|priority|version|one in)\b`)

// zero matches what says the meaning of 0.
var zero = regexp.MustCompile(`(?i)(\b0\b|\bzero\b|\bdefault)`)

var numeric = regexp.MustCompile(`^(int|uint|float)\d*$`)

// TestTheAPIHasFieldComments: each exported field of a struct that programs see has a comment, its own, or that of the fields
// before it, which then names it.
func TestTheAPIHasFieldComments(t *testing.T) {
	fields := 0
	for _, p := range publicPackages(t) {
		for _, path := range glob(t, "."+strings.TrimPrefix(p.PkgPath, module)+"/*.go") {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			ast.Inspect(testenv.Need(parser.ParseFile(fset, path, nil, parser.ParseComments))(t), func(n ast.Node) bool {
				spec, ok := n.(*ast.TypeSpec)
				if !ok || !spec.Name.IsExported() {
					return true
				}
				if s, ok := spec.Type.(*ast.StructType); ok {
					fields += checkFields(t, fset, p.Name+"."+spec.Name.Name, s, filled.MatchString(spec.Name.Name))
				}
				return true
			})
		}
	}
	testenv.AtLeast(t, fields, 200, "fields")
}

// checkFields checks the comments of the struct name, and returns how many fields it has.
func checkFields(t *testing.T, fset *token.FileSet, name string, s *ast.StructType, filled bool) (n int) {
	group, line := "", 0 // the last comment above a field, and where the field ends
	for _, f := range s.Fields.List {
		if f.Doc != nil || fset.Position(f.Pos()).Line > line+1 {
			group = f.Doc.Text()
		}
		line = fset.Position(f.End()).Line
		for _, id := range f.Names {
			if !id.IsExported() {
				continue
			}
			n++
			of := name + "." + id.Name
			text := f.Comment.Text() + f.Doc.Text()
			if text == "" && regexp.MustCompile(`\b`+id.Name+`\b`).MatchString(group) {
				text = group
			}
			typ := types.ExprString(f.Type)
			number, duration := numeric.MatchString(typ), typ == "time.Duration"
			switch {
			case text == "":
				t.Errorf("%s has no comment", of)
			case filled && number && !units.MatchString(text):
				t.Errorf("%s: its comment has no unit: %s", of, text)
			case filled && (number || duration) && !zero.MatchString(text):
				t.Errorf("%s: its comment does not say what 0 means: %s", of, text)
			}
		}
	}
	return n
}
