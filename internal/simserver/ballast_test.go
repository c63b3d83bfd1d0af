//go:build linux

package simserver

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/feed"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Something that was not let in, like a cache, holds up to all the heap that there may be. Requests that hold little
// beside it go on as with fifo, none is refused, the log tells of it once, and the collector is left alone soon.
func TestAHeapThatIsFullOfSomethingElse(t *testing.T) {
	const limit = 110 << 20
	for _, percent := range []int{80, 98, 94, 96}[:testenv.Rounds(2, 4)] {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			forced := 0
			run := func(scheduler string, log *bytes.Buffer) *Result {
				cfg := Config{Seed: 1, Memory: limit, Scheduler: scheduler, Log: log}
				return onMix(t, cfg, 1, func(s *Server, m *Mix) time.Duration {
					s.Memory.Hold(limit / 100 * percent)
					s.Memory.Collect()
					until := s.Now() + 1500*time.Millisecond
					s.Clients.ClosedLoop(&Habit{Path: lan, Make: asks("h2000.s20000"), KeepAlive: true}, 200, 0, until)
					s.At(until, func() {
						s.Memory.Release(limit / 100 * percent)
						forced = s.Memory.forced
					})
					return until
				})
			}
			var log bytes.Buffer
			fifo, ours := run(feed.FIFO, new(bytes.Buffer)), run("", &log)
			said, c := strings.Count(log.String(), "the heap is at its limit"), ours.Clients
			lines := 1
			if percent < 90 {
				lines = 0
			}
			want(t, c.Statuses[503] == 0 && c.Statuses[200] > fifo.Clients.Statuses[200]*3/4 && c.Quantile(1) < time.Second &&
				said == lines && forced <= 4 && len(ours.Broken) == 0 && !ours.Killed,
				c.Statuses, "with fifo", fifo.Clients.Statuses, "longest", c.Quantile(1), said, "lines", forced, "collections", ours.Broken)
		})
	}
}

// What was let in holds the heap: that is no reason to let more in.
func TestAHeapThatIsFullOfRequests(t *testing.T) {
	var log bytes.Buffer
	r := onMix(t, Config{Seed: 1, Memory: 110 << 20, Log: &log, Patience: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
		s.Memory.Hold(40 << 20)
		s.Memory.Collect()
		until := s.Now() + 4*time.Second
		s.Clients.ClosedLoop(&Habit{Path: lan, Make: asks("h2000000.s900000"), KeepAlive: true}, 100, 3*time.Second, until)
		s.At(until, func() { s.Memory.Release(40 << 20) })
		return until
	})
	want(t, !r.Killed && len(r.Broken) == 0 && !strings.Contains(log.String(), "the heap is at its limit"), r, r.Broken, log.String())
}
