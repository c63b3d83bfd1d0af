package task

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestChanIsFirstInFirstOut(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		for _, capacity := range []int{0, 1, 10} {
			c := NewChan[int](capacity)
			engine.GoOn(rt.Loop(0), func() {
				for i := range 200 {
					c.Send(i)
				}
				c.Close()
			})
			next := 0
			for v := range c.All() {
				testenv.MustEqual(t, v, next, "received")
				next++
			}
			testenv.Equal(t, next, 200, "values")
		}
	})
}

// Senders that wait are served in the order in which they came, and so are receivers.
func TestChanWaitersAreServedInOrder(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	c := NewChan[int](0)
	for i := range 10 {
		engine.GoOn(rt.Loop(i%2), func() { c.Send(i) })
		enginetest.WaitParked(t, rt, i+1, engine.ReasonChanSend)
	}
	for i := range 10 {
		testenv.Got(c.Recv())(t, i, "received")
	}
	var got [10]int
	var tasks []*engine.Task
	for i := range 10 {
		tasks = append(tasks, engine.GoOn(rt.Loop(i%2), func() { got[i], _ = c.Recv() }))
		enginetest.WaitParked(t, rt, i+1, engine.ReasonChanRecv)
	}
	for i := range 10 {
		c.Send(i + 100)
	}
	for i, k := range tasks {
		k.Join()
		testenv.Equal(t, got[i], i+100, "receiver %d", i)
	}
}

func TestChanTryAndLen(t *testing.T) {
	c := NewChan[string](2)
	if _, ok, err := c.TryRecv(); ok || err != nil {
		t.Error("received out of nothing")
	}
	for i, want := range []bool{true, true, false} {
		testenv.Got(c.TrySend("x"))(t, want, "TrySend %d", i)
	}
	if c.Len() != 2 || c.Cap() != 2 {
		t.Errorf("len %d, cap %d", c.Len(), c.Cap())
	}
	c.Close()
	if ok, err := c.TrySend("y"); ok || err != ErrChanClosed {
		t.Errorf("TrySend to a closed channel: %v, %v", ok, err)
	}
	for range 2 {
		if v, ok, err := c.TryRecv(); v != "x" || !ok || err != nil {
			t.Errorf("%q, %v, %v", v, ok, err)
		}
	}
	if _, ok, err := c.TryRecv(); ok || err != ErrChanClosed {
		t.Errorf("TryRecv of a closed, empty channel: %v, %v", ok, err)
	}
	unbuffered := NewChan[int](0)
	if ok, _ := unbuffered.TrySend(1); ok {
		t.Error("sent to nobody")
	}
	enginetest.MustPanic(t, "a second Close", c.Close)
}

func TestCloseWakesSendersAndReceivers(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		in, out := NewChan[int](0), NewChan[int](1)
		out.Send(0)
		var closed atomic.Int32
		var all sync.WaitGroup
		all.Go(func() {
			enginetest.Everyone(t, rt, 12, func(i int) {
				var err error
				if i/3%2 == 0 {
					_, err = in.Recv()
				} else {
					err = out.Send(i)
				}
				testenv.Equal(t, err, ErrChanClosed, "caller %d", i)
				closed.Add(1)
			})
		})
		enginetest.WaitParked(t, rt, 4, engine.ReasonChanRecv)
		enginetest.WaitParked(t, rt, 4, engine.ReasonChanSend)
		in.Close()
		out.Close()
		all.Wait()
		testenv.Got(out.Recv())(t, 0, "the value in the buffer is lost")
		if _, err := out.Recv(); err != ErrChanClosed {
			t.Error(err)
		}
		testenv.Equal(t, closed.Load(), 12, "woken")
	})
}
