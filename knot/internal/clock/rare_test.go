package clock

import (
	"testing"
	"time"
)

func TestRareIsLoggedRarely(t *testing.T) {
	var r Rare
	for _, c := range []struct {
		at     time.Duration
		untold int64
		due    bool
	}{{0, 0, true}, {1, 0, false}, {rareEvery - 1, 0, false}, {rareEvery + 1, 2, true}, {rareEvery + 2, 0, false}, {3 * rareEvery, 1, true}} {
		if untold, due := r.Due(int64(c.at)); untold != c.untold || due != c.due {
			t.Errorf("at %v: %d, %v; want %d, %v", c.at, untold, due, c.untold, c.due)
		}
	}
}
