package engine

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/internal/wheel"
)

// yields calls Yield until stop and returns how often.
func yields(stop func() bool) (n int) {
	for ; !stop(); n++ {
		Yield()
	}
	return n
}

// Tasks that are always ready do not keep the loop from timers, messages and events.
func TestReadyTasksDoNotStarveTheOutside(t *testing.T) {
	for _, tasks := range []int{1, 2, 50} {
		rt, clock := newSimRuntime(t, 1, false)
		var fired atomic.Int32
		var all []*Task
		for range tasks {
			all = append(all, rt.Go(func() { yields(func() bool { return fired.Load() == 4 }) }))
		}
		l := rt.Loop(0)
		waitFor(t, "they run", func() bool { return l.Tasks() == tasks })
		l.Post(func() { fired.Add(1) })
		l.Poller().(*sim.Poller).After(0, func() { fired.Add(1) })
		GoOn(l, func() { fired.Add(1) })
		timer := startAfter(rt, time.Second, func() { fired.Add(1) })
		waitFor(t, "the timer is queued", func() bool { clock.Advance(time.Second); return fired.Load() == 4 })
		for _, k := range all {
			k.Join()
		}
		timer.Stop()
	}
}

// An event, a message and a timer that are due are seen within one budget.
func TestBudgetBoundsTheSteps(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, false)
	l := rt.Loop(0)
	run(t, rt, func() {
		for range 20 {
			seen := false
			see := func() { seen = true }
			done := func() bool { return seen }
			l.Poller().(*sim.Poller).After(0, see)
			if n := yields(done); n > maxBudget+1 {
				t.Errorf("an event was seen after %d steps, want at most %d", n, maxBudget)
			}
			seen = false
			l.Post(see)
			if n := yields(done); n > maxBudget+1 {
				t.Errorf("a message was seen after %d steps, want at most %d", n, maxBudget)
			}
			seen = false
			var a Alarm
			a.Set(l, l.Now()+time.Millisecond, RingFunc(see))
			clock.Advance(time.Millisecond + wheel.Tick)
			if n := yields(done); n > maxBudget+1 {
				t.Errorf("a timer was seen after %d steps, want at most %d", n, maxBudget)
			}
		}
	})
}

// A turn that was given many steps, because the last ones were short, ends soon when they
// become long; within a batch of a policy, too.
func TestLongStepsEndTheTurn(t *testing.T) {
	for _, closed := range []bool{false, true} {
		var p *nodePolicy
		rt := newRuntime(t, 1, func(c *Config) {
			if closed {
				inCohorts(t, &p, true, 1000)(c)
			}
		})
		l := rt.Loop(0)
		run(t, rt, func() {
			var wg, all WaitGroup
			long, seen, steps := false, false, 0
			all.Add(4)
			for range 4 {
				wg.Go(func() {
					all.Done()
					all.Wait() // those that yield would go before those that have not started
					for !seen {
						if long {
							steps++
							spinUntil(lasted(2 * turnTime))
						}
						Yield()
					}
				})
			}
			all.Wait()
			for range 1000 {
				shortSteps(l)
				Yield()
			}
			long = true
			l.Post(func() { seen = true })
			wg.Wait()
			if checked := maxBudget / timeChecks; steps > 2*checked+4 {
				t.Errorf("with a policy %v: a message was seen after %d long steps, want at most %d or so", closed, steps, checked)
			}
		})
		testenv.Check(t, rt.Close())
		if closed && p.longest < 2 {
			t.Error("no batch had more than a step")
		}
	}
}

// lasted returns a function that reports whether d has passed since.
func lasted(d time.Duration) func() bool {
	start := time.Now()
	return func() bool { return time.Since(start) > d }
}

// A loop that lives on what it takes from others still asks its own poller.
func TestLoopThatStealsAsksItsPoller(t *testing.T) {
	rt, _ := newSimRuntime(t, 2, false)
	thief, victim := rt.Loop(1), rt.Loop(0)
	var free atomic.Bool
	queued := make(chan struct{})
	hog := GoOn(victim, func() {
		Go(func() {}) // a single one does not wake the thief
		close(queued)
		spinUntil(free.Load)
	})
	<-queued
	p := thief.Poller().(*sim.Poller)
	saw := make(chan bool, 1)
	asked := onLoop(thief, func(l *Loop) bool {
		p.After(0, func() { saw <- true })
		before, _ := p.Polls()
		l.pollOnce()
		after, _ := p.Polls()
		return after > before
	})
	free.Store(true)
	hog.Join()
	if !asked {
		t.Error("it stole and did not ask its poller")
	}
	<-saw
}

// A task that spawns without end gives way like any other.
func TestSpawnerDoesNotStarveOthers(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var stop atomic.Bool
		var again func()
		again = func() {
			if !stop.Load() {
				Go(again)
			}
		}
		rt.Go(again)
		for range 50 {
			for i := range rt.Loops() {
				run(t, rt, func() { GoOn(rt.Loop(i), Yield).Join() })
			}
		}
		stop.Store(true)
	})
}

func TestPollerErrorsAreReportedButNotAFlood(t *testing.T) {
	log := make(testenv.Records, 100)
	rt, clock := newSimRuntime(t, 1, false, logTo(log), holdLimit(-1))
	clock.Advance(time.Minute)
	p := rt.Loop(0).Poller().(*sim.Poller)
	for range 20 {
		p.Fail(errors.New("ring on fire"))
		onLoop(rt.Loop(0), func(l *Loop) bool { l.poll(0); return true })
	}
	line := log.Next(t, "poller failed", "ring on fire")
	contains(t, line, "loop=0")
	testenv.Equal(t, len(log), 0, "more reports in no time")
	clock.Advance(2 * time.Second)
	p.Fail(errors.New("ring on ice"))
	onLoop(rt.Loop(0), func(l *Loop) bool { l.poll(0); return true })
	log.Next(t, "ring on ice")
}

// Tasks made by Loop.Start are used again, but not while anything refers to them.
func TestStartUsesTasksAgain(t *testing.T) {
	rt := newRuntime(t, 1, panicsPass)
	l := rt.Loop(0)
	seen := map[*Task]bool{}
	var kept *Task
	run(t, rt, func() {
		for i := range 200 {
			l.Start(func() {
				switch l := CurrentLoop(); {
				case i == 100:
					kept = Current() // and so not used again
				default:
					seen[l.cur] = true
					if l.cur == kept {
						t.Error("a task that somebody holds was used again")
					}
				}
				if i%10 == 0 {
					panic("boom")
				}
			})
			Yield()
		}
	})
	testenv.AtMost(t, len(seen), 60, "200 tasks needed N structs")
	if err := kept.Join(); err == nil {
		t.Error("Join of the one that was kept returned nil, want its panic")
	}
}
