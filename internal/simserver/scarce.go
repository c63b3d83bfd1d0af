//go:build linux

package simserver

import (
	"fmt"
	"time"
)

// A gauge watches how much of something is in use.
type gauge struct {
	name string
	// used is the share in use, 0 to 1, or, if summed, for how long all of it has been.
	used   func() float64
	summed bool
	last   [gaugeOver]float64 // the latest readings, in a ring
	n      int                // of readings
}

const (
	gaugeEvery = 10 * time.Millisecond
	gaugeOver  = 10 // readings
	// halfGone is the time after which a half-closed client may have given up waiting.
	halfGone = 500 * time.Millisecond
	// scarce is the share in use from which on a resource is scarce.
	scarce = 0.8
)

// share is the share of the resource that was in use lately.
func (g *gauge) share() float64 {
	now := g.used()
	if !g.summed {
		for _, v := range g.last[:min(g.n, gaugeOver)] {
			now = max(now, v)
		}
		return now
	}
	n := min(g.n, gaugeOver)
	return (now - g.last[(g.n-n)%gaugeOver]) / (float64(n) * gaugeEvery.Seconds())
}

// Gauge has a resource watched that is neither a loop nor memory nor descriptors: used is
// the share of it in use, or, if summed, for how many seconds all of it has been.
func (s *Server) Gauge(name string, summed bool, used func() float64) {
	s.gauges = append(s.gauges, &gauge{name: name, summed: summed, used: used})
}

// gauge begins to watch, and looks at each refusal whether anything was scarce.
func (s *Server) gauge() {
	for _, c := range s.cpus {
		s.Gauge(fmt.Sprint("loop ", c.index), true, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return c.busy.Seconds()
		})
	}
	s.Gauge("descriptors", false, func() float64 { return float64(s.Net.Open()) / float64(s.cfg.FDs) })
	if s.cfg.Memory > 0 {
		s.Gauge("memory", false, func() float64 { return float64(s.Memory.Held()) / float64(s.cfg.Memory) })
	}
	var look func()
	look = func() {
		for _, g := range s.gauges {
			g.last[g.n%gaugeOver] = g.used()
			g.n++
		}
		s.After(gaugeEvery, look)
	}
	look()
	if s.cfg.MayRefuse {
		return
	}
	s.Clients.Refused = func(r *Request) {
		if r.half && r.Took() > halfGone { // it may be gone, see disconnectedAfter of package admit
			return
		}
		most, of := 0.0, ""
		for _, g := range s.gauges {
			if v := g.share(); v >= most {
				most, of = v, g.name
			}
		}
		if most < scarce {
			s.fault("request %s was refused after %v, with nothing scarce: of %s, which is the fullest, %.0f %% is in use", r.Path, r.Took(), of, 100*most)
		}
	}
}
