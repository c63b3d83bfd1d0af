package steer

import (
	"math"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// A source says how much of a resource is in use, or how strong a sign of thrashing is.
type source struct {
	id   ressched.ResourceID
	read func() (v float64, ok bool) // ok false: there is nothing new
}

// Shares that the signs of thrashing may reach.
const (
	gcLimit = 0.25 // of the processor, for the garbage collector
)

// addSources declares what every program has.
func (s *Steering) addSources() error {
	add := func(spec ressched.Spec, read func() (float64, bool)) (ressched.ResourceID, error) {
		id, err := s.ledger.Add(spec)
		if err == nil && read != nil {
			s.sources = append(s.sources, &source{id: id, read: read})
		}
		return id, err
	}
	var err error
	if s.memory, err = add(ressched.Spec{Name: "memory", Limit: memoryLimit()}, liveMemory()); err != nil {
		return err
	}
	if _, err = add(ressched.Spec{Name: "garbage collection", Sign: true, Limit: gcLimit, Target: 0.95}, gcShare()); err != nil {
		return err
	}
	return s.addDeclared()
}

// addDeclared takes up the resources of package task that have a limit, and have not been
// taken up yet.
func (s *Steering) addDeclared() error {
	for i, r := range task.Resources() {
		if i == len(s.resource) {
			s.resource = append(s.resource, -1)
		}
		limit := float64(r.Limit())
		switch {
		case s.resource[i] >= 0 && limit > 0:
			s.ledger.SetLimit(ressched.ResourceID(s.resource[i]), limit)
		case s.resource[i] < 0 && limit != 0:
			id, err := s.ledger.Add(ressched.Spec{Name: r.Name(), Limit: max(limit, 0)})
			if err != nil {
				return err
			}
			s.resource[i] = int(id)
			s.sources = append(s.sources, &source{id: id, read: func() (float64, bool) {
				return float64(max(r.InUse(), 0)), true
			}})
		}
	}
	return nil
}

// memoryLimit is how much memory the program may use, in bytes.
func memoryLimit() float64 {
	limit := debug.SetMemoryLimit(-1)
	if limit != math.MaxInt64 {
		return float64(limit)
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		return 0.8 * float64(info.Totalram) * float64(info.Unit)
	}
	return 0
}

// liveMemory reads what the last collection found to be in use, and what the Go runtime
// needs besides the heap. What has become garbage since does not count: the collector
// takes care of that, and shows what it costs as a sign of its own.
func liveMemory() func() (float64, bool) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	return func() (float64, bool) {
		metrics.Read(samples)
		v := float64(samples[0].Value.Uint64()) + float64(samples[1].Value.Uint64())
		for _, s := range samples[2:] {
			v -= float64(s.Value.Uint64())
		}
		return max(v, 0), true
	}
}

// gcShare reads the collector's share of the processor between the last two collections;
// there is something new after each.
func gcShare() func() (float64, bool) {
	samples := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/total:cpu-seconds"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	var gc, total float64
	var cycles uint64
	return func() (float64, bool) {
		metrics.Read(samples)
		n := samples[2].Value.Uint64()
		if n == cycles {
			return 0, false
		}
		cycles = n
		newGC, newTotal := samples[0].Value.Float64(), samples[1].Value.Float64()
		share := 0.0
		if newTotal > total {
			share = (newGC - gc) / (newTotal - total)
		}
		gc, total = newGC, newTotal
		return share, true
	}
}

// Run does the regular work until the runtime that is steered shuts down. It blocks, and
// is called on a plain goroutine.
func (s *Steering) Run(rt *task.Runtime) {
	if s.ledger == nil {
		<-rt.Context().Done()
		return
	}
	const busy, quiet = 10 * time.Millisecond, 100 * time.Millisecond
	tick := time.NewTimer(busy)
	defer tick.Stop()
	var steps uint64
	for {
		select {
		case <-rt.Context().Done():
			return
		case <-tick.C:
		}
		pause := busy
		if n := totalSteps(rt); n == steps {
			pause = quiet
		} else {
			steps = n
		}
		s.tick(rt.Now(), steps)
		tick.Reset(pause)
	}
}

func totalSteps(rt *task.Runtime) (n uint64) {
	for i := range rt.Loops() {
		n += rt.Loop(i).Steps()
	}
	return n
}

// tick is the regular work.
func (s *Steering) tick(now time.Duration, steps uint64) {
	for _, src := range s.sources {
		if v, ok := src.read(); ok {
			s.ledger.Observe(now, src.id, v)
		}
	}
	if now-s.learnt >= learnEvery && steps != s.flows {
		s.learnt, s.flows = now, steps
		if err := s.addDeclared(); err != nil && s.cfg.Log != nil {
			s.cfg.Log.Warn("capriccio: a declared resource is not watched", "because", err)
		}
		s.learn()
	}
	s.ledger.Tick(now)
}
