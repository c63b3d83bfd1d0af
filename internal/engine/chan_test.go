package engine

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestChanIsFirstInFirstOut(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		for _, capacity := range []int{0, 1, 10} {
			c := NewChan[int](capacity)
			GoOn(rt.Loop(0), func() {
				for i := range 200 {
					c.Send(i)
				}
				c.Close()
			})
			next := 0
			for v := range c.All() {
				if v != next {
					t.Fatalf("received %d, want %d", v, next)
				}
				next++
			}
			if next != 200 {
				t.Errorf("%d values", next)
			}
		}
	})
}

// Senders that wait are served in the order in which they came, and so are receivers.
func TestChanWaitersAreServedInOrder(t *testing.T) {
	rt := newRuntime(t, 2)
	c := NewChan[int](0)
	for i := range 10 {
		GoOn(rt.Loop(i%2), func() { c.Send(i) })
		waitParked(t, rt, i+1, ReasonChanSend)
	}
	for i := range 10 {
		if v, err := c.Recv(); v != i || err != nil {
			t.Errorf("received %d, %v; want %d", v, err, i)
		}
	}
	var got [10]int
	var tasks []*Task
	for i := range 10 {
		tasks = append(tasks, GoOn(rt.Loop(i%2), func() { got[i], _ = c.Recv() }))
		waitParked(t, rt, i+1, ReasonChanRecv)
	}
	for i := range 10 {
		c.Send(i + 100)
	}
	for i, k := range tasks {
		k.Join()
		if got[i] != i+100 {
			t.Errorf("receivers got %v", got)
		}
	}
}

func TestChanTryAndLen(t *testing.T) {
	c := NewChan[string](2)
	if _, ok, err := c.TryRecv(); ok || err != nil {
		t.Error("received out of nothing")
	}
	for i, want := range []bool{true, true, false} {
		if ok, err := c.TrySend("x"); ok != want || err != nil {
			t.Errorf("TrySend %d: %v, %v", i, ok, err)
		}
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
	mustPanic(t, "a second Close", c.Close)
}

func TestCloseWakesSendersAndReceivers(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		in, out := NewChan[int](0), NewChan[int](1)
		out.Send(0)
		var closed atomic.Int32
		var all sync.WaitGroup
		all.Go(func() {
			everyone(t, rt, 12, func(i int) {
				var err error
				if i/3%2 == 0 {
					_, err = in.Recv()
				} else {
					err = out.Send(i)
				}
				if err != ErrChanClosed {
					t.Errorf("caller %d: %v", i, err)
				}
				closed.Add(1)
			})
		})
		waitParked(t, rt, 4, ReasonChanRecv)
		waitParked(t, rt, 4, ReasonChanSend)
		in.Close()
		out.Close()
		all.Wait()
		if v, err := out.Recv(); v != 0 || err != nil {
			t.Errorf("the value in the buffer is lost: %v, %v", v, err)
		}
		if _, err := out.Recv(); err != ErrChanClosed {
			t.Error(err)
		}
		if closed.Load() != 12 {
			t.Errorf("%d woken", closed.Load())
		}
	})
}
