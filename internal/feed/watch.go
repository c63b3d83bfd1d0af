package feed

import (
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/probe"
)

// The names of what the runtime measures of itself.
const (
	processor    = "processor"
	readyDelay   = "ready to running"
	productivity = "lost productivity"
)

const (
	// A mean delay that is too long to go unnoticed beside the network.
	longDelay = 10 * time.Millisecond
	// The best productivity in parts of the present one: half of it is lost.
	muchLost = 2
	// Only a program that has no time left does less than it could.
	busyLoops = 0.9
)

// A selfWatch is what the runtime measures of itself: how busy the loops are and how long
// tasks are ready before they run, which is shown; and whether more work under way makes the
// program get less done, which is a sign of thrashing. Owned by the goroutine of run.
type selfWatch struct {
	ledger *admit.Ledger

	busy, delay, lost admit.ResourceID

	at    time.Duration // of the last look
	idle  time.Duration // of all loops until then
	share float64       // busy share of the time before it

	delays float64 // nanoseconds until the last look at the delays
	waits  uint64

	best admit.Productivity
}

func newSelfWatch(l *admit.Ledger) (w *selfWatch, err error) {
	w = &selfWatch{ledger: l}
	for _, r := range []struct {
		id   *admit.ResourceID
		spec admit.Spec
	}{
		{&w.busy, admit.Spec{Name: processor, Limit: 1, Kind: admit.Shown}},
		{&w.delay, admit.Spec{Name: readyDelay, Limit: longDelay.Seconds(), Kind: admit.Shown}},
		// A loss while memory is plentiful is another kind of work.
		{&w.lost, admit.Spec{Name: productivity, Limit: muchLost, Kind: admit.Sign, Of: probe.Heap}},
	} {
		if *r.id, err = l.Add(r.spec); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// loops takes how long all loops have been idle, how many of them there are processors for, how much the program has got done
// (ressched.Progress), and how many tasks there are.
func (w *selfWatch) loops(now, idle time.Duration, loops, working int, done uint64, tasks int) {
	if dt := now - w.at; w.at > 0 && dt > 0 {
		w.share = min(max(float64(loops)-float64(idle-w.idle)/float64(dt), 0)/float64(working), 1)
		w.ledger.Observe(now, w.busy, w.share)
	}
	w.at, w.idle = now, idle
	if behind, ready := w.best.Observe(now, float64(done), float64(tasks)); ready && done > 0 {
		if w.share < busyLoops {
			behind = 0
		}
		w.ledger.Observe(now, w.lost, behind)
	}
}

// ready takes how long tasks were ready before they ran, in all and how many times.
func (w *selfWatch) ready(now time.Duration, total float64, count uint64) {
	if count <= w.waits {
		return
	}
	w.ledger.Observe(now, w.delay, max(total-w.delays, 0)/float64(count-w.waits)/1e9)
	w.delays, w.waits = total, count
}

// look reads the numbers of a runtime.
func (w *selfWatch) look(rt *engine.Runtime) {
	idle, tasks := time.Duration(0), 0
	for i := range rt.Loops() {
		l := rt.Loop(i)
		idle += l.Idle()
		tasks += l.Tasks()
	}
	w.loops(rt.Now(), idle, rt.Loops(), rt.Working(), rt.Done(), tasks)
}
