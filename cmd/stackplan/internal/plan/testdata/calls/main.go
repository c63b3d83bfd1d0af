// Command calls has calls of every kind. The comment "calls:" above a function lists
// what of this program it may call, on its own stack; a function that is inlined counts
// as part of its callers, and what is called as a parameter counts where it is passed.
package main

import (
	"fmt"
	"os"
	"sort"
	"sync"
)

// calls: -
//
//go:noinline
func leaf(n int) int { return n + 1 }

// calls: leaf recursive
//
//go:noinline
func recursive(n int) int {
	if n <= 0 {
		return leaf(n)
	}
	return recursive(n-1) + 1
}

// calls: odd
//
//go:noinline
func even(n int) bool {
	if n == 0 {
		return true
	}
	return odd(n - 1)
}

// calls: even
//
//go:noinline
func odd(n int) bool {
	if n == 0 {
		return false
	}
	return even(n - 1)
}

type shape interface{ area(n int) int }

type square struct{ side int }

// calls: leaf
//
//go:noinline
func (s square) area(n int) int { return leaf(s.side) * n }

type circle struct{ r int }

// calls: recursive
//
//go:noinline
func (c *circle) area(n int) int { return recursive(c.r) * n }

type unused struct{}

// calls: large
//
//go:noinline
func (unused) area(n int) int { return large(n) }

// calls: -
//
//go:noinline
func measure(s shape) int { return s.area(2) }

// calls: leaf
//
//go:noinline
func large(n int) int {
	var buffer [8192]byte
	for i := range buffer {
		buffer[i] = byte(n + i)
	}
	return leaf(int(buffer[n&8191]))
}

// calls: makeAdder makeAdder.func1
//
//go:noinline
func useClosure(n int) int {
	add := makeAdder(n)
	return add(n)
}

// calls: -
//
//go:noinline
func makeAdder(n int) func(int) int {
	return func(m int) int { return leaf(n + m) } // calls: leaf
}

// calls: twice leaf large
//
//go:noinline
func passes(n int) int { return twice(leaf, n) + twice(large, n) }

// calls: -
//
//go:noinline
func twice(f func(int) int, n int) int { return f(f(n)) }

// calls: callValue (*circle).area-fm
//
//go:noinline
func methodValue(c *circle) int {
	f := c.area
	return callValue(f)
}

// calls: -
//
//go:noinline
func callValue(f func(int) int) int { return f(3) }

// calls: join
//
//go:noinline
func variadic(words ...string) int { return join("-", words...) }

// calls: leaf
//
//go:noinline
func join(sep string, words ...string) int { return leaf(len(sep) * len(words)) }

// calls: large deferred.func1 deferred.deferwrap1
//
//go:noinline
func deferred(n int) (r int) {
	defer func() { r += recursive(n) }() // calls: recursive
	defer large(n)
	return large(n)
}

type number interface{ ~int | ~float64 }

// calls: leaf
//
//go:noinline
func sum[T number](all ...T) int {
	var s T
	for _, x := range all {
		s += x
	}
	return leaf(int(s))
}

type stringer interface{ String() string }

type name string

// calls: leaf
//
//go:noinline
func (n name) String() string { return string(n[leaf(0):]) }

// calls: name.String (*name).String
//
//go:noinline
func describe[T stringer](x T) string { return x.String() }

var once sync.Once

// calls: initialise
//
//go:noinline
func first() { once.Do(initialise) }

// calls: large
//
//go:noinline
func initialise() { large(1) }

// calls: -
//
//go:noinline
func sorted(all []int) {
	sort.Slice(all, func(i, j int) bool { return leaf(all[i]) < leaf(all[j]) }) // calls: leaf
}

// calls: leaf
//
//go:noinline
func started(n int) { leaf(n) }

// calls: -
//
//go:noinline
func starts(n int) {
	go started(n)
	go func() { large(n) }() // calls: large
}

// calls: (*square).area (*circle).area square.area
//
//go:noinline
func (l list) total() (n int) {
	for _, s := range l.shapes {
		n += s.area(1)
	}
	return n
}

type list struct{ shapes []shape }

// calls: main.func1 leaf
//
//go:noinline
func fields(h hooks) int { return leaf(h.hook(1)) }

type hooks struct{ hook func(int) int }

type chain struct{ n int }

// calls: large
//
//go:noinline
func (c *chain) link(n int) *chain { c.n += large(n); return c }

// calls: (*chain).link
//
//go:noinline
func links(c *chain) int { return c.link(1).link(2).n }

func main() {
	n := len(os.Args)
	shapes := []shape{square{n}, &circle{n}}
	for _, s := range shapes {
		n += measure(s)
	}
	n += list{shapes}.total() + fields(hooks{func(n int) int { return large(n) }}) // calls: large
	first()
	sorted([]int{3, 2, n})
	starts(n)
	fmt.Println(recursive(n), even(n), useClosure(n), passes(n), methodValue(&circle{n}),
		variadic("a", "b"), deferred(n), sum(1, 2, n), sum(1.5, 2), describe(name("ab")), links(new(chain)))
}
