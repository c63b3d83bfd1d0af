package feed

import (
	"errors"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/probe"
)

// A source is a declared resource that is watched.
type source struct {
	id       admit.ResourceID
	resource *admit.Resource
}

// unknownHeap is the heap, in bytes, that a task is assumed to hold before its kind of work has been measured.
const unknownHeap = 16 << 20

// addHeap declares the heap, which every program has. Its limit comes with the first
// reading.
func (s *Feed) addHeap() error {
	var err error
	s.memory, err = s.ledger.Add(admit.Spec{Name: probe.Heap, Find: true, Kind: admit.Collected, Unknown: unknownHeap})
	s.readings = map[string]admit.ResourceID{probe.Heap: s.memory}
	return err
}

// observe takes the readings of the probe. A resource that can't be watched does not keep it from the others.
func (s *Feed) observe(now time.Duration, readings []probe.Reading) (err error) {
	for _, r := range readings {
		id, known := s.readings[r.Name]
		if !known {
			spec := admit.Spec{Name: r.Name, Limit: r.Limit}
			if r.Sign {
				spec.Kind = admit.Sign
			}
			switch r.Name {
			case probe.GC:
				spec.Of, spec.Over = probe.Heap, probe.GCOver
			case probe.Pressure, probe.Faults: // where there is memory, others cause it
				if _, known := s.readings[probe.Memory]; known {
					spec.Of = probe.Memory
				}
			}
			var wrong error
			if id, wrong = s.ledger.Add(spec); wrong != nil {
				err = errors.Join(err, wrong)
				continue
			}
			s.readings[r.Name] = id
		}
		s.ledger.SetLimit(id, r.Limit)
		if !r.Old {
			s.ledger.Observe(now, id, r.Value)
		}
	}
	return err
}

// addDeclared watches the resources that the program has declared, if they have a limit and are not
// watched yet. A limit below 0 is to be found. Resources that only other runtimes use are left out, and so are
// resources with the name of one that is watched already.
func (s *Feed) addDeclared() (err error) {
	for i, r := range admit.Resources() {
		if i == len(s.resource) {
			s.resource = append(s.resource, -1)
		}
		limit := float64(r.Limit())
		switch {
		case s.resource[i] >= 0 && limit > 0:
			id := admit.ResourceID(s.resource[i])
			s.ledger.SetLimit(id, limit)
			if r == engine.Descriptors {
				target, margin := descriptorsTarget(int64(limit))
				s.ledger.SetTarget(id, target, margin)
			}
		case s.resource[i] >= 0: // the program has taken it back, or there was none
			s.ledger.Unlimit(admit.ResourceID(s.resource[i]), limit < 0)
		case limit != 0 && s.rt.Counts(r):
			spec := admit.Spec{Name: r.Name(), Limit: max(limit, 0)}
			if r == engine.Descriptors {
				spec.Kind = admit.Kept
				if limit > 0 {
					spec.Target, spec.Margin = descriptorsTarget(r.Limit())
				}
			}
			id, wrong := s.ledger.Add(spec)
			if wrong != nil {
				err = errors.Join(err, wrong)
				continue
			}
			s.resource[i] = int(id)
			s.sources = append(s.sources, source{id, r})
		}
	}
	return err
}

// followDescriptors takes up how many descriptors the process may have, unless the program has said how many.
func (s *Feed) followDescriptors() {
	if s.cfg.Descriptors == nil {
		return
	}
	n, limit := s.cfg.Descriptors(), engine.Descriptors.Limit()
	if n > 0 && (limit == 0 || limit == n || limit == s.followed) { // n: another runtime has been faster
		if limit != n {
			engine.Descriptors.SetLimit(n)
		}
		s.followed = n
	}
}

// descriptorsTarget is how many descriptors may be used, and how many fewer end the state AtLimit, as shares of the
// limit: 95 and 90 %, but, where they are many, not before the connections that a server takes by itself have used what
// is theirs (engine.SpareDescriptors).
func descriptorsTarget(limit int64) (target, margin float64) {
	spare := float64(engine.SpareDescriptors(limit)) / float64(limit)
	if target = 1 - spare/2; target <= 0.95 {
		return 0.95, 0.05
	}
	return target, spare / 4
}

// Start begins the regular work, if there is any, which ends when the runtime that is fed
// shuts down. When it returns, all files that are read for it are open.
func (s *Feed) Start(rt *engine.Runtime) {
	if s.ledger == nil {
		return
	}
	cfg := s.cfg.Probe
	cfg.Report = func(source string, err error) {
		if s.cfg.Log != nil {
			s.cfg.Log.Debug("capriccio: the scheduler does without a source", "source", source, "because", err)
		}
	}
	p := probe.New(cfg)
	limit := newHeapLimit(s.cfg.Log, &ofProcess, limitGiven())
	// The size of memory is known before any task is admitted.
	s.tick(rt.Now(), 0, p.Read(rt.Now()))
	limit.follow(p.ContainerLimit())
	go s.run(rt, p, limit)
}

func (s *Feed) run(rt *engine.Runtime, p *probe.Probe, limit *heapLimit) {
	defer p.Close()
	defer limit.release()
	defer rt.Bodies().LiftUntilTick()
	tick := time.NewTimer(busy)
	defer tick.Stop()
	var pace pace
	var woken <-chan struct{} // nil while a loop works
	for {
		select {
		case <-rt.Context().Done():
			return
		case <-tick.C:
		case <-woken:
		}
		now, steps := rt.Now(), rt.Steps()
		readings := p.Read(now)
		limit.follow(p.ContainerLimit())
		s.self.look(rt)
		s.tick(now, steps, readings)
		s.collectIfFull(now, readings)
		held := s.holdBodies(now, readings)
		s.reportRefusals(now)
		s.reportFullHeap(now)
		s.watchBottlenecks(rt)
		woken = rt.Woken()
		pause := pace.next(steps, s.self.share*float64(rt.Working()), s.ledger.Calm(), woken != nil && fewTasks(rt))
		if held {
			pause = busy
		}
		if pause == busy {
			woken = nil // it comes soon enough
		}
		tick.Reset(pause)
	}
}

// How long it is to the next reading: while tasks run; while none does, or few tasks run for a moment each; while these
// take next to nothing of the loops' time; and after a second of rest. Work that lasts ends the pause at once.
const busy, quiet, light, asleep = 10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, time.Second

// A pace is how often readings are made.
type pace struct {
	steps uint64 // that the loops had made at the last reading
	idle  int    // readings since they made any
}

// next returns the time to the next reading. share is how many loops' time has gone into work since the last, calm
// whether nothing is scarce, told whether work that lasts will end the pause. A reading takes some 0.3 ms where caches
// are cold: at 50 requests a second every 100 ms, a third of what the server took.
func (p *pace) next(steps uint64, share float64, calm, told bool) time.Duration {
	told = told && calm
	if steps != p.steps {
		p.steps, p.idle = steps, 0
		if !told {
			return busy
		}
		if share*float64(light) <= float64(busy) {
			return light
		}
		return max(time.Duration(float64(busy)/share), quiet) // after as much work as when busy
	}
	if p.idle++; told && p.idle > int(asleep/quiet) {
		return asleep
	}
	return quiet
}

// fewTasks reports whether the runtime has too few tasks for a queue to form anywhere.
func fewTasks(rt *engine.Runtime) bool {
	n := 0
	for i := range rt.Loops() {
		n += rt.Loop(i).Tasks()
	}
	return n <= 16
}

// collectAfter is how old the last reading of a full heap may become.
const collectAfter = 100 * time.Millisecond

// collectIfFull runs the garbage collector while the heap is at its limit. The Go runtime does not run it while no
// admitted task allocates, so that the heap would look full for seconds, and a request that lets the admitted ones
// finish would wait that long. Where refusing work is futile tasks are admitted anyway, and allocate.
func (s *Feed) collectIfFull(now time.Duration, readings []probe.Reading) {
	for _, r := range readings {
		if r.Name == probe.Heap && !r.Old {
			s.collected = now
		}
	}
	if _, _, _, futile := s.ledger.Futile(s.memory); futile || now-s.collected < collectAfter {
		return
	}
	var r admit.Report
	s.ledger.Report(&r)
	for _, x := range r.Resources {
		if x.Name == probe.Heap && x.State == admit.AtLimit {
			s.collector.collect()
		}
	}
	s.collected = now
}

// holdBodies holds up the reading of large request bodies while the heap is short, unless that is futile. It reports whether
// any body is held up.
func (s *Feed) holdBodies(now time.Duration, readings []probe.Reading) bool {
	fresh := false
	for _, r := range readings {
		if r.Name == probe.Heap {
			s.heap, fresh = r, !r.Old
		}
	}
	if _, _, _, futile := s.ledger.Futile(s.memory); futile || s.heap.Limit == 0 {
		s.rt.Bodies().LiftUntilTick()
		return false
	}
	held, collect := s.rt.Bodies().Tick(now, s.heap.Limit, s.heap.Value, fresh)
	if collect {
		s.collector.collect()
	}
	return held
}

// tick is the regular work.
func (s *Feed) tick(now time.Duration, steps uint64, readings []probe.Reading) {
	s.lookAhead()
	err := s.observe(now, readings)
	for _, src := range s.sources {
		s.ledger.Observe(now, src.id, float64(max(s.rt.Books().InUse(src.resource), 0)))
	}
	if now-s.learnt >= learnEvery && steps != s.flows {
		s.learnt, s.flows = now, steps
		s.followDescriptors()
		err = errors.Join(err, s.addDeclared())
		s.learn()
		total, count := s.cfg.Graph.ReadyDelays()
		s.self.ready(now, float64(total), count)
	}
	if err != nil && s.cfg.Log != nil && !s.complained {
		s.complained = true
		s.cfg.Log.Warn("capriccio: not all resources are watched", "because", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	s.ledger.Tick(now)
}
