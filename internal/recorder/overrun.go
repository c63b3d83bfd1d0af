package recorder

import (
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/graphlimits"
)

// Overran implements engine.Observer.
func (s *shard) Overran(name string, from engine.NodeID, lasted time.Duration, stack string, ended bool) {
	o := bgraph.Overrun{Loop: s.number, At: time.Now(), Held: bgraph.Nanos(lasted), Task: name, Stack: stack, To: bgraph.KeyStart}
	if !ended { // on another thread
		o.From = s.g.Key(from)
		s.g.overran(o)
		return
	}
	e := edgeOf(s.tally.Last)
	if e == nil || e == &s.lost {
		return
	}
	e.stats.overruns++
	if stack != "" {
		o.From, o.To = s.g.Key(e.from), s.g.Key(e.to)
		s.g.overran(o)
	}
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
