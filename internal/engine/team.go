package engine

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// A team says which loops of a runtime get new tasks and connections: those of the lowest index, as many
// as there are processors. Tasks that are there stay with their loop, as tasks can't move; the rest of the loops
// wait in their pollers.
type team struct {
	procs   func() int   // nil: all loops work, always; fixed
	working atomic.Int32 // loops that get new work
	gomax   atomic.Int32 // processors, as last seen

	mu    sync.Mutex
	grown context.Context    // ends when more loops work than now; guarded by mu
	grow  context.CancelFunc // of grown; guarded by mu
}

// loops are those of all runtimes, as the processors are the process's.
var loops struct {
	working atomic.Int32 // that get new work
}

// crowded reports whether there are more loops than processors.
func (m *team) crowded() bool { return loops.working.Load() > m.gomax.Load() }

// gather sets up the team, and returns how many loops there are to be.
func (m *team) gather(cfg *Config) (loops int) {
	m.grown, m.grow = context.WithCancel(context.Background())
	if loops = cfg.Loops; loops == 0 {
		if m.procs = cfg.Procs; m.procs == nil {
			m.procs = func() int { return runtime.GOMAXPROCS(0) }
		}
		cfg.Loops = min(max(m.procs(), 1), MaxLoops)
		loops = min(cfg.Loops+max(cfg.Spare, 0), MaxLoops)
	}
	m.working.Store(int32(cfg.Loops))
	m.gomax.Store(int32(runtime.GOMAXPROCS(0)))
	return loops
}

// Working is how many loops get new tasks and connections, those of the lowest index: if Config.Loops is 0,
// as many as GOMAXPROCS says.
func (rt *Runtime) Working() int { return int(rt.team.working.Load()) }

// Grown returns a context that ends when more loops work than now.
func (rt *Runtime) Grown() context.Context {
	rt.team.mu.Lock()
	defer rt.team.mu.Unlock()
	return rt.team.grown
}

// Follow adapts the number of working loops to GOMAXPROCS. The watchdog calls it once a second. One goroutine at a time may call it.
func (rt *Runtime) Follow() {
	m := &rt.team
	m.gomax.Store(int32(runtime.GOMAXPROCS(0)))
	if m.procs == nil {
		return
	}
	n := int32(min(max(m.procs(), 1), len(rt.loops)))
	was := m.working.Swap(n)
	if n == was {
		return
	}
	loops.working.Add(n - was)
	rt.log.Info("task: GOMAXPROCS has changed: another number of loops gets new work", "before", was, "loops", n)
	if n > was {
		m.mu.Lock()
		grow := m.grow
		m.grown, m.grow = context.WithCancel(context.Background())
		m.mu.Unlock()
		grow()
	}
}

// Works reports whether l gets new work, see Runtime.Working.
func (l *Loop) Works() bool { return l.index < l.rt.Working() }

// ForNewWork returns the loop that takes new work in place of l: l itself, if it works.
func (l *Loop) ForNewWork() *Loop {
	if l.Works() {
		return l
	}
	return l.rt.NextLoop()
}
