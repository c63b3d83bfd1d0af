// Command features calls a function with a large frame from every kind of file: with cgo,
// assembler, embedded files, and the lines of others. Its output must not depend on checkpoints.
package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/runner"
	"github.com/capriccio-go/capriccio/cmd/stackplan/testdata/features/linked"
	"github.com/capriccio-go/capriccio/cmd/stackplan/testdata/features/withc"
)

//go:embed word.txt
var word string

// early is set by calls in the expressions of package variables, before main.
var early, pair = deep(1), deep(2) + must(fallible(3))

var byFunc = func() int { return deep(4) }()

func init() { early += deep(5) }

// deep takes more stack than a task has at first.
//
//go:noinline
func deep(n int) int {
	var buf [3000]int
	for i := range buf {
		buf[i] = i * n
	}
	return buf[len(buf)-1] + buf[n&7]
}

//go:noinline
func fallible(n int) (int, error) {
	if n > 100 {
		return deep(n), errors.New("too large")
	}
	return deep(n), nil
}

func must(n int, err error) int {
	if err != nil {
		panic(err)
	}
	return n
}

func main() {
	var out strings.Builder
	say := func(args ...any) { fmt.Fprintln(&out, args...) }
	err := runner.Run(func() {
		say("before main:", early, pair, byFunc)
		say("embedded:", deep(len(strings.TrimSpace(word))))
		say("assembler:", linked.Call(7))
		say("c:", withc.Sum(3, 4))
		say(generated(6))
	})
	if err != nil {
		say(err)
	}
	os.Stdout.WriteString(out.String())
	fmt.Fprintln(os.Stderr, "linked:", runner.Links() > 0)
}
