package admit

import "time"

// futility detects that refusing work will not free a Collected resource: admitted tasks hold little of it, and what else
// the process holds, such as a cache, fills the limit by itself. It is found after futileAfter, and is over as soon as
// others hold clearly less. Meanwhile futileRoom of the limit is for newcomers whatever others hold, and the pressure of
// the resource does not count as load.
type futility struct {
	found bool
	full  bool          // others hold as much as the limit allows
	since time.Duration // when full became true
}

// look takes how much others hold of the limit.
func (f *futility) look(now time.Duration, others, limit float64, s *Spec) {
	share := s.Target
	if f.full {
		share -= s.Margin
	}
	switch {
	case !(others >= share*limit):
		*f = futility{}
	case !f.full:
		f.full, f.since = true, now
	}
	f.found = f.full && now-f.since >= futileAfter
}

// Futile reports whether refusing work will not free r, as admitted tasks hold little of it: how much that is, how much is
// in use, and the limit.
func (l *Ledger) Futile(r ResourceID) (inside, used, limit float64, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.account(r)
	if a == nil || !a.futile.found {
		return 0, 0, 0, false
	}
	return a.reserved.Mean, a.used, a.limit, true
}
