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
// those do who are inside. If others hold much more then, it is tried again, four times as long each time: that may be
// what those brought that came, like connections.
type vain struct {
	on    bool
	at    bool          // others hold as much as the limit allows
	since time.Duration // when it was first so much, within the margin; if at
	base  float64       // what others held then
	grew  int           // how often others held much more while it was in vain
}

const (
	vainAfter = 200 * time.Millisecond
	vainRoom  = 0.02             // share of the limit that those may take who come in vain
	vainAgain = 10 * time.Second // how long it is tried when others have come to hold more, at first
	vainMost  = 4                // times that this becomes four times as long
)

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
		grew := v.grew
		if v.on && others > v.base {
			grew++
		}
		*v = vain{at: true, since: now, base: others, grew: grew}
	}
	if v.grew > 0 {
		after = vainAgain << (2 * min(v.grew-1, vainMost))
	}
	v.on = v.on || now-v.since >= after
}

// tryFor is how long holding up is tried before it is in vain. The ledger is locked, and recount has been called.
func (l *Ledger) tryFor(a *account) time.Duration {
	if l.idle && (a.known || l.empty()) {
		return vainAfter
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
