package task

import (
	"context"
	"errors"
	"sync"
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
		const n = 9
		var all sync.WaitGroup
		all.Go(func() {
			enginetest.Everyone(t, rt, n, func(int) {
				for {
					var i int
					var s string
					which, err := Select(a.RecvCase(&i), b.RecvCase(&s))
					if err == ErrChanClosed && which == 0 {
						return
					}
					switch {
					case err != nil:
						t.Error(err)
						return
					case which == 0:
						sum.Add(int64(i))
					case s != "text":
						t.Errorf("received %q", s)
					}
					if which, err = Select(reply.SendCase(which)); which != 0 || err != nil {
						t.Error(which, err)
					}
				}
			})
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
			which := testenv.Need(reply.Recv())(t)
			count[which]++
		}
		a.Close()
		all.Wait()
		if count != [2]int{100, 100} || sum.Load() != 100 {
			t.Errorf("counts %v, sum %d", count, sum.Load())
		}
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
			if min(count[0], count[1]) < trials*2/5 {
				t.Errorf("chosen %v times", count)
			}
		})
	})
}

func TestTrySelect(t *testing.T) {
	c := NewChan[int](1)
	v := 0
	testenv.Got(TrySelect(c.RecvCase(&v)))(t, -1)
	testenv.Got(TrySelect(c.RecvCase(&v), c.SendCase(5)))(t, 1)
	if i, err := TrySelect(c.SendCase(6), c.RecvCase(&v)); i != 1 || err != nil || v != 5 {
		t.Error(i, err, v)
	}
	testenv.Got(TrySelect())(t, -1)
	c.Close()
	if i, err := TrySelect(c.SendCase(6)); i != 0 || err != ErrChanClosed {
		t.Error(i, err)
	}
	if i, err := TrySelect(c.RecvCase(nil)); i != 0 || err != ErrChanClosed {
		t.Error(i, err)
	}
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
				switch {
				case err != nil:
					t.Error(err)
				case which == 0:
					sent.Add(1)
				default:
					received.Add(int32(v))
				}
			}
		})
		if sent.Load() != 200 || received.Load() != 200 {
			t.Errorf("%d sent, %d received, want 200 each", sent.Load(), received.Load())
		}
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

func TestSelectCancelled(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	a, b := NewChan[int](0), NewChan[int](0)
	ctx, cancel := context.WithCancel(context.Background())
	k := engine.GoWith(engine.Options{Context: ctx}, func() {
		if i, err := Select(a.RecvCase(nil), b.SendCase(1)); i != -1 || !errors.Is(err, context.Canceled) {
			t.Error(i, err)
		}
		if i, err := Select(); i != -1 || !errors.Is(err, context.Canceled) {
			t.Error(i, err)
		}
	})
	enginetest.WaitParked(t, rt, 1, engine.ReasonSelect)
	cancel()
	k.Join()
	if ok, _ := a.TrySend(1); ok {
		t.Error("the Select that was cancelled still receives")
	}
	if _, ok, _ := b.TryRecv(); ok {
		t.Error("the Select that was cancelled still sends")
	}
}

// A Case may stand in a Select twice, and in several at once.
func TestSelectWithOneCaseTwice(t *testing.T) {
	enginetest.EachLoops(t, func(t *testing.T, rt *engine.Runtime) {
		c := NewChan[int](0)
		var v int
		receive, send := c.RecvCase(&v), c.SendCase(7)
		k := rt.Go(func() {
			if i, err := Select(receive, receive); i < 0 || i > 1 || err != nil || v != 5 {
				t.Errorf("Select = %d, %v, received %d", i, err, v)
			}
		})
		enginetest.WaitParked(t, rt, 1, engine.ReasonSelect)
		testenv.Check(t, c.Send(5))
		k.Join()
		var senders []*engine.Task
		for range 3 {
			senders = append(senders, rt.Go(func() {
				testenv.Check(t, testenv.Err(Select(send, send)))
			}))
		}
		enginetest.WaitParked(t, rt, 3, engine.ReasonSelect)
		for range 3 {
			testenv.Got(c.Recv())(t, 7, "received")
		}
		for _, k := range senders {
			k.Join()
		}
		k = engine.GoWith(engine.Options{Context: enginetest.WaitCtx(t, time.Millisecond)}, func() {
			if i, err := Select(receive, receive); i != -1 || err == nil {
				t.Errorf("Select = %d, %v", i, err)
			}
		})
		k.Join()
		if c.recvq.head != nil || c.sendq.head != nil {
			t.Error("somebody is left in the queue")
		}
		if ok, err := c.TrySend(1); ok || err != nil { // the guard is free
			t.Errorf("TrySend = %v, %v", ok, err)
		}
	})
}

func TestDoneCaseOfNoContext(t *testing.T) {
	enginetest.MustPanic(t, "DoneCase of a nil context", func() {
		var none context.Context
		DoneCase(none)
	})
}

func TestSelectEntersGuardsOfSeveralOwners(t *testing.T) {
	rt := enginetest.NewRuntime(t, 2)
	for range 200 {
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
