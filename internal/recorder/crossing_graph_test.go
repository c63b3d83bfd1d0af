package recorder_test

import (
	"context"
	"maps"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
)

// A desk is where one task waits until another comes and wakes it. The waker waits for it, without
// parking, so every wait is ended by a wake.
type desk struct{ at atomic.Pointer[engine.Waiter] }

func (d *desk) wait() {
	w := engine.Self()
	d.at.Store(w)
	w.Wait(engine.ReasonCond, nil)
}

func (d *desk) wake() {
	w := d.at.Swap(nil)
	for ; w == nil; w = d.at.Swap(nil) {
		runtime.Gosched()
	}
	w.Wake()
}

// crossings are the counts by the names of the nodes and by the loops.
func crossings(s *bgraph.Snapshot) map[string]map[[2]int]uint64 {
	m := map[string]map[[2]int]uint64{}
	for _, c := range s.Crossings {
		from := "no task"
		if c.From != 0 {
			from = s.NameOf(c.From)
		}
		id := from + " → " + s.NameOf(c.To)
		if m[id] == nil {
			m[id] = map[[2]int]uint64{}
		}
		m[id][[2]int{c.FromLoop, c.ToLoop}] += c.Count
	}
	return m
}

// handOver has a task of loop 0 hand work to one of loop 1, which replies, rounds times; then a plain
// goroutine wakes the first one, and two tasks of loop 0 do the same with each other.
func handOver(rt *engine.Runtime, rounds int) {
	var work, reply, local desk
	helper := engine.GoOn(rt.Loop(1), func() {
		for range rounds {
			work.wait()
			reply.wake()
		}
	})
	first := engine.GoOn(rt.Loop(0), func() {
		for range rounds {
			engine.YieldAt("ask")
			work.wake()
			reply.wait()
		}
		go reply.wake()
		reply.wait()
		engine.GoOn(rt.Loop(0), func() { local.wait() })
		for local.at.Load() == nil {
			engine.YieldAt("until it waits")
		}
		local.wake()
	})
	helper.Join()
	first.Join()
}

func TestCrossingsOfAKnownProgram(t *testing.T) {
	const rounds = 200
	for name, change := range map[string]func(*engine.Config){
		"simulated": func(*engine.Config) {},
		"epoll": func(c *engine.Config) {
			c.Clock, c.NewPoller = nil, func(int) (engine.Poller, error) { return poller.Epoll() }
		},
	} {
		g := recorder.New(recorder.Config{})
		earlier := start(t, 1, g) // a runtime before has loop 0 of the graph
		testenv.Must(t, earlier.Run(context.Background(), func(context.Context) error { return nil }))
		rt := start(t, 2, g, change)
		testenv.Must(t, rt.Run(context.Background(), func(context.Context) error { handOver(rt, rounds); return nil }))
		s := g.Snapshot()
		testenv.Must(t, s.Validate())
		got := crossings(s)
		wait := "cond recorder_test.(*desk).wait"
		for id, want := range map[string]map[[2]int]uint64{
			"ask → " + wait:            {{1, 2}: rounds},
			wait + " → " + wait:        {{2, 1}: rounds},
			"no task → " + wait:        {{-1, 1}: 1},
			"until it waits → " + wait: nil,
		} {
			if !maps.Equal(got[id], want) {
				t.Errorf("%s: %s: by loops %v, want %v", name, id, got[id], want)
			}
		}
		var started uint64
		for id, by := range got {
			if id == "no task → start" || id == "start → start" {
				for _, n := range by {
					started += n
				}
			}
		}
		if started < 3 || started > 4 { // main of both runtimes, and what it started on the loop where it did not run
			t.Errorf("%s: %d starts from elsewhere, want 3 or 4; all: %v", name, started, got)
		}
	}
}

func TestLimitOfCrossings(t *testing.T) {
	s := observed(t, 2, recorder.Config{MaxEdges: 1}, func(rt *engine.Runtime) { handOver(rt, 50) })
	if len(s.Crossings) > 2 || s.Overflow.Wakes < 49 {
		t.Errorf("%d crossings and %d beyond the limit of 1 a loop; want at most 2, and 49 or more", len(s.Crossings), s.Overflow.Wakes)
	}
}
