// Command sample runs a task that once needs much stack.
package main

import (
	"fmt"
	"os"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/runner"
)

func main() {
	err := runner.Run(func() {
		fmt.Println("deep:", handshake(3)+tail(40))
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Fprintln(os.Stderr, "linked:", runner.Links() > 0)
}

//go:noinline
func handshake(n int) int {
	var buf [4000]int
	for i := range buf {
		buf[i] = i ^ n
	}
	return buf[n] + tail(buf[len(buf)-1])
}

//go:noinline
func tail(n int) int {
	if n < 2 {
		return n
	}
	return tail(n/2) + 1
}
