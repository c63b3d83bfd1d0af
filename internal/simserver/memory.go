//go:build linux

package simserver

import (
	"math"
	"time"

	"github.com/capriccio-go/capriccio/internal/probe"
)

// A Memory is the simulated heap: memory that handlers hold, garbage that has not been collected
// yet, and a collector like Go's. Allocations of the server under test itself are not in it.
type Memory struct {
	w *World

	// All guarded by World.mu.
	limit   int // fixed: bytes, GOMEMLIMIT; 0: none
	live    int
	total   uint64 // allocated so far
	garbage int
	marked  int // live at the end of the last collection
	cycles  uint64
	gc      time.Duration // processor time of the collector
	most    int           // the most that was ever live
	forced  int           // collections by Collect
	killed  time.Duration // when it was more than there is; 0: never
}

// leastHeap is when the first collection begins, in bytes.
const leastHeap = 4 << 20

func newMemory(w *World) *Memory { return &Memory{w: w} }

// Hold takes n bytes, which Release gives back.
func (m *Memory) Hold(n int) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.live += n
	m.total += uint64(n)
	m.most = max(m.most, m.live)
	goal := max(2*m.marked, leastHeap)
	if m.limit > 0 {
		goal = max(min(goal, m.limit), m.marked+m.marked/16) // so that it takes no more than half of the time
		if m.live > m.limit && m.killed == 0 {
			m.killed = m.w.Now()
		}
	}
	if m.live+m.garbage > goal {
		m.collect()
	}
}

// Release makes garbage of n bytes.
func (m *Memory) Release(n int) {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.live -= n
	m.garbage += n
}

// collect costs 100 µs, and 0.25 ms for each MiB that is live. The caller holds World.mu.
func (m *Memory) collect() {
	m.garbage, m.marked = 0, m.live
	m.cycles++
	d := 100*time.Microsecond + time.Duration(m.live)*(250*time.Microsecond)>>20
	m.gc += d
	m.w.charge(d)
}

// Collect is runtime.GC.
func (m *Memory) Collect() {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	m.forced++
	m.collect()
}

// Killed reports whether the process would have been killed for the memory it used.
func (m *Memory) Killed() bool {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.killed > 0
}

// Held is how many bytes are live.
func (m *Memory) Held() int {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.live
}

// allocated is how many bytes have been allocated.
func (m *Memory) allocated() uint64 {
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	return m.total
}

// runtime is what the Go runtime would say, once the process is not stopped.
func (m *Memory) runtime() probe.Runtime {
	m.w.held()
	m.w.mu.Lock()
	defer m.w.mu.Unlock()
	r := probe.Runtime{
		MemoryLimit: math.MaxInt64, Percent: 100, Live: float64(m.marked), Objects: float64(m.live + m.garbage),
		Cycles: m.cycles, GC: m.gc.Seconds(), Procs: float64(len(m.w.cpus)),
	}
	r.CPU = m.w.since().Seconds() * r.Procs
	if m.limit > 0 {
		r.MemoryLimit = float64(m.limit)
	}
	return r
}
