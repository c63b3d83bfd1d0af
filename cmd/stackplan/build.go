package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite"
)

// config is how the sources are loaded.
func (set *settings) config(patterns []string, tests bool) plan.Config {
	return plan.Config{
		Patterns: patterns, Tests: tests, BuildFlags: set.buildFlags(),
		Rewrite: set.rewrite, Annotations: set.annotations, All: set.all,
	}
}

func (set *settings) buildFlags() []string {
	if set.tags == "" {
		return nil
	}
	return []string{"-tags=" + set.tags}
}

// A rewriting is a plan and the sources that were changed for it.
type rewriting struct {
	plan   *plan.Plan
	result *rewrite.Result
}

// rewriteProgram loads a program, places checkpoints and makes the changed sources.
func (set *settings) rewriteProgram(patterns []string, tests bool) (*rewriting, error) {
	prog, err := plan.LoadContext(set.ctx, set.config(patterns, tests))
	if err != nil {
		return nil, err
	}
	if err := prog.ChunkError(); err != nil {
		return nil, err
	}
	rw := rewrite.New(rewrite.Config{Packages: prog.Packages(), MinChunk: set.minChunk, Profile: set.profile})
	p, err := set.place(prog, rw, patterns, tests)
	if err != nil {
		return nil, err
	}
	result, err := rw.Files(p.Checkpoints, false)
	if err != nil {
		return nil, err
	}
	return &rewriting{p, result}, nil
}

// maxRounds bounds how often checkpoints are placed anew because some of them would
// move variables to the heap. Each round finds fewer.
const maxRounds = 6

// place chooses checkpoints until none of them makes the program allocate more while
// stacks have room.
func (set *settings) place(prog *plan.Program, rw *rewrite.Rewriter, patterns []string, tests bool) (*plan.Plan, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if !set.allocate {
		text, err := set.compile(rw, nil, patterns, tests)
		if err != nil {
			return nil, err
		}
		rw.SetBefore(text, dir)
	}
	for round := 1; ; round++ {
		prog.Refuse(rw.Refused)
		p, err := prog.Place(set.maxPath, set.minChunk)
		if err != nil || set.allocate || round > maxRounds {
			return p, err
		}
		result, err := rw.Files(p.Checkpoints, true)
		if err != nil {
			return nil, err
		}
		text, err := set.compile(rw, result, patterns, tests)
		if err != nil {
			return nil, err
		}
		n := rw.Blame(text, dir, result)
		if set.verbose {
			fmt.Fprintf(set.stderr, "round %d: %d checkpoints, of which %d would move variables to the heap\n", round, len(result.Calls), n)
		}
		if n == 0 {
			return p, nil
		}
	}
}

// compile returns what the compiler says about escaping variables. Go list compiles as
// go build does, but does not link.
func (set *settings) compile(rw *rewrite.Rewriter, result *rewrite.Result, patterns []string, tests bool) ([]byte, error) {
	args := []string{"list", "-export", "-f="}
	if tests {
		args = append(args, "-test")
	}
	args = slices.Concat(args, plan.SourceFlags, set.buildFlags(), rw.GCFlags())
	if result != nil {
		dir, err := os.MkdirTemp("", "stackplan-")
		if err != nil {
			return nil, err
		}
		defer os.RemoveAll(dir)
		file, err := result.WriteOverlay(dir)
		if err != nil {
			return nil, err
		}
		args = append(args, "-overlay="+file)
	}
	text, err := plan.GoCommand(set.ctx, append(args, patterns...)...).CombinedOutput()
	if err != nil {
		why := errorLines(text)
		if result != nil {
			why += "\nThis is a mistake in stackplan if the original sources compile."
		}
		return nil, fmt.Errorf("the sources do not compile: %w\n%s", err, why)
	}
	return text, nil
}

// errorLines leaves what is an error of what the compiler says.
func errorLines(text []byte) string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		if !remark.MatchString(line) {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(lines[:min(len(lines), 20)], "\n")
}

// remark matches what the compiler says with -m=2.
var remark = regexp.MustCompile(`^.+?:\d+:\d+: (  |can inline|cannot inline|inlining|leaking|moved to heap|parameter|mark |.* escapes to heap|.* does not escape|.* capturing by|.*ignoring self-assignment)`)

// overlay writes the changed sources to a folder, which remove takes away again.
func (set *settings) overlay(r *rewriting, part string) (file string, remove func(), err error) {
	remove = func() {}
	dir := set.keep
	if dir != "" {
		if dir, err = filepath.Abs(filepath.Join(dir, part)); err == nil {
			err = os.MkdirAll(dir, 0o755)
		}
	} else if dir, err = os.MkdirTemp("", "stackplan-"); err == nil {
		remove = func() { os.RemoveAll(dir) }
	}
	if err == nil {
		file, err = r.result.WriteOverlay(dir)
	}
	return file, remove, err
}

func runBuild(set *settings) (int, error) {
	r, err := set.rewriteProgram(set.patterns, false)
	if err != nil {
		return exitFailed, err
	}
	file, remove, err := set.overlay(r, "")
	defer remove()
	if err != nil {
		return exitFailed, err
	}
	args := append([]string{"build", "-overlay=" + file}, set.buildFlags()...)
	if set.out != "" {
		args = append(args, "-o", set.out)
	}
	args = append(append(args, set.goFlags...), set.patterns...)
	if code, err := set.goCommand(args); code != 0 || err != nil {
		return exitFailed, errors.Join(err, errors.New("go build failed on the rewritten sources, see above; if it does not fail on the original ones, this is a mistake in stackplan (-keep FOLDER leaves the sources to look at)"))
	}
	set.tell(r)
	return exitOK, nil
}

// goCommand runs the go command for the user to see.
func (set *settings) goCommand(args []string) (code int, err error) {
	cmd := plan.GoCommand(set.ctx, args...)
	cmd.Stdout, cmd.Stderr = set.stdout, set.stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// tell says what was done, on standard error.
func (set *settings) tell(r *rewriting) {
	p, w := r.plan, set.stderr
	share := ""
	if p.CallSites > 0 {
		share = fmt.Sprintf(", %.1f %%", 100*float64(len(r.result.Calls))/float64(p.CallSites))
	}
	fmt.Fprintf(w, "%s: %d checkpoints at %d calls%s; at most %s of stack between two\n",
		p.Package, len(r.result.Calls), p.CallSites, share, p.Longest)
	if p.Longest > p.MaxPath {
		fmt.Fprintf(w, "that is more than -maxpath %s, as some paths lead through code that can't have checkpoints; stackplan report lists them\n", p.MaxPath)
	}
	if !set.verbose {
		return
	}
	for _, c := range r.result.Calls {
		fmt.Fprintf(w, "%s: %s calls %s, which needs %s\n", c.Site, shorten(c.Caller), shorten(c.Callee), c.Need)
	}
	for _, c := range p.Refused {
		fmt.Fprintf(w, "%s: %s calls %s, which can be no checkpoint: %s\n", c.Site, shorten(c.Caller), shorten(c.Callee), c.Reason)
	}
}
