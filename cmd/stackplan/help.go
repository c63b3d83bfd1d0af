package main

import (
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/capriccio-go/capriccio/internal/flaghelp"
)

const usage = `Stackplan finds out how much stack the tasks of a Go program need, and builds the
program so that rare deep calls do not make the stack of every task large.

It is for programs built on Capriccio for Go, where each connection is a task with
a small stack of its own. If a task once needs 32 KB, say for a TLS handshake, its
stack grows to 64 KB and may stay so while the connection is idle. Stackplan puts
checkpoints into such paths: a checkpoint is a call that first looks whether the
stack has enough room, which takes about 4 ns. If it has not, the call runs
on a chunk of stack that all tasks share, and the chunk is given back afterwards.

Usage:

  stackplan COMMAND [flags] [package] [-- flags of the go command]

Commands:

  report    how much stack each kind of task needs, where the deepest paths are,
            which functions are recursive, and which calls would be checkpoints
  build     build a program with checkpoints; its sources stay as they are
  test      run tests with checkpoints in what is tested
  static    which places to wait can follow each other, from the source alone, and
            how that compares with what a run has shown
  help      this text, or with the name of a command, its flags
  version   print the version

For example:

  stackplan report ./cmd/knot                          tables
  stackplan build -maxpath 2KB -minchunk 4KB -o knot ./cmd/knot
  stackplan build -v -o knot ./cmd/knot -- -race       with flags for go build
  stackplan test ./... -- -run TestServe               with flags for go test

To see what a choice means, count in a run under the load that matters:

  stackplan build -profile -maxpath 2KB -o knot ./cmd/knot
  CAPRICCIO_STACKS=stacks.json ./knot -root public     and stop it with Ctrl-C

Two sizes steer it. MaxPath (-maxpath) is how much stack a program may use from one
checkpoint to the next: a small one means many checkpoints, a large one means that
more calls need a chunk. MinChunk (-minchunk) is the least size of a chunk: a large
one wastes more of it, but what is called on it finds room more often. Sizes are
written like 512B, 2KB or 1MB; a KB is 1024 bytes.

The exit status is 0 if all went well, 1 if the tests failed or if static has found
a step that it did not predict or a wait where there must be none, 2 if stackplan
could not do what it was asked to, and 130 if a signal ended it.
`

// A command is one of the words that may follow "stackplan".
type command struct {
	name  string
	args  string // that it takes
	about string
	flags string // names, in the order in which the help tells of them
	run   func(*settings) (int, error)
}

// commands come in the order of the help.
func commands() []command {
	const sizes = "maxpath minchunk "
	const loading = "tags annotations rewrite all "
	return []command{
		{"report", "[package]", "How much stack the tasks of a program need.", sizes + "v json o allocate " + loading, runReport},
		{"build", "[package] [-- flags of go build]", "Build a program with checkpoints. Files on disk are not changed: the go command reads\nthe rewritten ones from a temporary folder.", "o " + sizes + "profile v keep allocate " + loading, runBuild},
		{"test", "[packages] [-- flags of go test]", "Run the tests of packages, with checkpoints in the packages and in the tests.", sizes + "profile v keep allocate " + loading, runTest},
		{"static", "[package]", "Which places to wait can follow each other, from the source alone. With -dump, compare\nwith the blocking graph of a run, as bgdump -dump or the signal SIGUSR2 writes it.\nFunctions with //capriccio:atomic in the comment above them are checked: nothing in\nthem may lead to a wait.", "dump json o " + loading, runStatic},
	}
}

func find(name string) (command, bool) {
	for _, c := range commands() {
		if c.name == name {
			return c, true
		}
	}
	return command{}, false
}

func commandNames() string {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return strings.Join(names, ", ")
}

// writeCommandHelp explains one command.
func writeCommandHelp(w io.Writer, c command, flags *flag.FlagSet) {
	fmt.Fprintf(w, "%s\n\nUsage:\n\n  stackplan %s [flags] %s\n\nFlags:\n\n", c.about, c.name, c.args)
	flaghelp.Write(w, flags, c.flags)
}
