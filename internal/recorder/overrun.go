//go:build linux

package recorder

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// Overran records that the step that has just been recorded, of a task with that name, has held its loop too long. stack
// is empty where it was not taken, because the last report was too recent.
func (s *Shard) Overran(task string, lasted time.Duration, stack string) {
	e := s.last
	if e == nil || e == &s.lost {
		return
	}
	e.stats.overruns++
	if stack != "" {
		s.g.overran(bgraph.Overrun{
			Loop: s.number, At: time.Now(), Held: bgraph.Nanos(lasted), Task: task, Stack: stack,
			From: s.g.Key(e.from), To: s.g.Key(e.to.id),
		})
	}
}

// Overruns records that a step holds the loop too long and is not over. from is where the task last was. It may be called
// from any goroutine.
func (s *Shard) Overruns(task string, from NodeID, lasted time.Duration, stack string) {
	s.g.overran(bgraph.Overrun{
		Loop: s.number, At: time.Now(), Held: bgraph.Nanos(lasted), Task: task, Stack: stack,
		From: s.g.Key(from), To: bgraph.KeyStart,
	})
}

// overran notes a report of the watchdog.
func (g *Graph) overran(o bgraph.Overrun) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n := len(g.overruns); n == graphlimits.Overruns {
		g.overruns = append(g.overruns[:0:0], g.overruns[1:]...)
	}
	g.overruns = append(g.overruns, o)
}
