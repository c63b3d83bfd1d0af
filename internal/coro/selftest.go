package coro

import (
	"fmt"
	"slices"
	"sync"
)

// Check reports whether direct switches work with this Go release: whether the two ends
// of an iter.Pull may be called by other goroutines than its own two, in the way that
// asEnds calls them. The Go documentation does not promise that. Check finds it out
// once, by switching round a small ring. If it returns an error, only coroutines made by
// InitPlain may be used, and only switches between a coroutine and its ring's own goroutine.
var Check = sync.OnceValue(func() error {
	result := make(chan error, 1)
	go func() {
		done := false
		defer func() {
			if v := recover(); v != nil {
				result <- fmt.Errorf("coro: a direct switch panicked: %v", v)
			} else if !done {
				result <- fmt.Errorf("coro: a direct switch ended its goroutine")
			}
		}()
		got := walk([]int{0, 1, 2, 1, 0, 2, 0, 1})
		done = true
		if want := []int{0, 1, 2, 1, 0, 2, 0, 1}; !slices.Equal(got, want) {
			result <- fmt.Errorf("coro: direct switches ran coroutines in the order %v, want %v", got, want)
			return
		}
		result <- nil
	}()
	return <-result
})

// walk makes three coroutines switch to each other in the given order, returns the one
// in which they ran, and ends them.
func walk(order []int) (ran []int) {
	var loop Party
	var members [3]Coro
	at, closing, alive := 0, false, len(members)
	next := func(from *Party) {
		if at++; at < len(order) {
			Switch(from, &members[order[at]].Party)
		} else {
			Switch(from, &loop)
		}
	}
	for i := range members {
		c := &members[i]
		c.Init(func(yield func(struct{}) bool) {
			c.Enter(yield)
			for !closing {
				ran = append(ran, i)
				next(&c.Party)
			}
			alive--
			c.own.ends = [2]func() bool{}
		})
	}
	Switch(&loop, &members[order[0]].Party)
	closing = true
	for i := range members {
		if members[i].own.ends[nextDue] != nil {
			Switch(&loop, &members[i].Party)
		}
	}
	if alive != 0 {
		panic(fmt.Sprintf("%d of the coroutines did not end", alive))
	}
	return ran
}
