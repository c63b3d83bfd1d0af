package capriccio_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/flow"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

// With all defaults, the scheduler and the graph among them, tasks wait natively for each other,
// and lock what they have in common.
func TestNativeWaitsWithAllDefaults(t *testing.T) {
	for _, sched := range []string{"fifo", "cohort", "resource"} {
		t.Run(sched, func(t *testing.T) {
			t.Setenv("CAPRICCIO_SCHED", sched)
			detaching(t, func(rt *engine.Runtime) error {
				var mu sync.Mutex
				var ours task.Mutex
				count := 0
				pass := make(chan int)
				var all task.WaitGroup
				for i := range 60 {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					all.Go(func() {
						for range 20 {
							switch rng.IntN(4) {
							case 0:
								mu.Lock()
								task.Sleep(100 * time.Microsecond)
								mu.Unlock()
							case 1:
								ours.Lock()
								at := count
								time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
								count = at + 1
								ours.Unlock()
							case 2:
								task.Go(func() { pass <- 1 })
								<-pass
							case 3:
								task.Yield()
							}
						}
					})
				}
				all.Wait()
				if rt.Detached() == 0 {
					t.Error("no task was detached")
				}
				return nil
			})
		})
	}
}

// What belongs to the loop of a task is found by it also after a native wait, when it may still be away.
func TestWhatBelongsToALoopAfterANativeWait(t *testing.T) {
	detaching(t, func(rt *engine.Runtime) error {
		home := engine.CurrentLoop()
		// goAway waits for another task of the loop, which can run only when the loop has been taken from this one.
		goAway := func() error {
			back := make(chan bool)
			_, err := task.Spawn(task.Options{OnLoop: func(int) int { return home.Index() }}, func() { close(back) })
			if err == nil {
				<-back
			}
			return err
		}
		var per task.PerLoop[int]
		own := per.Get()
		if err := goAway(); err != nil {
			return err
		}
		testenv.Equal(t, per.Get(), own, "a PerLoop has another value after a native wait")
		on := task.NewChan[*engine.Loop](0)
		for range 2 * rt.Loops() { // one after the other, if it is not this one
			if err := goAway(); err != nil {
				return err
			}
			task.AfterFunc(0, func() { on.Send(engine.CurrentLoop()) })
			l, err := on.Recv()
			if err != nil {
				return err
			}
			if l != home {
				t.Errorf("a function of AfterFunc runs on loop %d, and its caller on loop %d", l.Index(), home.Index())
			}
		}
		return nil
	}, capriccio.WithLoops(2))
}

// detaching calls main with a runtime that detaches tasks, and skips the test where none does.
func detaching(t *testing.T, main func(rt *engine.Runtime) error, options ...capriccio.Option) {
	t.Helper()
	stays := false
	err := capriccio.Run(context.Background(), func(context.Context) error {
		rt := engine.CurrentLoop().Runtime()
		if stays = !rt.Detaches(); stays {
			return nil
		}
		return main(rt)
	}, options...)
	testenv.Check(t, err)
	if stays {
		t.Skip("nothing is detached here, see Runtime.Detaches")
	}
}

// What the packages of this module call may wait natively for a task of the same loop.
func TestNativeWaitsInWhatIsCalled(t *testing.T) {
	meet := func() {
		c := make(chan bool)
		task.Go(func() { close(c) })
		<-c
	}
	for name, do := range map[string]func() error{
		"a stage": func() error {
			s, err := ressched.NewStage("native")
			if err == nil {
				s.Do(meet)
			}
			return err
		},
		"a value of a loop": func() error {
			per := task.PerLoop[int]{New: func() int { meet(); return 1 }}
			per.Get()
			return nil
		},
		"a function of Under, whose context never ends": func() error {
			return task.Under(context.Background(), func() error { meet(); return nil })
		},
		"the body of a loop over a channel": func() error {
			c := task.NewChan[int](1)
			c.Send(1)
			c.Close()
			for range allOf(c) {
				meet()
			}
			return nil
		},
		"Dial of a pool": func() error {
			p := netpoll.Pool{Dial: func(context.Context) (net.Conn, error) { meet(); return nil, io.EOF }}
			if _, err := p.Get(context.Background()); err != io.EOF {
				return err
			}
			return nil
		},
		"a reader of ReadFrom, a writer of WriteTo": func() error {
			ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer ln.Close()
			sends := task.Go(func() {
				if nc, err := ln.Accept(); err == nil {
					nc.(*netpoll.Conn).ReadFrom(waiting{meet, strings.NewReader("text"), nil})
					nc.Close()
				}
			})
			defer sends.Join()
			nc, err := netpoll.Dial("tcp", ln.Addr().String())
			if err != nil {
				return err
			}
			defer nc.Close()
			var text strings.Builder
			if n, err := nc.(*netpoll.Conn).WriteTo(waiting{meet, nil, &text}); err != nil || n != 4 || text.String() != "text" {
				return fmt.Errorf("%d bytes, %q, error %v", n, &text, err)
			}
			return nil
		},
		"a reader and a writer of a file": func() error {
			f, err := aio.Create(filepath.Join(t.TempDir(), "file"))
			if err != nil {
				return err
			}
			defer f.Close()
			var text strings.Builder
			if _, err := f.ReadFrom(waiting{meet, strings.NewReader("text"), nil}); err != nil {
				return err
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				return err
			}
			if n, err := f.WriteTo(waiting{meet, nil, &text}); err != nil || n != 4 || text.String() != "text" {
				return fmt.Errorf("%d bytes, %q, error %v", n, &text, err)
			}
			return nil
		},
		"a module of a flow graph": func() error {
			g := flow.New("native")
			m := &waitingModule{meet: meet}
			in := flow.Add(g, "waits", flow.ByTask, m)
			if err := g.Start(); err != nil {
				return err
			}
			f := g.NewFlow(nil, m.ended.Done)
			m.ended.Add(1)
			err := in.Put(f, 1)
			f.Release()
			m.ended.Wait()
			return errors.Join(err, g.Shutdown(context.Background()))
		},
		"a function on a stack chunk": func() error {
			before := stackchunk.ReadStats()
			stackchunk.Call(100<<10, meet)
			stackchunk.Call(100<<10, func() { stackchunk.Call(200<<10, meet) })
			if n := stackchunk.ReadStats().Links - before.Links; n != 3 {
				return fmt.Errorf("%d links", n)
			}
			return nil
		},
		"runtime.Goexit on a stack chunk": func() error {
			exits := task.Go(func() {
				stackchunk.Call(100<<10, func() {
					meet()
					runtime.Goexit()
				})
			})
			if err := exits.Join(); err != task.ErrGoexit {
				return err
			}
			return nil
		},
		"a handler of panics": func() error {
			var p *task.PanicError
			if err := task.Go(func() { panic("for the handler") }).Join(); !errors.As(err, &p) {
				return err
			}
			return nil
		},
		"the lock of a Cond": func() error {
			var mu sync.Mutex
			c := task.NewCond(&mu)
			mu.Lock()
			defer mu.Unlock()
			task.Go(func() {
				mu.Lock()
				defer mu.Unlock()
				c.Signal()
				task.Yield()
			})
			c.Wait()
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			detaching(t, func(*engine.Runtime) error { return do() }, // the test's time limit ends this
				capriccio.WithLoops(1), capriccio.WithPanicHandler(func(*task.PanicError) { meet() }))
		})
	}
}

// allOf is All of a Chan that the compiler does not inline, as where a debugger is to be used.
var allOf = (*task.Chan[int]).All

// A waiting waits natively before it reads or writes.
type waiting struct {
	meet func()
	r    io.Reader
	w    io.Writer
}

func (w waiting) Read(p []byte) (int, error) {
	w.meet()
	return w.r.Read(p)
}

func (w waiting) Write(p []byte) (int, error) {
	w.meet()
	return w.w.Write(p)
}

type waitingModule struct {
	meet  func()
	ended task.WaitGroup
}

func (m *waitingModule) Run(c *flow.Call[int]) {
	m.meet()
	c.Next()
}

// A limit that no number of tasks reaches is none.
func TestDetachingWithoutLimit(t *testing.T) {
	for _, limit := range []int{1 << 31, math.MaxInt} {
		detaching(t, func(*engine.Runtime) error {
			c := make(chan bool)
			task.Go(func() { close(c) })
			<-c // the test's time limit ends this
			return nil
		}, capriccio.WithLoops(1), capriccio.WithDetaching(0, limit))
	}
}

// While one handler of a hundred waits natively, the others do not wait for it: it waits for all of them.
func TestOthersDoNotWaitForNativeWaits(t *testing.T) {
	detaching(t, func(*engine.Runtime) error {
		var native, others task.WaitGroup
		end := make(chan bool)
		for i := range 2000 {
			if i%100 == 0 {
				native.Go(func() { <-end })
				continue
			}
			others.Go(func() { task.Sleep(time.Duration(i%200) * time.Millisecond / 2) })
		}
		others.Wait() // the test's time limit ends this
		close(end)
		native.Wait()
		return nil
	})
}

// What ties a task to its thread, or runs beside all tasks, with all defaults: it works, or panics with a
// sentence, and the loop goes on.
func TestTiedTasksWithAllDefaults(t *testing.T) {
	// meets has a task wait natively for another one of its loop, between two calls.
	meets := func(before, then func()) func() error {
		return func() error {
			c := make(chan bool)
			waits := task.Go(func() { before(); <-c; then() })
			task.Go(func() { close(c) })
			return waits.Join()
		}
	}
	for _, c := range []struct {
		name, panics string
		do           func() error
	}{
		{"a thread locked over a native wait", "", meets(runtime.LockOSThread, func() { runtime.UnlockOSThread(); task.Sleep(time.Microsecond) })},
		{"a thread locked until the end", "", meets(runtime.LockOSThread, func() {})},
		{"a wait with the thread locked over a native wait", "LockOSThread", meets(runtime.LockOSThread, func() { task.Sleep(time.Hour) })},
		{"a native wait for an iterator's task", "", func() error {
			next, stop := iter.Pull(func(yield func(int) bool) { task.Yield(); yield(1) })
			defer stop()
			return meets(func() {}, func() { next() })()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got error
			detaching(t, func(*engine.Runtime) error {
				got = task.Go(func() {
					if err := c.do(); err != nil {
						panic(err)
					}
				}).Join()
				return task.Go(task.Yield).Join() // the loop goes on
			}, capriccio.WithLoops(1), capriccio.WithPanicHandler(func(*task.PanicError) {}))
			var p *task.PanicError
			if c.panics == "" && got != nil || c.panics != "" && (!errors.As(got, &p) || !strings.Contains(p.Error(), c.panics)) {
				t.Errorf("%v; want a panic that names %q", got, c.panics)
			}
		})
	}
}

// The first native wait of a task is no fault: the log has it at INFO, in one line that says where it is and what is cheaper.
func TestTheFirstNativeWaitIsTold(t *testing.T) {
	log := make(testenv.Records, 10)
	line := ""
	detaching(t, func(*engine.Runtime) error {
		told := make(chan struct{})
		go func() {
			line = <-log
			close(told)
		}()
		<-told
		return nil
	}, capriccio.WithLogger(slog.New(slog.NewTextHandler(log, nil))), capriccio.WithHoldLimit(time.Hour))
	testenv.Equal(t, strings.Count(line, "\n"), 1, "lines of %q", line)
	for _, want := range []string{"level=INFO", "a task waits natively", "task.Offload", "TestTheFirstNativeWaitIsTold", "native_test.go:"} {
		testenv.Contains(t, line, want, "the log")
	}
	select {
	case more := <-log:
		t.Errorf("the log has %s besides", more)
	default:
	}
}
