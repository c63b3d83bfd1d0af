package engine

import (
	"fmt"
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
		joined := spread(t, rt, 40, func(i int) {
			Acquire(r, 5)
			Yield()
			Release(r, int64(i%3))
			Release(r, 1)
		})
		for range 40 {
			Acquire(r, 2)
			Acquire(r, 1)
		}
		joined()
		taken += 40 * (5 + 2 + 1)
		given += 39 + 40
		for _, when := range []string{"open", "closed"} {
			a, b := r.Totals()
			testenv.Equal(t, a, taken, "%d loops, %s: taken", loops, when)
			testenv.Equal(t, b, given, "%d loops, %s: given", loops, when)
			testenv.Equal(t, r.InUse(), int64(taken-given), "%d loops, %s: in use", loops, when)
			rt.Close()
		}
	}
}

func TestResourceCountsAreNotNegative(t *testing.T) {
	r := resource(t, "negative")
	for name, call := range map[string]func(*admit.Resource, int64){"Acquire(-1)": Acquire, "Release(-1)": Release} {
		v := testenv.MustPanic(t, name, func() { call(r, -1) })
		testenv.Contains(t, fmt.Sprint(v), name)
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
		a, b := rt.Books().Totals(r)
		testenv.Equal(t, a, taken, "taken")
		testenv.Equal(t, b, given, "given")
		testenv.Equal(t, rt.Books().InUse(r), int64(taken-given), "in use")
	}
	Acquire(r, 7)
	Release(r, 6)
	one, two := oneOfMany(t, 2), oneOfMany(t, 1)
	want(one, 1, 0)
	run(t, one, func() { Acquire(r, 10); Release(r, 4); Progress(3) })
	want(one, 11, 4)
	want(two, 1, 0)
	testenv.Equal(t, one.Done(), 3, "done by one")
	testenv.Equal(t, two.Done(), 0, "done by two")
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
	testenv.Equal(t, three.Counts(r), false, "three counts it")
	testenv.Equal(t, two.Counts(r), true, "two counts it")
	testenv.Equal(t, three.Counts(Tasks), true, "three counts Tasks")
	before := three.Books().InUse(Descriptors)
	run(t, two, func() { Acquire(Descriptors, 5) })
	testenv.Equal(t, three.Books().InUse(Descriptors), before+5, "descriptors in use")
	Release(Descriptors, 5)
}
