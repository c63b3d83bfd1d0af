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
	engine.Seat // first, see noteOf; Own is 1 + the number of the gauge that it has, or 0
}

// A gauge is what few tasks need at a time: those of which something is measured. Loop-private.
type gauge struct {
	ready    uint64 // cycles when it became ready; only if timed
	heap     uint64 // bytes allocated when its step began; 0: not measured
	holds    uint64 // what it counts as in shard.meter; 0: not at all
	held     uint64 // bytes allocated since it came in
	next     uint32 // of those to use again, see shard.idle
	measured bool   // something is measured of the step after this wait
	timed    bool   // its time is, and that of the wait
	first    bool   // if timed: because its node had hardly been met
	counts   uint8  // if timed: as how many samples
	metered  uint8  // steps yet to be measured of what it has come in for
}

// maxGauges is what note.Own can tell apart: if each wait is measured, of tasks that take 50 GB.
const maxGauges = 1<<24 - 1

func (o *note) gauge() uint32 {
	return uint32(o.Own[0]) | uint32(o.Own[1])<<8 | uint32(o.Own[2])<<16
}

func (o *note) setGauge(n uint32) { o.Own = [...]uint8{uint8(n), uint8(n >> 8), uint8(n >> 16)} }

// gaugeOf returns the gauge of o, nil if it has none.
func (s *shard) gaugeOf(o *note) *gauge {
	if n := o.gauge(); n != 0 {
		return s.gauges.at(int64(n - 1))
	}
	return nil
}

// measures reports whether something is measured of the step of o that is next, or now.
func (s *shard) measures(o *note) bool {
	g := s.gaugeOf(o)
	return g != nil && g.measured
}

// giveGauge is gaugeOf that gives o a gauge if it has none; for that there must be room. It calls nothing,
// as measured.
func (s *shard) giveGauge(o *note) *gauge {
	n := o.gauge()
	switch {
	case n != 0:
	case s.idle == 0:
		n = min(uint32(s.gauges.n.Add(1)), maxGauges)
		o.setGauge(n)
	default:
		n = s.idle
		o.setGauge(n)
		s.idle = s.gauges.at(int64(n - 1)).next
		*s.gauges.at(int64(n - 1)) = gauge{}
	}
	return s.gauges.at(int64(n - 1))
}

// release takes the gauge of o, if it has one, once nothing is measured of its task.
func (s *shard) release(o *note) {
	if g := s.gaugeOf(o); g != nil && !g.measured && g.metered == 0 && g.holds == 0 && g.heap == 0 {
		g.next, s.idle = s.idle, o.gauge()
		o.setGauge(0)
	}
}

func noteOf(t *engine.Task) *note { return (*note)(unsafe.Pointer(t.Seat())) }
