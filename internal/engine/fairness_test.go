package engine

import (
	"errors"
	"sync"
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

// lasted returns a function that reports whether d has passed since.
func lasted(d time.Duration) func() bool {
	start := time.Now()
	return func() bool { return time.Since(start) > d }
}

// Tasks that are always ready do not keep the loop from timers, messages and events.
func TestReadyTasksDoNotStarveTheOutside(t *testing.T) {
	for _, tasks := range []int{1, 2, 50} {
		rt, clock := newSimRuntime(t, 1, false)
		var fired atomic.Int32
		fire := func() { fired.Add(1) }
		joined := spread(t, rt, tasks, func(int) { yields(func() bool { return fired.Load() == 4 }) })
		l := rt.Loop(0)
		testenv.Until(t, "they run", func() bool { return l.Tasks() == tasks })
		l.Post(fire)
		l.Poller().(*sim.Poller).After(0, fire)
		GoOn(l, fire)
		startAfter(rt, time.Second, fire)
		testenv.Until(t, "all are served", func() bool { clock.Advance(time.Second); return fired.Load() == 4 })
		joined()
	}
}

// An event, a message and a timer that are due are seen within one budget.
func TestBudgetBoundsTheSteps(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, false)
	l := rt.Loop(0)
	run(t, rt, func() {
		for range 20 {
			for what, send := range map[string]func(see func()){
				"an event":  func(see func()) { l.Poller().(*sim.Poller).After(0, see) },
				"a message": func(see func()) { l.Post(see) },
				"a timer": func(see func()) {
					new(Alarm).Set(l, l.Now()+time.Millisecond, RingFunc(see))
					clock.Advance(time.Millisecond + wheel.Tick)
				},
			} {
				seen := false
				send(func() { seen = true })
				testenv.AtMost(t, yields(func() bool { return seen }), maxBudget+1, "%s was seen after N steps", what)
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
			testenv.AtMost(t, steps, 2*maxBudget/timeChecks+4, "with a policy %v: a message was seen after N long steps", closed)
		})
		testenv.Check(t, rt.Close())
		if closed {
			testenv.AtLeast(t, p.longest, 2, "steps of the longest batch")
		}
	}
}

// A loop that lives on what it takes from others still asks its own poller.
func TestLoopThatStealsAsksItsPoller(t *testing.T) {
	rt, _ := newSimRuntime(t, 2, false)
	thief, victim := rt.Loop(1), rt.Loop(0)
	release := occupy(t, victim, Options{}, func() { Go(func() {}) }) // a single one does not wake the thief
	p := thief.Poller().(*sim.Poller)
	saw := make(chan bool, 1)
	asked := onLoop(thief, func(l *Loop) bool {
		p.After(0, func() { saw <- true })
		before, _ := p.Polls()
		l.pollOnce()
		after, _ := p.Polls()
		return after > before
	})
	release()
	testenv.Equal(t, asked, true, "it stole, and asked its poller")
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
		for range testenv.Rounds(10, 50) {
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
	fail := func(with string) {
		rt.Loop(0).Poller().(*sim.Poller).Fail(errors.New(with))
		onLoop(rt.Loop(0), func(l *Loop) bool { l.poll(0); return true })
	}
	for range 20 {
		fail("ring on fire")
	}
	log.Next(t, "poller failed", "ring on fire", "loop=0")
	testenv.Equal(t, len(log), 0, "more reports in no time")
	clock.Advance(2 * time.Second)
	fail("ring on ice")
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
	testenv.Fails(t, kept.Join(), "Join of the one that was kept, which has panicked")
}

// A task that a disk has served does not wait behind all those that are ready, and they go
// on between the steps of such tasks.
func TestServedByADisk(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, false)
	run(t, rt, func() {
		var parked *Waiter
		steps, stop := 0, false
		var wg WaitGroup
		wg.Go(func() {
			for read := range 50 {
				parked = Self()
				testenv.Check(t, parked.Wait(ReasonDisk, anywhere{}))
				testenv.AtMost(t, steps, 2, "read %d: N steps of others before its own", read)
			}
			stop = true
		})
		for range 100 {
			wg.Go(func() {
				for !stop {
					if w := parked; w != nil {
						parked, steps = nil, 0
						w.WakeAhead()
					}
					Yield()
					steps++
				}
			})
		}
		wg.Wait()
	})
}

func TestDiskTasksLeaveHalfOfTheSteps(t *testing.T) {
	rt, _ := newSimRuntime(t, 1, false)
	run(t, rt, func() {
		const rounds = 1000
		served, stop := 0, false
		var queue []*Waiter // parked
		serveAll := func() {
			for len(queue) > 0 { // all others are ready at once
				w := queue[0]
				queue = queue[1:]
				w.WakeAhead()
			}
		}
		var wg WaitGroup
		for range 10 {
			wg.Go(func() {
				for !stop {
					serveAll()
					served++
					queue = append(queue, Self())
					testenv.Check(t, queue[len(queue)-1].Wait(ReasonDisk, anywhere{}))
				}
			})
		}
		wg.Go(func() {
			for range rounds {
				Yield()
			}
			stop = true
			serveAll()
		})
		wg.Wait()
		testenv.AtLeast(t, served, rounds/2, "steps of tasks that a disk had served, beside %d of another", rounds)
		testenv.AtMost(t, served, 2*rounds, "steps of tasks that a disk had served, beside %d of another", rounds)
	})
}

// A WakeAhead from another thread goes ahead, too; with a policy it is a Wake.
func TestWakeAheadFromElsewhere(t *testing.T) {
	for fifo, want := range map[bool][]int{true: {2, 0, 1}, false: {0, 1, 2}} {
		var p *nodePolicy
		rt, _ := newSimRuntime(t, 1, true, func(c *Config) {
			if !fifo {
				inCohorts(t, &p, false, 0)(c)
			}
		})
		var order []int
		run(t, rt, func() {
			var wg WaitGroup
			waiters := parkEach(&wg, 3, read, func(i int) { order = append(order, i) })
			done := make(chan struct{})
			go func() {
				wake(waiters[:2]...)
				waiters[2].WakeAhead()
				close(done)
			}()
			<-done
			wg.Wait()
		})
		testenv.EqualSlices(t, order, want, "fifo %v: order", fifo)
	}
}

// paced runs test as a task beside one that yields, and counts the steps of that one. turnLimit is that of the loop.
func paced(t *testing.T, turnLimit int64, test func(l *Loop, turns *int)) *Runtime {
	rt, _ := newSimRuntime(t, 1, false)
	run(t, rt, func() {
		l := CurrentLoop()
		l.stats.turnLimit = turnLimit
		turns, done := 0, false
		other := Go(func() {
			for ; !done; turns++ {
				Yield()
			}
		})
		Yield()
		test(l, &turns)
		done = true
		other.Join()
	})
	return rt
}

// Pace yields after a number of operations or bytes, and begins anew after each wait.
func TestPaceYields(t *testing.T) {
	rt := paced(t, 1<<60, func(l *Loop, turns *int) { // time does not matter here
		for _, c := range []struct{ bytes, calls, turns int }{
			{0, 640, 10}, {paceUnit, 640, 20}, {paceLimit, 10, 10}, {-1, 640, 0},
		} {
			Yield()
			before := *turns
			for range c.calls {
				if c.bytes < 0 { // a wait in between
					before++
					Yield()
				}
				l.Pace(max(c.bytes, 0))
			}
			testenv.Equal(t, *turns-before, c.turns, "%d operations of %d bytes gave way N times", c.calls, c.bytes)
		}
	})
	onLoop(rt.Loop(0), func(l *Loop) bool { // the loop's own goroutine never yields
		for range 1000 {
			l.Pace(paceLimit)
		}
		return true
	})
}

// A task that computes between operations gives way once it has taken the time of a turn.
func TestPaceLooksAtTheTime(t *testing.T) {
	paced(t, -1, func(l *Loop, turns *int) { // every look finds it too late
		before := *turns
		for range 30 {
			l.Pace(0)
		}
		testenv.Equal(t, *turns-before, 10, "30 operations, of which the first two of each step do not look, gave way N times")
	})
}

func BenchmarkPace(b *testing.B) {
	rt, _ := newSimRuntime(b, 1, false)
	rt.Go(func() {
		l := CurrentLoop()
		for b.Loop() { // a read and a write in each step
			l.switches++
			l.Pace(1)
			l.Pace(1)
		}
	}).Join()
}

// A pollRecord is a testenv.ChanPoller that has descriptors, and notes how long Poll may wait.
type pollRecord struct {
	*testenv.ChanPoller
	mu    sync.Mutex
	asked []time.Duration // guarded by mu
}

func (p *pollRecord) Active() bool { return true }

func (p *pollRecord) Poll(timeout time.Duration) error {
	p.mu.Lock()
	p.asked = append(p.asked, timeout)
	p.mu.Unlock()
	return p.ChanPoller.Poll(timeout)
}

// waits reports whether the last Poll may wait for ever.
func (p *pollRecord) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.asked) > 0 && p.asked[len(p.asked)-1] < 0
}

func (p *pollRecord) take() []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

// TestGoroutinesRunBeforeTheLoopSleeps: a loop that has woken a plain goroutine lets that run,
// and looks for events, before it waits for them: else it would take a thread with it.
func TestGoroutinesRunBeforeTheLoopSleeps(t *testing.T) {
	var poller *pollRecord
	rt := newRuntime(t, 1, holdLimit(-1), func(c *Config) {
		c.NewPoller = func(int) (Poller, error) {
			poller = &pollRecord{ChanPoller: testenv.NewChanPoller()}
			return poller, nil
		}
	})
	l := rt.Loop(0)
	for range 10 {
		published, woken := make(chan *Waiter), make(chan bool)
		go func() {
			w := Self()
			published <- w
			w.Wait(ReasonRead, anywhere{})
			woken <- true
		}()
		w := <-published
		testenv.Until(t, "the loop sleeps", poller.waits)
		poller.take()
		l.Post(w.Wake)
		<-woken
		testenv.Until(t, "the loop sleeps again", poller.waits)
		if asked := poller.take(); asked[0] != 0 {
			t.Fatalf("Poll was asked to wait for %v; want 0 first", asked)
		}
		l.Post(func() {}) // so that the next round begins with a Poll that it can see
	}
}
