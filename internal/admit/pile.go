package admit

import (
	"math"
	"time"
)

// A Pile finds out whether a node of the blocking graph inside the program, a lock or a
// backend, is what limits it, and how many tasks are to wait there then. It is told how many do,
// how many have gone on, and how long these have waited. Loop-private. The zero value is ready.
//
//	          tasks pile up, wait ever longer, and no more of them go on
//	watched ──────────────────────────────────────────────────────────▶ limited
//	   ▲                                                                   │
//	   ╰───────────────────────────────────────────────────────────────────╯
//	         nobody is kept out for a second, or nobody goes on for five,
//	         or far fewer wait and go on, but no shorter: it was none
//
// All three signs are needed. Where tasks only wait for time to pass, or for each other, they pile up
// too, but do not wait longer the more they are. Where many come at once they wait longer, but
// do not become more. And all three may be chance where tasks overtake each other, as they do if each
// waits for a time of its own: there more of each is asked for than where tasks go on in turn. Those that
// go on in turn have waited equally long, or longer than those of the window before as there are more of them, and
// no more wait than have come meanwhile: if half of them sleep for a second, the others overtake these.
//
// By Little's law those that wait are as many as go on in the time that they wait. The limit is
// what goes on in the time that is short enough, Line.TooLong for the time between two. If the
// node does several things at once, and they are there meanwhile, that is too few: fewer go on. Then how long they
// wait is how long it takes, and the limit becomes what goes on in that time.
type Pile struct {
	limit  float64       // 0: none
	wanted time.Duration // when somebody was last kept out
	moved  time.Duration // when somebody last went on

	// The window that is being measured, and the one before it.
	began    time.Duration
	first    int // waiting then
	departed int
	waited   time.Duration
	quickest time.Duration // that one of them waited
	was      pileWindow
	inTurn   int // windows in a row in which they went on in turn
	streak   int
	// When the streak began: departures per second before, and how many waited. And departures since.
	ref        float64
	refWaiting int
	since      time.Duration
	gone       int

	// The last decrease of the limit.
	rate  float64
	wait  float64       // mean time that they had waited, before the first
	tried bool          // it is yet to be seen what comes of it
	takes float64       // as long as they wait if they are too few, in seconds; 0: not known
	hold  time.Duration // no other before
}

// A pileWindow is what a window has found.
type pileWindow struct {
	rate float64 // departures per second; 0: there was none
	wait float64 // mean time that they had waited, in seconds
}

const (
	pileIdle  = time.Second
	pileStuck = 5 * time.Second
	pileHold  = 2 * time.Second
	pileLeast = 2.0
	pileSome  = 4   // departures that say something of a slow node
	pileLost  = 0.9 // share of the rate that remains: the decrease was too much
	pileFar   = 0.6 // the same, of which it is no pile
	pileNone  = 0.8 // if this share of the wait remains as well
	pileRoom  = 1.5 // times what goes on in the time it takes, so that it does all it can
	// Times the wait: it has become longer.
	pileLonger = 1.05
	pileSame   = 1.25 // times the rate: no more go on than before
	pileMore   = 1.5  // times those that wait: they have become more
	// The same where they overtake each other.
	pileOvertake = 8
	pileRounds   = 4 // of all that wait in a window, once they are limited
	pileShare    = 4 // a window is at least as long as the wait divided by this
	pileLower    = 0.8
	pileHigher   = 1.1
)

// Limit is how many tasks may wait at the node, 0 if any number.
func (p *Pile) Limit() int {
	if p.limit == 0 {
		return 0
	}
	return int(math.Ceil(p.limit))
}

// Update is told how it is.
func (p *Pile) Update(now time.Duration, q BacklogState) {
	waiting := q.Waiting
	if q.Afresh {
		*p = Pile{}
	}
	if p.began == 0 {
		p.open(now, waiting)
		p.moved = now
	}
	if q.Departed > 0 {
		p.departed += q.Departed
		p.waited += q.Waited
		p.quickest = min(p.quickest, q.Quickest)
		p.moved = now
	}
	if q.Late > 0 {
		p.moved = now
	}
	if q.Out > 0 {
		p.wanted = now
	}
	if p.limit > 0 && (now-p.wanted > pileIdle || now-p.moved > pileStuck) {
		*p = Pile{}
		return
	}
	if p.limit > 0 && q.Out > 0 && waiting == 0 { // the node could do more than it is let
		p.raise()
		p.open(now, waiting)
		return
	}
	if p.limit > 0 && (float64(waiting) > p.limit+1 || q.Late > 0 && q.Departed == 0) {
		p.open(now, waiting)
		return // those that were too many are still there; what goes on now is not due to the limit
	}
	took, more := now-p.began, waiting-p.first
	// Long enough for the wait to become clearly longer.
	least, many, slow := max(windowTime, time.Duration(p.was.wait/pileShare*float64(time.Second))), windowServed, windowSlowTime
	if p.tried { // what comes of a lower limit takes longer to see
		least, many, slow = windowLong, windowMany, 2*windowSlowTime
	}
	if p.limit > 0 && p.departed < pileRounds*waiting && took < 2*windowLongest {
		return // they may go on in bunches, as many as a node does at once
	}
	if took < least || p.departed < many && (more < windowGrowth || p.departed < pileSome) && (took < slow || p.departed < pileSome && took < windowLongest) {
		return
	}
	w := pileWindow{rate: float64(p.departed) / took.Seconds()}
	if p.departed > 0 {
		w.wait = p.waited.Seconds() / float64(p.departed)
	}
	if p.limit == 0 && now >= p.hold {
		if !p.suspect(now, &w, waiting, more) {
			return
		}
	} else if p.limit > 0 {
		p.adjust(now, w, waiting)
	}
	p.was = w
	p.open(now, waiting)
}

func (p *Pile) open(now time.Duration, waiting int) {
	p.began, p.first, p.departed, p.waited, p.quickest = now, waiting, 0, 0, math.MaxInt64
}

// short is how long tasks may wait, in seconds, where rate go on in a second.
func short(rate float64) float64 { return min(max(10/rate, 0.01), 0.1) }

// suspect looks for the three signs: in two windows, and that those that wait have become half as many
// more since, but not those that go on. A window in which they waited hardly longer than before does not
// count, and the next is compared with those before it. If more go on it begins anew with these.
// Where they overtake each other, as they do if each waits for a time of its own, the signs may be chance:
// then it takes eight times as many. It reports whether the window is over.
func (p *Pile) suspect(now time.Duration, w *pileWindow, waiting, more int) bool {
	grew := float64(more) > windowSigma*math.Sqrt(float64(max(p.departed, 1)))+1
	if !grew && more > 0 && now-p.began < windowLongest {
		return false // it may yet turn out to have grown
	}
	p.inTurn++
	p.gone += p.departed
	came := float64(p.departed+more) * w.wait / (now - p.began).Seconds() // while those that went on waited
	if 4*p.quickest.Seconds() < 3*min(w.wait, p.was.wait) || float64(waiting) > 2*came {
		p.inTurn = 0
	}
	if !grew || p.was.rate == 0 || w.rate == 0 || w.wait < p.was.wait || float64(waiting)/w.rate < short(w.rate) {
		p.streak = 0
		return true
	}
	if w.wait < pileLonger*p.was.wait {
		w.wait = p.was.wait // it may become clear with the next ones
		return true
	}
	if p.streak++; p.streak == 1 {
		p.ref, p.refWaiting = p.was.rate, p.first
		p.since, p.gone = p.began, p.departed
	}
	if p.streak > 1 && w.rate > pileSame*p.ref { // more go on than before, or the processor had been away then
		p.streak, p.ref, p.refWaiting = 1, w.rate, waiting
		p.since, p.gone = p.began, p.departed
	}
	much := pileMore
	if p.inTurn < 2 {
		much = pileOvertake
	}
	if p.streak < 2 || float64(waiting) < much*float64(p.refWaiting) {
		return true
	}
	p.wanted = now
	p.rate, p.wait, p.tried = float64(p.gone)/(now-p.since).Seconds(), w.wait, true
	p.limit = max(min(float64(waiting), p.rate*short(p.rate)), pileLeast)
	return true
}

func (p *Pile) raise() { p.limit, p.tried = p.limit*pileHigher+1, false }

// adjust moves the limit.
func (p *Pile) adjust(now time.Duration, w pileWindow, waiting int) {
	if w.rate == 0 {
		return // of those that came since
	}
	aim := max(short(w.rate), pileRoom*p.takes)
	wait := float64(waiting) / w.rate // by Little's law: those that have gone on may be the newest
	switch {
	case p.tried && w.rate < pileFar*p.rate && p.takes == 0 && wait > pileNone*p.wait:
		*p = Pile{hold: now + pileHold, moved: now}
	case p.tried && w.rate < pileLost*p.rate:
		p.takes = wait
		p.limit, p.tried, p.hold = max(p.limit, p.rate*max(short(p.rate), pileRoom*p.takes)), false, now+pileHold
	case wait < aim:
		p.raise()
	case wait > 2*aim && now >= p.hold:
		p.rate, p.tried = w.rate, true
		p.limit = max(p.limit*pileLower, w.rate*aim, pileLeast)
	default:
		p.tried = false
	}
}
