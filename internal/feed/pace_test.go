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
		share       float64
		calm, told  bool
		steps       func(now time.Duration) uint64
		least, most int
	}{
		{"busy", 1, true, false, func(now time.Duration) uint64 { return uint64(now) + 1 }, 1000, 1001},
		{"idle", 1, true, true, func(time.Duration) uint64 { return 0 }, 15, 20},
		{"idle, and something is scarce", 1, false, true, func(time.Duration) uint64 { return 0 }, 100, 101},
		{"idle, but for a step that goes on", 1, true, false, func(time.Duration) uint64 { return 0 }, 100, 101},
		{"few tasks now and then", 1, true, true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 100, 101},
		{"few tasks that take a twentieth", 0.05, true, true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 50, 51},
		{"few tasks that take next to nothing", 0.01, true, true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 20, 21},
		{"few tasks that take next to nothing, and something is scarce", 0.01, false, true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 1000, 1001},
		{"few tasks now and then, and something is scarce", 1, false, true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 1000, 1001},
		{"a step a second", 1, true, true, func(now time.Duration) uint64 { return uint64(now / time.Second) }, 100, 120},
		{"busy for a second, then idle", 1, true, true, func(now time.Duration) uint64 { return uint64(min(now, time.Second)) }, 20, 35},
	} {
		var p pace
		readings := 0
		for now := time.Duration(0); now < span; readings++ {
			now += p.next(c.steps(now), c.share, c.calm, c.told)
		}
		if readings < c.least || readings > c.most {
			t.Errorf("%s: %d readings in %v, want %d to %d", c.name, readings, span, c.least, c.most)
		}
	}
}
