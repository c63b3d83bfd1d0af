//go:build cgo

package fromc_test

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/fromc"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	_ "github.com/capriccio-go/capriccio/netpoll" // its pollers
	"github.com/capriccio-go/capriccio/stackchunk"
	"github.com/capriccio-go/capriccio/task"
)

func newRuntime(t *testing.T, loops int, set ...func(*engine.Config)) *engine.Runtime {
	t.Helper()
	if !coro.Exact {
		t.Skip("a thread lock is not seen without the assembly stubs")
	}
	cfg := engine.Config{
		Loops:     loops,
		NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() },
		Grace:     5 * time.Minute,
		Log:       slog.New(slog.NewTextHandler(io.Discard, nil)),
		OnPanic:   func(*engine.PanicError) {},
	}
	for _, s := range set {
		s(&cfg)
	}
	rt := testenv.Need(engine.New(cfg))(t)
	t.Cleanup(func() {
		testenv.Check(t, rt.Close())
	})
	return rt
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
			k := engine.GoOn(rt.Loop(0), func() {
				fromc.Call(func() { began = true; wait() })
			})
			err := k.Join()
			var p *engine.PanicError
			if !errors.As(err, &p) || !strings.Contains(p.Error(), "cgo") || !strings.Contains(p.Error(), "Offload") || !began {
				t.Errorf("%s: Join returned %v", name, err)
			}
		}
		if ok, _ := c.TrySend(1); ok {
			t.Error("somebody still receives")
		}
		if _, ok, _ := c.TryRecv(); ok {
			t.Error("somebody still sends")
		}
		mu.Unlock()
		testenv.Equal(t, mu.TryLock(), true, "the lock went to a task that had ended")
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
			func() {
				defer func() { recover() }()
				fromc.Call(engine.Yield)
			}()
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
		for name, fn := range map[string]func(){"waits": func() { engine.Sleep(time.Hour) }, "does not wait": func() { engine.Context() }} {
			c := make(chan bool)
			k := engine.GoOn(rt.Loop(0), func() {
				<-c
				fromc.Call(fn)
				engine.Yield()
			})
			engine.GoOn(rt.Loop(0), func() { close(c) })
			err := k.Join()
			var p *engine.PanicError
			if refused := errors.As(err, &p) && strings.Contains(p.Error(), "cgo"); refused != (name == "waits") {
				t.Errorf("%s: Join returned %v", name, err)
			}
		}
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
		k := rt.Go(func() {
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
		testenv.Must(t, k.Join())
		mu.Lock()
		mu.Unlock()
	}
}
