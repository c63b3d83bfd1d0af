//go:build linux

package recorder

import (
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A note is what a shard knows about one task. The loop writes it; others read the
// words. It is reused when the task has ended.
//
// There is one for each task, so it is small, and without pointers: the collector need not read it.
type note struct {
	engine.Seat // first, see noteOf
	// measured: something is measured of the step after this wait, and there is a gauge. timed: its time, and that of the wait.
	measured, timed bool
	metered         uint8  // steps yet to be measured of what it has come in for; if there are, there is a gauge
	gauge           uint32 // 1 + the number of the one that it has; 0: none, see gaugeOf
}

// A gauge is what few tasks need at a time: those of which something is measured. Loop-private.
type gauge struct {
	ready  uint64 // cycles when it became ready; only if timed
	heap   uint64 // bytes allocated when its step began; 0: not measured
	holds  uint64 // what it counts as in shard.meter; 0: not at all
	held   uint64 // bytes allocated since it came in
	next   uint32 // of those to use again, see shard.idle
	first  bool   // if timed: because its node had hardly been met
	counts uint8  // if timed: as how many samples
}

// gaugeOf returns the gauge of o, which gets one if it has none; for that there must be room. It calls nothing,
// as measured.
func (s *shard) gaugeOf(o *note) *gauge {
	switch {
	case o.gauge != 0:
	case s.idle == 0:
		o.gauge = uint32(s.gauges.n.Add(1))
	default:
		o.gauge = s.idle
		s.idle = s.gauges.at(int64(o.gauge - 1)).next
		*s.gauges.at(int64(o.gauge - 1)) = gauge{}
	}
	return s.gauges.at(int64(o.gauge - 1))
}

// release takes the gauge of o, if it has one, once nothing is measured of its task.
func (s *shard) release(o *note) {
	if o.gauge == 0 || o.measured || o.metered > 0 {
		return
	}
	if g := s.gauges.at(int64(o.gauge - 1)); g.holds == 0 && g.heap == 0 {
		g.next, s.idle, o.gauge = s.idle, o.gauge, 0
	}
}

func noteOf(t *engine.Task) *note { return (*note)(unsafe.Pointer(t.Seat())) }
