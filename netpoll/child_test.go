//go:build linux

package netpoll

import "fmt"

// childVariable names what a re-executed test process does instead of testing.
const childVariable = "NETPOLL_TEST_CHILD"

func runChild(what string) int {
	fmt.Println("unknown child", what)
	return 2
}
