package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// embrace makes two tasks that wait for each other's lock; release lets them go.
func embrace(t *testing.T, rt *Runtime) (release func()) {
	t.Helper()
	var a, b Mutex
	var both WaitGroup
	both.Add(2)
	var tasks []*Task
	for i, locks := range [][2]*Mutex{{&a, &b}, {&b, &a}} {
		k := testenv.Need(rt.Spawn(Options{Name: []string{"one", "two"}[i], Loop: rt.Loop(i % rt.Loops())}, func() {
			locks[0].Lock()
			both.Done()
			both.Wait()
			locks[1].Lock()
		}))(t)
		tasks = append(tasks, k)
	}
	waitParked(t, rt, 2, ReasonMutex)
	return func() {
		a.Unlock()
		b.Unlock()
		joinAll(t, tasks)
	}
}

// waitsFor makes a task that waits for something outside.
func waitsFor(t *testing.T, rt *Runtime, why Reason) {
	t.Helper()
	before := parked(rt, why)
	testenv.Need(rt.Spawn(Options{Name: why.String()}, func() { s := Self(); s.Wait(why, anywhere{}) }))(t)
	waitParked(t, rt, before+1, why)
}

// takeReports returns the lines of the log that tell of a deadlock.
func takeReports(log testenv.Records) (reports string) {
	for len(log) > 0 {
		if line := <-log; strings.Contains(line, "deadlock") {
			reports += line
		}
	}
	return reports
}

// TestDeadlockOfAServer: what is reported while somebody listens, and what is not.
func TestDeadlockOfAServer(t *testing.T) {
	type scene struct {
		*testing.T
		rt *Runtime
	}
	// heldBy makes a task that waits for a lock whose holder does fn.
	heldBy := func(s scene, why Reason, fn func()) {
		var m Mutex
		locked := make(chan bool)
		before := parked(s.rt, why)
		s.rt.Spawn(Options{Name: "holder"}, func() { m.Lock(); locked <- true; fn() })
		<-locked
		if why != ReasonNone {
			waitParked(s, s.rt, before+1, why)
		}
		s.rt.Spawn(Options{Name: "waiter"}, func() { m.Lock() })
		waitParked(s, s.rt, 1, ReasonMutex)
	}
	park := func(why Reason) func() { return func() { Self().Wait(why, anywhere{}) } }
	recv := park(ReasonChanRecv)
	for _, test := range []struct {
		name string
		do   func(s scene)
		want []string // tasks in the report; none: no report
		not  string   // is not in it
	}{
		{"nothing to do", func(scene) {}, nil, ""},
		{"idle workers", func(s scene) { s.rt.Go(recv); waitParked(s, s.rt, 1, ReasonChanRecv) }, nil, ""},
		{"a circle", func(s scene) { embrace(s.T, s.rt) }, []string{"task one #", "task two #"}, "accept"},
		{"a circle, and others go on", func(s scene) { embrace(s.T, s.rt); waitsFor(s.T, s.rt, ReasonRead) }, []string{"task one #", "task two #"}, "read"},
		{"the holder has ended", func(s scene) { heldBy(s, ReasonNone, func() {}); waitsFor(s.T, s.rt, ReasonSleep) }, []string{"task waiter #"}, "sleep"},
		{"the holder waits for a task", func(s scene) { heldBy(s, ReasonChanRecv, recv) }, []string{"task waiter #", "task holder #"}, "accept"},
		{"that, and a timer", func(s scene) {
			startAfter(s.rt, time.Hour, func() {})
			heldBy(s, ReasonChanRecv, recv)
		}, nil, ""},
		{"that, and a task that sleeps", func(s scene) { waitsFor(s.T, s.rt, ReasonSleep); heldBy(s, ReasonChanRecv, recv) }, nil, ""},
		{"that, under a deadline", func(s scene) {
			heldBy(s, ReasonChanRecv, func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
				defer cancel()
				Under(ctx, func() error { recv(); return nil })
			})
		}, nil, ""},
		{"the holder is of another runtime", func(s scene) {
			var m Mutex
			locked := make(chan bool)
			oneOfMany(s, 1, shortGrace).Go(func() { m.Lock(); locked <- true; recv() })
			<-locked
			s.rt.Go(m.Lock)
			waitParked(s, s.rt, 1, ReasonMutex)
		}, nil, ""},
		{"the holder joins a task of another runtime", func(s scene) {
			k := oneOfMany(s, 1, shortGrace).Go(recv)
			heldBy(s, ReasonJoin, func() { k.Join() })
		}, nil, ""},
		{"the holder reads", func(s scene) { heldBy(s, ReasonRead, park(ReasonRead)) }, nil, ""},
		{"the holder accepts", func(s scene) { heldBy(s, ReasonAccept, park(ReasonAccept)) }, nil, ""},
		{"a Join of a task that accepts", func(s scene) {
			k := s.rt.Go(park(ReasonAccept))
			waitParked(s, s.rt, 2, ReasonAccept)
			s.rt.Go(func() { k.Join() })
			waitParked(s, s.rt, 1, ReasonJoin)
		}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := make(testenv.Records, 100)
			rt, _ := newSimRuntime(t, 2, false, logTo(log), holdLimit(-1))
			defer func() { rt.cfg.Grace = 20 * time.Millisecond }() // until then loops have time to answer
			rt.Loop(0).Poller().(interface{ Hold(int32) }).Hold(1)
			defer rt.Loop(0).Poller().(interface{ Hold(int32) }).Hold(-1)
			waitsFor(t, rt, ReasonAccept)
			test.do(scene{t, rt})
			rt.watch.checkDeadlock()
			rt.watch.checkDeadlock()
			reports := takeReports(log)
			testenv.Equal(t, strings.Count(reports, "\n"), min(1, len(test.want)), "reports: %q", reports)
			for _, want := range test.want {
				testenv.Contains(t, reports, want)
			}
			if test.not != "" {
				testenv.Equal(t, strings.Contains(reports, "waits: "+test.not), false, "%q is in %q", test.not, reports)
			}
		})
	}
}

// A lock may be unlocked by another task than the one that locked it, which may have ended. As long as a task goes on, a
// task that waits for the lock is not stuck for certain.
func TestDeadlockOfALockHandedOver(t *testing.T) {
	rt, _ := newSimRuntime(t, 2, false, holdLimit(-1))
	var m Mutex
	run(t, rt, m.Lock)
	handed := make(chan *Waiter, 1)
	goesOn := rt.Go(func() { w := Self(); handed <- w; w.Wait(ReasonSleep, anywhere{}) })
	waitParked(t, rt, 1, ReasonSleep)
	waits := testenv.Need(rt.Spawn(Options{Name: "main"}, m.Lock))(t)
	waitParked(t, rt, 1, ReasonMutex)
	testenv.Equal(t, rt.DeadlockOf("main"), "", "while another task sleeps")
	(<-handed).Wake()
	testenv.Check(t, goesOn.Join())
	testenv.Contains(t, rt.DeadlockOf("main"), "task main #")
	m.Unlock()
	testenv.Check(t, waits.Join())
}

// TestDeadlockOfABusyRuntime is reported when it has been found twice.
func TestDeadlockOfABusyRuntime(t *testing.T) {
	log := make(testenv.Records, 100)
	rt, _ := newSimRuntime(t, 2, false, logTo(log), holdLimit(-1))
	release := embrace(t, rt)
	now := time.Now()
	for look, want := range []int{0, 0, 1, 0} {
		rt.watch.lookBusy(now)
		rt.watch.lookBusy(now.Add(busyCheck / 2))
		testenv.Equal(t, len(log), want, "look %d: N reports", look)
		for len(log) > 0 {
			testenv.Contains(t, <-log, "hold each other up")
		}
		now = now.Add(busyCheck)
	}
	release()
}

// waitOverrun waits until the graph has an overrun with a stack that has the function hold in it, and returns the stack.
func waitOverrun(t *testing.T, g *recorder.Graph) (stack string) {
	t.Helper()
	testenv.Until(t, "a long step is in the graph", func() bool {
		for _, o := range g.Snapshot().Overruns {
			if strings.Contains(o.Stack, "engine.hold(") { // a report that is left out has none
				stack = o.Stack
			}
		}
		return stack != ""
	})
	return stack
}

// TestStackOfALongStepIsKeptForTheDump: then the log has one short line about it.
func TestStackOfALongStepIsKeptForTheDump(t *testing.T) {
	log, g := make(testenv.Records, 100), recorder.New(recorder.Config{})
	rt := newRuntime(t, 1, logTo(log), holdLimit(time.Millisecond), func(c *Config) { c.Graph = g })
	stop := holdOften(rt, Options{}, func(f func()) { f() })
	line := log.Next(t, "held its loop too long")
	if strings.Contains(line, "goroutine") || len(line) > 500 {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	waitOverrun(t, g)
	stop()
}

// A loop that answers after nobody waits for that any more does no harm.
func TestALateAnswerToTheDeadlockCheck(t *testing.T) {
	rt := newRuntime(t, 2, func(c *Config) { c.HoldLimit = -1 })
	var wg WaitGroup
	wg.Add(1)
	waits := GoOn(rt.Loop(0), wg.Wait)
	waitParked(t, rt, 1, ReasonWaitGroup)
	release := occupy(t, rt.Loop(0), Options{}, func() {})
	stop := make(chan struct{})
	close(stop)
	all, order := rt.describeWaits(stop)
	testenv.Equal(t, len(all)+len(order), 0, "tasks of a loop that is held")
	release()
	rt.Tasks() // the loop has answered
	wg.Done()
	waits.Join()
}

// A Select that was served and then cancelled waits for the Wake that is under way.
func TestDeadlockCheckMeetsACancelledSelect(t *testing.T) {
	rt := newRuntime(t, 1, holdLimit(-1))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan *Waiter, 1)
	k := rt.Go(func() {
		w := Self()
		served <- w
		testenv.Check(t, Under(ctx, func() error { return w.Wait(ReasonSelect, taken{}) }), "a Select that was served")
	})
	w := <-served
	waitParked(t, rt, 1, ReasonSelect)
	cancel()
	testenv.Until(t, "the Select has found that it was served", func() bool {
		return onLoop(rt.Loop(0), func(*Loop) bool { return w.task.state == stateParked && w.task.on == nil })
	})
	if all, order := rt.describeWaits(nil); len(order) != 1 || all[order[0]].ends != EndsByItself {
		t.Errorf("%d tasks wait; want one, for a Wake that is under way", len(order))
	}
	w.Wake()
	testenv.Check(t, k.Join())
}

// The same deadlock is reported once, and none if something may still come.
func TestDeadlockCheck(t *testing.T) {
	log := make(testenv.Records, 100)
	rt, _ := newSimRuntime(t, 2, false, logTo(log), holdLimit(-1))
	check := func(what string, want int) {
		t.Helper()
		rt.watch.checkDeadlock()
		testenv.Equal(t, strings.Count(takeReports(log), "\n"), want, "%s: N reports", what)
	}
	check("no tasks", 0)
	var wg WaitGroup
	wg.Add(1)
	stuck := GoWith(Options{Name: "stuck"}, wg.Wait)
	waitParked(t, rt, 1, ReasonWaitGroup)

	stop := startAfter(rt, time.Hour, func() {})
	testenv.Until(t, "the timer is queued", func() bool { return rt.canWake(nil) })
	check("a timer is pending", 0)
	stop()
	testenv.Until(t, "the timer is gone", func() bool { return !rt.canWake(nil) })

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
	testenv.Until(t, "the offloader rests", func() bool { return !rt.canWake(nil) })

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
