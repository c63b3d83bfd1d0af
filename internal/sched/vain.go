package sched

import "time"

// A vain finds out that holding tasks up wins nothing back of what is Collected: what alone brings it to its
// limit is held by nothing that was let in, like a cache, and has not become less for a while.
//
//	          as much as the limit allows is held by others
//	no limit ───────────────────────────────────────────────▶ trying ──────────────▶ in vain
//	    ▲                                                       ▲  │  no less for a while  │
//	    │                                                       ╰──│───────────────────────┤ much more, or less
//	    ╰──────────────────────────────────────────────────────────┴───────────────────────╯
//	                              they hold clearly less
//
// In vain, vainRoom of the limit is for those that come whatever others hold, and pressure of that resource is not what
// those do who are inside. If that makes others hold much more, it is tried again.
type vain struct {
	on    bool
	at    bool          // others hold as much as the limit allows
	since time.Duration // when it was first so much, within the margin; if at
	base  float64       // what others held then
}

// vainRoom is the share of the limit that those may take who come in vain.
const vainRoom = 0.02

// look takes what others hold. after is how long holding up is tried.
func (v *vain) look(now time.Duration, others, limit float64, s *Spec, after time.Duration) {
	share := s.Target
	if v.at {
		share -= s.Margin
	}
	if !(others >= share*limit) {
		*v = vain{}
		return
	}
	if moved := s.Margin * max(limit, v.base); !v.at || others > v.base+moved || others < v.base-moved {
		*v = vain{at: true, since: now, base: others}
	}
	v.on = v.on || now-v.since >= after
}

// tryFor is how long holding up is tried before it is in vain. The ledger is locked, and recount has been called.
func (l *Ledger) tryFor(a *account) time.Duration {
	if l.idle && (a.known || l.empty()) {
		return heldUpAfter
	}
	return stuckAfter // those inside may yet give back what is not known to be theirs
}

// InVain reports whether nothing is won back of r by holding tasks up, as what was let in holds little of it: how
// much that is, what is in use, and the limit.
func (l *Ledger) InVain(r ResourceID) (inside, used, limit float64, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(r)
	if a == nil || !a.vain.on {
		return 0, 0, 0, false
	}
	return a.pledges.Mean, a.used, a.limit, true
}
