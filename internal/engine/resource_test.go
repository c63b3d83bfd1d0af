package engine

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func resource(t *testing.T, name string) *Resource {
	t.Helper()
	r, err := NewResource(name, "")
	testenv.Must(t, err)
	return r
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
				r.Acquire(5)
				Yield()
				r.Release(int64(i % 3))
				r.Release(1)
				wg.Done()
			})
			r.Acquire(2)
			r.Acquire(1)
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
	for name, call := range map[string]func(int64){"Acquire(-1)": r.Acquire, "Release(-1)": r.Release} {
		func() {
			defer func() {
				if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), name) {
					t.Errorf("%s: panic %v", name, v)
				}
			}()
			call(-1)
		}()
	}
	if r.InUse() != 0 {
		t.Errorf("%d in use", r.InUse())
	}
}

func TestResourceNames(t *testing.T) {
	r := resource(t, "once")
	if resource(t, "once") != r {
		t.Error("a second resource of the same name")
	}
	if _, err := NewResource("once", "bytes"); err == nil {
		t.Error("the same name with another unit is accepted")
	}
	if _, err := NewResource("", ""); err == nil {
		t.Error("an empty name is accepted")
	}
	if r.SetLimit(7); r.Limit() != 7 || r.Name() != "once" || r.Unit() != "" {
		t.Errorf("name %q, unit %q, limit %d", r.Name(), r.Unit(), r.Limit())
	}
}

func TestAsManyResourcesAsThereMayBe(t *testing.T) {
	resources.mu.Lock()
	kept := resources.all
	resources.mu.Unlock()
	defer func() {
		resources.mu.Lock()
		resources.all = kept
		resources.mu.Unlock()
	}()
	for i := len(kept); i < MaxResources; i++ {
		resource(t, fmt.Sprint("filler ", i))
	}
	if _, err := NewResource("one too many", ""); err == nil {
		t.Errorf("resource %d is accepted, want at most %d", MaxResources+1, MaxResources)
	}
}
