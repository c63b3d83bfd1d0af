//go:build linux

package recorder_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/recorder"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

func TestWhatThoseInsideHold(t *testing.T) {
	e := testenv.Need(engine.NewEntrance("meter"))(t)
	for _, c := range []struct {
		name   string
		cfg    recorder.Config
		tasks  int
		steps  int    // that allocate 100 bytes each, with a wait after each
		expect uint64 // bytes
		seen   int
		bytes  float64
		most   uint64
	}{
		{name: "nobody has come in"},
		{name: "one step", tasks: 10, steps: 1, seen: 10, bytes: 1000, most: 100},
		{name: "several", tasks: 10, steps: 3, seen: 10, bytes: 3000, most: 300},
		{name: "more is expected of them", tasks: 10, steps: 1, expect: 150, seen: 10, bytes: 1500, most: 100},
		{name: "less is", tasks: 10, steps: 2, expect: 150, seen: 10, bytes: 2000, most: 200},
		{name: "many at once", tasks: 1000, steps: 1, seen: 257, bytes: 25_700, most: 100},
		{name: "many steps", tasks: 1, steps: 100, seen: 1, bytes: 3200, most: 3200},
		{name: "the heap is not to be measured", cfg: recorder.Config{HeapEvery: -1}, tasks: 10, steps: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			var cycles atomic.Uint64
			cycles.Store(uint64(time.Hour)) // no time goes by
			coro.SimulateCycles(&cycles)
			defer coro.SimulateCycles(nil)
			allocated := uint64(1)
			g := recorder.New(c.cfg)
			g.Allocated = func() uint64 { return allocated }
			g.Expect(c.expect)
			rt := start(t, 1, g, func(cfg *engine.Config) {
				cfg.NewAdmission = func(*engine.Loop) engine.Admission { return admit.Open{} }
			})
			testenv.Must(t, rt.Run(context.Background(), func(context.Context) error {
				waiting := 0
				done := task.NewChan[bool](0)
				var all []*engine.Task
				for range c.tasks {
					all = append(all, engine.Go(func() {
						if e.Enter() != nil {
							return
						}
						for range c.steps - 1 {
							allocated += 100
							engine.Yield()
						}
						allocated += 100
						waiting++
						done.Recv()
						allocated += 1 << 20
						e.Leave()
					}))
				}
				for range 10_000 {
					if waiting == c.tasks {
						break
					}
					engine.Yield()
				}
				engine.Yield()
				if seen, bytes := g.Held(); seen != c.seen || bytes != c.bytes {
					t.Errorf("%d are known to hold %v bytes, want %d and %v", seen, bytes, c.seen, c.bytes)
				}
				testenv.Equal(t, g.MostHeld(), c.most, "one has been seen to allocate N bytes")
				done.Close()
				for _, k := range all {
					k.Join()
				}
				if seen, bytes := g.Held(); seen != 0 || bytes != 0 {
					t.Errorf("%d hold %v bytes when all have ended", seen, bytes)
				}
				return nil
			}))
		})
	}
}

// A task whose stack has little left when it comes in is not measured, lest the stack grows. What it holds is not
// known then, although the steps after that one are measured.
func TestWhoIsNotMeasuredIsNotKnown(t *testing.T) {
	e := testenv.Need(engine.NewEntrance("meter"))(t)
	var cycles atomic.Uint64
	cycles.Store(uint64(time.Hour))
	coro.SimulateCycles(&cycles)
	defer coro.SimulateCycles(nil)
	const tasks, size = 20, 128 << 10
	unknown := 0
	for depth := range 24 { // one of them leaves little
		g := recorder.New(recorder.Config{})
		rt := start(t, 1, g, func(cfg *engine.Config) {
			cfg.NewAdmission = func(*engine.Loop) engine.Admission { return admit.Open{} }
		})
		err := rt.Run(context.Background(), func(context.Context) error {
			inside := func(n int, hold *task.Chan[bool]) {
				for range n {
					engine.Go(func() {
						deep(depth, func() {
							cycles.Add(uint64(coro.CyclesPerSecond() / 100))
							if e.Enter() != nil {
								return
							}
							b := make([]byte, size)
							engine.Yield()
							hold.Recv()
							runtime.KeepAlive(b)
							e.Leave()
						})
					})
				}
				for range 4 {
					engine.Yield()
				}
			}
			closed := task.NewChan[bool](0)
			closed.Close()
			for range 80 { // the place becomes well known
				inside(1, closed)
			}
			hold := task.NewChan[bool](0)
			inside(tasks, hold)
			seen, bytes := g.Held()
			if bytes < float64(seen)*size {
				t.Errorf("depth %d: %d are known to hold %v bytes, want 128 KiB each", depth, seen, bytes)
			}
			unknown += tasks - seen
			hold.Close()
			return nil
		})
		testenv.Check(t, err)
	}
	t.Log(unknown, "had too little stack left to be measured")
}

// deep calls fn with n times some 100 bytes on the stack.
//
//go:noinline
func deep(n int, fn func()) {
	var pad [64]byte
	if n == 0 {
		fn()
	} else {
		deep(n-1, fn)
	}
	runtime.KeepAlive(&pad)
}
