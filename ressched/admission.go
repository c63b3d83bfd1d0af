package ressched

import (
	"math/bits"
	"time"
)

// A Verdict says what becomes of a task at an entrance.
type Verdict uint8

// The verdicts.
const (
	Admit  Verdict = iota
	Defer          // not now; ask again, for the task that has waited longest
	Refuse         // never: turn it away as cheaply as possible
)

// String is "admit", "defer" or "refuse".
func (v Verdict) String() string {
	switch v {
	case Admit:
		return "admit"
	case Defer:
		return "defer"
	}
	return "refuse"
}

// AdmissionConfig configures an Admission. Zero fields have the defaults named.
type AdmissionConfig struct {
	// Refuse says that tasks may be refused; otherwise they wait, however long it takes.
	Refuse bool
	// Wait is how long a task may wait at an entrance without this being a sign of
	// overload. 5 ms.
	Wait time.Duration
	// Line is how many tasks may wait in line, at the pace at which they are being let
	// in, even if that takes longer than Wait. 10.
	Line int
	// Budget is what those who wait can bear: neither Wait nor Line ever mean more. Where
	// tasks are so short (40 µs) that refusing them would save little, half of it may be
	// waited at any time, and ten times as much by clients that are known to return. 100 ms.
	Budget time.Duration
}

// An Admission decides for one loop what becomes of the tasks that come to its
// entrances. It looks at the task that has waited longest: that one waits until its Gate
// lets it in; or, when the entrance is overloaded, it is refused.
//
// An entrance is overloaded when for some time all tasks have waited too long before
// their turn, and not only in a burst (as in CoDel, RFC 8289). Then tasks of the lowest
// priority are refused if they have waited too long, oldest first. If tasks of higher
// priority still wait more than twice too long, those of the lowest are refused at once,
// and the next higher take their place (as in DAGOR, SoCC 2018). Who is served has
// therefore waited about as long as is allowed, at any load.
//
// Clients that only ask again after an answer are not refused if serving all of them takes
// no longer than they can bear, see SetClients.
type Admission struct {
	cfg       AdmissionConfig
	loop      int
	entrances []entrance // by Node; without gate: not an entrance

	admitted, deferred, refused uint64
}

// NewAdmission returns an Admission without entrances, for the loop with that number.
func NewAdmission(loop int, cfg AdmissionConfig) *Admission {
	if cfg.Wait <= 0 {
		cfg.Wait = 5 * time.Millisecond
	}
	if cfg.Line <= 0 {
		cfg.Line = 10
	}
	if cfg.Budget <= 0 {
		cfg.Budget = 100 * time.Millisecond
	}
	return &Admission{cfg: cfg, loop: max(loop, 0)}
}

// Mark makes n an entrance of the program, with the given gate; nil makes it none.
func (a *Admission) Mark(n Node, g *Gate) {
	for int(n) >= len(a.entrances) {
		a.entrances = append(a.entrances, entrance{})
	}
	a.entrances[n] = entrance{gate: g, since: noTime, until: noTime, asked: noTime, period: noTime, admitted: noTime}
}

// Gate is the gate that n was marked with, nil if it is no entrance.
func (a *Admission) Gate(n Node) *Gate {
	if int(n) >= len(a.entrances) {
		return nil
	}
	return a.entrances[n].gate
}

// Decide says what becomes of the task at n that has waited longest: for so long since
// it became ready. now is from any zero. A task at a node that is no entrance is
// admitted, and not counted.
func (a *Admission) Decide(now time.Duration, n Node, waited time.Duration, p Priority) Verdict {
	if a.Gate(n) == nil {
		return Admit
	}
	e := &a.entrances[n]
	if a.cfg.Refuse && e.refuses(now, waited, p, a.tooLong(e), a.bearable(e)) {
		e.deferred = false
		e.decided++
		a.refused++
		return Refuse
	}
	if !e.gate.admit(now, a.loop) {
		if !e.deferred {
			e.deferred = true
			a.deferred++
		}
		return Defer
	}
	e.deferred = false
	e.decided++
	a.admitted++
	if e.admitted != noTime && waited >= now-e.admitted {
		e.measure(now - e.admitted)
	}
	e.admitted = now
	return Admit
}

// Room says whether so many tasks more would be let in at n by the gate now. It lets
// nobody in.
func (a *Admission) Room(n Node, tasks int) bool {
	g := a.Gate(n)
	return g == nil || g.room(tasks)
}

// Finished says that a task that was admitted at n is done: it has ended, or is back at
// an entrance.
func (a *Admission) Finished(n Node) {
	if g := a.Gate(n); g != nil {
		g.finished(a.loop)
	}
}

// Report adds the counters to r.
func (a *Admission) Report(r *Report) {
	r.Admitted += a.admitted
	r.Deferred += a.deferred
	r.Refused += a.refused
}

// tooLong is how long a task may wait.
func (a *Admission) tooLong(e *entrance) time.Duration {
	if e.short() {
		return max(a.cfg.Wait, a.cfg.Budget/2)
	}
	return min(max(a.cfg.Wait, time.Duration(a.cfg.Line)*(e.pace+e.deviation)), a.cfg.Budget)
}

// bearable is how long clients that return may wait.
func (a *Admission) bearable(e *entrance) time.Duration {
	if e.short() {
		return patientBudgets * a.cfg.Budget
	}
	return a.cfg.Budget
}

// short says that refusing a task would save little. It is not if the pace is not known.
func (e *entrance) short() bool { return e.pace > 0 && e.pace+e.deviation < shortTask }

// measure takes the time between two admissions in the second of which a task had been
// waiting for the first. A long one may be a pause of the machine and counts as no more
// than four times what is usual.
func (e *entrance) measure(t time.Duration) {
	if e.pace == 0 {
		e.pace = t
		return
	}
	off := min(t, 4*e.pace+1) - e.pace
	e.pace += off / 16
	e.deviation += (max(off, -off) - e.deviation) / 16
}

// refuses says whether a task that has waited so long is to be refused.
func (e *entrance) refuses(now, waited time.Duration, p Priority, limit, bearable time.Duration) bool {
	e.note(now, p, limit)
	nobody := now-waited > e.asked // nobody was waiting when the one before was decided upon
	e.asked = now
	switch {
	case e.overloaded:
		if waited < limit/2 || nobody {
			e.overloaded, e.until, e.since = false, now, noTime
		}
	case nobody:
		e.since = noTime
	case waited < limit:
		e.since = noTime
	case e.since == noTime:
		e.since, e.then = now, waited
	}
	if !e.overloaded && e.since != noTime {
		switch again := e.until != noTime && now-e.until < 16*limit; {
		case now-e.since >= limit && waited < e.then: // a line that is getting shorter
			e.since, e.then = now, waited
		case again || now-e.since >= limit || waited-e.then >= limit/4:
			e.overloaded, e.raised = true, now
			e.level = uint8(bits.TrailingZeros64(e.seen[0] | e.seen[1]))
			e.crowd.overloaded(now, e.short())
		}
	}
	if !e.overloaded {
		return false
	}
	if seen := e.seen[0] | e.seen[1]; seen&(seen-1) == 0 && e.returning(now, waited, bearable) {
		return false // nobody is more important than the others
	}
	level := p.level()
	if level > e.level && waited >= 2*limit && now-waited >= e.raised {
		e.raised = now // whoever has come before could not profit from it yet
		above := (e.seen[0] | e.seen[1]) &^ (1<<(e.level+1) - 1)
		e.level = uint8(bits.TrailingZeros64(above))
		e.refused = true
	}
	if level == e.level && waited >= limit {
		e.refused = true
		return true
	}
	return level < e.level
}

// returning says that those in line are clients that return, or may be.
func (e *entrance) returning(now, waited, bearable time.Duration) bool {
	line := e.rate * float64(waited) // they have come since
	return e.crowd.tolerates(now, line, time.Duration(e.crowd.clients)*e.pace, bearable)
}

// note remembers which priorities there are, and lowers the level when nobody of that
// level had to be refused for a period.
func (e *entrance) note(now time.Duration, p Priority, limit time.Duration) {
	if e.period == noTime || now-e.period >= limit {
		below := (e.seen[0] | e.seen[1]) & (1<<e.level - 1)
		if !e.refused && below != 0 && now-e.raised >= 2*limit {
			e.level = uint8(bits.Len64(below) - 1)
		}
		if e.period != noTime {
			e.rate = float64(e.decided) / float64(now-e.period)
		}
		e.seen[1], e.seen[0] = e.seen[0], 0
		e.period, e.refused, e.decided = now, false, 0
	}
	e.seen[0] |= p.bit()
}
