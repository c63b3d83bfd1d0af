package main

import (
	"errors"
	"fmt"
	"strconv"
	. "strings"
	"unsafe"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/hidden"
)

func noted(s string) string { say("noted", s); return s }
func number(n int) int      { say("number", n); return n }

func nothing()                       {}
func one(a int, b string) int        { say("one", a, b); return a + len(b) }
func two(a int) (int, error)         { say("two", a); return a + 1, errors.New("e" + strconv.Itoa(a)) }
func three(int, error) (a, b, c int) { return 1, 2, 3 }
func named(a int) (x int, err error) { x = a; return x * 2, err }
func typed(f float64, b byte, r rune, e error, i any, c chan int, m map[string]int) string {
	return fmt.Sprint(f, b, r, e, i, c == nil, m)
}

var _ = add("statements", func() {
	nothing /*checkpoint*/ ()
	one /*checkpoint*/ (1, "a")
	var x int
	x = one /*checkpoint*/ (2, "b")
	x += one /*checkpoint*/ (3, "c")
	say(x)
	y := one /*checkpoint*/ (4, "d")
	z, err := two /*checkpoint*/ (y)
	z, again := two /*checkpoint*/ (z)
	_, _ = two /*checkpoint*/ (z)
	say(y, z, err, again)
	var arr [3]int
	arr[number(1)], err = two(7)
	say(arr, err)
	if v := one /*checkpoint*/ (5, "e"); v > one /*checkpoint*/ (1, "") {
		say("more", v)
	}
	for i := one(0, ""); i < one(1, "ab"); i += one(0, "x") {
		say("loop", i)
	}
	switch one(1, "") {
	case one(0, "a"):
		say("first")
		two(1)
	case one(1, "c"):
		say("second")
	}
	var local, _ = two /*checkpoint*/ (9)
	say(local)
	say(three /*checkpoint*/ (two(1)))
label:
	w := one /*checkpoint*/ (x, "label")
	if x++; x < 20 {
		goto label
	}
	say(w)
	select {
	default:
		one(6, "select")
	}
	func /*checkpoint*/ () { say("literal", x) /* inner */ }()
	say(func(a int) int { return a + x }(1))
})

var _ = add("expressions", func() {
	say(one /*checkpoint*/ (number(1), noted("a")) + number(2)*one(number(3), noted("b")))
	say(typed /*checkpoint*/ (1, 'x', 'y', nil, 3, nil, nil))
	s := typed /*checkpoint*/ (1<<3, 255, 0, nil, "s", nil, map[string]int{"a": number(1)})
	say(s)
	say([]int{one(1, ""), one(2, "")}, map[string]int{noted("k"): number(1)}[noted("k")])
	say(len(noted("abc")), unsafe.Sizeof(number(1)))
	say(Repeat /*checkpoint*/ (noted("ab"), number(2)), (one)(1, "paren"))
	ok := number(1) == 1 && number(2) == 3 || number(4) == 4
	say(12/number(3), 3*number(6)/number(2)*number(4)/number(9), number(7)&^number(2))
	say(ok, !(number(1) == 2), -number(5))
	ch := make(chan int, number(2))
	ch <- number(1)
	say(<-ch)
	p := &struct{ f func(int) int }{func(i int) int { return i + 1 }}
	say(p.f /*checkpoint*/ (number(1)), (*p).f(2))
	var table = []func(string) string{noted, ToUpper}
	for i := range table {
		say(table[i] /*checkpoint*/ ("table"))
	}
	say(func() (int, string) { return number(1), noted("r") }())
})

func vary(first int, rest ...string) string { return fmt.Sprint(first, len(rest), rest == nil, rest) }
func mutate(s ...int)                       { s[0] = 99 }

type strs []string

var _ = add("variadics", func() {
	say(vary /*checkpoint*/ (1), vary(2, "a"), vary(3, "a", "b"))
	s := vary /*checkpoint*/ (4, strs{"x", "y"}...)
	say(s, vary(5, nil...), vary(6, []string{}...))
	all := []int{1, 2, 3}
	mutate /*checkpoint*/ (all...)
	mutate(all[1:]...)
	say(all)
	fmt.Fprintf /*checkpoint*/ (&out, "%d %s\n", 1, noted("f"))
	say(fmt.Sprint(1,
		"multi", // a comment
		"line",
	))
})

type point struct{ x, y int }

func (p point) sum(k int) int   { return p.x + p.y + k }
func (p *point) move(k int) int { p.x += k; return p.x }
func (p *point) self() *point   { return p }
func (p point) pair() (int, int) {
	return p.x, p.y
}

type adder interface{ move(k int) int }
type wide struct {
	name string
	*point
}
type deep struct{ inner wide }
type embedded struct{ point }
type holder struct{ adder }
type num int

func (n num) plus(m num) num { return n + m }
func (n *num) inc()          { *n++ }

var _ = add("methods", func() {
	p := point{1, 2}
	say(p.sum /*checkpoint*/ (3), p.move /*checkpoint*/ (10), p, (&p).sum(1), (&p).move(2))
	p.move /*checkpoint*/ (1)
	k := p.sum /*checkpoint*/ (1)
	say(k, p.self().self().move /*checkpoint*/ (1), p.self /*checkpoint*/ ().x)
	w := wide{"w", &p}
	say(w.move /*checkpoint*/ (1), w.sum(1), deep{w}.inner.move(2), p)
	e := embedded{point{3, 4}}
	say(e.move /*checkpoint*/ (1), e.sum /*checkpoint*/ (0), e)
	h := holder{&e}
	say(h.move /*checkpoint*/ (2), e)
	var a adder = &p
	say(a.move /*checkpoint*/ (5))
	f := p.sum
	p.x = 1000
	say(f /*checkpoint*/ (1), point.sum /*checkpoint*/ (p, 1), (*point).move(&p, 1), adder.move /*checkpoint*/ (&p, 2))
	g := (*point).sum
	say(g(&p, 1))
	n := num(3)
	n.inc /*checkpoint*/ ()
	say(n.plus /*checkpoint*/ (4), num(5).plus(1), p)
	m := map[string]*point{"a": {1, 1}}
	say(m["a"].move(1), *m["a"])
	say(p.pair /*checkpoint*/ ())
	arr := [2]point{{1, 2}, {3, 4}}
	for i := range arr {
		arr[i].move(number(10))
	}
	say(arr)
	o := hidden.Outer{}
	o.Add /*refused: embedded field*/ ("x")
	say(o.Log())
})

func attempt(name string, f func()) {
	defer func() {
		if r := recover(); r != nil {
			say(name, "panicked:", r)
		}
	}()
	f()
	say(name, "returned")
}

var _ = add("panics in receivers and arguments", func() {
	var p *point
	var a adder
	var f func(int) int
	attempt("value method", func() { say(p.sum(number(1))) })
	attempt("pointer method", func() { p.move(number(1)) })
	attempt("interface", func() { a.move(number(1)) })
	attempt("function", func() { f(number(1)) })
	attempt("deferred interface", func() { defer a.move(number(1)); say("not reached") })
	attempt("deferred value", func() { defer p.sum(number(1)); say("not reached") })
	attempt("deferred function", func() { defer f(number(1)); say("reached") })
	attempt("argument", func() { one(make([]int, 0)[number(3)], noted("after")) })
})

var _ = add("types without a name", func() {
	s := hidden.Secret /*refused: can't name*/ (1)
	say(s.Get /*refused: can't name*/ ())
	say(hidden.Show /*refused: can't name*/ (s))
	type local struct{ n int }
	twice := func(l local, k int) (local, int) { return local{l.n * 2}, k }
	l, k := twice /*refused: has no name*/ (local{2}, 5)
	say(l, k)
	anonymous := func(s struct{ a, b int }) struct{ c string } { return struct{ c string }{fmt.Sprint(s)} }
	v := anonymous /*checkpoint*/ (struct{ a, b int }{1, 2})
	say(v.c)
	func(c <-chan (<-chan int), d chan<- func(...int) error) { say(c == nil, d == nil) }(nil, nil)
})
