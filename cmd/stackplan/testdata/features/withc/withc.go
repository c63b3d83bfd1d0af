// Package withc calls C.
package withc

// static int sum(int a, int b) { return a + b; }
import "C"

// Sum adds in C.
//
//go:noinline
func Sum(a, b int) int {
	var buf [2000]int
	buf[a] = area(b)
	return int(C.sum(C.int(a), C.int(b))) + buf[b&1]
}
