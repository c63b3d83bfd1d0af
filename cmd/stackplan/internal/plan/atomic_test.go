package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestAtomicIsProvenOrTheWaitIsNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("loads a program")
	}
	p := testenv.Need(Load(Config{Dir: realDir(t, "testdata", "atomic")}))(t)
	found := testenv.Need(p.Atomics())(t)
	want := map[string][]string{ // what each wait must name, in this order
		"main.(*bank).move":      nil,
		"main.(*bank).locks":     {"main.(*bank).locks → main.(*bank).under → ", "Mutex).Lock"},
		"main.(*bank).calls":     {"main.(*bank).calls → main.main.1 → ", "Yield"},
		"main.(*bank).blocks":    {"(*sync.Mutex).Lock (main.go:", "receive from a Go channel (main.go:"},
		"main.(*bank).starts":    nil,
		"main.(*bank).reflects":  {"main.(*bank).reflects → reflect.Value.Call → reflect.Value.call → "},
		"main.(*bank).abstracts": {"main.(*bank).abstracts → (*sync.Mutex).Lock (main.go:"},
		"main.(*bank).values":    {"→ (*sync.Mutex).Lock (main.go:", "→ (*sync.rlocker).Lock (main.go:"},
	}
	for _, a := range found {
		if strings.HasSuffix(a.Function, "unused") {
			if !a.Unused {
				t.Errorf("%+v, want one that is not in the program", a)
			}
			continue
		}
		names, known := want[a.Function]
		if !known || a.Unused || (len(a.Waits) == 0) != (names == nil) {
			t.Errorf("%+v, want waits that name %q", a, names)
		}
		text := strings.Join(a.Waits, "\n")
		for _, name := range names {
			testenv.Contains(t, text, name, a.Function)
		}
		delete(want, a.Function)
	}
	testenv.Equal(t, len(want), 0, "not looked into: %v", want)
}

// A program may be named by its files, of which the go command does not say that they are in a module.
func TestAtomicFunctionsOfFiles(t *testing.T) {
	testenv.NeedsFull(t, "one more program")
	p := testenv.Need(Load(Config{Dir: realDir(t, "testdata", "atomic"), Patterns: []string{"main.go"}}))(t)
	found := testenv.Need(p.Atomics())(t)
	if !slices.ContainsFunc(found, func(a Atomic) bool { return a.Function == "main.(*bank).locks" && len(a.Waits) > 0 }) {
		t.Errorf("main.(*bank).locks is not found to wait: %+v", found)
	}
	if !slices.ContainsFunc(p.Packages(), func(pkg *packages.Package) bool { return pkg.Name == "main" }) {
		t.Error("the package of the file may not be rewritten")
	}
}

func TestAtomicMarkElsewhereIsAnError(t *testing.T) {
	if testing.Short() {
		t.Skip("loads a program")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":  "module x\n\ngo 1.25\n",
		"main.go": "package main\n\n//capriccio:atomic\nvar x = 1\n\nfunc main() { println(x) }\n",
	} {
		testenv.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666))
	}
	p := testenv.Need(Load(Config{Dir: dir}))(t)
	if _, err := p.Atomics(); err == nil || !strings.Contains(err.Error(), "main.go:3") || !strings.Contains(err.Error(), "right above a function") {
		t.Errorf("got %v", err)
	}
}
