package testenv

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// CheckImports compares the imports of the module in this folder with a table. For each folder of the
// module, "." being the first, layers names what its files may import, in one string: folders of the module, and
// import paths outside of the module and of the standard library. Tests may import what testOnly names besides.
// A folder that the table does not have is a failure, so that the table grows with the module.
func CheckImports(t *testing.T, module string, layers map[string]string, testOnly string) {
	t.Helper()
	fset := token.NewFileSet()
	Must(t, filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if path != "." && (nested == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		may, listed := layers[dir]
		if !listed {
			t.Errorf("%s is not in the table of layers", dir)
			return nil
		}
		if strings.HasSuffix(path, "_test.go") {
			may += " " + testOnly
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range f.Imports {
			what := strings.Trim(spec.Path.Value, `"`)
			if own, ok := strings.CutPrefix(what+"/", module+"/"); ok {
				what = strings.TrimSuffix(own, "/")
				if what == "" {
					what = "."
				}
			} else if first, _, _ := strings.Cut(what, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			if !strings.Contains(" "+may+" ", " "+what+" ") && what != dir {
				t.Errorf("%s imports %s; %s may import only: %s", path, what, dir, may)
			}
		}
		return nil
	}))
}
