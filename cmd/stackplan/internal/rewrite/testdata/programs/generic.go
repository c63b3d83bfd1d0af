package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
)

func apply[T, U any](in []T, f func(T) U) []U {
	var list []U
	for _, v := range in {
		u := f /*checkpoint*/ (v)
		list = append(list, u)
	}
	return list
}

type numeric interface{ ~int | ~float64 }

func sum[N numeric](ns ...N) (total N) {
	for _, n := range ns {
		total = plus /*checkpoint*/ (total, n)
	}
	return total
}

func plus[N numeric](a, b N) N { return a + b }

type list[T any] struct {
	head *node[T]
	n    int
}

type node[T any] struct {
	v    T
	next *node[T]
}

func (l *list[T]) push(v T) *list[T] {
	l.head = link /*checkpoint*/ (v, l.head)
	l.n++
	return l
}

func link[T any](v T, next *node[T]) *node[T] { return &node[T]{v, next} }

func (l *list[E]) each(f func(int, E) bool) {
	i := 0
	for n := l.head; n != nil; n = n.next {
		if !f(i, n.v) {
			return
		}
		i++
	}
}

func (l *list[_]) size() int {
	return number /*checkpoint*/ (l.n) + l.count /*refused: its type parameter _*/ ()
}
func (l *list[_]) count() int {
	return l.n
}

type stringer interface {
	comparable
	String() string
}

type id int

func (i id) String() string { return fmt.Sprint("id", int(i)) }

func show[S stringer](a, b S) string {
	if a == b {
		return a.String /*checkpoint*/ ()
	}
	text := a.String() + b.String /*checkpoint*/ ()
	return text
}

type tree[K cmp.Ordered, V any] struct {
	left, right *tree[K, V]
	k           K
	v           V
}

func (t *tree[K, V]) put(k K, v V) *tree[K, V] {
	if t == nil {
		return &tree[K, V]{k: k, v: v}
	}
	switch c := cmp.Compare /*checkpoint*/ (k, t.k); {
	case c < 0:
		t.left = t.left.put /*checkpoint*/ (k, v)
	case c > 0:
		t.right = t.right.put(k, v)
	default:
		t.v = v
	}
	return t
}

func (t *tree[K, V]) walk(yield func(K, V) bool) bool {
	return t == nil || t.left.walk(yield) && yield(t.k, t.v) && t.right.walk(yield)
}

func reduce[T any, A any](s []T, start A, f func(A, T) A) A {
	for _, v := range s {
		start = f /*checkpoint*/ (start, v)
	}
	return start
}

func pick[M ~map[K]V, K comparable, V any](m M, k K) (V, bool) {
	get := func() (V, bool) { v, ok := m[k]; return v, ok }
	v, ok := get /*checkpoint*/ ()
	return v, ok
}

func shadowed[T any](v T) string {
	describe := func(T any) string { return fmt.Sprint(T, pair /*refused: means something else*/ (v, v)) }
	return describe(v)
}

func pair[T any](a, b T) [2]T { return [2]T{a, b} }

func inside[T any](v T) any {
	type local struct{ v T }
	mk := func(v T) local { return local{v} }
	return mk(v)
}

var _ = add("generics", func() {
	say(apply /*checkpoint*/ ([]int{1, 2}, func(i int) string { return fmt.Sprint(i * 2) }))
	say(sum[int] /*checkpoint*/ (1, 2, 3), sum(1.5, 2), sum[int]())
	l := new(list[string])
	l.push /*checkpoint*/ ("a").push("b").push(noted("c"))
	for i, v := range l.each {
		say(i, v)
	}
	say(l.size())
	say(show(id(1), id(1)), show(id(1), id(2)))
	var t *tree[string, int]
	for i, k := range []string{"m", "c", "x", "a", "m"} {
		t = t.put(k, i)
	}
	for k, v := range func(yield func(string, int) bool) { t.walk(yield) } {
		say(k, v)
	}
	say(reduce([]int{1, 2, 3}, "", func(a string, i int) string { return a + fmt.Sprint(i) }))
	say(pick(map[string]int{"a": 1}, "a"))
	say(shadowed(1), fmt.Sprintf("%v", inside(3)))
	say(slices.SortedFunc /*checkpoint*/ (maps.Keys(map[int]bool{3: true, 1: true}), func(a, b int) int { return b - a }))
	f := plus[float64]
	say(f(1, 2), pair[any] /*checkpoint*/ (1, "x"), pair[error](nil, nil))
	once := sync.OnceValue(func() int { return number(7) })
	say(once(), once())
})
