//go:build linux

package recorder

// A Task is what a loop's recorder keeps in a task, next to what each step touches. Where there are thousands of tasks,
// each line of the processor's cache that a step touches is felt: the Note is in another line, which only waits write.
// The zero Task is one that has not started. Loop-private.
type Task struct {
	node  uint16 // where it last waited: see mostNodes
	quiet bool   // nothing is measured of its wait and of the step after it
}

// Quiet reports whether nothing is measured of its wait.
func (t *Task) Quiet() bool { return t.quiet }

// Node is the node where the task last waited.
func (t *Task) Node() NodeID { return NodeID(t.node) }

// A Note is what others may read of a task between its start and its end. The loop writes it; others read the words. It
// is reused when the task has ended.
//
// There is one for each task, so it is small, and without pointers: the collector need not read it.
//
//	free ─▶ running ◀────────── ready
//	           │    ◀────╮        ▲
//	           ╰──────▶ waiting ──╯
//
// It is ready only if the wait is measured; else it remains waiting until the task runs.
type Note struct {
	state noteState
	own   [3]uint8 // see gauge
	node  NodeID   // where the task waits or last waited
	since uint64   // cycles: when it began to wait, to be ready, or to run
}

type noteState uint8

const (
	noteFree noteState = iota
	noteRunning
	noteWaiting
	noteReady
)

// noteOf takes apart the first word of a Note, which others may have read while the loop wrote it.
func noteOf(word uint64) (state noteState, at NodeID) { return noteState(word), NodeID(word >> 32) }

// A gauge is the measurement of a task's current step. Few tasks are measured at a time, so it is apart from Task. Loop-private.
type gauge struct {
	ready    uint64 // cycles when the task became ready; only if timed
	heap     uint64 // bytes allocated when its step began; 0: not measured
	holds    uint64 // the heap that the task counts for in Shard.meter; 0: it does not count
	held     uint64 // bytes allocated since the task was admitted
	next     uint32 // next of the unused gauges, see Shard.idle
	measured bool   // the step after this wait is measured
	timed    bool   // time is measured, of the step and of the wait
	first    bool   // if timed: because its node had hardly been met
	counts   uint8  // if timed: as how many samples
	metered  uint8  // steps yet to be measured of what it has come in for
}

// maxGauges is how many gauges Note.own can tell apart: enough for tasks that take 50 GB, if each wait is measured.
const maxGauges = 1<<24 - 1

// gauge is 1 + the number of the gauge that the task has, or 0.
func (o *Note) gauge() uint32 {
	return uint32(o.own[0]) | uint32(o.own[1])<<8 | uint32(o.own[2])<<16
}

func (o *Note) setGauge(n uint32) { o.own = [...]uint8{uint8(n), uint8(n >> 8), uint8(n >> 16)} }

// gaugeOf returns the gauge of o, nil if it has none.
func (s *Shard) gaugeOf(o *Note) *gauge {
	if n := o.gauge(); n != 0 {
		return s.gauges.at(int64(n - 1))
	}
	return nil
}

// measures reports whether something is measured of the step of o that is next, or now.
func (s *Shard) measures(o *Note) bool {
	g := s.gaugeOf(o)
	return g != nil && g.measured
}

// giveGauge is gaugeOf that gives o a gauge if it has none; for that there must be room. It calls nothing,
// as measured.
func (s *Shard) giveGauge(o *Note) *gauge {
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
func (s *Shard) release(o *Note) {
	if g := s.gaugeOf(o); g != nil && !g.measured && g.metered == 0 && g.holds == 0 && g.heap == 0 {
		g.next, s.idle = s.idle, o.gauge()
		o.setGauge(0)
	}
}
