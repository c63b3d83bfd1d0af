package feed

import (
	"testing"
	"time"
)

// How many readings are made in ten seconds by the clock that readings are made by.
func TestHowOftenReadingsAreMade(t *testing.T) {
	const span = 10 * time.Second
	for _, c := range []struct {
		name        string
		calm, light bool
		steps       func(now time.Duration) uint64
		least, most int
	}{
		{"busy", true, false, func(now time.Duration) uint64 { return uint64(now) + 1 }, 1000, 1001},
		{"idle", true, true, func(time.Duration) uint64 { return 0 }, 15, 20},
		{"idle, and something is scarce", false, true, func(time.Duration) uint64 { return 0 }, 100, 101},
		{"idle, but for a step that goes on", true, false, func(time.Duration) uint64 { return 0 }, 100, 101},
		{"few tasks now and then", true, true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 100, 101},
		{"few tasks now and then, and something is scarce", false, true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 1000, 1001},
		{"a step a second", true, true, func(now time.Duration) uint64 { return uint64(now / time.Second) }, 100, 120},
		{"busy for a second, then idle", true, true, func(now time.Duration) uint64 { return uint64(min(now, time.Second)) }, 20, 35},
	} {
		var p pace
		readings := 0
		for now := time.Duration(0); now < span; readings++ {
			now += p.next(c.steps(now), c.calm, c.light)
		}
		if readings < c.least || readings > c.most {
			t.Errorf("%s: %d readings in %v, want %d to %d", c.name, readings, span, c.least, c.most)
		}
	}
}
