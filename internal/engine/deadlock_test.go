package engine

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/bgraph"
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
		for _, k := range tasks {
			k.Join()
		}
	}
}

// waitsFor makes a task that waits for something outside.
func waitsFor(t *testing.T, rt *Runtime, why Reason) {
	t.Helper()
	before := parked(rt, why)
	testenv.Need(rt.Spawn(Options{Name: why.String()}, func() { s := Self(); s.Wait(why, anywhere{}) }))(t)
	waitParked(t, rt, before+1, why)
}

// TestDeadlockOfAServer: what is reported while somebody listens, and what is not.
func TestDeadlockOfAServer(t *testing.T) {
	type scene struct {
		t  *testing.T
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
			waitParked(s.t, s.rt, before+1, why)
		}
		s.rt.Spawn(Options{Name: "waiter"}, func() { m.Lock() })
		waitParked(s.t, s.rt, 1, ReasonMutex)
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
		{"idle workers", func(s scene) { s.rt.Go(recv); waitParked(s.t, s.rt, 1, ReasonChanRecv) }, nil, ""},
		{"a circle", func(s scene) { embrace(s.t, s.rt) }, []string{"task one #", "task two #"}, "accept"},
		{"a circle, and others go on", func(s scene) { embrace(s.t, s.rt); waitsFor(s.t, s.rt, ReasonRead) }, []string{"task one #", "task two #"}, "read"},
		{"the holder has ended", func(s scene) { heldBy(s, ReasonNone, func() {}); waitsFor(s.t, s.rt, ReasonSleep) }, []string{"task waiter #"}, "sleep"},
		{"the holder waits for a task", func(s scene) { heldBy(s, ReasonChanRecv, recv) }, []string{"task waiter #", "task holder #"}, "accept"},
		{"that, and a timer", func(s scene) {
			startAfter(s.rt, time.Hour, func() {})
			heldBy(s, ReasonChanRecv, recv)
		}, nil, ""},
		{"that, and a task that sleeps", func(s scene) { waitsFor(s.t, s.rt, ReasonSleep); heldBy(s, ReasonChanRecv, recv) }, nil, ""},
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
			oneOfMany(s.t, 1).Go(func() { m.Lock(); locked <- true; recv() })
			<-locked
			s.rt.Go(m.Lock)
			waitParked(s.t, s.rt, 1, ReasonMutex)
		}, nil, ""},
		{"the holder joins a task of another runtime", func(s scene) {
			k := oneOfMany(s.t, 1).Go(recv)
			heldBy(s, ReasonJoin, func() { k.Join() })
		}, nil, ""},
		{"the holder reads", func(s scene) { heldBy(s, ReasonRead, park(ReasonRead)) }, nil, ""},
		{"the holder accepts", func(s scene) { heldBy(s, ReasonAccept, park(ReasonAccept)) }, nil, ""},
		{"a Join of a task that accepts", func(s scene) {
			k := s.rt.Go(park(ReasonAccept))
			waitParked(s.t, s.rt, 2, ReasonAccept)
			s.rt.Go(func() { k.Join() })
			waitParked(s.t, s.rt, 1, ReasonJoin)
		}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := make(testenv.Records, 100)
			rt, _ := newSimRuntime(t, 2, false, logTo(log), holdLimit(-1))
			defer func() { rt.cfg.Grace = 100 * time.Millisecond }() // until then loops have time to answer
			rt.Loop(0).Poller().(interface{ Hold(int32) }).Hold(1)
			defer rt.Loop(0).Poller().(interface{ Hold(int32) }).Hold(-1)
			waitsFor(t, rt, ReasonAccept)
			test.do(scene{t, rt})
			reports := ""
			for range 2 {
				rt.watch.checkDeadlock()
			}
			for len(log) > 0 {
				if line := <-log; strings.Contains(line, "deadlock") {
					reports += line
				}
			}
			testenv.Equal(t, strings.Count(reports, "\n"), min(1, len(test.want)), "reports: %q", reports)
			for _, want := range test.want {
				testenv.Contains(t, reports, want)
			}
			if test.not != "" && strings.Contains(reports, "waits: "+test.not) {
				t.Errorf("%q is in %q", test.not, reports)
			}
		})
	}
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
			contains(t, <-log, "hold each other up")
		}
		now = now.Add(busyCheck)
	}
	release()
}

// waitOverrun waits until the graph has an overrun with a stack that has the function hold in it, and returns the stack.
func waitOverrun(t *testing.T, g *recorder.Graph) (stack string) {
	t.Helper()
	waitFor(t, "a long step is in the graph", func() bool {
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
	log, g := make(testenv.Records, 100), recorder.New(bgraph.Config{})
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
	held, release := make(chan bool), make(chan bool)
	k := GoOn(rt.Loop(0), func() { close(held); <-release; Yield() })
	<-held
	stop := make(chan struct{})
	close(stop)
	if all, order := rt.waits(stop); all != nil || order != nil {
		t.Errorf("%v, %v of a loop that is held", all, order)
	}
	close(release)
	k.Join()
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
	waitFor(t, "the Select has found that it was served", func() bool {
		return onLoop(rt.Loop(0), func(*Loop) bool { return w.task.state == stateParked && w.task.on == nil })
	})
	if all, order := rt.waits(nil); len(order) != 1 || all[order[0]].ends != EndsByItself {
		t.Errorf("%d tasks wait; want one, for a Wake that is under way", len(order))
	}
	w.Wake()
	testenv.Check(t, k.Join())
}
