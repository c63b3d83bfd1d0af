package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func resource(t *testing.T, name string) *admit.Resource {
	t.Helper()
	return testenv.Need(admit.NewResource(name, ""))(t)
}

// What tasks of several loops and plain goroutines take adds up, while the loops run
// and after they have ended.
func TestResourceTotals(t *testing.T) {
	r := resource(t, "totals")
	taken, given := r.Totals()
	for _, loops := range []int{1, 2, 8} {
		rt, _ := newSimRuntime(t, loops, false)
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Add(1)
			rt.Go(func() {
				Acquire(r, 5)
				Yield()
				Release(r, int64(i%3))
				Release(r, 1)
				wg.Done()
			})
			Acquire(r, 2)
			Acquire(r, 1)
		}
		wg.Wait()
		taken += 40 * (5 + 2 + 1)
		given += 39 + 40
		if a, b := r.Totals(); a != taken || b != given {
			t.Errorf("%d loops: %d taken and %d given, want %d and %d", loops, a, b, taken, given)
		}
		rt.Close()
		if a, b := r.Totals(); a != taken || b != given || r.InUse() != int64(taken-given) {
			t.Errorf("%d loops, closed: %d taken and %d given, want %d and %d", loops, a, b, taken, given)
		}
	}
}

func TestResourceCountsAreNotNegative(t *testing.T) {
	r := resource(t, "negative")
	for name, call := range map[string]func(int64){"Acquire(-1)": func(n int64) { Acquire(r, n) }, "Release(-1)": func(n int64) { Release(r, n) }} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), name) {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			call(-1)
		}()
	}
	testenv.Equal(t, r.InUse(), 0, "in use")
}

// A runtime counts what its own tasks take and give, and what plain goroutines do while it is there; what was
// in use before counts as taken. Other runtimes show in it only by what they leave in use, and by what there is
// once in a process.
func TestARuntimeCountsForItself(t *testing.T) {
	r := resource(t, "own")
	want := func(rt *Runtime, taken, given uint64) {
		t.Helper()
		if a, b := rt.Books().Totals(r); a != taken || b != given || rt.Books().InUse(r) != int64(taken-given) {
			t.Errorf("%d taken and %d given, want %d and %d", a, b, taken, given)
		}
	}
	on := func(rt *Runtime, fn func()) { testenv.Must(t, rt.Go(fn).Join()) }
	Acquire(r, 7)
	Release(r, 6)
	one, two := oneOfMany(t, 2), oneOfMany(t, 1)
	want(one, 1, 0)
	on(one, func() { Acquire(r, 10); Release(r, 4); Progress(3) })
	want(one, 11, 4)
	want(two, 1, 0)
	if one.Done() != 3 || two.Done() != 0 {
		t.Errorf("%d and %d done", one.Done(), two.Done())
	}
	Acquire(r, 2)
	want(one, 13, 4)
	want(two, 3, 0)
	one.Close()
	want(one, 13, 4)
	want(two, 9, 0) // 6 are left
	Release(r, 9)
	want(two, 9, 9)
	testenv.Equal(t, r.InUse(), 0, "in use")
	three := oneOfMany(t, 1)
	want(three, 0, 0)
	if three.Counts(r) || !two.Counts(r) || !three.Counts(Tasks) {
		t.Error("what matters to a runtime")
	}
	before := three.Books().InUse(Descriptors)
	on(two, func() { Acquire(Descriptors, 5) })
	if n := three.Books().InUse(Descriptors); n != before+5 {
		t.Errorf("%d descriptors in use after %d, want 5 more", n, before)
	}
	Release(Descriptors, 5)
}
