package admit

import (
	"math"
	"time"
)

// An OverloadDetector finds out whether more tasks come to an entrance, or to a bottleneck, than can ever be served,
// and says which of them go first and which are refused. It is told how many tasks wait, and when a task is admitted or
// refused. Loop-private. The zero value is ready.
//
//	        grew twice in a row                  has been growing for too long
//	 calm ────────────────────────▶ growing ──────────────────────────────▶ overloaded
//	(oldest ◀──────────────────────  (oldest  ◀──────────────────────────── (newest first;
//	 first)   did not, twice; or is   first as            a trial            has waited
//	   ▲      short again             in a burst)                            too long is
//	   ╰──────────────────────────────────────────────────────────────────── refused)
//	                      hardly any task had to be refused for a while
//
// A long queue is no overload: it may be a burst, a crowd of clients that return only after an answer, or what has come
// while the process stood still. Only a queue that goes on growing is overload. To find that out takes seconds. The oldest
// are served first for as long as most clients wait in any case (burstWait): if it was a burst no client has waited longer
// than necessary. From then on, and at once in a queue that was overloaded lately, the newest are served first (as
// "adaptive LIFO" does; Maurer, Fail at Scale, ACM Queue 2015): what is served is served in time, whatever the answer turns
// out to be. If the queue stops growing the others follow, the oldest first.
type OverloadDetector struct {
	state        DetectorState
	since        time.Duration // when the state began
	nextTrial    time.Duration // overloaded: when a trial is made
	trialPause   time.Duration // from an overload, or a trial, to the next trial
	overloadedAt time.Duration // when it was last overloaded; 0: never

	// Overloaded: tasks that wait longer than they may are refused while more than this many wait.
	keep   int
	keptAt time.Duration // when keep was last lowered

	// The window in which growth is measured.
	began   time.Duration
	first   int // tasks in the queue then
	served  int // since then
	refused int
	left    int
	streak  int // windows in a row in which it grew, or, below 0, did not

	service serviceTime

	tickedAt time.Duration // when Tick was last called
	paused   time.Duration // for how long the process stood still since the queue was last empty

	// Fixed: it is before a bottleneck, where work has been piling up already, so that the newest go first as soon as it
	// grows; and Departed tells which tasks were served.
	atBottleneck bool
}

// A DetectorState is what an OverloadDetector has found out.
type DetectorState uint8

// The states of an OverloadDetector.
const (
	Calm DetectorState = iota
	Growing
	Overloaded
)

// String is "calm", "growing" or "overloaded".
func (s DetectorState) String() string {
	switch s {
	case Calm:
		return "calm"
	case Growing:
		return "growing"
	}
	return "overloaded"
}

// NewestFirst reports whether of the most important tasks the newest are to be admitted first, when the oldest of them has
// waited that long.
func (q *OverloadDetector) NewestFirst(now, waited time.Duration) bool {
	switch {
	case q.state == Calm:
		return false
	case q.state == Growing && !q.atBottleneck && !q.overloadedLately(now):
		return min(waited, now-q.since) > burstWait
	}
	return waited > q.TooLong()/2
}

// overloadedLately reports whether it has been found out lately that more tasks come than can be served.
func (q *OverloadDetector) overloadedLately(now time.Duration) bool {
	return q.overloadedAt != 0 && now-q.overloadedAt < soon
}

// TooLong is how long a task may wait in an overload: about as long as one in a hundred waits
// at 0.8 times the capacity, which for requests of any kind is ten times the mean square of
// their service time divided by its mean (Pollaczek and Khinchine).
func (q *OverloadDetector) TooLong() time.Duration {
	return min(max(tooLongTimes*q.service.residual(), tooLongLeast), tooLongMost)
}

// MaxStarting is how many tasks may be under way from the queue to their first step: enough for
// the loop never to run dry, and so few that it is the queue that decides what is next.
func (q *OverloadDetector) MaxStarting() int {
	if q.service.mean <= 0 {
		return 1
	}
	return int(min(max(float64(startingTime)/q.service.mean, 1), mostStarting))
}

// Refuses reports whether the task that has waited longest is to be refused. waiting is how many wait, refusing how many
// refusals are under way.
func (q *OverloadDetector) Refuses(waited time.Duration, waiting, refusing int) bool {
	late := q.state == Overloaded && waiting > q.keep && (waited > q.TooLong() || waiting > q.useful()) || waited > longestWait+q.paused
	return late && refusing < mostStarting/2*q.MaxStarting()
}

// useful is how many may wait in an overload: twice what is served before a task has waited too long. As the newest go
// first, a task with more behind it is not served in time, and its client had better know at once.
func (q *OverloadDetector) useful() int {
	if q.service.mean <= 0 {
		return math.MaxInt
	}
	return int(2*float64(q.TooLong())/q.service.mean) + usefulLeast
}

// Admitted records that a task was admitted; waiting is how many still wait.
func (q *OverloadDetector) Admitted(now time.Duration, waiting int) {
	if !q.atBottleneck {
		q.served++
	}
	if waiting == 0 {
		q.paused, q.tickedAt = 0, 0
	}
	q.service.admitted(now, waiting > 0)
}

// Departed records that n of the tasks inside have gone on, before a bottleneck.
func (q *OverloadDetector) Departed(n int) { q.served += n }

// Limited records that a bottleneck is limited from now on, and how many tasks depart from it in a second.
func (q *OverloadDetector) Limited(rate float64) {
	q.service.mean = float64(time.Second) / rate
	q.service.square = q.service.mean * q.service.mean
}

// Refused records that a task was refused.
func (q *OverloadDetector) Refused() { q.refused++ }

// GaveUp records that n clients have left before it was their turn.
func (q *OverloadDetector) GaveUp(n int) { q.left += n }

// Tick is told how many tasks wait, one at least, and before a bottleneck how many others do inside: a task that departs while
// another takes its place in the queue is no growth. tight: they hold too much of something that is scarce for waiting until it
// is clear whether it is overload. It is to be called at least every few milliseconds while a task waits. It returns how long the
// process stood still since the last call, which is no time in which the queue has grown.
func (q *OverloadDetector) Tick(now time.Duration, waiting, inside int, tight bool) (pause time.Duration) {
	over := false
	if pause = standstill(q.tickedAt, now); pause <= serviceOdd*q.service.residual() {
		pause = 0 // a task has computed for as long as they do
	} else {
		q.paused += pause
		q.since += pause
		q.began = 0
	}
	q.tickedAt = now
	switch {
	case q.began == 0:
		q.open(now, waiting+inside)
	case q.state == Overloaded:
		if now-q.began >= windowLong+4*q.TooLong() {
			over = (q.refused+q.left)*fewRefused <= q.served
			q.open(now, waiting+inside)
		}
	default:
		q.measure(now, waiting+inside)
	}
	if q.state == Overloaded {
		q.overloadedAt = now
		n := int((now - q.keptAt) / drainEvery)
		q.keep = max(min(q.keep, waiting)-n, 0)
		q.keptAt += time.Duration(n) * drainEvery
	}
	work := time.Duration(float64(waiting) * q.service.mean) // until all that wait are served
	switch q.state {
	case Calm:
		if q.streak >= 2 && work > q.TooLong() {
			q.enter(Growing, now)
		}
	case Growing:
		allowed := growthAllowed
		switch {
		case tight, q.atBottleneck && work > longestWait:
			allowed = 0
		case q.overloadedLately(now), q.left*leaving > q.served && q.left > windowServed:
			allowed = growthAllowedSoon
		}
		switch {
		case work <= q.TooLong()/2, q.streak <= -2:
			q.enter(Calm, now)
			q.trialPause = 0
		case now-q.since >= allowed && q.streak >= 0 && waiting+inside >= q.first:
			q.enter(Overloaded, now)
			q.keep, q.keptAt = waiting, now
			q.trialPause = min(max(2*q.trialPause, firstPause), longestPause)
			q.nextTrial = now + q.trialPause
		}
	case Overloaded:
		switch {
		case over:
			q.enter(Calm, now)
		case now >= q.nextTrial && !tight:
			q.enter(Growing, now)
		}
	}
	return pause
}

// standstill is for how long the process stood still between two looks, of which the first was at the time last; 0: there was none.
func standstill(last, now time.Duration) time.Duration {
	if last > 0 && now-last > longestTurn {
		return now - last
	}
	return 0
}

func (q *OverloadDetector) enter(s DetectorState, now time.Duration) {
	q.state, q.since, q.streak = s, now, 0
	q.began = 0
}

func (q *OverloadDetector) open(now time.Duration, waiting int) {
	q.began, q.first, q.served, q.refused, q.left = now, waiting, 0, 0, 0
}

// measure ends the window once it is clear whether the queue has grown in it; clients that have left count as growth. Among
// k tasks served its length changes by chance by about the square root of k, more if their service times vary.
func (q *OverloadDetector) measure(now time.Duration, waiting int) {
	took, more := now-q.began, waiting+q.left-q.first
	enough := took >= windowTime && (q.served >= windowServed || more >= windowGrowth || took >= windowSlowTime)
	if q.state == Growing { // it takes more to be sure that it has stopped
		enough = took >= windowLong && (q.served >= windowMany || took >= windowLongest)
	}
	if !enough {
		return
	}
	chance := math.Sqrt(float64(max(q.served, 1)) * q.service.spread())
	switch {
	case float64(more) > windowSigma*chance+1, took > windowLongest && float64(more) > chance:
		q.streak = max(q.streak, 0) + 1
	case more <= 0, took > windowLongest:
		q.streak = min(q.streak, 0) - 1
	default:
		return
	}
	q.open(now, waiting)
}

// A serviceTime is the time between two admissions while a task waits, which is what the scarcest resource needs for each,
// whatever that is: moving averages of it, in nanoseconds, and of its square.
type serviceTime struct {
	mean, square float64
	last         time.Duration
	waited       bool // a task waited since last
}

func (p *serviceTime) admitted(now time.Duration, more bool) {
	if p.waited {
		p.add(float64(now - p.last))
	}
	p.last, p.waited = now, more
}

func (p *serviceTime) add(t float64) {
	t = min(t, serviceOdd*max(float64(p.residual()), float64(time.Millisecond)))
	w := serviceWeight
	if p.mean == 0 {
		w = 1
	}
	p.mean += w * (t - p.mean)
	p.square += w * (t*t - p.square)
}

// residual is the mean square divided by the mean.
func (p *serviceTime) residual() time.Duration {
	if p.mean <= 0 {
		return 0
	}
	return time.Duration(p.square / p.mean)
}

// spread is the mean square in parts of the square of the mean: 1 if it never varies.
func (p *serviceTime) spread() float64 {
	if p.mean <= 0 {
		return 1
	}
	return max(p.square/(p.mean*p.mean), 1)
}
