package task

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestSelectByKindOfCaller(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		a, b, reply := NewChan[int](0), NewChan[string](0), NewChan[int](0)
		var sum atomic.Int64
		joined := enginetest.StartAll(t, rt, 9, func(int) {
			for {
				var i int
				var s string
				which, err := Select(a.RecvCase(&i), b.RecvCase(&s))
				if err != nil {
					testenv.Equal(t, err, ErrChanClosed, "the end")
					testenv.Equal(t, which, 0, "the channel that was closed")
					return
				}
				if which == 0 {
					sum.Add(int64(i))
				} else {
					testenv.Equal(t, s, "text", "received")
				}
				testenv.Got(Select(reply.SendCase(which)))(t, 0, "the reply")
			}
		})
		count := [2]int{}
		for i := range 200 {
			go func() {
				if i%2 == 0 {
					a.Send(1)
				} else {
					b.Send("text")
				}
			}()
			count[testenv.Need(reply.Recv())(t)]++
		}
		a.Close()
		joined()
		testenv.Equal(t, count, [2]int{100, 100}, "counts")
		testenv.Equal(t, sum.Load(), 100, "sum")
	})
}

// Of several cases that can go on, each has about the same chance, whatever stands between them.
func TestSelectIsFair(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		enginetest.Everyone(t, rt, 3, func(int) {
			const trials = 2000
			a, b, never := NewChan[int](trials), NewChan[int](trials), NewChan[int](0)
			for range trials {
				a.Send(0)
				b.Send(0)
			}
			var count [4]int
			for range trials {
				which, err := Select(a.RecvCase(nil), b.RecvCase(nil), never.RecvCase(nil), never.SendCase(0))
				testenv.Check(t, err)
				count[which]++
			}
			testenv.AtLeast(t, min(count[0], count[1]), trials*2/5, "chosen %v times", count)
		})
	})
}

// which checks the case and the error of a Select.
func which(i int, err error) func(t *testing.T, want int, wantErr error, what string) {
	return func(t *testing.T, want int, wantErr error, what string) {
		t.Helper()
		testenv.Equal(t, i, want, what)
		testenv.ErrorIs(t, err, wantErr, what)
	}
}

func TestTrySelect(t *testing.T) {
	c := NewChan[int](1)
	v := 0
	testenv.Got(TrySelect(c.RecvCase(&v)))(t, -1)
	testenv.Got(TrySelect(c.RecvCase(&v), c.SendCase(5)))(t, 1)
	testenv.Got(TrySelect(c.SendCase(6), c.RecvCase(&v)))(t, 1)
	testenv.Equal(t, v, 5, "received")
	testenv.Got(TrySelect())(t, -1)
	c.Close()
	which(TrySelect(c.SendCase(6)))(t, 0, ErrChanClosed, "to a closed channel")
	which(TrySelect(c.RecvCase(nil)))(t, 0, ErrChanClosed, "from a closed channel")
}

// A Select that waits at both ends of one channel does not serve itself.
func TestSelectOnBothEndsOfAChannel(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		c := NewChan[int](0)
		var sent, received atomic.Int32
		enginetest.Everyone(t, rt, 2, func(int) {
			for range 200 {
				var v int
				which, err := Select(c.SendCase(1), c.RecvCase(&v))
				testenv.Check(t, err)
				if which == 0 {
					sent.Add(1)
				} else {
					received.Add(int32(v))
				}
			}
		})
		testenv.Equal(t, sent.Load(), 200, "sent")
		testenv.Equal(t, received.Load(), 200, "received")
	})
}

// Two Selects with the same channels in opposite orders do not stop each other.
func TestSelectInOppositeOrders(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		var cs [12]*Chan[int] // more than selectAmong keeps guards for on its stack
		for i := range cs {
			cs[i] = NewChan[int](1)
		}
		enginetest.Everyone(t, rt, 6, func(k int) {
			var cases []Case
			for i := range cs {
				c := cs[i]
				if k%2 == 1 {
					c = cs[len(cs)-1-i]
				}
				cases = append(cases, c.SendCase(k), c.RecvCase(nil))
			}
			for range 200 {
				testenv.Check(t, testenv.Err(Select(cases...)))
			}
		})
	})
}

// nobodyAt checks that nobody is left at c, whose guard is free: no receiver and no sender.
func nobodyAt[T any](t *testing.T, c *Chan[T], v T) {
	t.Helper()
	testenv.Got(c.TrySend(v))(t, false, "there is a receiver")
	_, ok, err := c.TryRecv()
	testenv.Check(t, err)
	testenv.Equal(t, ok, false, "there is a sender")
}

func TestSelectCancelled(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	a, b := NewChan[int](0), NewChan[int](0)
	ctx, cancel := context.WithCancel(context.Background())
	k := engine.GoWith(engine.Options{Context: ctx}, func() {
		which(Select(a.RecvCase(nil), b.SendCase(1), (*Chan[int])(nil).RecvCase(nil)))(t, -1, context.Canceled, "while it waits")
		which(Select())(t, -1, context.Canceled, "before it waits")
	})
	enginetest.WaitParked(t, rt, 1, engine.ReasonSelect)
	cancel()
	k.Join()
	nobodyAt(t, a, 1)
	nobodyAt(t, b, 1)
}

// A Case may stand in a Select twice, and in several at once.
func TestSelectWithOneCaseTwice(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		c := NewChan[int](0)
		var v int
		receive, send := c.RecvCase(&v), c.SendCase(7)
		k := rt.Go(func() {
			testenv.Check(t, testenv.Err(Select(receive, receive)))
			testenv.Equal(t, v, 5, "received")
		})
		enginetest.WaitParked(t, rt, 1, engine.ReasonSelect)
		testenv.Check(t, c.Send(5))
		k.Join()
		joined := inTurn(t, rt, 3, engine.ReasonSelect, func(int) {
			testenv.Check(t, testenv.Err(Select(send, send)))
		})
		for range 3 {
			testenv.Got(c.Recv())(t, 7, "received")
		}
		joined()
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		engine.GoWith(engine.Options{Context: ctx}, func() {
			which(Select(receive, receive))(t, -1, context.DeadlineExceeded, "no sender")
		}).Join()
		nobodyAt(t, c, 1)
	})
}

func TestDoneCaseOfNoContext(t *testing.T) {
	testenv.MustPanic(t, "DoneCase of a nil context", func() {
		var none context.Context
		DoneCase(none)
	})
}

func TestSelectEntersGuardsOfSeveralOwners(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	for range testenv.Rounds(50, 200) {
		a, b := NewChan[int](1), NewChan[int](1)
		enginetest.Spread(t, rt, rt.Loops(), func(i int) {
			own, other := a, b
			if i == 1 {
				own, other = b, a
			}
			own.TrySend(1) // makes the guard this loop's
			for range 50 {
				Select(other.RecvCase(nil), own.RecvCase(nil))
				own.TrySend(1)
				other.TrySend(1)
			}
		})()
	}
}

// A nil Chan in a Select is never ready, as in a select statement, for which one sets a
// variable to nil.
func TestSelectWithNilChan(t *testing.T) {
	rt, _ := enginetest.NewSimRuntime(t, 2, false)
	check := func() {
		var none *Chan[int]
		c, back := NewChan[int](1), NewChan[int](0)
		testenv.Got(TrySelect(none.RecvCase(nil), none.SendCase(1)))(t, -1, "TrySelect")
		testenv.Got(Select(none.RecvCase(nil), c.SendCase(7), none.SendCase(1)))(t, 1, "Select")
		go func() { // on a plain goroutine, so that the caller waits
			testenv.Got(c.Recv())(t, 7, "received")
			back.Send(8)
		}()
		got := 0
		testenv.Got(Select(none.RecvCase(&got), back.RecvCase(&got)))(t, 1, "Select")
		testenv.Equal(t, got, 8, "received")
	}
	enginetest.Run(t, rt, check)
	check()
}
