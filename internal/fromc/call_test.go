//go:build cgo

package fromc_test

import (
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/enginetest"
	"github.com/capriccio-go/capriccio/internal/fromc"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

func newRuntime(t *testing.T, loops int, change ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	if !coro.Exact {
		t.Skip("a thread lock is not seen without the assembly stubs")
	}
	epoll := func(c *engine.Config) { c.NewPoller = func(int) (engine.Poller, error) { return poller.Epoll() } }
	return enginetest.OneOfMany(t, loops, append(change, epoll, enginetest.PanicsPass)...)
}

// A wait in a function that C has called panics with a sentence, instead of stopping the
// loop, and takes back what it has begun.
func TestWaitsInAFunctionCalledFromC(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt := newRuntime(t, loops)
		var mu task.Mutex
		mu.Lock()
		c := task.NewChan[int](0)
		file := filepath.Join(t.TempDir(), "file")
		testenv.Must(t, os.WriteFile(file, []byte("x"), 0o600))
		for name, wait := range map[string]func(){
			"yield":   engine.Yield,
			"sleep":   func() { engine.Sleep(time.Hour) },
			"lock":    mu.Lock,
			"send":    func() { c.Send(1) },
			"receive": func() { c.Recv() },
			"select":  func() { task.Select(c.RecvCase(nil), c.SendCase(1)) },
			"offload": func() { engine.Offload(func() { t.Error("was offloaded") }) },
			"file":    func() { aio.ReadFile(file + ".none") },
			"locked":  func() { runtime.LockOSThread(); runtime.LockOSThread(); mu.Lock() },
			"chunk":   func() { stackchunk.Call(100<<10, mu.Lock) },
		} {
			began := false
			err := engine.GoOn(rt.Loop(0), func() { fromc.Call(func() { began = true; wait() }) }).Join()
			testenv.ErrorSays(t, err, "cgo", "%s: Join", name)
			testenv.ErrorSays(t, err, "Offload", "%s: Join", name)
			testenv.Equal(t, began, true, "%s: began", name)
		}
		testenv.Got(c.TrySend(1))(t, false, "somebody still receives")
		_, ok, _ := c.TryRecv()
		testenv.Equal(t, ok, false, "somebody still sends")
		mu.Unlock()
		testenv.Equal(t, mu.TryLock(), true, "TryLock: the lock went to no task that had ended")
	}
}

// What needs no wait works there, and so does the task afterwards.
func TestAFunctionCalledFromCThatDoesNotWait(t *testing.T) {
	rt := newRuntime(t, 1)
	var mu task.Mutex
	k := rt.Go(func() {
		for range 100 {
			fromc.Call(func() {
				mu.Lock()
				engine.Start(func() {})
				mu.Unlock()
			})
			engine.Yield()
			testenv.MustPanic(t, "a wait", func() { fromc.Call(engine.Yield) })
			engine.Yield()
		}
		fromc.Call(runtime.Goexit)
	})
	testenv.Equal(t, k.Join(), engine.ErrGoexit, "Join")
}

// A task that is away from its loop, since it has waited natively, comes back inside of such a function: the
// wait is refused there as well, and what needs none works.
func TestATaskComesBackInAFunctionCalledFromC(t *testing.T) {
	for _, loops := range []int{1, 2} {
		rt := newRuntime(t, loops)
		if !rt.Detaches() {
			t.Skip("nothing is detached here, see Runtime.Detaches")
		}
		comesBack := func(fn func()) error {
			c := make(chan bool)
			k := engine.GoOn(rt.Loop(0), func() {
				<-c
				fromc.Call(fn)
				engine.Yield()
			})
			engine.GoOn(rt.Loop(0), func() { close(c) })
			return k.Join()
		}
		testenv.ErrorSays(t, comesBack(func() { engine.Sleep(time.Hour) }), "cgo", "a wait: Join")
		testenv.Check(t, comesBack(func() { engine.Context() }), "no wait: Join")
	}
}

// A lock that is handed over by another thread in the moment in which the wait for it is
// refused is held afterwards, or was not given.
func TestALockIsGivenWhileTheWaitForItIsRefused(t *testing.T) {
	rt := newRuntime(t, 1)
	for range 200 {
		var mu task.Mutex
		mu.Lock()
		go mu.Unlock()
		enginetest.Run(t, rt, func() {
			held := false
			func() {
				defer func() { recover() }()
				fromc.Call(func() { mu.Lock(); held = true })
			}()
			engine.Yield()
			if held {
				mu.Unlock()
			}
		})
		testenv.Pass(&mu)
	}
}

// Where a loop can't be taken from a task that waits natively, the watchdog names the place and tells what to
// do, though other tasks wait where it can.
func TestNativeWaitsThatHoldALoopAreNamed(t *testing.T) {
	for what, call := range map[string]func(func()){
		"iter.Pull": func(f func()) {
			next, stop := iter.Pull(func(func(int) bool) { f() })
			defer stop()
			next()
		},
		"C has called": fromc.Call,
	} {
		log := make(testenv.Records, 100)
		rt := newRuntime(t, 1, enginetest.LogTo(log), func(c *engine.Config) { c.HoldLimit = time.Millisecond })
		end := make(chan bool)
		var tasks []*engine.Task
		if rt.Detaches() {
			for range 3 {
				tasks = append(tasks, engine.GoOn(rt.Loop(0), func() { <-end }))
			}
			testenv.Until(t, "they are away", func() bool { return rt.Detached() == 3 })
		}
		tasks = append(tasks, engine.GoOn(rt.Loop(0), func() { call(func() { holdsHere(end) }) }))
		found, _, _ := strings.Cut(log.Next(t, "still does", "natively"), " stack=")
		for _, want := range []string{what, "task.Offload", "fromc_test.holdsHere ", `doing="chan receive"`} {
			testenv.Contains(t, found, want)
		}
		close(end)
		for _, k := range tasks {
			testenv.Check(t, k.Join())
		}
	}
}

func holdsHere(end chan bool) { <-end }
