package main

import (
	"fmt"
	"iter"
	"sync"

	"github.com/capriccio-go/capriccio/cmd/stackplan/internal/rewrite/testdata/programs/runner"
)

type sayer = func(args ...any)

type feature struct {
	name string
	run  func(say sayer)
}

type counter struct{ n int }

//go:noinline
func (c *counter) plus(k int) int { c.n += deep(k); return c.n }

func (c *counter) then(k int) *counter { c.plus(k); return c }

type box[T any] struct{ v T }

//go:noinline
func (b *box[T]) swap(v T) (old T) {
	var area [3000]int
	area[len(fmt.Sprint(v))] = 1
	old, b.v = b.v, v
	return old
}

func (b *box[T]) twice(v T) T { b.swap(v); return b.swap(v) }

func mapped[K comparable, V, W any](m map[K]V, f func(V) W) map[K]W {
	out := map[K]W{}
	for k, v := range m {
		out[k] = f(v)
	}
	return out
}

func count(n int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for i := range n {
			if !yield(i, deep(i)) {
				return
			}
		}
	}
}

func search(limit int) (at int, err error) {
	defer func() {
		if r := recover(); r != nil {
			at, err = deep(at&3), fmt.Errorf("recovered: %v", r)
		}
	}()
outer:
	for i, v := range count(20) {
		for j := range count(3) {
			switch {
			case deep(j) > v:
				continue outer
			case deep(i) > limit:
				at = deep(i)
				break outer
			case i > 12:
				panic(deep(i))
			case i == 11 && limit > 40_000:
				return deep(11), nil
			}
		}
		defer func() { at += deep(1) }()
	}
	return at, nil
}

var features = []feature{
	{"method values and chains", func(say sayer) {
		c := &counter{}
		f := c.plus
		g := (*counter).plus
		say(f(1), g(c, 2), c.then(1).then(2).then(3).n, table["deep"](2), table["plus"](3))
		defer c.then(2).plus(3)
	}},
	{"generics", func(say sayer) {
		b, s := box[int]{1}, box[string]{"a"}
		say(b.twice(5), s.twice("b"), b.swap(7), mapped(map[string]int{"x": 3}, deep), mapped(map[int]string{1: "y"}, s.swap))
	}},
	{"range over functions, labels", func(say sayer) {
		for _, limit := range []int{100, 9_000, 30_000, 50_000, 1 << 30} {
			at, err := search(limit)
			say(at, err)
		}
	}},
	{"goto", func(say sayer) {
		n := 0
	again:
		k := deep(n)
		if n++; k < 5_000 {
			goto again
		}
		say(n, k)
	}},
	{"clauses", func(say sayer) {
		ch := make(chan int, 2)
		select {
		case ch <- deep(1):
			say("sent", deep(2))
		}
		select {
		case v := <-pick(ch):
			say("got", deep(v&3))
		default:
			say("none")
		}
		switch x := deep(2); {
		case deep(3) < x:
			say("less")
		case x == deep(2):
			say("same")
			fallthrough
		case deep(9) == 0:
			x += deep(1)
			say(x)
		}
		switch v := any(deep(1)).(type) {
		case int:
			say(v, deep(v&7))
		}
		if x, err := fallible(200); err != nil && deep(x&3) >= 0 {
			say(x, err)
		} else if deep(1) > 0 {
			say("else")
		}
	}},
	{"go and defer", func(say sayer) {
		c := &counter{}
		var wg sync.WaitGroup
		wg.Add(2)
		go func(k int) { defer wg.Done(); c.plus(k) }(deep(1))
		wg.Add(-1)
		wg.Wait()
		func() {
			defer say("deferred with", deep(3))
			for i := range 3 {
				defer c.plus(i)
			}
			runner.Yield()
		}()
		say(c.n)
		done := make(chan int)
		go answer(done, deep(4))
		say(<-done)
	}},
	{"panics", func(say sayer) {
		func() {
			defer func() { say("recovered", recover()) }()
			say(must(fallible(101)))
		}()
		say(named(3))
		say(named(300))
	}},
}

//go:noinline
func pick(ch chan int) chan int {
	if deep(1) < 0 {
		return nil
	}
	return ch
}

func answer(done chan<- int, n int) { done <- deep(n & 15) }

func named(n int) (x int, err error) {
	defer func() { x += deep(1) }()
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v, %d", r, deep(x&3))
		}
	}()
	x = deep(n & 15)
	return must(fallible(n)), nil
}
