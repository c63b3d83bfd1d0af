package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/flaghelp"
	"github.com/capriccio-go/capriccio/internal/words"
)

const testUsage = `Bgdump test builds the tests of a package, runs them with an execution trace, and
says what looks wrong in it, as bgdump -lint does.

Usage:

  bgdump test [flags] [PACKAGE]

PACKAGE is one package as go test takes it; none is that of the current folder.
Most checks want a hundred steps of a kind: -count 20, or a benchmark, gives them.
All flags of bgdump that show a trace work too, like -md, -svg -o FILE, -tasks or
-http :8000. The environment variable GOFLAGS holds flags for the build, like -tags.

For example:

  bgdump test ./server -run TestLoad
  bgdump test ./server -bench Lookup -benchtime 1000x -md

The exit status is 0 if all went well, 1 if there are errors or warnings, and 2 if
the package does not build, has no such test, or a test fails.
`

// A testRun are the tests or benchmarks of a package to be traced.
type testRun struct {
	pkg       string
	run       string
	bench     string
	benchtime string
	count     int
}

// flags adds the flags of go test.
func (r *testRun) flags(flags *flag.FlagSet) {
	flags.StringVar(&r.run, "run", "", "run only tests whose name this `regexp` matches; with -bench, none unless it is given")
	flags.StringVar(&r.bench, "bench", "", "run benchmarks whose name this `regexp` matches")
	flags.StringVar(&r.benchtime, "benchtime", "", "how long to run each benchmark, a `duration`, or how often: 1000x")
	flags.IntVar(&r.count, "count", 1, "run each test and benchmark this `number` of times")
}

func writeTestHelp(w io.Writer, flags *flag.FlagSet) {
	fmt.Fprintf(w, "%s\nFlags of its own:\n\n", testUsage)
	flaghelp.Write(w, flags, "run bench benchtime count")
}

// setPackage takes the package from the arguments of the command line.
func (r *testRun) setPackage(args []string) error {
	switch {
	case len(args) > 1:
		return fmt.Errorf("bgdump test traces one package, not %d", len(args))
	case r.count < 1:
		return fmt.Errorf("-count %d; want 1 or more", r.count)
	case r.benchtime != "" && r.bench == "":
		return errors.New("-benchtime has no meaning without -bench")
	}
	r.pkg = "."
	if len(args) == 1 {
		r.pkg = args[0]
	}
	return nil
}

// A goPackage is what go list tells of one.
type goPackage struct{ path, dir string }

// trace runs the tests and returns the file of their trace, in the folder tmp.
func (r *testRun) trace(ctx context.Context, tmp string, stderr io.Writer) (file string, err error) {
	p, err := r.find(ctx)
	if err != nil {
		return "", err
	}
	binary := filepath.Join(tmp, "package.test.exe")
	if out, err := runProgram(ctx, nil, "", "go", "test", "-c", "-o", binary, r.pkg); err != nil {
		return "", fmt.Errorf("%s does not build: %w%s", printable(p.path), err, out)
	}
	if _, err := os.Stat(binary); err != nil { // as there are no test files
		return "", fmt.Errorf("%s has no tests", printable(p.path))
	}
	file = filepath.Join(tmp, path.Base(p.path))
	fmt.Fprintf(stderr, "bgdump: running the tests of %s with an execution trace\n", printable(p.path))
	out, err := runProgram(ctx, nil, p.dir, binary, r.arguments(file)...)
	info, statErr := os.Stat(file)
	switch {
	case err != nil:
		return "", fmt.Errorf("a test of %s fails: %w%s", printable(p.path), err, out)
	case strings.Contains(out, "testing: warning: no tests to run") && r.run == "":
		return "", fmt.Errorf("%s has no tests to run; -bench . runs its benchmarks", printable(p.path))
	case strings.Contains(out, "testing: warning: no tests to run"):
		return "", fmt.Errorf("%s has no test that -run %q matches", printable(p.path), r.run)
	case r.bench != "" && !benchmarkLine.MatchString(out):
		return "", fmt.Errorf("%s has no benchmark that -bench %q matches", printable(p.path), r.bench)
	case statErr != nil || info.Size() == 0:
		return "", fmt.Errorf("the tests of %s left no trace; perhaps its TestMain does not call Run", printable(p.path))
	}
	return file, nil
}

var benchmarkLine = regexp.MustCompile(`(?m)^\s*Benchmark`)

// find asks which package it is.
func (r *testRun) find(ctx context.Context) (p goPackage, err error) {
	var list bytes.Buffer // standard output alone: go names its downloads on standard error
	out, err := runProgram(ctx, &list, "", "go", "list", "-find", "-f", "{{.ImportPath}}\t{{.Dir}}", "--", r.pkg)
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return p, errors.New("bgdump test needs the command go, which is not in PATH")
	case err != nil:
		return p, fmt.Errorf("%s is no package: %w%s", printable(r.pkg), err, out)
	}
	lines := strings.Split(strings.TrimSpace(list.String()), "\n")
	if len(lines) > 1 || !strings.Contains(lines[0], "\t") {
		return p, fmt.Errorf("%s is %s; want one", printable(r.pkg), words.Plural(len(lines), "package"))
	}
	p.path, p.dir, _ = strings.Cut(lines[0], "\t")
	return p, nil
}

// arguments are those of the test binary.
func (r *testRun) arguments(file string) []string {
	run := r.run
	if run == "" && r.bench != "" {
		run = "^$"
	}
	args := []string{"-test.paniconexit0", "-test.timeout=10m", "-test.trace=" + file, "-test.run=" + run, "-test.bench=" + r.bench, fmt.Sprintf("-test.count=%d", r.count)}
	if r.benchtime != "" {
		args = append(args, "-test.benchtime="+r.benchtime)
	}
	return args
}

// mostOutput is how many bytes of the output of a program are shown: its end.
const mostOutput = 4000

// outputDelay is how long a program that has ended may leave its output open to a process that it has started.
const outputDelay = 2 * time.Second

// runProgram returns all that a program writes, without its standard output if stdout is to have that. If the program fails, it
// returns the end of the text, on lines of its own.
func runProgram(ctx context.Context, stdout *bytes.Buffer, dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.WaitDelay = outputDelay
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = cmp.Or(stdout, &out), &out
	err := cmd.Run()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) {
		return out.String(), nil
	}
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	end := bytes.TrimSpace(out.Bytes())
	end = end[max(0, len(end)-mostOutput):]
	var text strings.Builder
	for line := range strings.Lines(string(end)) {
		text.WriteString("\n    " + printable(strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")))
	}
	return text.String(), err
}
