package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

const features = "./testdata/features"

// says runs a program.
func says(t *testing.T, bin string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	cmd := exec.Command(bin)
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); e != nil {
		t.Fatalf("%s: %v\n%s%s", bin, e, out.String(), err.String())
	}
	return out.String(), err.String()
}

// TestFeatures builds a program with cgo, assembler, and the lines of generated files, and
// compares what it says with and without checkpoints.
func TestFeatures(t *testing.T) {
	testenv.NeedsFull(t, "four builds of a program")
	temp := t.TempDir()
	plain, bin, keep := filepath.Join(temp, "plain"), filepath.Join(temp, "bin"), filepath.Join(temp, "keep")
	testenv.Run(t, "", nil, "go", "build", "-o", plain, features)
	code, _, stderr := stackplan("build", "-v", "-maxpath", "512B", "-keep", keep, "-o", bin, features)
	testenv.MustEqual(t, code, exitOK, "exit status N\n%s", stderr)
	compare := func(how, bin string) {
		t.Helper()
		want, _ := says(t, plain)
		got, linked := says(t, bin)
		if got != want || strings.Count(want, "\n") < 5 {
			t.Errorf("%s, with checkpoints it says\n%s\nwithout\n%s", how, got, want)
		}
		testenv.Equal(t, linked, "linked: true\n", "%s, it says of its chunks", how)
	}
	compare("built", bin)
	// Every kind of file has checkpoints, or it is said why not.
	lines := strings.Split(stderr, "\n")
	wants := []string{
		`features/main\.go:\d+:\d+: main\.main\.\d+ calls .*main\.deep, which needs`,
		`features/generated\.go:\d+:\d+: main\.generated calls main\.deep, which can be no checkpoint: its file has the lines of another one`,
		`withc/(plain|without)\.go:\d+:\d+: withc\.area calls withc\.wide, which needs`,
		`linked\.go:\d+:\d+: linked\.Call calls linked\.real, which needs`,
	}
	if testenv.HaveC() {
		wants = append(wants, `withc\.go:12:\d+: withc\.Sum calls withc\.area, which can be no checkpoint: its file uses cgo`)
	}
	for _, want := range wants {
		found := false
		for _, line := range lines {
			found = found || regexp.MustCompile(want).MatchString(line)
		}
		if !found {
			t.Errorf("it does not say %s:\n%s", want, stderr)
		}
	}
	overlay := "-overlay=" + filepath.Join(keep, "overlay.json")
	testenv.Run(t, "", nil, "go", "vet", overlay, features+"/...")
	if testing.Short() || testenv.Race || !testenv.HaveC() {
		t.Skip("go build -race needs a C compiler, and some time")
	}
	testenv.Run(t, "", nil, "go", "build", "-race", overlay, "-o", bin, features)
	compare("built with -race", bin)
}

// TestTests runs the tests of several packages, inside and outside of the package.
func TestTests(t *testing.T) {
	testenv.NeedsFull(t, "three builds of a test binary")
	if testing.Short() || testenv.Race {
		t.Skip("loads a test binary, and builds it three times")
	}
	code, stdout, stderr := stackplan("test", "-v", "-maxpath", "512B", features+"/linked", features+"/withc", "--", "-v", "-count=1")
	for _, want := range []string{"--- PASS: TestInside", "--- PASS: TestOutside", "linked: true", "withc\t[no test files]"} {
		if code != exitOK || !strings.Contains(stdout, want) {
			t.Errorf("exit status %d, no %q\n%s%s", code, want, stdout, stderr)
		}
	}
}

// write writes files of a folder.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		name = filepath.Join(dir, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testenv.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

// otherModule writes a program in a module of its own that uses another one.
func otherModule(t *testing.T) (dir, root string) {
	t.Helper()
	root = testenv.Need(filepath.Abs("../.."))(t)
	sums := testenv.Need(os.ReadFile(filepath.Join(root, "go.sum")))(t)
	dir = t.TempDir()
	write(t, dir, map[string]string{
		"go.sum": string(sums),
		"go.mod": "module example.com/app\n\ngo 1.26.0\n\nrequire (\n\texample.com/dep v0.0.0\n\tgithub.com/capriccio-go/capriccio v0.0.0\n)\n\n" +
			"replace example.com/dep => ./dep\n\nreplace github.com/capriccio-go/capriccio => " + root + "\n",
		"main.go":    "package main\n\nimport (\n\t\"fmt\"\n\n\t\"example.com/dep\"\n\t_ \"github.com/capriccio-go/capriccio/stackchunk\"\n)\n\nfunc main() { fmt.Println(dep.Deep(3)) }\n",
		"dep/go.mod": "module example.com/dep\n\ngo 1.26.0\n",
		"dep/dep.go": "package dep\n\n//go:noinline\nfunc Deep(n int) int {\n\tk := wide(n)\n\treturn k + wide(k&7)\n}\n\n" +
			"//go:noinline\nfunc wide(n int) int {\n\tvar buf [2000]int\n\tfor i := range buf {\n\t\tbuf[i] = n\n\t}\n\treturn buf[n]\n}\n",
	})
	return dir, root
}

// TestOtherModules builds a program outside of this module, with its dependencies
// replaced, vendored, and in a workspace.
func TestOtherModules(t *testing.T) {
	testenv.NeedsFull(t, "four builds with a module cache of their own")
	if testing.Short() || testenv.Race {
		t.Skip("loads a program four times")
	}
	dir, root := otherModule(t)
	t.Chdir(dir)
	bin := filepath.Join(t.TempDir(), "app")
	check := func(how string, args ...string) {
		t.Helper()
		code, _, stderr := stackplan(append([]string{"build", "-v", "-maxpath", "512B", "-o", bin}, args...)...)
		if want := "example.com/dep/dep.go:5:11: dep.Deep calls dep.wide, which needs"; code != exitOK || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d; it does not say %q:\n%s", how, code, want, stderr)
			return
		}
		if out, _ := says(t, bin); out != "6\n" {
			t.Errorf("%s: it says %q, want 6", how, out)
		}
	}
	t.Setenv("GOFLAGS", "-mod=mod -trimpath -ldflags=-s")
	check("with -mod=mod, -trimpath and without symbols", "-rewrite", "example.com/...")
	t.Setenv("GOFLAGS", "")
	testenv.Run(t, "", nil, "go", "mod", "vendor")
	check("vendored", "-rewrite", "example.com/...")
	testenv.Must(t, os.RemoveAll("vendor"))
	write(t, dir, map[string]string{"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./dep\n\t" + root + "\n)\n"})
	check("in a workspace")
	if code, _, stderr := stackplan("build", "-rewrite", "example.org/...", "-o", bin); code != exitFailed || !strings.Contains(stderr, "no package of the program matches example.org/...") {
		t.Errorf("of packages that are not there: exit status %d, %s", code, stderr)
	}
}

// TestWrongPrograms looks at what is said of programs that can't be built or read.
func TestWrongPrograms(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{
		"go.mod":          "module example.com/wrong\n\ngo 1.26.0\n",
		"ok/main.go":      "package main\n\nfunc main() { println(1) }\n",
		"bad/main.go":     "package main\n\nfunc main() { undefined() }\n",
		"lib/lib.go":      "package lib\n\nfunc F() {}\n",
		"tests/a.go":      "package tests\n",
		"tests/a_test.go": "package tests\n\nfunc unfinished( {}\n",
	})
	t.Chdir(dir)
	for _, c := range []struct{ env, args, want string }{
		{"", "report ./bad", "bad/main.go:3:15: undefined: undefined"},
		{"", "build ./bad", "bad/main.go:3:15: undefined: undefined"},
		{"", "build ./lib", "example.com/wrong/lib is no main package; want one"},
		{"", "build -o x ./ok", "go get github.com/capriccio-go/capriccio"},
		{"", "test ./tests", "a_test.go:3:18"},
		{"", "report ./missing", "missing"},
		{"", "report -o no/such/folder/x ./ok", "there is no folder no/such/folder"},
		{"", "report -o ok ./ok", "it is a folder"},
		{"GOOS=darwin", "build ./ok", "GOOS is darwin; stackplan reads programs in ELF format"},
		{"GOARCH=386", "build ./ok", "GOARCH is 386"},
	} {
		t.Run(c.env+" "+c.args, func(t *testing.T) {
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			code, stdout, stderr := stackplan(strings.Fields(c.args)...)
			if code != exitFailed || stdout != "" || !strings.Contains(stderr, c.want) {
				t.Errorf("exit status %d; it said %q and %q, want %q in the latter", code, stdout, stderr, c.want)
			}
		})
	}
	// What can't have checkpoints has bounds nevertheless.
	code, stdout, stderr := stackplan("report", "./ok")
	if code != exitOK || !strings.Contains(stdout, "main.main") || !strings.Contains(stderr, "it is not looked at whether") {
		t.Errorf("exit status %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestSignal ends stackplan while the go command runs for it.
func TestSignal(t *testing.T) {
	real := testenv.Need(exec.LookPath("go"))(t)
	dir, temp := t.TempDir(), t.TempDir()
	started := filepath.Join(dir, "started")
	if text, err := exec.Command("mkfifo", started).CombinedOutput(); err != nil {
		t.Skipf("mkfifo: %v %s", err, text)
	}
	write(t, dir, map[string]string{"go": "#!/bin/sh\nif [ \"$1\" != build ]; then exec " + real + " \"$@\"; fi\necho >" + started + "\nexec sleep 600\n"})
	testenv.Must(t, os.Chmod(filepath.Join(dir, "go"), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		testenv.Check(t, testenv.Err(os.ReadFile(started)))
	}()
	var out, stderr bytes.Buffer
	if code := run(ctx, []string{"report", sample}, &out, &stderr); code != exitEnded || out.Len() > 0 {
		t.Errorf("exit status %d, want %d\n%s\n%s", code, exitEnded, out.String(), stderr.String())
	}
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}
