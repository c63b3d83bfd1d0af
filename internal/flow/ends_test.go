package flow_test

import (
	"context"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// The end of a flow is a function of the program: if it panics, the graph does not wait for what was let go with it.
func TestAFlowWhoseEndPanics(t *testing.T) {
	simulated(t, 1, func(*engine.Runtime) {
		g := flow.New("end")
		in := flow.Add(g, "sink", flow.ByTask, &sink{func(*flow.Flow, int) {}})
		start(t, g)
		ended := 0
		for i := range 3 { // the servlet takes all of them at once
			f := g.NewFlow(nil, func() {
				if ended++; i < 2 {
					panic("of a test")
				}
			})
			testenv.Check(t, in.Put(f, i))
			f.Release()
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := g.Shutdown(ctx); err != nil || ended != 3 {
			t.Errorf("Shutdown: %v; %d flows have ended, want 3", err, ended)
		}
	})
}

// A mistake that panics does so without the lock of the instance.
func TestAPutThatPanicsLeavesTheInstanceUsable(t *testing.T) {
	simulated(t, 1, func(*engine.Runtime) {
		g, handled := flow.New("mistaken"), 0
		in := flow.Add(g, "sink", flow.ByFlow, &sink{func(*flow.Flow, int) { handled++ }})
		start(t, g)
		over := g.NewFlow(nil, nil)
		over.Release()
		for what, f := range map[string]*flow.Flow{"of another graph": flow.New("other").NewFlow(nil, nil), "that has ended": over} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("Put with a flow %s did not panic", what)
					}
				}()
				in.Put(f, 0)
			}()
			testenv.Check(t, in.Put(nil, 1)) // the test's time limit ends this
		}
		stop(t, g)
		if s := g.Stats()[0]; handled != 2 || s.Handled != 2 {
			t.Errorf("%d handled, %+v; want 2", handled, s)
		}
	})
}

// What waits for room outside when a graph is closed does not come in any more.
func TestAPutThatWaitsIsRefusedWhenTheGraphIsClosed(t *testing.T) {
	simulated(t, 1, func(*engine.Runtime) {
		g, goOn := flow.New("closing"), task.NewChan[int](0)
		in := flow.AddWith(g, "slow", flow.ByTask, flow.Options{Queue: 1}, &sink{func(*flow.Flow, int) { goOn.Recv() }})
		start(t, g)
		testenv.Check(t, in.Put(nil, 0)) // is worked on
		testenv.Check(t, in.Put(nil, 1)) // is queued
		var err error
		late := task.Go(func() { err = in.Put(nil, 2) })
		task.Sleep(time.Second)
		closer := task.Go(func() { stop(t, g) })
		task.Sleep(time.Second)
		goOn.Close()
		testenv.Check(t, late.Join())
		testenv.Check(t, closer.Join())
		if s := g.Stats()[0]; err != flow.ErrClosed || s.Handled != 2 {
			t.Errorf("Put: %v, %d handled; want %v, 2", err, s.Handled, flow.ErrClosed)
		}
	})
}

// A graph can be ended after its runtime, which has ended a servlet that did not heed that it was cancelled.
func TestShutdownAfterTheEndOfTheRuntime(t *testing.T) {
	rt := programs.Simulated(t, 1, 1, func(c *engine.Config) { c.Grace = 100 * time.Millisecond })
	g, begun := flow.New("late"), make(chan bool, 1)
	var never task.WaitGroup
	never.Add(1)
	in := flow.Add(g, "stuck", flow.ByTask, &sink{func(*flow.Flow, int) {
		begun <- true
		never.Wait()
	}})
	testenv.Must(t, rt.Go(func() {
		testenv.Check(t, g.Start())
		testenv.Check(t, in.Put(nil, 0))
	}).Join())
	<-begun
	rt.Close()
	testenv.Check(t, g.Shutdown(context.Background())) // the test's time limit ends this
}

// A loan is an element that counts when it is dropped.
type loan struct{ dropped *int }

func (l loan) Dropped() { *l.dropped++ }

type borrower struct{ do func() }

func (b *borrower) Run(c *flow.Call[loan]) {
	c.Next()
	b.do()
}

// An element is taken by its module or told that it is dropped: by a Shutdown that may not wait, or as a panic has ended its batch.
func TestElementsAreTakenOrDropped(t *testing.T) {
	for _, by := range []flow.Parallelism{flow.ByTask, flow.ByFlow, flow.ByElement} {
		for _, panics := range []bool{false, true} {
			simulated(t, 1, func(*engine.Runtime) {
				g, goOn := flow.New("loans"), task.NewChan[int](0)
				taken, dropped := 0, 0
				in := flow.AddWith(g, "slow", by, flow.Options{Max: 1}, &borrower{func() {
					taken++
					if goOn.Recv(); panics {
						panic("of a test")
					}
				}})
				start(t, g)
				for range 3 {
					f := g.NewFlow(nil, nil)
					for range 5 {
						testenv.Check(t, in.Put(f, loan{&dropped}))
					}
					f.Release()
				}
				task.Sleep(time.Second)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				if !panics {
					cancel()
				}
				closer := task.Go(func() { g.Shutdown(ctx) })
				task.Sleep(time.Second)
				goOn.Close()
				testenv.Check(t, closer.Join())
				task.Sleep(time.Hour)
				if taken+dropped != 15 || dropped == 0 {
					t.Errorf("by %v, panics: %v: %d taken, %d dropped; want 15 together", by, panics, taken, dropped)
				}
			})
		}
	}
}
