package engine

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestChanCarriesEveryValueOnce(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		for _, capacity := range []int{0, 1, 7} {
			c := NewChan[int](capacity)
			const n, each = 12, 100
			var mu sync.Mutex
			seen := map[int]int{}
			everyone(t, rt, n, func(i int) {
				for k := range each {
					if i/3%2 == 0 {
						testenv.Check(t, c.Send(i*each+k))
						continue
					}
					v, err := c.Recv()
					testenv.Check(t, err)
					mu.Lock()
					seen[v]++
					mu.Unlock()
				}
			})
			if len(seen) != n/2*each || c.Len() != 0 {
				t.Errorf("capacity %d: %d values seen, want %d; %d left", capacity, len(seen), n/2*each, c.Len())
			}
		}
	})
}

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

// Values that meet a cancellation go over or stay: none is lost, none doubled.
func TestChanCancelRacesWithTheOtherEnd(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		rnd := newRand(t)
		for round := range 150 {
			c := NewChan[int](round % 2)
			ctx, cancel := context.WithCancel(context.Background())
			var sent, received atomic.Int32
			spawn := func(l int, fn func()) *Task {
				k, _ := rt.Spawn(Options{Context: ctx, Loop: rt.Loop(l % rt.Loops())}, fn)
				return k
			}
			tasks := []*Task{
				spawn(0, func() {
					for c.Send(1) == nil {
						sent.Add(1)
					}
				}),
				spawn(1, func() {
					for {
						if _, err := c.Recv(); err != nil {
							if !errors.Is(err, context.Canceled) {
								t.Error(err)
							}
							return
						}
						received.Add(1)
					}
				}),
			}
			for range rnd.IntN(20) {
				runtime.Gosched()
			}
			cancel()
			for _, k := range tasks {
				testenv.Check(t, k.Join())
			}
			if sent.Load() != received.Load()+int32(c.Len()) {
				t.Fatalf("%d sent, %d received, %d left", sent.Load(), received.Load(), c.Len())
			}
			if ok, _ := c.TrySend(0); ok && c.Cap() == 0 {
				t.Fatal("a receiver that has gone is still in the queue")
			}
		}
	})
}

func TestSelectByKindOfCaller(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		a, b, reply := NewChan[int](0), NewChan[string](0), NewChan[int](0)
		var sum atomic.Int64
		const n = 9
		var all sync.WaitGroup
		all.Go(func() {
			everyone(t, rt, n, func(int) {
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
			which, err := reply.Recv()
			testenv.Must(t, err)
			count[which]++
		}
		a.Close()
		all.Wait()
		if count != [2]int{100, 100} || sum.Load() != 100 {
			t.Errorf("counts %v, sum %d", count, sum.Load())
		}
	})
}

// Of several cases that can go on, none is left out for ever.
func TestSelectIsFair(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		everyone(t, rt, 3, func(int) {
			const trials = 2000
			a, b := NewChan[int](trials), NewChan[int](trials)
			for range trials {
				a.Send(0)
				b.Send(0)
			}
			var count [2]int
			for range trials {
				which, err := Select(a.RecvCase(nil), b.RecvCase(nil))
				testenv.Check(t, err)
				count[which]++
			}
			if count[0] < trials/4 || count[1] < trials/4 {
				t.Errorf("chosen %v times", count)
			}
		})
	})
}

func TestTrySelect(t *testing.T) {
	c := NewChan[int](1)
	v := 0
	if i, err := TrySelect(c.RecvCase(&v)); i != -1 || err != nil {
		t.Error(i, err)
	}
	if i, err := TrySelect(c.RecvCase(&v), c.SendCase(5)); i != 1 || err != nil {
		t.Error(i, err)
	}
	if i, err := TrySelect(c.SendCase(6), c.RecvCase(&v)); i != 1 || err != nil || v != 5 {
		t.Error(i, err, v)
	}
	if i, err := TrySelect(); i != -1 || err != nil {
		t.Error(i, err)
	}
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
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		c := NewChan[int](0)
		var sent, received atomic.Int32
		everyone(t, rt, 2, func(int) {
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
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		var cs [12]*Chan[int] // more than selectAmong keeps guards for on its stack
		for i := range cs {
			cs[i] = NewChan[int](1)
		}
		everyone(t, rt, 6, func(k int) {
			var cases []Case
			for i := range cs {
				c := cs[i]
				if k%2 == 1 {
					c = cs[len(cs)-1-i]
				}
				cases = append(cases, c.SendCase(k), c.RecvCase(nil))
			}
			for range 200 {
				if _, err := Select(cases...); err != nil {
					t.Error(err)
				}
			}
		})
	})
}

func TestSelectCancelled(t *testing.T) {
	rt := newRuntime(t, 2)
	a, b := NewChan[int](0), NewChan[int](0)
	ctx, cancel := context.WithCancel(context.Background())
	k := goWith(Options{Context: ctx}, func() {
		if i, err := Select(a.RecvCase(nil), b.SendCase(1)); i != -1 || !errors.Is(err, context.Canceled) {
			t.Error(i, err)
		}
		if i, err := Select(); i != -1 || !errors.Is(err, context.Canceled) {
			t.Error(i, err)
		}
	})
	waitParked(t, rt, 1, ReasonSelect)
	cancel()
	k.Join()
	if ok, _ := a.TrySend(1); ok {
		t.Error("the Select that was cancelled still receives")
	}
	if _, ok, _ := b.TryRecv(); ok {
		t.Error("the Select that was cancelled still sends")
	}
}

func TestSelectCancelRacesWithService(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		rnd := newRand(t)
		for range 150 {
			a, b := NewChan[int](0), NewChan[int](1)
			ctx, cancel := context.WithCancel(context.Background())
			var got, gave atomic.Int32
			k, _ := rt.Spawn(Options{Context: ctx, Loop: rt.Loop(rt.Loops() - 1)}, func() {
				for {
					if i, err := Select(a.RecvCase(nil), b.RecvCase(nil)); err != nil {
						if i != -1 {
							t.Error(i, err)
						}
						return
					}
					got.Add(1)
				}
			})
			var others sync.WaitGroup
			for _, c := range []*Chan[int]{a, b} {
				others.Go(func() {
					for range 10 {
						if ok, _ := c.TrySend(1); ok {
							gave.Add(1)
						}
					}
				})
			}
			for range rnd.IntN(10) {
				runtime.Gosched()
			}
			cancel()
			k.Join()
			others.Wait()
			if gave.Load() != got.Load()+int32(b.Len()) {
				t.Fatalf("%d sent, %d received, %d left", gave.Load(), got.Load(), b.Len())
			}
		}
	})
}

// The sieve of Eratosthenes as a chain of tasks, one filter each.
func TestSieve(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		numbers := NewChan[int](1)
		var primes []int
		k := rt.Go(func() {
			Go(func() {
				for i := 2; numbers.Send(i) == nil; i++ {
				}
			})
			from := numbers
			for len(primes) < 60 {
				p, err := from.Recv()
				if err != nil {
					t.Error(err)
					return
				}
				primes = append(primes, p)
				in, out := from, NewChan[int](0)
				Go(func() {
					for {
						n, err := in.Recv()
						if err != nil || n%p != 0 && out.Send(n) != nil {
							return
						}
					}
				})
				from = out
			}
		})
		k.Join()
		if len(primes) < 60 || primes[59] != 281 {
			t.Errorf("primes %v, want 60 up to 281", primes)
		}
	})
}

func TestRecvInTimeOrNot(t *testing.T) {
	rt, clock := newSimRuntime(t, 1, true)
	run(t, rt, func() {
		c := NewChan[int](0)
		ctx, cancel := context.WithCancel(context.Background())
		defer AfterFunc(time.Second, cancel).Stop()
		Under(ctx, func() error {
			if _, err := c.Recv(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			return nil
		})
		if clock.Now() < time.Second {
			t.Errorf("after %v", clock.Now())
		}
	})
}

// A Case may stand in a Select twice, and in several at once.
func TestSelectWithOneCaseTwice(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		c := NewChan[int](0)
		var v int
		receive, send := c.RecvCase(&v), c.SendCase(7)
		k := rt.Go(func() {
			if i, err := Select(receive, receive); i < 0 || i > 1 || err != nil || v != 5 {
				t.Errorf("Select = %d, %v, received %d", i, err, v)
			}
		})
		waitParked(t, rt, 1, ReasonSelect)
		testenv.Check(t, c.Send(5))
		k.Join()
		var senders []*Task
		for range 3 {
			senders = append(senders, rt.Go(func() {
				if _, err := Select(send, send); err != nil {
					t.Error(err)
				}
			}))
		}
		waitParked(t, rt, 3, ReasonSelect)
		for range 3 {
			if got, err := c.Recv(); got != 7 || err != nil {
				t.Errorf("received %d, %v", got, err)
			}
		}
		for _, k := range senders {
			k.Join()
		}
		k = goWith(Options{Context: waitCtx(t, time.Millisecond)}, func() {
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
