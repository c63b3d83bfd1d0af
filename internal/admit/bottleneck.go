package admit

import (
	"math"
	"time"
)

// A BottleneckLimit finds out whether a node of the blocking graph inside the program, a lock or a backend, limits the
// program, and how many tasks are to wait there then. It is told how many tasks wait, how many have departed, and how
// long these have waited. Loop-private. The zero value is ready.
//
//	          tasks become more, wait ever longer, and no more of them depart
//	watched ──────────────────────────────────────────────────────────────────▶ limited
//	   ▲                                                                          │
//	   ╰──────────────────────────────────────────────────────────────────────────╯
//	         no task waits outside for a second, or none departs for five,
//	         or far fewer wait and depart, but no sooner: it was no bottleneck
//
// All three signs are needed. Where tasks only wait for time to pass, or for each other, they become more too, but do not
// wait longer the more they are. Where many come at once they wait longer, but do not become more. And all three may be
// chance where tasks overtake each other, as they do if each waits for a time of its own: there more of each is asked for
// than where tasks depart in turn. Tasks that depart in turn have waited equally long, or longer than those of the window
// before as there are more of them, and no more wait than have come meanwhile: if half of them sleep for a second, the
// others overtake these.
//
// By Little's law as many tasks wait as depart in the time that they wait. The limit is what departs in a time that is
// short enough (short). Where the tasks wait for several things, it begins with as many as waited when no fewer
// departed, and is lowered to that. If the node does several things at once, and the tasks are there meanwhile, that is
// too few: fewer depart. Then how long they wait is how long the node takes, and the limit becomes what departs in a
// time with room for more (room), as the node may be several servers of which some have nothing to do.
type BottleneckLimit struct {
	limit    float64       // 0: none
	wantedAt time.Duration // when a task last waited outside
	movedAt  time.Duration // when a task last departed

	// The window that is being measured, and the one before it.
	began    time.Duration
	first    int // waiting then
	departed int
	waited   time.Duration
	quickest time.Duration // that one of them waited
	was      bottleneckWindow
	inTurn   int // windows in a row in which they departed in turn
	streak   int // windows in a row with the signs
	// When the streak began: departures per second before, and how many waited. And departures since.
	ref           float64
	refWaiting    int
	streakBegan   time.Duration
	streakDeparts int

	// The last decrease of the limit.
	rate  float64
	wait  float64       // mean time that they had waited, before the first
	tried bool          // it is yet to be seen what comes of it
	takes float64       // as long as they wait if they are too few, in seconds; 0: not known
	hold  time.Duration // no other before
}

// A bottleneckWindow is what a window has found.
type bottleneckWindow struct {
	rate float64 // departures per second; 0: there was none
	wait float64 // mean time that they had waited, in seconds
}

// Limit is how many tasks may wait at the node, 0 if any number.
func (b *BottleneckLimit) Limit() int {
	if b.limit == 0 {
		return 0
	}
	return int(math.Ceil(b.limit))
}

// Update takes what has happened at the node since the last call, and sets, moves or ends the limit.
func (b *BottleneckLimit) Update(now time.Duration, s BacklogState) {
	waiting := s.Waiting
	if s.Afresh {
		*b = BottleneckLimit{}
	}
	if b.began == 0 {
		b.open(now, waiting)
		b.movedAt = now
	}
	if s.Departed > 0 {
		b.departed += s.Departed
		b.waited += s.Waited
		b.quickest = min(b.quickest, s.Quickest)
		b.movedAt = now
	}
	if s.Late > 0 {
		b.movedAt = now
	}
	if s.Out > 0 {
		b.wantedAt = now
	}
	if b.limit > 0 && (now-b.wantedAt > limitIdle || now-b.movedAt > limitStuck) {
		*b = BottleneckLimit{}
		return
	}
	if b.limit > 0 && s.Out > 0 && waiting == 0 { // the node could do more than it may
		b.raise()
		b.open(now, waiting)
		return
	}
	if b.limit > 0 && (float64(waiting) > b.limit+1 || s.Late > 0 && s.Departed == 0) {
		b.open(now, waiting)
		return // the tasks beyond the limit are still there: departures now are not due to the limit
	}
	took, more := now-b.began, waiting-b.first
	// Long enough for the wait to become clearly longer.
	least, many, slow := max(windowTime, time.Duration(b.was.wait/windowRounds*float64(time.Second))), windowServed, windowSlowTime
	if b.tried { // what comes of a lower limit takes longer to see
		least, many, slow = windowLong, windowMany, 2*windowSlowTime
	}
	if b.limit > 0 && b.departed < windowRounds*waiting && took < 2*windowLongest {
		return // they may depart in bunches, as many as a node does at once
	}
	if took < least || b.departed < many && (more < windowGrowth || b.departed < slowDepartures) && (took < slow || b.departed < slowDepartures && took < windowLongest) {
		return
	}
	w := bottleneckWindow{rate: float64(b.departed) / took.Seconds()}
	if b.departed > 0 {
		w.wait = b.waited.Seconds() / float64(b.departed)
	}
	if b.limit == 0 && now >= b.hold {
		if !b.detect(now, &w, waiting, more, s.Several) {
			return
		}
	} else if b.limit > 0 {
		b.adjust(now, w, waiting)
	}
	b.was = w
	b.open(now, waiting)
}

func (b *BottleneckLimit) open(now time.Duration, waiting int) {
	b.began, b.first, b.departed, b.waited, b.quickest = now, waiting, 0, 0, math.MaxInt64
}

// short is how long tasks may wait, in seconds, where rate go on in a second.
func short(rate float64) float64 {
	return min(max(shortTimes/rate, shortLeast.Seconds()), shortMost.Seconds())
}

// detect looks for the three signs in the window w, and sets the limit if the node is a bottleneck: two windows have had the signs,
// and half as many more tasks wait since the first of them, while no more depart. A window in which tasks waited hardly longer
// than before does not count, and the next is compared with the window before it. If more tasks depart, the streak begins anew.
// Where tasks overtake each other, the signs may be chance: then eight times as many have to wait. It reports whether the window
// is over, else it goes on.
func (b *BottleneckLimit) detect(now time.Duration, w *bottleneckWindow, waiting, more int, several bool) bool {
	grew := float64(more) > windowSigma*math.Sqrt(float64(max(b.departed, 1)))+1
	if !grew && more > 0 && now-b.began < windowLongest {
		return false // it may yet turn out to have grown
	}
	b.inTurn++
	b.streakDeparts += b.departed
	came := float64(b.departed+more) * w.wait / (now - b.began).Seconds() // while the departed tasks waited
	if 4*b.quickest.Seconds() < 3*min(w.wait, b.was.wait) || float64(waiting) > 2*came {
		b.inTurn = 0
	}
	if !grew || b.was.rate == 0 || w.rate == 0 || w.wait < b.was.wait || float64(waiting)/w.rate < short(w.rate) {
		b.streak = 0
		return true
	}
	if w.wait < waitLonger*b.was.wait {
		w.wait = b.was.wait // it may become clear with the next ones
		return true
	}
	if b.streak++; b.streak == 1 {
		b.ref, b.refWaiting = b.was.rate, b.first
		b.streakBegan, b.streakDeparts = b.began, b.departed
	}
	if b.streak > 1 && w.rate > rateSame*b.ref { // more depart than before, or the processor had been away then
		b.streak, b.ref, b.refWaiting = 1, w.rate, waiting
		b.streakBegan, b.streakDeparts = b.began, b.departed
	}
	much := waitingMore
	if b.inTurn < 2 {
		much = waitingOvertake
	}
	if b.streak < 2 || float64(waiting) < much*float64(b.refWaiting) {
		return true
	}
	b.wantedAt = now
	b.rate, b.wait, b.tried = float64(b.streakDeparts)/(now-b.streakBegan).Seconds(), w.wait, true
	b.limit = max(b.rate*short(b.rate), limitLeast)
	if several {
		b.limit = max(b.limit, float64(b.refWaiting))
	}
	return true
}

func (b *BottleneckLimit) raise() { b.limit, b.tried = b.limit*limitHigher+1, false }

// room is how long tasks may wait, in seconds, where they take as long as takes if they are few.
func (b *BottleneckLimit) room() float64 { return b.takes + min(limitRoom*b.takes, limitRoomMost) }

// adjust moves a limit that is set by what the window w has found. Where tasks wait less than they may, it raises the limit; where
// they wait more than twice as long, it lowers the limit. If fewer depart after a decrease, it undoes the decrease; if far fewer
// depart, and no sooner, it ends the limit: the node was no bottleneck.
func (b *BottleneckLimit) adjust(now time.Duration, w bottleneckWindow, waiting int) {
	if w.rate == 0 {
		return // of the tasks that came since
	}
	aim := max(short(w.rate), b.room())
	wait := float64(waiting) / w.rate // by Little's law: the tasks that have departed may be the newest
	switch {
	case b.tried && w.rate < rateFar*b.rate && b.takes == 0 && wait > waitFar*b.wait:
		*b = BottleneckLimit{hold: now + limitHold, movedAt: now}
	case b.tried && w.rate < rateLost*b.rate:
		b.takes = wait
		b.limit, b.tried, b.hold = max(b.limit, b.rate*max(short(b.rate), b.room())), false, now+limitHold
	case wait < aim:
		b.raise()
	case wait > 2*aim && now >= b.hold:
		b.rate, b.tried = w.rate, true
		b.limit = max(b.limit*limitLower, w.rate*aim, limitLeast)
	default:
		b.tried = false
	}
}
