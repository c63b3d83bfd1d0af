package engine

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func holdLimit(d time.Duration) func(*Config) { return func(c *Config) { c.HoldLimit = d } }

// spinUntil is what a task does that holds its loop.
//
//go:noinline
func spinUntil(stop func() bool) {
	for !stop() {
	}
}

// hold keeps the loop of the calling task until n more steps have been found too
// long. A step may have to be repeated: what the processor was lacking does not count.
func hold(rt *Runtime, steps uint64) {
	l := CurrentLoop()
	for before := rt.Overruns(); rt.Overruns() < before+steps; Yield() {
		start := time.Now()
		spinUntil(func() bool { return l.overrun.step.Load() != 0 && time.Since(start) > 2*rt.cfg.HoldLimit })
	}
}

// holdOften has a task hold its loop until stop is called: of the reports of one second all but the first
// are left out, and on a machine that stalls it is another one.
func holdOften(rt *Runtime, o Options, call func(func())) (stop func() error) {
	var over atomic.Bool
	k, err := rt.Spawn(o, func() {
		for !over.Load() {
			call(func() { hold(rt, 1) })
		}
	})
	if err != nil {
		panic(err)
	}
	return func() error { over.Store(true); return k.Join() }
}

func TestHeldLoopIsReportedWithNameAndStack(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := newRuntime(t, 2, logTo(log), holdLimit(time.Millisecond))
	stop := holdOften(rt, Options{Name: "hog", Loop: rt.Loop(1)}, func(f func()) { f() })
	line := log.Next(t, "held its loop too long", "hog #", "loop=1")
	contains(t, line, "engine.hold(") // on the stack at the end of the step
	contains(t, line, "limit=1ms")
	testenv.Check(t, stop())
}

// The function of the task has returned when its last step is reported.
func TestHeldToTheEnd(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := newRuntime(t, 1, logTo(log), holdLimit(time.Millisecond))
	for l := rt.Loop(0); rt.Overruns() == 0; {
		rt.Go(func() {
			start := time.Now()
			spinUntil(func() bool { return l.overrun.step.Load() != 0 && time.Since(start) > 2*rt.cfg.HoldLimit })
		}).Join()
	}
	contains(t, log.Next(t, "held its loop too long"), `no function of the program any more`)
}

func TestHoldThatGoesOnIsReportedWhileItDoes(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := newRuntime(t, 1, logTo(log), holdLimit(100*time.Microsecond))
	var stop atomic.Bool
	k := rt.Go(func() { spinUntil(stop.Load) })
	contains(t, log.Next(t, "still does", "loop=0"), "spinUntil")
	stop.Store(true)
	k.Join()
}

func TestHoldsAreCountedButReportsAreLimited(t *testing.T) {
	log := make(testenv.Records, 1000)
	start := time.Now()
	rt := newRuntime(t, 1, logTo(log), holdLimit(200*time.Microsecond))
	run(t, rt, func() { hold(rt, 20) })
	rt.Close()
	testenv.AtLeast(t, rt.Overruns(), 20, "overruns counted")
	most := int(time.Since(start)/reportInterval) + 1
	if n := len(log); n == 0 || n > most {
		t.Errorf("%d reports, want 1 to %d", n, most)
	}
}

// The stack of a step that goes on is found among those of many tasks; with too many goroutines
// for that, the task is named nevertheless.
func TestHoldThatGoesOnBesideManyTasks(t *testing.T) {
	for _, c := range []struct {
		tasks int
		want  string
	}{{3000, "spinUntil"}, {maxStackDump, "too many goroutines"}} {
		log := make(testenv.Records, 100)
		rt := newRuntime(t, 1, logTo(log), holdLimit(100*time.Microsecond))
		var gate WaitGroup
		gate.Add(1)
		run(t, rt, func() {
			for range c.tasks {
				Go(gate.Wait)
			}
		})
		var stop atomic.Bool
		k := testenv.Need(rt.Spawn(Options{Name: "hog"}, func() { spinUntil(stop.Load) }))(t)
		contains(t, log.Next(t, "still does", "task=\"hog #"), c.want)
		stop.Store(true)
		testenv.Check(t, k.Join())
		gate.Done()
	}
}

// A loop that has slept for long and is being woken holds nothing.
func TestLoopThatWakesUpHoldsNothing(t *testing.T) {
	log := make(testenv.Records, 10)
	rt := newRuntime(t, 1, logTo(log), holdLimit(-1))
	l := rt.Loop(0)
	waitFor(t, "the loop sleeps", l.inbox.sleeping.Load)
	w := &watchdog{rt: rt, seen: make([]sighting, 1)}
	for range 2 { // it has made steps since it was last seen, and none
		if busy, _ := w.look(time.Now()); busy {
			t.Error("a sleeping loop counts as busy")
		}
	}
	w.seen[0].since = time.Now().Add(-time.Hour)
	l.inbox.sleeping.Store(false) // as a sender does before it wakes the poller
	if busy, _ := w.look(time.Now()); !busy {
		t.Error("a loop that is being woken does not count as busy")
	}
	if l.overrun.step.Load() != 0 || len(log) != 0 {
		t.Errorf("step %d is an overrun, %d reports for a loop that slept", l.overrun.step.Load(), len(log))
	}
	l.poller.Wake()
}

// How long the watchdog goes on to look for tasks that wait, by a clock that moves a microsecond at each
// look: all the time at first, then with naps while a processor is free.
func TestHowLongTheSearchGoesOn(t *testing.T) {
	rt := newRuntime(t, 1, holdLimit(-1))
	l := rt.Loop(0)
	waitFor(t, "the loop sleeps", l.inbox.sleeping.Load)
	const look = time.Microsecond
	for _, c := range []struct {
		name             string
		sleeping         bool
		procs, hurryNaps int // naps after each of which a task wants its loop back
		stop             bool
		least, most      time.Duration
		naps             bool
	}{
		{name: "a processor is free", procs: 2, least: chaseFor, most: chaseFor + chaseNap + 10*look, naps: true},
		{name: "none is free", procs: 1, least: chaseSpin, most: chaseSpin + 10*look},
		{name: "all loops sleep", sleeping: true, procs: 2, most: 10 * look},
		{name: "the runtime ends", procs: 2, stop: true, most: 10 * look},
		{name: "tasks want their loop back", procs: 2, hurryNaps: 5, least: chaseFor + 5*(chaseSpin+chaseNap), most: chaseFor + 7*(chaseSpin+chaseNap), naps: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			now, naps := start, 0
			w := &watchdog{rt: rt, stop: make(chan struct{}), hurry: make(chan struct{}, 1)}
			w.now = func() time.Time { now = now.Add(look); return now }
			w.nap = func(d time.Duration) {
				now = now.Add(d)
				if naps++; naps <= c.hurryNaps {
					w.hurry <- struct{}{}
				}
			}
			if c.stop {
				close(w.stop)
			}
			l.inbox.sleeping.Store(c.sleeping)
			defer l.inbox.sleeping.Store(true)
			w.chase(c.procs)
			if took := now.Sub(start); took < c.least || took > c.most || c.naps != (naps > 0) {
				t.Errorf("it took %v with %d naps; want %v to %v", took, naps, c.least, c.most)
			}
		})
	}
}

func TestTinyHoldLimit(t *testing.T) {
	rt := newRuntime(t, 1, holdLimit(1))
	run(t, rt, Yield)
}

// The same deadlock is reported once, and none if something may still come.
func TestDeadlockCheck(t *testing.T) {
	log := make(testenv.Records, 100)
	rt, _ := newSimRuntime(t, 2, false, logTo(log), holdLimit(-1))
	check := func(what string, want int) {
		t.Helper()
		rt.watch.checkDeadlock()
		got := 0
		for len(log) > 0 {
			if strings.Contains(<-log, "deadlock") {
				got++
			}
		}
		testenv.Equal(t, got, want, "%s: N reports", what)
	}
	check("no tasks", 0)
	var wg WaitGroup
	wg.Add(1)
	stuck := GoWith(Options{Name: "stuck"}, wg.Wait)
	waitParked(t, rt, 1, ReasonWaitGroup)

	timer := startAfter(rt, time.Hour, func() {})
	waitFor(t, "the timer is queued", func() bool { return rt.canWake(nil) })
	check("a timer is pending", 0)
	timer.Stop()
	waitFor(t, "the timer is gone", func() bool { return !rt.canWake(nil) })

	holder := rt.Loop(1).Poller().(interface{ Hold(int32) })
	holder.Hold(1)
	check("the poller waits for something", 0)
	holder.Hold(-1)

	release := make(chan struct{})
	offloaded := rt.Go(func() { Offload(func() { <-release }) })
	waitParked(t, rt, 1, ReasonOffload)
	check("a function is offloaded", 0)
	close(release)
	offloaded.Join()
	waitFor(t, "the offloader rests", func() bool { return !rt.canWake(nil) })

	w := make(chan *Waiter, 1)
	outside := rt.Go(func() { s := Self(); w <- s; s.Wait(ReasonAccept, anywhere{}) })
	waitParked(t, rt, 1, ReasonAccept)
	check("a task waits for something outside", 0)
	(<-w).Wake()
	outside.Join()

	check("a task waits for nobody", 1)
	check("again", 0)
	wg.Done()
	stuck.Join()
}

func TestTimeInWhichTheWatchdogHadNoProcessorDoesNotCount(t *testing.T) {
	const interval, limit = 5 * time.Millisecond, 10 * time.Millisecond
	start := time.Unix(1000, 0)
	for _, c := range []struct {
		name        string
		looked      time.Duration // after start; -1: it has dozed
		now, counts time.Duration // when it looks, and how long the step then seems to last
	}{
		{"in time", 0, 5 * time.Millisecond, 5 * time.Millisecond},
		{"a little late, as beside a step that computes on the only P", 0, 14 * time.Millisecond, 14 * time.Millisecond},
		{"a container whose share was used up", 0, 85 * time.Millisecond, 5 * time.Millisecond},
		{"late the second time", 5 * time.Millisecond, 90 * time.Millisecond, 10 * time.Millisecond},
		{"after a doze", -1, 85 * time.Millisecond, 85 * time.Millisecond},
	} {
		w := &watchdog{rt: &Runtime{cfg: Config{HoldLimit: limit}}, interval: interval, seen: []sighting{{since: start}}}
		if c.looked >= 0 {
			w.looked = start.Add(c.looked)
		}
		now := start.Add(c.now)
		w.look(now)
		if got := now.Sub(w.seen[0].since); got != c.counts || !w.looked.Equal(now) {
			t.Errorf("%s: the step seems to last %v, want %v", c.name, got, c.counts)
		}
	}
}

// A step ends at a mark: it is that one which was too long, not the one behind it.
func TestALongStepUpToAMark(t *testing.T) {
	g := recorder.New(bgraph.Config{})
	rt := newRuntime(t, 1, func(c *Config) {
		c.HoldLimit = time.Hour // the test is the watchdog
		c.Graph = g
	})
	run(t, rt, func() {
		l := CurrentLoop()
		l.overrun.since.Store(time.Now().Add(-1000 * time.Hour).UnixNano())
		l.overrun.step.Store(l.switches)
		Mark("here")
		Yield()
	})
	s := g.Snapshot()
	for _, e := range s.Edges {
		want := uint64(0)
		if s.Node(e.To).Label == "here" {
			want = 1
		}
		testenv.Equal(t, e.Overruns, want, "%s → %s: N steps were too long", s.NameOf(e.From), s.NameOf(e.To))
	}
	testenv.Equal(t, len(s.Edges), 3, "edges")
}

// A check for deadlocks may swallow the signal once.
func TestWokenTellsThatThereIsWorkThatLasts(t *testing.T) {
	rt := newRuntime(t, 2, holdLimit(time.Millisecond))
	for range 5 {
		woken := rt.Woken()
		for ; woken == nil; woken = rt.Woken() {
			runtime.Gosched()
		}
		testenv.Must(t, rt.Go(func() {
			spinUntil(func() bool { return rt.watch.mode.Load() == watching })
		}).Join())
		waitFor(t, "the watchdog rests", func() bool { return rt.watch.mode.Load() != watching })
		select {
		case <-woken:
			return
		default:
		}
	}
	t.Error("not told")
}

// What a loop that wakes up and goes back to sleep does for the watchdog, and what an alarm that goes off does.
func TestAlarm(t *testing.T) {
	l := &Loop{plugs: plugs{rt: &Runtime{watch: &watchdog{interval: time.Hour, kick: make(chan struct{}, 1)}}}}
	w := l.rt.watch
	l.watch.alarm = &alarm{timer: time.AfterFunc(time.Hour, func() {})} // which tells if it was set
	for _, c := range []struct {
		from, to int32
		set      bool
		kicks    int
	}{
		{watching, watching, false, 0},
		{light, light, true, 0},
		{dozing, watching, false, 1},
	} {
		l.watch.alarm.timer.Stop()
		w.mode.Store(c.from)
		l.wokeUp()
		l.wokeUp()
		kicks := len(w.kick)
		for range kicks {
			<-w.kick
		}
		if to := w.mode.Load(); to != c.to || l.watch.set != c.set || kicks != c.kicks {
			t.Errorf("from %d: to %d with %d kicks, alarm set: %v; want %d, %d, %v", c.from, to, kicks, l.watch.set, c.to, c.kicks, c.set)
		}
		l.goesToSleep()
		if l.watch.set || l.watch.alarm.timer.Stop() {
			t.Errorf("from %d: the alarm is set while the loop sleeps", c.from)
		}
	}
	// It goes off while the watchdog is at work, which then rests, all in short waits of the loop.
	w.mode.Store(light)
	l.wokeUp()
	l.watch.alarm.timer.Stop()
	w.mode.Store(watching)
	l.ring(w)
	w.mode.Store(light)
	l.wokeUp()
	if !l.watch.alarm.timer.Stop() {
		t.Error("no alarm is set after one that went off")
	}
	for from, want := range map[int32]int32{watching: watching, light: watching, dozing: dozing} {
		w.mode.Store(from)
		if w.rouse(light); w.mode.Load() != want {
			t.Errorf("an alarm: from %d to %d, want %d", from, w.mode.Load(), want)
		}
	}
}
