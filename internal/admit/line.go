package admit

import (
	"math"
	"time"
)

// A Line decides in which order those are let in that wait at an entrance, and finds out
// whether there are more than can ever be served. It is told how many wait, and when one
// is let in or refused; what waits, its user knows. Loop-private. The zero value is ready.
//
//	        grew twice in a row                  has been growing for too long
//	 calm ────────────────────────▶ growing ──────────────────────────────▶ overloaded
//	(oldest ◀──────────────────────  (oldest  ◀──────────────────────────── (newest first;
//	 first)   did not, twice; or is   first as            a trial            has waited
//	   ▲      short again             in a burst)                            too long is
//	   ╰──────────────────────────────────────────────────────────────────── refused)
//	                      hardly anybody had to be refused for a while
//
// A line that is long is no overload: it may be a burst, a crowd of clients that return only
// after an answer, or what has come while the process stood still. Only a line that goes on
// growing is one. To find that out takes seconds. Those that came first are served first for as
// long as most clients wait in any case (burstWait): if it was a burst nobody has waited longer than
// necessary. From then on, and at once in a line that was overloaded lately, those that came last are
// served first (as "adaptive LIFO" does; Maurer, Fail at Scale, ACM Queue 2015): what is served is served in
// time, whatever the answer turns out to be. If the line stops growing the others follow, the oldest first.
type Line struct {
	state LineState
	since time.Duration // when the state began
	next  time.Duration // overloaded: when a trial is made
	pause time.Duration // from an overload, or a trial, to the next trial
	over  time.Duration // when it was last overloaded; 0: never

	// Overloaded: those that wait longer than they may are refused while more than this many wait.
	keep   int
	drains time.Duration // when keep was last lowered

	// The window in which growth is measured.
	began   time.Duration
	first   int // tasks in line then
	served  int // since then
	refused int
	gone    int
	streak  int // windows in a row in which it grew, or, below 0, did not

	pace pace

	looked  time.Duration // when Look was last called
	stopped time.Duration // for how long nobody did anything since the line was last empty

	// Fixed: it is at the door of a pile, where work has been piling up already, so that the newest go first as soon as it
	// grows; and those that are served are told by Departed.
	atDoor bool
}

// A LineState is what a Line has found out.
type LineState uint8

// The states of a line.
const (
	Calm LineState = iota
	Growing
	Overloaded
)

// String is "calm", "growing" or "overloaded".
func (s LineState) String() string {
	switch s {
	case Calm:
		return "calm"
	case Growing:
		return "growing"
	}
	return "overloaded"
}

const (
	// patience is how long a line may grow before it is taken for overload. A crowd that
	// connects, and a burst, are over by then.
	patience = 2 * time.Second
	// burstWait is how long the oldest waits, in a line that has been growing for as long, before the newest go
	// first: most clients wait longer than that, and most bursts are over before.
	burstWait    = 400 * time.Millisecond
	firstPause   = time.Second
	longestPause = time.Minute
	// What comes back within soon is likely to be the same overload.
	soon         = 5 * time.Second
	soonPatience = 500 * time.Millisecond
	// Where a quarter as many leave as are served the line grows only as long as clients are patient,
	// and each that leaves costs as much as three that are refused (ADR 0037).
	leaving = 4
	// usefulLeast is how many may wait in any case, for the sake of those that have had less let in (engine, fairLookBack).
	usefulLeast = 64
	// overload is over if no more than one of this many had to be refused in a window.
	fewRefused = 50
	// longestWait is what nobody waits longer than: by then the client is gone.
	longestWait = 10 * time.Second
	// Looks at a line are milliseconds apart: if there was none for this long the process stood still, and that is
	// no wait for anybody's turn.
	longestTurn = 5 * time.Second

	// A refusal takes about 10 µs. When overload is found those that have waited too long may be thousands,
	// and to refuse them all would hold up the others: so beside as many as come, one in this time.
	drainEvery = 256 * time.Microsecond
	// Tasks that may be under way from the line to their first step are a millisecond's, but no more than
	// someStarting; those that take less than half as long may be half a millisecond's, and mostStarting.
	someStarting = 16
	mostStarting = 64
	// atOnce is how many that are refused may be under way to where they learn it, for each that may be under
	// way from the line to its first step, and is behind them.
	atOnce = 16

	windowTime     = 10 * time.Millisecond // the least, and it has
	windowServed   = 16                    // this many served, or
	windowGrowth   = 32                    // has got so much longer, or
	windowSlowTime = 250 * time.Millisecond
	windowLong     = 100 * time.Millisecond
	windowMany     = 64
	windowLongest  = time.Second
	windowSigma    = 1.5 // growth beyond what chance makes, in standard deviations
)

// Newest reports whether of the most important those that came last are to be let in first, when
// one of them has waited that long.
func (q *Line) Newest(now, waited time.Duration) bool {
	switch {
	case q.state == Calm:
		return false
	case q.state == Growing && !q.atDoor && !q.known(now):
		return min(waited, now-q.since) > burstWait
	}
	return waited > q.TooLong()/2
}

// known reports whether it has been found out lately that more come than can be served.
func (q *Line) known(now time.Duration) bool {
	return q.over != 0 && now-q.over < soon
}

// TooLong is how long one may wait in an overload: about as long as one in a hundred waits
// at 0.8 times the capacity, which for requests of any kind is ten times the mean square of
// their service time divided by its mean (Pollaczek and Khinchine).
func (q *Line) TooLong() time.Duration {
	return min(max(10*q.pace.residual(), 5*time.Millisecond), time.Second)
}

// Starting is how many tasks may be under way from the line to their first step: enough for
// the loop never to run dry, and so few that it is the line that decides what is next.
func (q *Line) Starting() int {
	if q.pace.mean <= 0 {
		return 1
	}
	n := max(float64(time.Millisecond)/q.pace.mean, 1)
	if n > someStarting {
		n = min(max(n/2, someStarting), mostStarting)
	}
	return int(n)
}

// Refuses reports whether the one that has waited longest is to be refused. waiting is how many wait, refusing
// how many refusals are under way.
func (q *Line) Refuses(waited time.Duration, waiting, refusing int) bool {
	late := q.state == Overloaded && waiting > q.keep && (waited > q.TooLong() || waiting > q.useful()) || waited > longestWait+q.stopped
	return late && refusing < atOnce*min(q.Starting(), someStarting)
}

// useful is how many may wait in an overload: twice what is served before one has waited too long. As the newest go
// first, one with more behind it is not served in time, and its client had better know at once.
func (q *Line) useful() int {
	if q.pace.mean <= 0 {
		return math.MaxInt
	}
	return int(2*float64(q.TooLong())/q.pace.mean) + usefulLeast
}

// Admitted records that one was let in; the argument is how many still wait.
func (q *Line) Admitted(now time.Duration, left int) {
	if !q.atDoor {
		q.served++
	}
	if left == 0 {
		q.stopped, q.looked = 0, 0
	}
	q.pace.admitted(now, left > 0)
}

// Departed records that n of those inside have gone on, for a line at a door.
func (q *Line) Departed(n int) { q.served += n }

// Opened records that there is a door from now on, and how many go on in a second behind it.
func (q *Line) Opened(rate float64) {
	q.pace.mean = float64(time.Second) / rate
	q.pace.square = q.pace.mean * q.pace.mean
}

// Refused records that one was refused.
func (q *Line) Refused() { q.refused++ }

// Gone records that n clients have left before it was their turn.
func (q *Line) Gone(n int) { q.gone += n }

// Look is told how many wait, and at a door how many others do inside: those that were there first and go on while
// others take their places in line are no growth. tight: they hold too much of something that is scarce for
// waiting until it is clear whether it is overload. It is to be called at least every few
// milliseconds while anybody waits.
func (q *Line) Look(now time.Duration, waiting, inside int, tight bool) {
	over := false
	if q.looked > 0 && now-q.looked > longestTurn {
		q.stopped += now - q.looked
	}
	q.looked = now
	switch {
	case q.began == 0:
		q.open(now, waiting+inside)
	case q.state == Overloaded:
		if now-q.began >= windowLong+4*q.TooLong() {
			over = (q.refused+q.gone)*fewRefused <= q.served
			q.open(now, waiting+inside)
		}
	case waiting == 0:
		q.open(now, waiting+inside)
		q.streak = 0
	default:
		q.measure(now, waiting+inside)
	}
	if q.state == Overloaded {
		q.over = now
		n := int((now - q.drains) / drainEvery)
		q.keep = max(min(q.keep, waiting)-n, 0)
		q.drains += time.Duration(n) * drainEvery
	}
	work := time.Duration(float64(waiting) * q.pace.mean) // until all that wait are served
	switch q.state {
	case Calm:
		if q.streak >= 2 && work > q.TooLong() {
			q.enter(Growing, now)
		}
	case Growing:
		allowed := patience
		switch {
		case tight, q.atDoor && work > longestWait:
			allowed = 0
		case q.known(now), q.gone*leaving > q.served && q.gone > windowServed:
			allowed = soonPatience
		}
		switch {
		case work <= q.TooLong()/2, q.streak <= -2:
			q.enter(Calm, now)
			q.pause = 0
		case now-q.since >= allowed && q.streak >= 0 && waiting+inside >= q.first:
			q.enter(Overloaded, now)
			q.keep, q.drains = waiting, now
			q.pause = min(max(2*q.pause, firstPause), longestPause)
			q.next = now + q.pause
		}
	case Overloaded:
		switch {
		case over:
			q.enter(Calm, now)
		case now >= q.next && !tight:
			q.enter(Growing, now)
		}
	}
}

func (q *Line) enter(s LineState, now time.Duration) {
	q.state, q.since, q.streak = s, now, 0
	q.began = 0
}

func (q *Line) open(now time.Duration, waiting int) {
	q.began, q.first, q.served, q.refused, q.gone = now, waiting, 0, 0, 0
}

// measure ends the window once it is clear whether the line has grown in it, be it that those that have left
// it have not been served. Among k tasks
// served its length changes by chance by about the square root of k, more if their service
// times vary.
func (q *Line) measure(now time.Duration, waiting int) {
	took, more := now-q.began, waiting+q.gone-q.first
	enough := took >= windowTime && (q.served >= windowServed || more >= windowGrowth || took >= windowSlowTime)
	if q.state == Growing { // it takes more to be sure that it has stopped
		enough = took >= windowLong && (q.served >= windowMany || took >= windowLongest)
	}
	if !enough {
		return
	}
	chance := math.Sqrt(float64(max(q.served, 1)) * q.pace.spread())
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

// A pace is the time between two admissions while somebody waits, which is what the bottleneck
// needs for each, whatever that is: moving averages of it, in nanoseconds, and of its square.
type pace struct {
	mean, square float64
	last         time.Duration
	waited       bool // somebody waited since last
}

const (
	paceWeight = 1.0 / 64
	paceOdd    = 8 // times what is usual: it was a pause of the machine
)

func (p *pace) admitted(now time.Duration, more bool) {
	if p.waited {
		p.add(float64(now - p.last))
	}
	p.last, p.waited = now, more
}

func (p *pace) add(t float64) {
	t = min(t, paceOdd*max(float64(p.residual()), float64(time.Millisecond)))
	w := paceWeight
	if p.mean == 0 {
		w = 1
	}
	p.mean += w * (t - p.mean)
	p.square += w * (t*t - p.square)
}

// residual is the mean square divided by the mean.
func (p *pace) residual() time.Duration {
	if p.mean <= 0 {
		return 0
	}
	return time.Duration(p.square / p.mean)
}

// spread is the mean square in parts of the square of the mean: 1 if it never varies.
func (p *pace) spread() float64 {
	if p.mean <= 0 {
		return 1
	}
	return max(p.square/(p.mean*p.mean), 1)
}
