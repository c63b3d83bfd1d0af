// Command stackplan bounds the stack that the tasks of a program need, and builds the
// program with checkpoints, calls that run on shared chunks of stack if the task's own
// has no room. Run it with -help.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Exit codes.
const (
	exitOK     = 0
	exitFound  = 1 // tests failed, or steps were not predicted
	exitFailed = 2
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run does what the command line says and returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	set, c, err := parse(args, stdout, stderr)
	switch {
	case errors.Is(err, errHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "stackplan:", strings.TrimPrefix(err.Error(), "stackplan "))
		fmt.Fprintln(stderr, "Try stackplan -help.")
		return exitFailed
	}
	code, err := c.run(set)
	if err != nil {
		fmt.Fprintf(stderr, "stackplan %s: %v\n", c.name, err)
		return exitFailed
	}
	return code
}

// version says which stackplan this is, as far as it was told when it was built.
func version() string {
	text := "stackplan (devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		text = "stackplan " + info.Main.Version
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
