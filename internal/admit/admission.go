package admit

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Cause says why tasks were refused.
type Cause uint8

// The causes.
const (
	CauseOverload   Cause = iota // more come than can be served, see OverloadDetector
	CauseStuck                   // there is no room, and no task has left for a while
	CauseWait                    // they had waited for longestWait
	CauseBottleneck              // they would come to a limited node, see BottleneckLimit
	causes
)

// String is what a log line says.
func (c Cause) String() string {
	return [...]string{"more come than can be served", "no room inside, and no task leaves", "waited too long", "a lock, a backend or the like inside does no more"}[c]
}

// An Admission decides for one loop what becomes of the tasks that come to its entrances and bottlenecks. A
// ConcurrencyLimit says how many may be inside, an OverloadDetector whether more come than can be served, a
// BottleneckLimit how many may come to a node. If there is no room inside and no task leaves, all are refused, so that
// each client gets an answer.
//
//	task comes ─▶ overloaded, and it has waited too long ──────▶ Refuse
//	          ├─▶ enough admitted tasks are yet to run ─────────▶ Enough
//	          ├─▶ no room ─▶ and no task has moved for a while ─▶ Refuse
//	          │           ╰─────────────────────────────────────▶ Defer
//	          ╰─▶ Admit, or AdmitNewest while the queue grows
type Admission struct {
	refuse    bool
	loop      int
	limits    func(entrance int) *ConcurrencyLimit
	ledger    *Ledger    // of the limits; nil: there is none
	entrances []entrance // by index; without limit: not an entrance, or nothing has come there yet

	bottlenecks []bottleneckGate // by number

	admitted, deferred coro.Counter
	refused            [causes]coro.Counter
}

// An entrance is where tasks come in on one loop. Loop-private.
type entrance struct {
	known    bool // the limit has been asked for
	limit    *ConcurrencyLimit
	share    *loopShare
	detector OverloadDetector

	movedAt  time.Duration // when a task was last admitted, or left, or the queue began
	stuck    bool          // at this entrance of the loop newcomers are refused at once
	deferred bool          // the task that comes next has been counted as deferred
}

// moved records that a task was admitted, or left.
func (e *entrance) moved(now time.Duration) {
	e.movedAt, e.stuck = now, false
	if e.limit != nil {
		noteTime(&e.limit.moved, now)
	}
}

// A bottleneckGate is the entrance of a watched node, which has no ConcurrencyLimit. Loop-private.
type bottleneckGate struct {
	entrance
	most BottleneckLimit
}

// NewAdmission returns an Admission for the loop with that number. refuse means that tasks may be
// refused; otherwise they wait, however long it takes. limits returns the limit of an entrance; it is
// called once for each. Where it returns nil, all are admitted and not counted.
func NewAdmission(loop int, refuse bool, limits func(entrance int) *ConcurrencyLimit) *Admission {
	return &Admission{refuse: refuse, loop: max(loop, 0), limits: limits}
}

// limitedEntrance returns the entrance of that index; nil if it has no limit.
func (a *Admission) limitedEntrance(index int) *entrance {
	if index >= MaxEntrances {
		return nil
	}
	for index >= len(a.entrances) {
		a.entrances = append(a.entrances, entrance{})
	}
	e := &a.entrances[index]
	if !e.known {
		e.known = true
		if e.limit = a.limits(index); e.limit != nil {
			e.share = e.limit.share(a.loop)
			a.ledger = e.limit.ledger
		}
	}
	if e.limit != nil {
		return e
	}
	return nil
}

// Next is part of Decider.
func (a *Admission) Next(now time.Duration, index int, q *QueueState) Verdict {
	if index >= MaxEntrances {
		return a.nextAtBottleneck(now, index-MaxEntrances, q)
	}
	e := a.limitedEntrance(index)
	if e == nil {
		return Open{}.Next(now, index, q)
	}
	return a.next(now, e, q, e.limit.ledger.tight.Load())
}

// nextAtBottleneck is Next for tasks that wait before a bottleneck, see Limit.
func (a *Admission) nextAtBottleneck(now time.Duration, number int, q *QueueState) Verdict {
	if number >= len(a.bottlenecks) {
		return Open{}.Next(now, number, q)
	}
	b := &a.bottlenecks[number]
	if a.isStalled() || b.most.Limit() == 0 {
		b.stuck = a.refuse && a.isStalled()
	}
	return a.next(now, &b.entrance, q, false)
}

// isStalled reports whether a ConcurrencyLimit has no room because of tasks that only wait, see Ledger.Stalled.
func (a *Admission) isStalled() bool { return a.ledger != nil && a.ledger.Stalled() }

// Limit takes the state of a watched node, every 10 ms. It returns how many tasks may wait there or be on the way, 0 if
// any number, below 0 if none. While a ConcurrencyLimit is stalled, no other task may come to where tasks wait, and is
// refused at once; tasks that go elsewhere may be what they wait for.
func (a *Admission) Limit(now time.Duration, number int, s BacklogState) int {
	for number >= len(a.bottlenecks) {
		a.bottlenecks = append(a.bottlenecks, bottleneckGate{})
	}
	b := &a.bottlenecks[number]
	if s.Afresh && s.Out == 0 { // the last node with this number may have been another one
		*b = bottleneckGate{}
	}
	b.detector.atBottleneck = true
	before := b.most.Limit()
	b.most.Update(now, s)
	if before == 0 && b.most.Limit() > 0 {
		b.detector.Limited(b.most.rate)
	}
	if n := s.Departed + s.Late; n > 0 {
		b.detector.Departed(n)
		b.moved(now)
	}
	if s.Waiting > 0 && a.isStalled() {
		return -1
	}
	return b.most.Limit()
}

// next decides about the tasks that wait at e.
func (a *Admission) next(now time.Duration, e *entrance, q *QueueState, tight bool) Verdict {
	e.detector.GaveUp(q.Disconnected)
	e.movedAt = min(e.movedAt+e.detector.Tick(now, q.Waiting, q.Inside, tight), now)
	e.detector.paused = min(e.detector.paused, q.Oldest) // no task has waited through what was before
	if q.Abandoned {
		return Refuse
	}
	if a.refuse && e.detector.Refuses(q.Oldest, q.Waiting, q.Refusing) {
		cause := CauseOverload
		switch {
		case e.limit == nil:
			cause = CauseBottleneck
		case e.detector.state != Overloaded:
			cause = CauseWait
		}
		e.detector.Refused()
		a.refused[cause].Add(1)
		return Refuse
	}
	if q.Starting >= e.detector.MaxStarting() {
		return Enough
	}
	if q.Full || e.limit != nil && !e.limit.admit(now, e.share) {
		return a.nextIfFull(now, e, q)
	}
	e.deferred = false
	e.moved(now)
	if e.limit != nil {
		a.admitted.Add(1)
	}
	e.detector.Admitted(now, q.Waiting-1)
	if e.detector.NewestFirst(now, q.Front) {
		return AdmitNewest
	}
	return Admit
}

// nextIfFull is next when there is no room inside: it defers, and refuses if no task has moved for a while, on any loop.
func (a *Admission) nextIfFull(now time.Duration, e *entrance, q *QueueState) Verdict {
	after := stuckAfter
	if e.limit != nil {
		if !q.Full && !a.ledger.scarce.Load() {
			after = unsureFor
		}
		after += 2 * probeAfter // by then the tasks that wait are looked at, if the limit is stalled
		if at := time.Duration(e.limit.moved.Load()); at > e.movedAt {
			e.movedAt, e.stuck = at, false
		}
	}
	if !e.deferred {
		e.deferred = true
		a.deferred.Add(1)
		e.movedAt = max(e.movedAt, now-q.Oldest)
	}
	if a.refuse && (e.stuck || q.Oldest >= after && now-e.movedAt >= after) {
		e.stuck = true // newcomers are refused at once
		a.refused[CauseStuck].Add(1)
		return Refuse
	}
	return Defer
}

// Left records that a task that was admitted at the entrance has left again.
func (a *Admission) Left(now time.Duration, index int) {
	if e := a.limitedEntrance(index); e != nil {
		e.limit.finished(e.share)
		noteTime(&e.limit.left, now)
		e.moved(now)
	}
}

// Refused is how many tasks were refused for a cause. It may be called from any goroutine.
func (a *Admission) Refused(c Cause) uint64 { return uint64(a.refused[c].Load()) }

// Causes returns all causes.
func Causes() []Cause { return []Cause{CauseOverload, CauseStuck, CauseWait, CauseBottleneck} }

// Report adds the counters to r. It may be called from any goroutine.
func (a *Admission) Report(r *Report) {
	r.Admitted += uint64(a.admitted.Load())
	r.Deferred += uint64(a.deferred.Load())
	for i := range a.refused {
		r.Refused += uint64(a.refused[i].Load())
	}
}
