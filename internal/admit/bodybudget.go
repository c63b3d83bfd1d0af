package admit

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A BodyBudget has large bodies that come from outside read in an order while memory is short:
//
//	         what they may yet make the heap hold is more than half of its limit leaves
//	plenty ─────────────────────────────────────────────────────────────────────────────▶ short
//	(all are read) ◀───────────────────────────────────────────────────────────────── (in order)
//	                                      it is less
//
// While it is short the oldest are read to their ends, as many as there is room for. The others are held, and their
// clients feel the back pressure of TCP. So some always come to their end, and give back what they hold. A runtime has
// one. The zero value lets all be read. Its methods may be called from any goroutine.
type BodyBudget struct {
	ticked atomic.Bool   // Tick has been called
	free   atomic.Int64  // bytes that may be read before an order is kept
	last   atomic.Uint64 // number of the body that began last

	// Guarded by mu:
	mu         sync.Mutex
	asked      []*bodyEntry // the oldest first
	now        time.Duration
	set        int64         // what free was set to
	limit      float64       // of the heap, in bytes
	live       float64       // of the heap, at liveAt
	readSince  float64       // bytes that were read since liveAt
	liveAt     time.Duration // when live was last known
	endedBytes float64       // bytes read by bodies that have ended since liveAt
	forced     float64       // live when a body was last admitted without enough room
	share      float64       // of the bytes read, that bodies hold at most
	base       float64       // part of live that does not belong to asked, at most
	readBefore float64       // bytes that asked had read at liveAt
}

// A Body is being read. The zero value has not begun. It belongs to its reader.
type Body struct {
	number uint64     // 0: not large yet
	fresh  int64      // bytes that have been read and not been counted yet
	read   int64      // bytes that have been counted
	entry  *bodyEntry // nil: it was never asked for while memory was short
}

// A bodyEntry is a body that was asked for while memory was short. Guarded by mu of its BodyBudget.
type bodyEntry struct {
	number     uint64
	read, left int64         // bytes; left is below 0 if it is not known
	admitted   bool          // it is read to its end
	shed       bool          // it is refused when it asks again
	heldSince  time.Duration // 0: it is not held
}

// Read counts n bytes that have been read of b; left bytes are yet to come, below 0 if that is not known. While memory
// is short and others go first it returns a pause, after which the reader calls Held; 0: it may go on.
func (in *BodyBudget) Read(b *Body, n int, left int64) (pause time.Duration) {
	if b.fresh += int64(n); b.fresh < bodyStep || !in.ticked.Load() {
		return 0
	}
	if b.number == 0 {
		b.number = in.last.Add(1)
	}
	fresh := b.fresh
	b.fresh = 0
	b.read += fresh
	if in.free.Add(-fresh) >= 0 && b.entry == nil {
		return 0
	}
	pause, _ = in.ask(b, fresh, left)
	return pause
}

// Held returns whether the reader has to go on waiting, as Read does; refused: it has waited too long, or there is no
// memory for it.
func (in *BodyBudget) Held(b *Body, left int64) (pause time.Duration, refused bool) {
	return in.ask(b, 0, left)
}

// ask returns the pause of the reader of b, 0 if it may go on.
func (in *BodyBudget) ask(b *Body, n, left int64) (pause time.Duration, refused bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	a := b.entry
	if a == nil {
		a = &bodyEntry{number: b.number, read: b.read - n}
		b.entry = a
		in.base -= float64(a.read) // as it may be part of live
		i, _ := slices.BinarySearchFunc(in.asked, a.number, func(o *bodyEntry, number uint64) int { return cmp.Compare(o.number, number) })
		in.asked = slices.Insert(in.asked, i, a)
	}
	a.read += n
	a.left = left
	switch {
	case a.admitted || left == 0 || in.free.Load() >= 0 || !in.ticked.Load():
		a.heldSince, a.shed = 0, false
		return 0, false
	case a.heldSince == 0:
		a.heldSince = max(in.now, 1)
	case a.shed:
		return 0, true
	}
	// Bodies far behind in the queue need not ask often.
	return bodyPause * time.Duration(1+min(slices.Index(in.asked, a)+1, 100)/8), false
}

// End is called when the request that b belongs to has ended.
func (in *BodyBudget) End(b *Body) {
	if a := b.entry; a != nil {
		in.mu.Lock()
		in.asked = slices.DeleteFunc(in.asked, func(o *bodyEntry) bool { return o == a })
		in.endedBytes += float64(a.read)
		in.mu.Unlock()
		b.entry = nil
	}
}

// Tick is called every 10 ms or so with the limit of the heap and the bytes that were live at the last collection;
// fresh: live is that of a new collection. It reports whether bodies are held, and whether a collection is worth its
// price.
func (in *BodyBudget) Tick(now time.Duration, limit, live float64, fresh bool) (held, collect bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if pause := standstill(in.now, now); pause > 0 {
		for _, a := range in.asked {
			if a.heldSince > 0 {
				a.heldSince = min(a.heldSince+pause, now)
			}
		}
	}
	in.now, in.limit = now, limit
	if in.ticked.Load() {
		taken := float64(in.set - in.free.Load())
		if fresh {
			in.readSince = 0
		}
		in.readSince += taken
	}
	if fresh || !in.ticked.Load() {
		in.learn(live)
		in.live, in.liveAt, in.endedBytes = live, now, 0
	}
	room := in.limit - in.live - bodyHolds*in.share*in.readSince
	easy := max(room-(1-bodyEasy)*in.share*in.limit, 0)
	in.set = int64(easy / bodyHolds / in.share)
	if in.set == 0 {
		in.set = -1
	}
	in.free.Store(in.set)
	in.ticked.Store(true)
	held = in.set < 0 && in.order(room, fresh)
	return held, held && (in.endedBytes >= bodyGiven*in.limit || now-in.liveAt >= bodyLooks)
}

// learn finds out which share of the bytes that are read stays in memory: handlers that pass a body on hold little. At the
// last collection the bodies held at most what had been read of them at the collection before.
func (in *BodyBudget) learn(live float64) {
	if len(in.asked) == 0 {
		in.share, in.base, in.readBefore = 1, live, 0
		return
	}
	in.base = min(in.base, live)
	if read := in.readBefore - in.endedBytes; read >= bodySeen {
		if seen := (live - in.base) / read; seen < bodyEasy {
			in.share = max((in.share+seen)/2, bodyShare)
		} else {
			in.share = 1
		}
	}
	in.readBefore = 0
	for _, a := range in.asked {
		in.readBefore += float64(a.read)
	}
}

// order admits bodies, and reports whether any is held. One body is admitted in any case: if it turns out to need
// memory that others have, the newest of the held bodies are refused, one at each collection.
func (in *BodyBudget) order(room float64, fresh bool) (held bool) {
	left, going := room, 0
	for _, a := range in.asked {
		if a.admitted && a.left != 0 {
			left -= in.expectedHeap(a)
			going++
		}
	}
	var newest *bodyEntry
	for _, a := range in.asked {
		if a.admitted || a.heldSince == 0 || a.left == 0 {
			continue
		}
		if left -= in.expectedHeap(a); left >= 0 || going == 0 {
			a.admitted, in.forced = true, in.live
			going++
			continue
		}
		held = true
		a.shed = a.shed || in.now-a.heldSince >= longestWait
		newest = a
	}
	if held && fresh && left < 0 && in.live > in.forced+bodyMore*in.limit {
		newest.shed = true
	}
	return held
}

// expectedHeap returns how many bytes of heap the unread part of a is expected to take.
func (in *BodyBudget) expectedHeap(a *bodyEntry) float64 {
	left := a.left
	if left < 0 {
		left = max(a.read, bodyLeast)
	}
	return bodyHolds * in.share * float64(left)
}

// LiftUntilTick lets all bodies be read until Tick is called again.
func (in *BodyBudget) LiftUntilTick() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.ticked.Store(false)
}
