// Command frames has frames and calls of every kind for the test of the decoder.
package main

import "os"

type shape interface{ area(n int) int }

type square struct{ side int }

//go:noinline
func (s *square) area(n int) int { return s.side*s.side + n }

//go:noinline
func leaf(n int) int { return n + 1 }

//go:noinline
func large(n int) int {
	var buffer [4096]byte
	for i := range buffer {
		buffer[i] = byte(n + i)
	}
	return leaf(int(buffer[n&4095])) + int(buffer[7])
}

//go:noinline
func many(a, b, c, d, e, f, g, h, i, j, k, l int) int {
	return leaf(a+b+c+d) + leaf(e+f+g+h) + leaf(i+j+k+l)
}

//go:noinline
func recursive(n int) int {
	if n == 0 {
		return 0
	}
	return recursive(n-1) + leaf(n)
}

func inlined(n int) int { return large(n) * 2 }

//go:noinline
func holds(n int) int { return inlined(n) + 1 }

//go:noinline
func deferring(n int) (r int) {
	defer func() { r += leaf(n) }()
	return many(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, n)
}

//go:noinline
func indirect(s shape, f func(int) int) int { return s.area(f(1)) }

func main() {
	n := len(os.Args)
	println(holds(n), recursive(n), deferring(n), indirect(&square{n}, leaf))
}
