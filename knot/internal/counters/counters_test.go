package counters

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestCountersAddUp(t *testing.T) {
	var c Counters
	told := 0
	for range 2 * shards {
		b := NewBatch()
		for _, r := range []struct {
			status int
			took   time.Duration
		}{{200, 0}, {204, time.Microsecond}, {404, time.Minute}, {200, time.Hour}, {599, 0}} {
			told += b.Add(&c, r.status, 10, r.took)
		}
		told += b.Tell(&c)
		told += b.Tell(&c)
	}
	const n = 2 * shards
	sum := c.Sum()
	testenv.Equal(t, told, 5*n, "responses that have been told")
	testenv.Equal(t, sum.Responses, [...]uint64{2: 3 * n, 4: n, 5: n})
	testenv.Equal(t, sum.Bytes, 50*n, "bytes")
	testenv.Equal(t, len(sum.Errors), 1, "statuses that are counted by themselves")
	testenv.Equal(t, sum.Errors[404], n, "of 404")
	d := sum.Durations
	testenv.Equal(t, d.Count, 3*n, "durations")
	testenv.Equal(t, d.Counts[0], n, "the shortest")
	testenv.Equal(t, d.Counts[len(d.Counts)-1], n, "the longest that is counted")
	testenv.Equal(t, d.Sum, n*(time.Microsecond+time.Minute+time.Hour))
}
