// Command escapes counts its own allocations. Those of code with checkpoints must be
// the same, although what a checkpoint hands over when it links must be on the heap.
package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"
	"time"
)

type counter struct {
	n    int
	name string
}

//go:noinline
func (c *counter) add(by int) int { c.n += by; return c.n }

//go:noinline
func (c counter) value() int { return c.n }

//go:noinline
func fill(b []byte, with byte) int {
	for i := range b {
		b[i] = with
	}
	return len(b)
}

//go:noinline
func sum(ns ...int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

//go:noinline
func deep(p *counter, n int) int {
	if n == 0 {
		return p.add(1)
	}
	k := deep(p, n-1)
	return k + 1
}

//go:noinline
func pass(c *counter) int { return deep(c, 3) }

//go:noinline
func describe(v any) int { return len(fmt.Sprint(v)) }

//go:noinline
func each(n int, f func(int)) {
	for i := range n {
		f(i)
	}
}

var heap = &counter{name: "heap"}

var cases = []struct {
	name string
	run  func()
}{
	{"pointer to the heap", func() { heap.add(1) }},
	{"pointer to a variable", func() {
		var c counter
		c.add(1)
		x := c.add(2)
		check(c.add(3), x+3)
	}},
	{"value", func() {
		c := counter{n: 1}
		x := c.value()
		_ = x
	}},
	{"slice of an array", func() {
		var b [64]byte
		fill(b[:], 'x')
		n := fill(b[:8], 'y')
		_ = n
	}},
	{"variadic", func() {
		sum(1, 2, 3)
		x := sum(4, 5)
		check(sum(x, x), 18)
	}},
	{"through two functions", func() {
		var c counter
		pass(&c)
		check(deep(&c, 2), 4)
	}},
	{"heap through two functions", func() { pass(heap) }},
	{"interface", func() {
		describe(heap)
		n := describe(3)
		_ = n
	}},
	{"closure", func() {
		total := 0
		each(5, func(i int) { total += i })
		check(total, 10)
	}},
	{"string", func() {
		n := len(strconv.Itoa(sum(1) + 12345))
		check(n, 5)
	}},
}

func check(got, want int) {
	if got != want {
		panic("wrong")
	}
}

// times is how often add is called by cost.
const times = 1_000_000

// cost is the least time that some calls take, in nanoseconds.
func cost(n int) float64 {
	least := time.Duration(math.MaxInt64)
	for range 15 {
		began := time.Now()
		loop(n)
		least = min(least, time.Since(began))
	}
	return float64(least)
}

//go:noinline
func loop(n int) {
	for range n {
		heap.add(1)
	}
}

func main() {
	for _, c := range cases {
		fmt.Println(c.name, testing.AllocsPerRun(100, c.run))
	}
	fmt.Fprintln(os.Stderr, "ns:", cost(times)/1e6)
}
