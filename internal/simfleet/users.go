package simfleet

import "time"

// important is the priority of important requests: that of an urgency of 1, where others have 3.
const important = 2

// A user asks, waits, asks again if that fails, and thinks.
//
//	          asks                   an answer that is good
//	thinking ─────▶ waiting ──────────────────────────────────▶ thinking
//	                 │   ▲ asks again, after a pause
//	                 ▼   │
//	                failed ── the fourth time: gives up ───────▶ thinking
type user struct {
	attempts int // of the present request
}

// asks has a user send a request, or send it again.
func (f *Fleet) asks(who int) {
	u := &f.users[who]
	u.attempts++
	f.series.count(f.now, attempts)
	matters := float64(who) < f.Important*float64(len(f.users))
	if u.attempts == 1 {
		f.series.count(f.now, requests)
		if matters {
			f.series.count(f.now, importantRequests)
		}
	}
	a := &attempt{user: who, balancer: who % len(f.balancers), sent: f.now, work: f.exp(work), key: f.store.draw()}
	if f.hot > 0 && f.rnd.Float64() < f.hot {
		a.key = 0
	}
	a.entry.Item, a.entry.Client = a, uint32(who)
	if a.important = matters; matters && f.Parts.Importance {
		a.entry.Priority = important
	}
	f.timeouts.push(a)
	f.balancers[a.balancer].route(a)
}

// timesOut is called when the user of a waits no longer.
func (f *Fleet) timesOut(a *attempt) {
	if a.over {
		return
	}
	f.ends(a, false)
	f.balancers[a.balancer].leaves(a)
}

// answers is called when a user has an answer.
func (f *Fleet) answers(a *attempt) {
	if a.over || f.muted {
		return
	}
	f.ends(a, a.ok)
}

// ends is called when a user knows what has become of an attempt.
func (f *Fleet) ends(a *attempt, ok bool) {
	a.over = true
	u := &f.users[a.user]
	if !ok && u.attempts <= retries {
		pause := float64(backoff<<(u.attempts-1)) * (0.5 + f.rnd.Float64())
		f.post(event{when: f.now + time.Duration(pause), kind: userAsks, who: a.user})
		return
	}
	if ok {
		f.series.count(f.now, good)
		if a.important {
			f.series.count(f.now, importantGood)
		}
	} else {
		f.series.count(f.now, failed)
	}
	u.attempts = 0
	f.post(event{when: f.now + f.exp(thinks), kind: userAsks, who: a.user})
}
