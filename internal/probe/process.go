//go:build linux

package probe

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// Runtime is what the Go runtime says of its memory.
type Runtime struct {
	MemoryLimit float64 // GOMEMLIMIT, in bytes; math.MaxInt64 if there is none
	Percent     float64 // GOGC; less than 0 or very large if it is off
	Live        float64 // bytes that the last collection found reachable
	Objects     float64 // bytes allocated and not freed yet, reachable or not
	Cycles      uint64  // collections completed
	GC          float64 // processor seconds used by the collector, but for idle time
	CPU         float64 // processor seconds there were; both as of the last collection
	Procs       float64 // GOMAXPROCS; 0 counts as 1
}

// A runtimeReader reads runtime/metrics.
type runtimeReader struct{ samples []metrics.Sample }

func newRuntimeReader() *runtimeReader {
	r := &runtimeReader{}
	for _, name := range []string{
		"/gc/gogc:percent", "/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes", "/gc/cycles/total:gc-cycles",
		"/cpu/classes/gc/total:cpu-seconds", "/cpu/classes/gc/mark/idle:cpu-seconds", "/cpu/classes/total:cpu-seconds",
	} {
		r.samples = append(r.samples, metrics.Sample{Name: name})
	}
	return r
}

func (r *runtimeReader) read() Runtime {
	metrics.Read(r.samples)
	number := func(i int) float64 {
		switch v := r.samples[i].Value; v.Kind() {
		case metrics.KindUint64:
			return float64(v.Uint64())
		case metrics.KindFloat64:
			return v.Float64()
		}
		return 0 // a metric that this version of Go does not have
	}
	return Runtime{
		MemoryLimit: float64(debug.SetMemoryLimit(-1)),
		Percent:     number(0), Live: number(1), Objects: number(2), Cycles: uint64(number(3)),
		GC: number(4) - number(5), CPU: number(6), Procs: float64(runtime.GOMAXPROCS(0)),
	}
}

// A heapReader estimates what of the heap is reachable. That is known exactly only when
// a collection ends; in between, it is at most what has not been freed.
type heapReader struct {
	cycles uint64
	at     time.Duration // of the last reading
}

const (
	// With a limit for the runtime, the collector works the harder the nearer the heap is
	// to it. How near is good depends on what is in it (large blocks without pointers cost
	// next to nothing), which the collector's share of the processor shows.
	heapUnderLimit = 0.9
	// Without one, the heap grows by GOGC percent between two collections, and that must
	// fit into nine tenths of what the machine has.
	heapUnderMachine = 0.9
	collectorOff     = 1e6 // GOGC above this is off
	// quiet is after which time the limit is read again if there is no collection.
	quiet = 250 * time.Millisecond
)

func (h *heapReader) read(p *Probe, now time.Duration, r Runtime, machine float64) {
	limit := machine * heapUnderMachine
	switch {
	case r.MemoryLimit <= machine:
		limit = r.MemoryLimit * heapUnderLimit
	case r.Percent >= 0 && r.Percent < collectorOff:
		limit /= 1 + r.Percent/100
	}
	if limit <= 0 || limit > noLimit {
		return // there is no limit at all
	}
	switch {
	case r.Cycles == 0:
		p.add(Reading{Name: Heap, Value: r.Objects, Limit: limit})
	case r.Cycles != h.cycles || now-h.at >= quiet:
		p.add(Reading{Name: Heap, Value: r.Live, Limit: limit, Old: r.Cycles == h.cycles})
	default:
		return // how much of what was allocated since is garbage is not known
	}
	h.cycles, h.at = r.Cycles, now
}

// GCOver is what readings of GC are averaged over. A single collection says little: one
// that finds 16,000 new connections takes half of the processor for once.
const GCOver = 400 * time.Millisecond

// A gcReader reads the collector's share of the processors. The runtime counts when a
// collection ends; each stretch from one to the next is weighted by its length and its
// age. Before the first there was nothing to collect.
type gcReader struct {
	begun   bool
	cycles  uint64
	gc, cpu float64

	sumGC, sumCPU float64 // processor seconds, those long past counting less
}

func (g *gcReader) read(p *Probe, r Runtime) {
	if g.begun && r.Cycles == g.cycles {
		return
	}
	over := GCOver.Seconds() * max(r.Procs, 1)
	if !g.begun {
		g.sumCPU = over
	} else if dt := r.CPU - g.cpu; dt > 0 && r.GC >= g.gc {
		keep := math.Exp(-dt / over)
		g.sumGC = g.sumGC*keep + min(r.GC-g.gc, dt)
		g.sumCPU = g.sumCPU*keep + dt
		p.add(Reading{Name: GC, Value: g.sumGC / g.sumCPU, Limit: MuchGC, Sign: true})
	}
	g.begun, g.cycles, g.gc, g.cpu = true, r.Cycles, r.GC, r.CPU
}

func softLimit(of int) (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(of, &limit); err != nil {
		return 0, err
	}
	return limit.Cur, nil
}
