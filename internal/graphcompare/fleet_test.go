package graphcompare

import (
	"math"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The processes of a fleet wait for the lock so long, in milliseconds; -1 fails.
func TestFleet(t *testing.T) {
	for _, c := range []struct {
		locks []float64
		want  []int // those that differ
	}{
		{[]float64{1, 1, 9, 1}, []int{2}},
		{[]float64{-1, 1, 9, 1}, []int{2}},
		{[]float64{1, 9, 9, 1, 1, 1, 1, 1}, []int{1, 2}},
		{[]float64{1, 1, 1.4, 1}, nil},  // 5 % more, but not twice as much
		{[]float64{1, 5, 9, 3, 7}, nil}, // each has another share
		{[]float64{0.1, 0.1, 0.3}, nil}, // 3 % of its time
		{[]float64{1, 9}, []int{0, 1}},  // the first waits for work
		{[]float64{9}, nil},
		{[]float64{-1, 9}, nil},
	} {
		sources := make([]bgraph.Source, len(c.locks))
		var f Fleet
		for i, ms := range c.locks {
			if ms < 0 {
				sources[i].Failed = "no"
				continue
			}
			f.Add(&sources[i], usualScene.with(func(sc *scene) { sc.lockWait = ms }).snapshot())
		}
		f.Mark(sources)
		var got []int
		for i, from := range sources {
			if len(from.Places) > 0 {
				got = append(got, i)
				if c.locks[i] > 1 {
					testenv.Equal(t, from.Places[0].Node, sceneLock, "%v", c.locks)
				}
			}
			if from.Failed == "" && (from.Steps != 1000 || from.CPU != 1e8 || from.Span != 1e9) {
				t.Errorf("got %+v", from)
			}
		}
		testenv.EqualSlices(t, got, c.want, "%v", c.locks)
	}
	sources := make([]bgraph.Source, 4)
	var f Fleet
	for i, s := range side(usualScene, 1, 1, 9, 1) {
		f.Add(&sources[i], s)
	}
	f.Mark(sources)
	// 9 goroutines wait for the lock, 5 for work, 0.1 for queries, and 0.1 run.
	if p := sources[2].Places[0]; math.Abs(p.Share-9/14.2) > 0.01 || math.Abs(p.Others-1/6.2) > 0.01 {
		t.Errorf("got %+v", p)
	}
}
