//go:build linux

package netpoll_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

// Tasks that wait natively are detached. These tests are in a package of their own, because
// what is called from within the runtime's packages is not.

var (
	nativeSeed = flag.Uint64("native.seed", 0, "seed of the first run of the random test of native waits; 0: a new one")
	nativeRuns = flag.Int("native.runs", 1, "how many runs the random test of native waits makes, with seeds that follow each other")
)

// native runs f with each poller and 1 and 2 loops, or, without testenv.Full, in two of these settings.
func native(t *testing.T, cfg engine.Config, f func(t *testing.T, rt *engine.Runtime)) {
	for _, p := range []struct {
		name string
		open func() (engine.Poller, error)
	}{
		{"epoll", poller.Epoll},
		{"uring", poller.Uring},
	} {
		for _, loops := range []int{1, 2} {
			if !testenv.Full() && (p.name == "epoll") != (loops == 2) {
				continue
			}
			t.Run(fmt.Sprintf("%s/loops=%d", p.name, loops), func(t *testing.T) {
				cfg := cfg
				cfg.Loops = loops
				cfg.NewPoller = func(int) (engine.Poller, error) { return p.open() }
				cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
				rt, err := engine.New(cfg)
				if err != nil && p.name == "uring" {
					t.Skip(err)
				}
				testenv.Must(t, err)
				defer rt.Close()
				if cfg.DetachAfter >= 0 && !rt.Detaches() {
					t.Skip("nothing is detached here, see Runtime.Detaches")
				}
				f(t, rt)
			})
		}
	}
}

type nameKey struct{}

// nativeWaits are ways to wait natively: each makes a wait, and what ends it.
var nativeWaits = map[string]func() (wait, end func()){
	"channel": func() (func(), func()) {
		c := make(chan int)
		return func() { <-c }, func() { close(c) }
	},
	"send": func() (func(), func()) {
		c := make(chan int)
		return func() { c <- 1 }, func() { <-c }
	},
	"select": func() (func(), func()) {
		c := make(chan int)
		return func() {
			select {
			case <-c:
			case <-context.Background().Done():
			}
		}, func() { close(c) }
	},
	"mutex": func() (func(), func()) {
		m := new(sync.Mutex)
		m.Lock()
		return func() { m.Lock(); defer m.Unlock() }, m.Unlock
	},
	"rwmutex": func() (func(), func()) {
		m := new(sync.RWMutex)
		m.Lock()
		return func() { m.RLock(); defer m.RUnlock() }, m.Unlock
	},
	"cond": func() (func(), func()) {
		m := new(sync.Mutex)
		c, done := sync.NewCond(m), false
		return func() {
				m.Lock()
				for !done {
					c.Wait()
				}
				m.Unlock()
			}, func() {
				m.Lock()
				done = true
				m.Unlock()
				c.Broadcast()
			}
	},
	"waitgroup": func() (func(), func()) {
		w := new(sync.WaitGroup)
		w.Add(1)
		return w.Wait, w.Done
	},
	"once": func() (func(), func()) {
		o, begun, end := new(sync.Once), make(chan bool), make(chan bool)
		go o.Do(func() { close(begun); <-end })
		<-begun
		return func() { o.Do(func() {}) }, func() { close(end) }
	},
	"pipe": func() (func(), func()) {
		var p [2]int
		if err := syscall.Pipe(p[:]); err != nil {
			panic(err)
		}
		return func() { var b [1]byte; syscall.Read(p[0], b[:]); syscall.Close(p[0]) }, func() { syscall.Close(p[1]) }
	},
	"io.Pipe": func() (func(), func()) {
		r, w := io.Pipe()
		return func() { r.Read(make([]byte, 1)) }, func() { w.Close() }
	},
}

// getAway has the calling task of l wait natively for another one, so that it is detached.
func getAway(l *engine.Loop) {
	end := make(chan bool)
	engine.GoOn(l, func() { close(end) })
	<-end
}

// A task waits natively for another task of its loop: without detaching, for ever.
func TestNativeWaitForATaskOfTheSameLoop(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		for name, make := range nativeWaits {
			wait, end := make()
			ctx, cancel := context.WithCancel(context.WithValue(context.Background(), nameKey{}, name))
			defer cancel()
			waiter, _ := rt.Spawn(engine.Options{Loop: rt.Loop(0), Context: ctx, Name: name}, func() {
				me := engine.Current()
				wait()
				testenv.True(t, engine.Current() == me && engine.CurrentLoop() == rt.Loop(0) && engine.Context().Value(nameKey{}) == name,
					"%s: after the wait the task is %v, want %v, on %v in %v", name, engine.Current(), me, engine.CurrentLoop().Index(), engine.Context())
				engine.Yield()
			})
			ender := engine.GoOn(rt.Loop(0), end)
			testenv.Check(t, ender.Join())
			testenv.Check(t, waiter.Join())
		}
		testenv.True(t, rt.Detached() != 0, "no task was detached")
	})
}

// What is its own at once brings a detached task back nevertheless.
func TestFreeLocksBringBack(t *testing.T) {
	takes := map[string]func(){
		"Mutex":     func() { new(task.Mutex).Lock() },
		"RWMutex":   func() { new(task.RWMutex).Lock() },
		"reader":    func() { new(task.RWMutex).RLock() },
		"Semaphore": func() { task.NewSemaphore(1).Acquire(1) },
	}
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		for name, take := range takes {
			testenv.Must(t, engine.GoOn(rt.Loop(0), func() {
				getAway(rt.Loop(0))
				testenv.Equal(t, rt.Loop(0).Runs(), false, "%s: the task is on its loop", name)
				take()
				testenv.Equal(t, rt.Loop(0).Runs(), true, "%s: the task has come back", name)
			}).Join())
		}
	})
}

// A detached task ends where it is: by returning, by a panic, by Goexit.
func TestDetachedTaskEnds(t *testing.T) {
	var panics []any
	cfg := engine.Config{OnPanic: func(p *engine.PanicError) { panics = append(panics, p.Value) }}
	native(t, cfg, func(t *testing.T, rt *engine.Runtime) {
		panics = nil
		for _, end := range []func(){func() {}, func() { panic("over") }, runtime.Goexit} {
			engine.GoOn(rt.Loop(0), func() { getAway(rt.Loop(0)); end() }).Join()
			// What follows runs on the same workers.
			for range 3 {
				testenv.Check(t, engine.GoOn(rt.Loop(0), func() { engine.Yield() }).Join())
			}
		}
		testenv.True(t, len(panics) == 1 && panics[0] == "over", "panics: %v", panics)
	})
}

// With DetachAfter < 0, and beyond DetachLimit, a task that waits natively holds its loop.
func TestDetachLimits(t *testing.T) {
	held := func(rt *engine.Runtime, away int) bool {
		end := make(chan bool)
		var tasks []*engine.Task
		for range away + 1 {
			begun := make(chan bool)
			tasks = append(tasks, engine.GoOn(rt.Loop(0), func() { close(begun); <-end }))
			<-begun
		}
		ran := make(chan bool)
		tasks = append(tasks, engine.GoOn(rt.Loop(0), func() { close(ran) }))
		held := false
		select {
		case <-ran:
		case <-time.After(20 * time.Millisecond):
			held = true
		}
		close(end)
		for _, x := range tasks {
			x.Join()
		}
		return held
	}
	native(t, engine.Config{DetachAfter: -1}, func(t *testing.T, rt *engine.Runtime) {
		testenv.True(t, held(rt, 0), "a task was detached although DetachAfter is negative")
	})
	native(t, engine.Config{DetachLimit: 2}, func(t *testing.T, rt *engine.Runtime) {
		testenv.True(t, held(rt, 2), "a third task was detached, with a DetachLimit of 2")
	})
}

// Where tasks have waited for long, those that come after them are detached at once: all tasks want one
// lock, and the loop has to get to the one that ends the wait.
func TestManyWaitAtOnePlace(t *testing.T) {
	const waiters, after = 30, 100 * time.Millisecond
	native(t, engine.Config{DetachAfter: after}, func(t *testing.T, rt *engine.Runtime) {
		var took time.Duration
		for range 10 { // a machine that is busy or stalls takes long itself
			end := make(chan bool)
			began := time.Now()
			var all []*engine.Task
			for range waiters {
				all = append(all, engine.GoOn(rt.Loop(0), func() { <-end }))
			}
			all = append(all, engine.GoOn(rt.Loop(0), func() { close(end) }))
			for _, x := range all {
				x.Join()
			}
			if took = time.Since(began); took <= waiters*after/2 {
				return
			}
		}
		t.Errorf("%d tasks that wait for one channel were detached in %v; want much less than %v for each", waiters, took, after)
	})
}

// A Wake that comes while a task is detached has its stand-in run. Meanwhile the task must not
// take the loop for its own.
func TestWakeOfADetachedTask(t *testing.T) {
	var waiter atomic.Pointer[engine.Task]
	var loop atomic.Pointer[engine.Loop]
	var woken, looked chan bool
	g := recorder.New(recorder.Config{Sampling: 1, HeapEvery: 1})
	g.Allocated = func() uint64 { // called when the stand-in runs
		if w := waiter.Load(); w != nil && loop.Load().Running() == w && waiter.CompareAndSwap(w, nil) {
			close(woken)
			<-looked
		}
		return 1
	}
	native(t, engine.Config{Graph: g}, func(t *testing.T, rt *engine.Runtime) {
		woken, looked = make(chan bool), make(chan bool)
		l := rt.Loop(0)
		testenv.Check(t, engine.GoOn(l, func() {
			w, me := engine.Self(), engine.Current()
			getAway(l)
			loop.Store(l)
			waiter.Store(me)
			w.Wake()
			<-woken
			testenv.Equal(t, l.Runs(), false, "a detached task runs on its loop, while its stand-in does")
			close(looked)
			w.Wait(engine.ReasonDescriptor, nil)
			testenv.Equal(t, l.Runs(), true, "after a wait the task is on its loop")
		}).Join())
	})
}

// A goroutine that is away from its loop never finds itself there, whatever else runs there and
// wherever that waits meanwhile: in the slot of the one that is away, too.
func TestAwayIsNotHere(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		l, end := rt.Loop(0), false
		others := make([]*engine.Task, 3)
		away := engine.GoOn(l, func() {
			for i := range others {
				others[i] = engine.GoOn(l, func() {
					for !end {
						engine.Yield()
					}
				})
			}
			engine.Yield()
			getAway(l)
			here := 0
			for range 200_000 {
				if l.Runs() {
					here++
				}
			}
			testenv.AtMost(t, here, 0, "a detached task found itself on its loop N times")
			engine.Yield()
			end = true
		})
		testenv.Check(t, away.Join())
		for _, o := range others {
			o.Join()
		}
	})
}

// A shutdown waits for what is detached, and cancels it.
func TestShutdownWithDetachedTasks(t *testing.T) {
	native(t, engine.Config{Grace: 10 * time.Millisecond}, func(t *testing.T, rt *engine.Runtime) {
		c, after := make(chan bool), make(chan error, 1)
		engine.GoOn(rt.Loop(0), func() { <-c; after <- engine.Sleep(time.Hour) })
		testenv.Must(t, engine.GoOn(rt.Loop(0), func() {}).Join()) // it is detached by now
		err := rt.Close()
		testenv.ErrorSays(t, err, "1 of them wait natively")
		testenv.ErrorSays(t, err, "native_test.go:")
		close(c)
		select {
		case err := <-after:
			t.Errorf("the task went on after the shutdown: %v", err)
		case <-time.After(20 * time.Millisecond):
		}
	})
}

// Tasks wait natively and otherwise in random order, for each other and for goroutines.
// Everything is done in the end, and what task.Mutex protects is not damaged.
func TestRandomNativeWaits(t *testing.T) {
	seed := *nativeSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	for range *nativeRuns {
		t.Logf("-native.seed=%d", seed)
		randomNativeWaits(t, seed)
		seed++
	}
}

func randomNativeWaits(t *testing.T, seed uint64) {
	native(t, engine.Config{DetachAfter: 100 * time.Microsecond}, func(t *testing.T, rt *engine.Runtime) {
		const tasks, rounds = 40, 40
		var (
			plain   sync.Mutex
			ours    task.Mutex
			sum     int // guarded by ours
			pass    = make(chan int, 1)
			passing = task.NewChan[int](1)
			all     []*engine.Task
		)
		for i := range tasks {
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			all = append(all, engine.GoOn(rt.Loop(i%rt.Loops()), func() {
				me := engine.Current()
				step := func() {
					switch rng.IntN(8) {
					case 0:
						time.Sleep(time.Duration(rng.IntN(1500)) * time.Microsecond)
					case 1:
						plain.Lock()
						if rng.IntN(2) == 0 {
							engine.Sleep(time.Duration(rng.IntN(300)) * time.Microsecond)
						}
						plain.Unlock()
					case 2:
						ours.Lock()
						at := sum
						if rng.IntN(3) == 0 {
							time.Sleep(time.Duration(rng.IntN(1000)) * time.Microsecond)
						}
						sum = at + 1
						ours.Unlock()
					case 3:
						pass <- 1
						engine.Yield()
						<-pass
					case 4:
						passing.Send(1)
						passing.Recv()
					case 5:
						done := make(chan bool)
						go func() { engine.Sleep(100 * time.Microsecond); close(done) }()
						<-done
					case 6:
						engine.Go(func() { time.Sleep(time.Duration(rng.IntN(2)) * time.Millisecond) }).Join()
					case 7:
						engine.Yield()
					}
				}
				for range rounds {
					switch rng.IntN(8) {
					case 0:
						stackchunk.Call(64<<10, step)
					case 1:
						stackchunk.Call(64<<10, func() {
							step()
							stackchunk.Call(128<<10, step)
						})
					case 2:
						func() {
							defer func() { recover() }()
							stackchunk.Call(64<<10, func() {
								step()
								panic("in between")
							})
						}()
					default:
						step()
					}
					testenv.True(t, rng.IntN(3) != 0 || engine.Current() == me, "a task has become another")
				}
			}))
		}
		for _, x := range all {
			testenv.Check(t, x.Join())
		}
		testenv.Check(t, rt.Close())
		t.Logf("%d times detached", rt.Detached())
	})
}
