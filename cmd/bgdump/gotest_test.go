//go:build linux

package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// testedPackages are those of a module; each file is a package.
var testedPackages = map[string]string{
	"queue": `package queue
import ("sync"; "testing"; "time")
func TestQueue(t *testing.T) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { for range 10 { mu.Lock(); time.Sleep(time.Millisecond); mu.Unlock() } })
	}
	all.Wait()
}
func BenchmarkSend(b *testing.B) {
	c := make(chan int)
	go func() { for range c {} }()
	for b.Loop() { c <- 1 }
	close(c)
}`,
	"broken":  "package broken\nimport \"testing\"\nfunc TestX(*testing.T) { missing() }",
	"failing": "package failing\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Fatal(\"no\\x1bluck\") }",
	"skipped": "package skipped\nimport (\"os\"; \"testing\")\nfunc TestMain(*testing.M) { os.Exit(0) }",
	"bench":   "package bench\nimport \"testing\"\nfunc BenchmarkX(*testing.B) {}",
}

// TestLeftProcess: a process that a test has left with its output does not keep bgdump waiting.
func TestLeftProcess(t *testing.T) {
	out, err := runProgram(t.Context(), nil, "", "sh", "-c", "sleep 60 & echo $!")
	testenv.Must(t, err)
	left := testenv.Need(os.FindProcess(testenv.Need(strconv.Atoi(strings.TrimSpace(out)))(t)))(t)
	testenv.Must(t, left.Kill()) // it is there yet
}

func TestTestsOfAPackage(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	write := func(name, text string) {
		testenv.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testenv.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	write("go.mod", "module example.com/tested\ngo 1.26\n")
	write("empty/x.go", "package empty")
	for name, text := range testedPackages {
		write(filepath.Join(name, "x_test.go"), text)
	}
	bgdump := func(args string) result {
		return commandIn(t, context.Background(), &surroundings{clock: newFakeClock()}, strings.Fields("test "+args)...)
	}
	if r := bgdump("./queue"); r.code != exitFound || !strings.Contains(r.out, "convoy: mutex queue.TestQueue") {
		t.Errorf("got %+v", r)
	}
	if r := bgdump("-bench Send -benchtime 200x -count 2 -json ./queue"); r.code != exitOK || !strings.Contains(r.out, "queue.BenchmarkSend") {
		t.Errorf("got %+v", r)
	}
	for args, want := range map[string]string{
		"./broken":                      "does not build: exit status 1",
		"./failing":                     "no?luck",
		"./skipped":                     "left no trace; perhaps its TestMain does not call Run",
		"./empty":                       "example.com/tested/empty has no tests",
		"./bench":                       "-bench . runs its benchmarks",
		"./queue -run Nothing":          `has no test that -run "Nothing" matches`,
		"./queue -bench Nothing":        `has no benchmark that -bench "Nothing" matches`,
		"./missing":                     "./missing is no package",
		"./...":                         "./... is 6 packages; want one",
		"./queue ./empty":               "one package, not 2",
		"./queue -count 0":              "-count 0",
		"./queue -benchtime 1x":         "-benchtime has no meaning without -bench",
		"./queue -bench Send -run ( -o": "flag needs an argument",
	} {
		r := bgdump(args)
		if r.code != exitFailed || r.out != "" {
			t.Errorf("%s: got %+v", args, r)
		}
		testenv.Contains(t, r.errOut, want, args)
	}
	// With an empty cache of modules, go tells what it downloads.
	loud := filepath.Join(t.TempDir(), "go")
	testenv.Must(t, os.WriteFile(loud, []byte("#!/bin/sh\necho go: downloading example.com/dep v1.0.0 >&2\nexec "+testenv.Need(exec.LookPath("go"))(t)+" \"$@\"\n"), 0o700))
	t.Setenv("PATH", filepath.Dir(loud)+":"+os.Getenv("PATH"))
	if r := bgdump("./queue -run Queue"); r.code != exitFound {
		t.Errorf("got %+v", r)
	}
	testenv.Contains(t, bgdump("./missing").errOut, "./missing is no package: exit status 1\n    go: downloading", "what go says")
	left := testenv.Need(filepath.Glob("*"))(t)
	testenv.Equal(t, len(left), len(testedPackages)+2, "files: %v", left)
	t.Setenv("PATH", dir)
	testenv.Contains(t, bgdump("./queue").errOut, "needs the command go")
	testenv.Contains(t, command(t, "test", "-h").ok(t), "-benchtime DURATION")
}
