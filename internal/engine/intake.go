package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An Intake has large bodies that come from outside read in an order while memory is short:
//
//	         what they may yet make the heap hold is more than half of its limit leaves
//	plenty ─────────────────────────────────────────────────────────────────────────────▶ short
//	(all go on) ◀───────────────────────────────────────────────────────────────────── (in order)
//	                                      it is less
//
// While it is short the oldest go on, as many as there is room for until their ends. The others are held, and their
// clients feel the back pressure of TCP. So some always come to their end, and give back what they hold. The
// zero value lets all go on. Its methods may be called from any goroutine.
type Intake struct {
	told atomic.Bool   // Tick has been called
	free atomic.Int64  // bytes that may be read before an order is kept
	last atomic.Uint64 // number of the body that began last

	// Guarded by mu:
	mu     sync.Mutex
	asked  []*asked // the oldest first
	now    time.Duration
	set    int64         // what free was set to
	limit  float64       // of the heap, in bytes
	live   float64       // of the heap, when that was last known
	since  float64       // bytes that were read since
	known  time.Duration // when it was
	given  float64       // bytes read by bodies that have ended since
	forced float64       // live when one was last let go for which there is not enough
	share  float64       // that is held of what is read, at most
	base   float64       // of live, what is not of those asked, at most
	were   float64       // bytes that those asked had read when live was last known
}

// Bodies is the Intake of the process, as memory is of the process.
var Bodies Intake

// A Body is one that is being read. The zero value is one that has not begun. It belongs to its reader.
type Body struct {
	number uint64 // 0: not large yet
	fresh  int64  // bytes that have been read and not been counted yet
	read   int64  // bytes that have been counted
	asked  *asked // nil: it was never asked for while memory was short
}

// An asked is a body that was asked for while memory was short. Guarded by mu of its Intake.
type asked struct {
	number     uint64
	read, left int64 // bytes; left is below 0 if it is not known
	goes, shed bool
	held       time.Duration // since when; 0: it is not
}

const (
	bodyStep  = 64 << 10               // bytes that are counted at once
	bodyHolds = 2.5                    // bytes that a handler holds at most for each that it has read, while it copies them
	bodyLeast = 1 << 20                // bytes that are taken to be left at least of a body of unknown length
	bodyEasy  = 0.5                    // share of the heap's limit up to which all go on
	bodyWaits = 10 * time.Second       // at most, as in a line
	bodyMore  = 0.1                    // share of the limit that one may take for which there is no room before the newest are shed
	bodyLooks = 100 * time.Millisecond // until it is worth a collection to know more of the heap
	bodyGiven = 1.0 / 16               // or that share of the limit has ended
	bodySeen  = 4 << 20                // bytes read, from which on it shows how much of them is held
	bodyShare = 0.05                   // that is held at least
	bodyKept  = 0.5                    // more is all, as handlers copy what they hold now and then
	bodyPause = 10 * time.Millisecond
)

// Took counts n bytes that have been read of b, of which left are yet to come, below 0 if that is not known. It parks
// while memory is short and others go first, until over, which is asked now and then, reports that the request has no
// use for its body any more. The error is ErrRefused if that takes too long, or the task's when that is cancelled.
func (in *Intake) Took(b *Body, n int, left int64, over func() bool) error {
	if b.fresh += int64(n); b.fresh < bodyStep || !in.told.Load() {
		return nil
	}
	if b.number == 0 {
		b.number = in.last.Add(1)
	}
	n, b.fresh = int(b.fresh), 0
	b.read += int64(n)
	if in.free.Add(-int64(n)) >= 0 && b.asked == nil {
		return nil
	}
	place, err := in.ask(b, int64(n), left)
	for ; place > 0 && err == nil && !over(); place, err = in.ask(b, 0, left) {
		// Those far behind need not look often.
		if err := Sleep(bodyPause * time.Duration(1+min(place, 100)/8)); err != nil {
			return err
		}
	}
	return err
}

// ask returns how many are before b, 0 if it may go on.
func (in *Intake) ask(b *Body, n, left int64) (place int, err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	a := b.asked
	if a == nil {
		a = &asked{number: b.number, read: b.read - n}
		b.asked = a
		in.base -= float64(a.read) // as it may be part of live
		i, _ := slices.BinarySearchFunc(in.asked, a.number, func(o *asked, number uint64) int {
			if o.number < number {
				return -1
			}
			return 1
		})
		in.asked = slices.Insert(in.asked, i, a)
	}
	a.read += n
	a.left = left
	switch {
	case a.goes || left == 0 || in.free.Load() >= 0 || !in.told.Load():
		a.held, a.shed = 0, false
		return 0, nil
	case a.held == 0:
		a.held = max(in.now, 1)
	case a.shed:
		return 0, ErrRefused
	}
	return slices.Index(in.asked, a) + 1, nil
}

// End is called when the request that b belongs to has ended.
func (in *Intake) End(b *Body) {
	if a := b.asked; a != nil {
		in.mu.Lock()
		in.asked = slices.DeleteFunc(in.asked, func(o *asked) bool { return o == a })
		in.given += float64(a.read)
		in.mu.Unlock()
		b.asked = nil
	}
}

// Tick is called every 10 ms or so with the limit of the heap and what of it was live at the last collection, in bytes;
// fresh: that is new. It reports whether bodies are held, and whether a collection is worth its price.
func (in *Intake) Tick(now time.Duration, limit, live float64, fresh bool) (held, collect bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.now, in.limit = now, limit
	if in.told.Load() {
		taken := float64(in.set - in.free.Load())
		if fresh {
			in.since = 0
		}
		in.since += taken
	}
	if fresh || !in.told.Load() {
		in.learn(live)
		in.live, in.known, in.given = live, now, 0
	}
	room := in.limit - in.live - bodyHolds*in.share*in.since
	easy := max(room-(1-bodyEasy)*in.share*in.limit, 0)
	in.set = int64(easy / bodyHolds / in.share)
	if in.set == 0 {
		in.set = -1
	}
	in.free.Store(in.set)
	in.told.Store(true)
	held = in.set < 0 && in.order(room, fresh)
	return held, held && (in.given >= bodyGiven*in.limit || now-in.known >= bodyLooks)
}

// learn finds out how much is held of what is read: handlers that pass it on hold little. What those that are asked
// held at the last collection is all that they had read at the one before, but for those that have ended, or less.
func (in *Intake) learn(live float64) {
	if len(in.asked) == 0 {
		in.share, in.base, in.were = 1, live, 0
		return
	}
	in.base = min(in.base, live)
	if read := in.were - in.given; read >= bodySeen {
		if seen := (live - in.base) / read; seen < bodyKept {
			in.share = max((in.share+seen)/2, bodyShare)
		} else {
			in.share = 1
		}
	}
	in.were = 0
	for _, a := range in.asked {
		in.were += float64(a.read)
	}
}

// order says which go on, and reports whether any is held. One goes on in any case: if it turns out that it takes memory that
// there is not, those that came last are shed for it.
func (in *Intake) order(room float64, fresh bool) (held bool) {
	left, going := room, 0
	for _, a := range in.asked {
		if a.goes && a.left != 0 {
			left -= in.needs(a)
			going++
		}
	}
	var newest *asked
	for _, a := range in.asked {
		if a.goes || a.held == 0 || a.left == 0 {
			continue
		}
		if left -= in.needs(a); left >= 0 || going == 0 {
			a.goes, in.forced = true, in.live
			going++
			continue
		}
		held = true
		a.shed = a.shed || in.now-a.held >= bodyWaits
		newest = a
	}
	if held && fresh && left < 0 && in.live > in.forced+bodyMore*in.limit {
		newest.shed = true
	}
	return held
}

// needs is how much a may yet make the heap hold.
func (in *Intake) needs(a *asked) float64 {
	left := a.left
	if left < 0 {
		left = max(a.read, bodyLeast)
	}
	return bodyHolds * in.share * float64(left)
}

// Open lets all go on until Tick is called again.
func (in *Intake) Open() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.told.Store(false)
}
