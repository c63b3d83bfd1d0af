package feed

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Collections that take long are forced seldom, and those that take no time as often as they are asked for.
func TestForcedCollectionsKeepToTheirBudget(t *testing.T) {
	for _, takes := range []time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond} {
		var now, spent time.Duration
		c := collector{now: func() time.Duration { return now }}
		runs := 0
		c.run = func() {
			runs++
			now += takes
			spent += takes
		}
		const asked = 10_000
		for range asked {
			c.collect()
			now += 10 * time.Millisecond
		}
		if takes == 0 {
			testenv.Equal(t, runs, asked, "collections that take no time")
			continue
		}
		share := spent.Seconds() / now.Seconds()
		testenv.AtMost(t, share, 0.041, "collections of %v take so much of the time", takes)
		testenv.AtLeast(t, share, 0.03, "collections of %v take so much of the time", takes)
	}
}
