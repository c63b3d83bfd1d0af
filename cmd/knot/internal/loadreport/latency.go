package loadreport

import (
	"math/bits"
	"sync/atomic"
	"time"
)

const (
	// levels are the powers of two of requests in flight that are told apart.
	levels = 20
	// latencyKeep is for how long what is known of a level counts once others come: the load of a minute ago says little.
	latencyKeep = 10 * time.Second
	// latencyPart is the weight of a new latency.
	latencyPart = 0.05
)

// latencies are how long requests took, by how many there were when they came: a server that has few now will be as fast as it
// was when it had few. The zero value knows nothing. Safe from anywhere.
type latencies [levels]struct {
	mean atomic.Int64 // in nanoseconds; 0: unknown
	at   atomic.Int64 // when it was last changed, by Source.Now
}

func levelOf(n int64) int { return min(bits.Len64(uint64(max(n, 1)))-1, levels-1) }

// add takes up a request that came as the n-th, took so long, and has ended now.
func (l *latencies) add(n int64, took, now time.Duration) {
	at := &l[levelOf(n)]
	mean := at.mean.Load()
	if last := at.at.Swap(int64(now)); mean == 0 || now-time.Duration(last) > latencyKeep {
		mean = int64(took)
	} else {
		mean += int64(float64(int64(took)-mean) * latencyPart)
	}
	at.mean.Store(max(mean, 1)) // of two at a time one may be lost
}

// at is how long a request is likely to take beside n others; 0: unknown. Of levels without a request the next one counts, first
// the ones below.
func (l *latencies) at(n int64) time.Duration {
	level := levelOf(n + 1)
	for i := level; i >= 0; i-- {
		if mean := l[i].mean.Load(); mean != 0 {
			return time.Duration(mean)
		}
	}
	for i := level + 1; i < levels; i++ {
		if mean := l[i].mean.Load(); mean != 0 {
			return time.Duration(mean)
		}
	}
	return 0
}
