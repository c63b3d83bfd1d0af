package proxy

import (
	"slices"
	"sync/atomic"
)

// A cause is why a request could not be passed on.
type cause uint8

const (
	causeNoBackend cause = iota // none is well
	causeQueue                  // too many wait, or it has waited too long
	causeConnect                // it can't be reached
	causeTimeout                // it does not answer in time
	causeBroken                 // the connection has broken
	causeMalformed              // what it says is not the protocol
	causeGone                   // the client has gone
	causeLate                   // its client waits no longer, or has taken too long
	causes
)

var causeNames = [causes]string{"no backend", "queue", "connect", "timeout", "broken", "malformed", "client gone", "deadline"}

// String is the name of c in metrics.
func (c cause) String() string { return causeNames[c] }

// counts are the counters of a backend; all atomic.
type counts struct {
	status                          [6]atomic.Uint64 // by class
	failures                        [causes]atomic.Uint64
	dials, queued, retries, tunnels atomic.Uint64
	overBudget, ejected             atomic.Uint64
	mirrored, dropped               atomic.Uint64
	openTunnels                     atomic.Int64
}

// BackendStats count the requests of a backend since the Proxy was made.
type BackendStats struct {
	Name string // address of the backend, as in Config.Backends
	// Responses by class of their status; [1] counts tunnels.
	Responses [6]uint64
	// Failures by cause: "no backend", "queue", "connect", "timeout", "broken", "malformed", "client gone", and
	// "deadline": the client waits no longer (knot.Server.TimeoutHeader), or takes the response too slowly for
	// TotalTimeout. Failures that another try has mended count too. "no backend" is with the first
	// backend at the next call of Stats.
	Failures map[string]uint64
	// Dials are connections made or tried, Queued requests that had to wait for one, Retries requests that came
	// from another try.
	Dials, Queued, Retries uint64
	// OverBudget are requests that RetryShare has kept from another try.
	OverBudget uint64
	// Ejected counts how often it was taken out, for its failures or by checks.
	Ejected uint64
	// Mirrored are the copies of requests that were sent to it, Dropped the copies that were not made: too many were under way, or
	// requests waited, or no backend of the Mirror was well. Dropped is with the first backend of the
	// Mirror at the next call of Stats.
	Mirrored, Dropped uint64
	// Weight is what it counts for in the balance now; less than what was set while it starts slowly.
	Weight float64
	// Requests and tunnels that are here now, waiting ones included, and the tunnels of them.
	Outstanding, Tunnels int64
	// Up: it gets requests, or, if it was removed, a backend of that name that came later does.
	Up bool
}

// isIdle reports whether no request is here.
func (b *backend) isIdle() bool { return b.outstanding.Load() == 0 }

// Stats returns the counters of each backend, those of Canary and Mirror too, and of removed backends that still have requests.
// Safe from anywhere; it never parks.
func (p *Proxy) Stats() []BackendStats {
	now := p.clock()
	p.mu.Lock()
	p.leaving = slices.DeleteFunc(p.leaving, (*backend).isIdle)
	backends := p.all()
	if len(backends) > 0 { // these counts stay here when another backend becomes the first
		c := &backends[0].counts
		c.failures[causeNoBackend].Add(p.noBackend.Swap(0))
		c.dropped.Add(p.dropped.Swap(0))
	}
	backends = append(backends, p.leaving...)
	p.mu.Unlock()
	all := make([]BackendStats, 0, len(backends))
	for _, b := range backends {
		c := &b.counts
		s := BackendStats{
			Name: b.name, Failures: make(map[string]uint64), Dials: c.dials.Load(), Queued: c.queued.Load(), Retries: c.retries.Load(),
			Outstanding: b.outstanding.Load(), Tunnels: c.openTunnels.Load(), Up: !b.sick.Load() && b.downUntil.Load() <= now,
			OverBudget: c.overBudget.Load(), Ejected: c.ejected.Load(), Mirrored: c.mirrored.Load(), Dropped: c.dropped.Load(), Weight: b.currentWeight(),
		}
		if b.removed.Load() { // it may have come back
			at := slices.IndexFunc(all, func(o BackendStats) bool { return o.Name == b.name })
			s.Up = at >= 0 && all[at].Up
		}
		for i := range c.status {
			s.Responses[i] = c.status[i].Load()
		}
		for cause := range causes {
			s.Failures[cause.String()] = c.failures[cause].Load()
		}
		all = append(all, s)
	}
	if p.mirror != nil {
		all = append(all, p.mirror.to.Stats()...)
	}
	return all
}
