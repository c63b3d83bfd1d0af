// Package wheel has the timers of a loop.
package wheel

import (
	"math/bits"
	"time"
)

// A Wheel keeps the timers of a loop: a hierarchical timing wheel (Varghese and
// Lauck, SOSP 1987, scheme 7), which adds, removes and expires a timer in constant
// time, where Capriccio's sleep queue was a list (section 2.2). Loop-private.
//
// Time is counted in ticks. Level 0 has a slot for each of the next 64 ticks, level 1
// for each of the next 64 blocks of 64 ticks, and so on. When the present enters a
// block, the timers of its slot are spread over the level below. A timer further
// away than the whole wheel reaches waits in its last slot and is then put in anew.
type Wheel struct {
	start time.Duration // of tick 0
	tick  uint64        // all ticks up to this one have been worked off
	count int
	used  [levels]uint64 // bit s: slot s of the level has timers
	slots [levels][slots]*Timer
}

const (
	slotBits = 6
	slots    = 1 << slotBits
	levels   = 6
	reach    = 1<<(slotBits*levels) - 1 // ticks; 52 days
	// Tick is how exactly a timer expires.
	Tick = time.Duration(1 << 16) // 65.5 µs
)

// A Timer calls Of.Expire, on the loop's own goroutine, once its time has come. The zero value, with Of set, can be
// added. Loop-private.
type Timer struct {
	next *Timer
	link **Timer // what points at this timer in its slot; nil: not queued
	at   uint64  // tick
	slot uint16  // level<<slotBits | slot

	Of Expirer
}

// An Expirer is what a Timer is part of. An interface to it, not a func bound to it, which would
// be one more object for each.
type Expirer interface{ Expire() }

// Init sets the time of tick 0. It comes before all else.
func (w *Wheel) Init(now time.Duration) { w.start = now }

// Add queues t to fire at the first tick that is not before at.
func (w *Wheel) Add(t *Timer, at time.Duration) {
	t.at = w.tick + 1
	if at > w.start {
		if tick := (uint64(at-w.start) + uint64(Tick) - 1) / uint64(Tick); tick > t.at {
			t.at = tick
		}
	}
	w.insert(t)
	w.count++
}

// insert links t into the slot for its tick, which is after w.tick.
func (w *Wheel) insert(t *Timer) {
	at := min(t.at, w.tick+reach)
	level := min((bits.Len64(at^w.tick)-1)/slotBits, levels-1)
	slot := at >> (level * slotBits) % slots
	head := &w.slots[level][slot]
	t.slot = uint16(level<<slotBits) | uint16(slot)
	t.next, t.link = *head, head
	if t.next != nil {
		t.next.link = &t.next
	}
	*head = t
	w.used[level] |= 1 << slot
}

// Remove takes t out; it reports whether t was queued.
func (w *Wheel) Remove(t *Timer) bool {
	if t.link == nil {
		return false
	}
	*t.link = t.next
	if t.next != nil {
		t.next.link = t.link
	}
	level, slot := t.slot>>slotBits, t.slot%slots
	if w.slots[level][slot] == nil {
		w.used[level] &^= 1 << slot
	}
	t.next, t.link = nil, nil
	w.count--
	return true
}

// Next returns a time at which advance should be called: not later than the first
// timer is due. ok is false if there is none.
func (w *Wheel) Next() (at time.Duration, ok bool) {
	if w.count == 0 {
		return 0, false
	}
	return w.start + time.Duration(w.nextTick())*Tick, true
}

// nextTick is the first tick after the present at which a slot is to be worked off.
// All timers of a level are in slots after the present one of that level, because
// they share with the present the digits above; only the last level wraps round.
func (w *Wheel) nextTick() uint64 {
	for level, used := range w.used {
		if used == 0 {
			continue
		}
		shift := level * slotBits
		present := w.tick >> shift
		after := bits.RotateLeft64(used, -int(present%slots+1)) // bit 0: the slot after the present one
		return (present + 1 + uint64(bits.TrailingZeros64(after))) << shift
	}
	panic("task: broken invariant: nextTick of an empty wheel")
}

// Advance fires all timers that are due at now, in the order of their ticks.
func (w *Wheel) Advance(now time.Duration) {
	if now < w.start {
		return
	}
	target := uint64(now-w.start) / uint64(Tick)
	for w.count > 0 {
		tick := w.nextTick()
		if tick > target {
			break
		}
		w.tick = tick
		w.spread(tick)
		w.expire(int(tick % slots))
	}
	w.tick = max(w.tick, target)
}

// spread moves the timers of the blocks that begin at tick to lower levels.
func (w *Wheel) spread(tick uint64) {
	for level := levels - 1; level > 0; level-- {
		shift := level * slotBits
		if tick&(1<<shift-1) != 0 {
			continue
		}
		slot := tick >> shift % slots
		for t := w.slots[level][slot]; t != nil; t = w.slots[level][slot] {
			w.Remove(t)
			w.count++
			if t.at <= tick {
				t.at = tick
				w.insertDue(t)
			} else {
				w.insert(t)
			}
		}
	}
}

// insertDue links t into the slot of level 0 that is being worked off.
func (w *Wheel) insertDue(t *Timer) {
	head := &w.slots[0][w.tick%slots]
	t.slot = uint16(w.tick % slots)
	t.next, t.link = *head, head
	if t.next != nil {
		t.next.link = &t.next
	}
	*head = t
	w.used[0] |= 1 << (w.tick % slots)
}

func (w *Wheel) expire(slot int) {
	for t := w.slots[0][slot]; t != nil; t = w.slots[0][slot] {
		w.Remove(t)
		t.Of.Expire()
	}
}

// Len is how many timers are queued.
func (w *Wheel) Len() int { return w.count }

// Any reports whether is holds of what a queued timer is part of.
func (w *Wheel) Any(is func(Expirer) bool) bool {
	for level := range w.slots {
		for _, t := range w.slots[level] {
			for ; t != nil; t = t.next {
				if is(t.Of) {
					return true
				}
			}
		}
	}
	return false
}
