// Command stackplan bounds the stack that the tasks of a program need, and builds the
// program with checkpoints, calls that run on shared chunks of stack if the task's own
// has no room. Run it with help.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/plan"
	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

// Exit codes.
const (
	exitOK     = 0
	exitFound  = 1 // tests failed, or steps were not predicted
	exitFailed = 2
	exitEnded  = 130 // by a signal
)

func main() {
	// A signal ends the go command that is running, and what is temporary is taken
	// away; a second one ends stackplan at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	leaveLinks()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// leaveLinks goes to the working directory by the way without symbolic links, see
// plan.RealDir. A failure here shows when the go command is called.
func leaveLinks() {
	if dir, err := plan.RealDir(""); err == nil && os.Chdir(dir) == nil {
		os.Setenv("PWD", dir)
	}
}

// run does what the command line says and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	out := &flaghelp.Output{Writer: stdout}
	set, c, err := parse(args, out, stderr)
	switch {
	case errors.Is(err, errHelp):
		return out.Code(exitFailed, stderr, "stackplan")
	case err != nil:
		fmt.Fprintln(stderr, "stackplan:", strings.TrimPrefix(err.Error(), "stackplan "))
		fmt.Fprintln(stderr, "Try stackplan -help.")
		return exitFailed
	}
	set.ctx, set.stdout = ctx, stdout // as it is: the go command may write to it as well
	code := exitFailed
	if c.name != "build" && set.out != "" { // go build makes the folder, and a file in a folder
		err = set.checkOutput()
	}
	if err == nil {
		code, err = c.run(set)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "stackplan %s: ended by a signal\n", c.name)
		return exitEnded
	case err != nil:
		fmt.Fprintf(stderr, "stackplan %s: %v\n", c.name, err)
		return exitFailed
	}
	return code
}
