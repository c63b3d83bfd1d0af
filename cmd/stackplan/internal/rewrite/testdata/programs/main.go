// Command programs runs small programs whose output must not depend on checkpoints.
// Comments before a parenthesis say what a checkpoint at that call becomes.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"sort"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/runner"
)

type program struct {
	name string
	run  func()
}

var (
	programs []program
	out      strings.Builder
)

func add(name string, run func()) bool {
	programs = append(programs, program{name, run})
	return true
}

func say(args ...any) { fmt.Fprintln(&out, args...) }

func main() {
	debug.SetMaxStack(1 << 28)
	sort.Slice(programs, func(i, j int) bool { return programs[i].name < programs[j].name })
	all := func() {
		for _, p := range programs {
			say("==", p.name)
			p.run()
		}
	}
	if len(os.Args) > 1 && os.Args[1] == "task" {
		if err := runner.Run(all); err != nil {
			say(err)
		}
		fmt.Fprintln(os.Stderr, "links:", runner.Links())
	} else {
		all()
	}
	os.Stdout.WriteString(out.String())
}
