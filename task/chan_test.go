package task

import (
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
	inTurn(t, rt, 10, engine.ReasonChanSend, func(i int) { c.Send(i) })
	for i := range 10 {
		testenv.Got(c.Recv())(t, i, "received")
	}
	var got [10]int
	joined := inTurn(t, rt, 10, engine.ReasonChanRecv, func(i int) { got[i], _ = c.Recv() })
	for i := range 10 {
		c.Send(i + 100)
	}
	joined()
	testenv.Equal(t, got, [10]int{100, 101, 102, 103, 104, 105, 106, 107, 108, 109}, "received, by receiver")
}

// inTurn starts n tasks, numbered from 0, each when the one before it waits for why. joined waits for their ends.
func inTurn(t *testing.T, rt *engine.Runtime, n int, why engine.Reason, fn func(i int)) (joined func()) {
	t.Helper()
	tasks := make([]*engine.Task, n)
	for i := range n {
		tasks[i] = engine.GoOn(rt.Loop(i%rt.Loops()), func() { fn(i) })
		enginetest.WaitParked(t, rt, i+1, why)
	}
	return func() {
		t.Helper()
		for _, k := range tasks {
			testenv.Check(t, k.Join())
		}
	}
}

func TestChanTryAndLen(t *testing.T) {
	c := NewChan[string](2)
	recv := func(wantValue string, wantOK bool, wantErr error) {
		t.Helper()
		v, ok, err := c.TryRecv()
		testenv.Equal(t, v, wantValue, "TryRecv")
		testenv.Equal(t, ok, wantOK, "TryRecv")
		testenv.Equal(t, err, wantErr, "TryRecv")
	}
	recv("", false, nil)
	for i, want := range []bool{true, true, false} {
		testenv.Got(c.TrySend("x"))(t, want, "TrySend %d", i)
	}
	testenv.Equal(t, c.Len(), 2, "Len")
	testenv.Equal(t, c.Cap(), 2, "Cap")
	c.Close()
	ok, err := c.TrySend("y")
	testenv.Equal(t, ok, false, "TrySend to a closed channel")
	testenv.Equal(t, err, ErrChanClosed, "TrySend to a closed channel")
	recv("x", true, nil)
	recv("x", true, nil)
	recv("", false, ErrChanClosed)
	testenv.Got(NewChan[int](0).TrySend(1))(t, false, "sent to nobody")
	testenv.MustPanic(t, "a second Close", c.Close)
}

func TestCloseWakesSendersAndReceivers(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		in, out := NewChan[int](0), NewChan[int](1)
		out.Send(0)
		var closed atomic.Int32
		joined := enginetest.StartAll(t, rt, 12, func(i int) {
			var err error
			if i/3%2 == 0 {
				_, err = in.Recv()
			} else {
				err = out.Send(i)
			}
			testenv.Equal(t, err, ErrChanClosed, "caller %d", i)
			closed.Add(1)
		})
		enginetest.WaitParked(t, rt, 4, engine.ReasonChanRecv)
		enginetest.WaitParked(t, rt, 4, engine.ReasonChanSend)
		in.Close()
		out.Close()
		joined()
		testenv.Got(out.Recv())(t, 0, "the value in the buffer is lost")
		testenv.Equal(t, testenv.Err(out.Recv()), ErrChanClosed, "Recv after the last value")
		testenv.Equal(t, closed.Load(), 12, "woken")
	})
}
