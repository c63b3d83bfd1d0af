package admit

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Cause says why tasks were refused.
type Cause uint8

// The causes.
const (
	CauseLine  Cause = iota // more come than can be served, see Line
	CauseStuck              // there is no room, and nobody has left for a while
	CauseWait               // they had waited longer than anybody waits
	CausePile               // they would come to a place where more wait than go on, see Pile
	causes
)

// String is what a log line says.
func (c Cause) String() string {
	return [...]string{"more come than can be served", "no room inside, and nobody leaves", "waited too long", "a lock, a backend or the like inside does no more"}[c]
}

// stuckAfter is how long nobody may have been let in, nor left, for newcomers to wait. If no resource is scarce
// it is unsureFor.
const stuckAfter = time.Second

// An Admission decides for one loop what becomes of the tasks that come to its entrances. How
// many may be inside is up to a Gate, whether more come than can be served to a Line.
// If there is no room inside and nobody leaves, it refuses all, so that everybody gets
// an answer.
type Admission struct {
	refuse    bool
	loop      int
	gates     func(entrance int) *Gate
	ledger    *Ledger    // of the gates; nil: there is none
	entrances []entrance // by index; without gate: not an entrance, or nothing has come there yet

	doors []door

	admitted, deferred coro.Counter
	refused            [causes]coro.Counter
}

// An entrance is one loop's view of a Gate. Loop-private.
type entrance struct {
	known bool // the gate has been asked for
	gate  *Gate
	share *share
	line  Line

	progress time.Duration // when somebody was last let in, or left, or the line began
	stuck    bool
	deferred bool // the task that comes next has been counted as deferred
}

// moved notes that somebody was let in, or left.
func (e *entrance) moved(now time.Duration) {
	e.progress, e.stuck = now, false
	if e.gate != nil {
		e.gate.moves(now)
	}
}

// A door is before a pile, for those that are kept out of it. It has no gate.
type door struct {
	entrance
	pile Pile
}

// NewAdmission returns an Admission for the loop with that number. refuse means that tasks may be
// refused; otherwise they wait, however long it takes. gates returns the gate of an entrance; it is
// called once for each. Where it returns nil, all are admitted and not counted.
func NewAdmission(loop int, refuse bool, gates func(entrance int) *Gate) *Admission {
	return &Admission{refuse: refuse, loop: max(loop, 0), gates: gates}
}

// at is the entrance of that index; nil if it has no gate.
func (a *Admission) at(index int) *entrance {
	if index >= MaxEntrances {
		return nil
	}
	for index >= len(a.entrances) {
		a.entrances = append(a.entrances, entrance{})
	}
	e := &a.entrances[index]
	if !e.known {
		e.known = true
		if e.gate = a.gates(index); e.gate != nil {
			e.share = e.gate.share(a.loop)
			a.ledger = e.gate.ledger
		}
	}
	if e.gate != nil {
		return e
	}
	return nil
}

// Next says what becomes of one of the tasks that wait at the entrance with that index, or from MaxEntrances on at the door
// of that pile. q is changed by nobody.
func (a *Admission) Next(now time.Duration, index int, q *QueueState) Verdict {
	if index >= MaxEntrances {
		return a.nextAtDoor(now, index-MaxEntrances, q)
	}
	e := a.at(index)
	if e == nil {
		return unasked(q)
	}
	return a.next(now, e, q, e.gate.ledger.tight.Load())
}

// nextAtDoor is Next for those that are kept out because too many wait at a place inside, see
// Piled.
func (a *Admission) nextAtDoor(now time.Duration, pile int, q *QueueState) Verdict {
	if pile >= len(a.doors) {
		return unasked(q)
	}
	d := &a.doors[pile]
	if a.heldUp() || d.pile.Limit() == 0 {
		d.stuck = a.refuse && a.heldUp()
	}
	return a.next(now, &d.entrance, q, false)
}

// unasked is the verdict where all are admitted.
func unasked(q *QueueState) Verdict {
	if q.Abandoned {
		return Refuse
	}
	return Admit
}

func (a *Admission) heldUp() bool { return a.ledger != nil && a.ledger.HeldUp() }

// Piled is part of Bottlenecks. While a gate is held up, nobody else may come to where tasks wait: those that would are refused at once.
// Others may be what they wait for.
func (a *Admission) Limit(now time.Duration, pile int, q BacklogState) int {
	for pile >= len(a.doors) {
		a.doors = append(a.doors, door{entrance: entrance{line: Line{atDoor: true}}})
	}
	d := &a.doors[pile]
	before := d.pile.Limit()
	d.pile.Update(now, q)
	if before == 0 && d.pile.Limit() > 0 {
		d.line.Opened(d.pile.rate)
	}
	if n := q.Departed + q.Late; n > 0 {
		d.line.Departed(n)
		d.moved(now)
	}
	if q.Waiting > 0 && a.heldUp() {
		return -1
	}
	return d.pile.Limit()
}

// next decides about the tasks that wait at e.
func (a *Admission) next(now time.Duration, e *entrance, q *QueueState, tight bool) Verdict {
	e.line.Gone(q.Disconnected)
	e.line.Look(now, q.Waiting, q.Inside, tight)
	e.line.stopped = min(e.line.stopped, q.Oldest) // what was before counts for nobody, be it that none was in line
	if q.Abandoned {
		return Refuse
	}
	if a.refuse && e.line.Refuses(q.Oldest, q.Waiting, q.Refusing) {
		cause := CauseLine
		switch {
		case e.gate == nil:
			cause = CausePile
		case e.line.state != Overloaded:
			cause = CauseWait
		}
		e.line.Refused()
		a.refused[cause].Add(1)
		return Refuse
	}
	if q.Starting >= e.line.Starting() {
		return Enough
	}
	if q.Full || e.gate != nil && !e.gate.admit(now, e.share) {
		return a.full(now, e, q)
	}
	e.deferred = false
	e.moved(now)
	if e.gate != nil {
		a.admitted.Add(1)
	}
	e.line.Admitted(now, q.Waiting-1)
	if e.line.Newest(now, q.Front) {
		return AdmitNewest
	}
	return Admit
}

// full is Next when there is no room inside. What counts is whether anybody moves, on any loop.
func (a *Admission) full(now time.Duration, e *entrance, q *QueueState) Verdict {
	after := stuckAfter
	if e.gate != nil {
		if !q.Full && !a.ledger.scarce.Load() {
			after = unsureFor
		}
		after += 2 * lookAfter // by then those that wait are looked at, if the gate is held up
		if at := time.Duration(e.gate.moved.Load()); at > e.progress {
			e.progress, e.stuck = at, false
		}
	}
	if !e.deferred {
		e.deferred = true
		a.deferred.Add(1)
		e.progress = max(e.progress, now-q.Oldest)
	}
	if a.refuse && (e.stuck || q.Oldest >= after && now-e.progress >= after) {
		e.stuck = true // newcomers are refused at once
		a.refused[CauseStuck].Add(1)
		return Refuse
	}
	return Defer
}

// Left records that a task that was admitted there has left again.
func (a *Admission) Left(now time.Duration, index int) {
	if e := a.at(index); e != nil {
		e.gate.finished(e.share)
		note(&e.gate.left, now)
		e.moved(now)
	}
}

// Refused is how many tasks were refused for a cause. It may be called from any goroutine.
func (a *Admission) Refused(c Cause) uint64 { return uint64(a.refused[c].Load()) }

// Causes are all there are.
func Causes() []Cause { return []Cause{CauseLine, CauseStuck, CauseWait, CausePile} }

// Report adds the counters to r. It may be called from any goroutine.
func (a *Admission) Report(r *Report) {
	r.Admitted += uint64(a.admitted.Load())
	r.Deferred += uint64(a.deferred.Load())
	for i := range a.refused {
		r.Refused += uint64(a.refused[i].Load())
	}
}
