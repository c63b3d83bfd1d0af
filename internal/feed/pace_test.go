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
		calm        bool
		steps       func(now time.Duration) uint64
		least, most int
	}{
		{"busy", true, func(now time.Duration) uint64 { return uint64(now) + 1 }, 1000, 1001},
		{"idle", true, func(time.Duration) uint64 { return 0 }, 15, 20},
		{"idle, and something is scarce", false, func(time.Duration) uint64 { return 0 }, 100, 101},
		{"a step a second", true, func(now time.Duration) uint64 { return uint64(now / time.Second) }, 100, 120},
		{"busy for a second, then idle", true, func(now time.Duration) uint64 { return uint64(min(now, time.Second)) }, 110, 125},
	} {
		var p pace
		readings := 0
		for now := time.Duration(0); now < span; readings++ {
			now += p.next(c.steps(now), c.calm)
		}
		if readings < c.least || readings > c.most {
			t.Errorf("%s: %d readings in %v, want %d to %d", c.name, readings, span, c.least, c.most)
		}
	}
}
