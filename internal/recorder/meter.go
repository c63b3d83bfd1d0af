//go:build linux

package recorder

// A meter measures, on one loop, the heap that tasks hold that have come in at an entrance. A measurement takes two
// microseconds a step, so not all tasks can be measured: tasks that come in when many have done so shortly before are
// left out, and of each task only the first steps are measured.
type meter struct {
	stats meterStats // read by others
	paid  uint64     // cycles: the time up to which the measurements are paid for
}

type meterStats struct {
	tasks uint64 // tasks of which a step has been measured
	bytes uint64 // bytes that these tasks hold
	most  uint64 // bytes that one of them, or a single step of any task, has ever been seen to allocate
}

const (
	meteredSteps = 32
	meteredRate  = 2000 // tasks a second, on average
	meteredBurst = 256  // tasks
)

// Held returns how many admitted tasks are metered, and estimates the heap that they hold. A task holds all that it
// has allocated so far, but at least what Expect said, as it may allocate that later. Held stops no loop.
func (g *Graph) Held() (tasks int, bytes float64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, sh := range g.shards {
		var m meterStats
		read(&m, &sh.meter.stats)
		tasks += int(m.tasks)
		bytes += float64(m.bytes)
	}
	return tasks, bytes
}

// MostHeld is the most that a task has been seen to allocate between the entrance and its end, or any task in
// one step, in bytes; 0 if nothing was measured. It stops no loop.
func (g *Graph) MostHeld() (bytes uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, sh := range g.shards {
		var m meterStats
		read(&m, &sh.meter.stats)
		bytes = max(bytes, m.most)
	}
	return bytes
}

// Expect says how much a task that has come in is going to hold on average, in bytes.
func (g *Graph) Expect(bytes uint64) { g.expected.Store(bytes) }

// enter is called when a task comes to an entrance, from a node. There must be room for a gauge.
func (s *Shard) enter(o *Note, from *node) {
	g := s.gaugeOf(o)
	again := from.entrance && g != nil && g.metered > 0 // now it waits there
	s.leave(o)
	if again {
		s.watch(o)
		return
	}
	if s.g.cfg.HeapEvery < 0 {
		return
	}
	m := &s.meter
	if burst := meteredBurst * s.g.heapGap; s.turn > m.paid+burst {
		m.paid = s.turn - burst
	}
	if m.paid <= s.turn {
		m.paid += s.g.heapGap
		s.watch(o)
	}
}

func (s *Shard) watch(o *Note) { s.giveGauge(o).metered = meteredSteps }

// leave is called when a task has done what it came in for.
func (s *Shard) leave(o *Note) {
	g := s.gaugeOf(o)
	if g == nil {
		return
	}
	g.metered = 0
	if g.holds != 0 {
		s.meter.stats.tasks--
		s.meter.stats.bytes -= g.holds
	}
	g.holds, g.held = 0, 0
	s.release(o)
}

// holds is called when a metered task has allocated d bytes in a step.
func (s *Shard) holds(o *Note, d uint64) {
	g := s.gaugeOf(o)
	g.metered--
	if g.holds == 0 {
		s.meter.stats.tasks++
	}
	g.held += d
	now := max(g.held, s.g.expected.Load(), 1)
	s.meter.stats.bytes += now - g.holds
	g.holds = now
}
