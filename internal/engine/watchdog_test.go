package engine

import (
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

// hold keeps the loop of the calling task until n more steps have been found too
// long. A step may have to be repeated: what the processor was lacking does not count.
func hold(rt *Runtime, steps uint64) {
	for before := rt.watch.overruns.Load(); rt.watch.overruns.Load() < before+steps; Yield() {
		overrun(rt)
	}
}

// overrun makes the present step too long.
func overrun(rt *Runtime) {
	l, over := CurrentLoop(), lasted(2*rt.cfg.HoldLimit)
	spinUntil(func() bool { return l.overrun.step.Load() != 0 && over() })
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
	log.Next(t, "held its loop too long", "hog #", "loop=1", "limit=1ms", "engine.hold ") // on the stack at the end of the step
	testenv.Check(t, stop())
}

// The function of the task has returned when its last step is reported.
func TestHeldToTheEnd(t *testing.T) {
	log := make(testenv.Records, 100)
	rt := newRuntime(t, 1, logTo(log), holdLimit(time.Millisecond))
	for rt.watch.overruns.Load() == 0 {
		run(t, rt, func() { overrun(rt) })
	}
	log.Next(t, "held its loop too long", "the functions of the program had returned")
}

func TestHoldsAreCountedButReportsAreLimited(t *testing.T) {
	log := make(testenv.Records, 1000)
	start := time.Now()
	rt := newRuntime(t, 1, logTo(log), holdLimit(200*time.Microsecond))
	run(t, rt, func() { hold(rt, 20) })
	rt.Close()
	testenv.AtLeast(t, rt.watch.overruns.Load(), 20, "overruns counted")
	testenv.AtLeast(t, len(log), 1, "reports")
	testenv.AtMost(t, len(log), int(time.Since(start)/reportInterval)+1, "reports")
}

// A hold that goes on is reported while it does. Its stack is found among those of many tasks, and if it is on a chunk; with too
// many goroutines for that, the task is named nevertheless.
func TestHoldThatGoesOnIsReported(t *testing.T) {
	for _, c := range []struct {
		tasks   int
		onChunk bool
		want    string
	}{{0, false, "spinUntil"}, {3000, coro.Exact, "spinUntil"}, {maxStackDump, false, "too many goroutines"}} {
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
		k := testenv.Need(rt.Spawn(Options{Name: "hog"}, func() {
			if c.onChunk {
				callOnChunk(func() { spinUntil(stop.Load) })
			} else {
				spinUntil(stop.Load)
			}
		}))(t)
		log.Next(t, "still does", "loop=0", "task=\"hog #", c.want)
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
	testenv.Until(t, "the loop sleeps", l.inbox.sleeping.Load)
	w := &watchdog{rt: rt, seen: make([]sighting, 1)}
	for range 2 { // it has made steps since it was last seen, and none
		busy, _ := w.look(time.Now())
		testenv.Equal(t, busy, false, "a sleeping loop counts as busy")
	}
	w.seen[0].since = time.Now().Add(-time.Hour)
	l.inbox.sleeping.Store(false) // as a sender does before it wakes the poller
	busy, _ := w.look(time.Now())
	testenv.Equal(t, busy, true, "a loop that is being woken counts as busy")
	testenv.Equal(t, l.overrun.step.Load(), 0, "the step that is an overrun, of a loop that slept")
	testenv.Equal(t, len(log), 0, "reports for a loop that slept")
	l.poller.Wake()
}

// How long the watchdog goes on to look for tasks that wait, by a clock that moves a microsecond at each
// look: all the time at first, then with naps while a processor is free.
func TestHowLongTheSearchGoesOn(t *testing.T) {
	rt := newRuntime(t, 1, holdLimit(-1))
	l := rt.Loop(0)
	testenv.Until(t, "the loop sleeps", l.inbox.sleeping.Load)
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
			testenv.AtLeast(t, now.Sub(start), c.least, "it took")
			testenv.AtMost(t, now.Sub(start), c.most, "it took")
			testenv.Equal(t, naps > 0, c.naps, "it napped")
		})
	}
}

func TestTinyHoldLimit(t *testing.T) {
	rt := newRuntime(t, 1, holdLimit(1))
	run(t, rt, Yield)
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
		testenv.Equal(t, now.Sub(w.seen[0].since), c.counts, "%s: the step seems to last", c.name)
		testenv.Equal(t, w.looked, now, "%s: when it looked", c.name)
	}
}

// A step ends at a mark: it is that one which was too long, not the one behind it.
func TestALongStepUpToAMark(t *testing.T) {
	g := newGraph()
	rt := newRuntime(t, 1, holdLimit(time.Hour), learn(g)) // the test is the watchdog
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
		var woken <-chan struct{}
		testenv.Until(t, "the watchdog rests", func() bool { woken = rt.Woken(); return woken != nil })
		testenv.Must(t, rt.Go(func() {
			spinUntil(func() bool { return rt.watch.mode.Load() == watching })
		}).Join())
		testenv.Until(t, "the watchdog rests", func() bool { return rt.watch.mode.Load() != watching })
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
		testenv.Equal(t, w.mode.Load(), c.to, "from %d to", c.from)
		testenv.Equal(t, l.watch.set, c.set, "from %d: the alarm is set", c.from)
		testenv.Equal(t, kicks, c.kicks, "from %d: kicks", c.from)
		l.goesToSleep()
		testenv.Equal(t, l.watch.set || l.watch.alarm.timer.Stop(), false, "from %d: the alarm is set while the loop sleeps", c.from)
	}
	// It goes off while the watchdog is at work, which then rests, all in short waits of the loop.
	w.mode.Store(light)
	l.wokeUp()
	l.watch.alarm.timer.Stop()
	w.mode.Store(watching)
	l.ring(w)
	w.mode.Store(light)
	l.wokeUp()
	testenv.Equal(t, l.watch.alarm.timer.Stop(), true, "no alarm is set after one that went off")
	for from, want := range map[int32]int32{watching: watching, light: watching, dozing: dozing} {
		w.mode.Store(from)
		w.rouse(light)
		testenv.Equal(t, w.mode.Load(), want, "an alarm: from %d to", from)
	}
}

func TestParseSchedstat(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"12 345 6\n": 345, "0 0 0": 0,
		"": -1, "1 2": -1, "1 x 2": -1, "1 -2 3": -1, "1 2 3 4": -1, "1 99999999999999999999 3": -1,
	} {
		d, ok := parseSchedstat([]byte(text))
		testenv.Equal(t, ok, want >= 0, "%q is accepted", text)
		if ok {
			testenv.Equal(t, d, want, "%q", text)
		}
	}
}

func TestRunDelaysGrow(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("no schedstat here: ", err)
	}
	a, b := runDelays(), runDelays()
	if a == nil || b == nil {
		t.Skip("schedstat can't be read here")
	}
	sum, most := b.since(a)
	testenv.AtLeast(t, most, 0, "%v, then %v", a, b)
	testenv.AtMost(t, most, sum, "%v, then %v", a, b)
}

// What threads waited for at the same time is not taken from a step that runs on one of them.
func TestWhatAStepWasHeldUp(t *testing.T) {
	const ms = time.Millisecond
	before := delays{"1": 5 * ms, "2": 7 * ms}
	for _, c := range []struct {
		lasted time.Duration
		now    delays
		want   time.Duration
	}{
		{9 * ms, before, 0},
		{30 * ms, before, 30 * ms},
		{30 * ms, delays{"1": 20 * ms, "2": 7 * ms}, 15 * ms},
		{30 * ms, delays{"1": 20 * ms, "2": 20 * ms}, 0}, // 15 ms, or 2
		{200 * ms, delays{"1": 105 * ms, "2": 107 * ms}, 100 * ms},
		{200 * ms, delays{"1": 115 * ms, "2": 107 * ms}, 0},
		{200 * ms, delays{"1": 5 * ms, "2": 7 * ms, "3": 50 * ms}, 150 * ms},
		{200 * ms, nil, 200 * ms},
	} {
		testenv.Equal(t, ownHold(c.lasted, 10*ms, before, c.now), c.want, "%v, %v", c.lasted, c.now)
	}
}

// An alarm rings once when it was set, not after it was stopped or closed, and at the last time it was set to; with
// and without a timer of the kernel.
func TestAlarmRings(t *testing.T) {
	for _, kernel := range []bool{true, false} {
		var rung atomic.Int32
		ring := func() { rung.Add(1) }
		a := newAlarm(ring)
		if !kernel {
			a.close()
			a = &alarm{timer: time.AfterFunc(time.Hour, ring)}
		}
		for n := int32(1); n <= 3; n++ {
			a.set(time.Hour)
			a.set(time.Millisecond)
			testenv.Until(t, "a ring", func() bool { return rung.Load() == n })
		}
		a.set(time.Hour)
		a.stop()
		testenv.Equal(t, isSet(t, a), false, "kernel timer %v: it is set after it was stopped", kernel)
		a.set(time.Hour)
		testenv.Equal(t, isSet(t, a), true, "kernel timer %v: it is set after that", kernel)
		a.close()
		testenv.Equal(t, rung.Load(), 3, "kernel timer %v: rings", kernel)
	}
}

// isSet reports whether a will ring. It may stop a.
func isSet(t *testing.T, a *alarm) bool {
	if a.kernel == nil {
		return a.timer.Stop()
	}
	var left unix.ItimerSpec
	testenv.Must(t, unix.TimerfdGettime(a.kernel.fd, &left))
	return left.Value != unix.Timespec{}
}

func TestUserFrame(t *testing.T) {
	var stack string
	slices.SortFunc([]int{2, 1}, func(int, int) int { stack = string(debug.Stack()); return 0 })
	frame := userFrame(stack)
	testenv.Contains(t, frame, "github.com/capriccio-go/capriccio/internal/engine.TestUserFrame.func1 ")
	testenv.Contains(t, frame, "watchdog_test.go:")
	const own = "goroutine 7 [chan receive, 2 minutes]:\n" +
		"github.com/capriccio-go/capriccio/netpoll.(*Conn).Read(0x1)\n\t/m/netpoll/conn.go:1 +0x1\n"
	for what, want := range map[string]string{
		own: "",
		own + "example.com/x/server.(*T).serve(...)\n\t/src/x/server.go:7\n":                          "example.com/x/server.(*T).serve /src/x/server.go:7",
		own + "github.com/capriccio-go/capriccio/knot.(*conn).serve(0x1)\n\t/m/knot/conn.go:3 +0x1\n": "github.com/capriccio-go/capriccio/knot.(*conn).serve /m/knot/conn.go:3",
		"":                         "",
		"goroutine 1 [running]:\n": "",
	} {
		testenv.Equal(t, userFrame(what), want, "%q", what)
	}
	if root := libraryRoot(); root != "" && !strings.HasSuffix(root, "/src/") {
		t.Errorf("the standard library is in %q", root)
	}
	library := "goroutine 7 [sleep]:\ntime.Sleep(0x1)\n\t" + libraryRoot() + "time/sleep.go:1 +0x1\nmain.main()\n\t/src/x.go:7\n"
	testenv.Equal(t, userFrame(library), "main.main /src/x.go:7")
	testenv.Equal(t, goroutineState(own), "chan receive", "the state")
}

// The report of a step that goes on tells where in the program the task is, and what it does there.
func TestWatchdogShowsTheProgram(t *testing.T) {
	log := make(testenv.Records, 100)
	rt, _ := newSimRuntime(t, 1, true, logTo(log), holdLimit(time.Millisecond))
	blocked := make(chan bool)
	k := rt.Go(func() { <-blocked })
	log.Next(t, "still does", "TestWatchdogShowsTheProgram.func1", `doing="chan receive"`)
	close(blocked)
	k.Join()
}
