package task

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime/pprof"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A nil Chan in a Select is never ready, as in a select statement, for which one sets a
// variable to nil.
func TestSelectWithNilChan(t *testing.T) {
	check := func() {
		var none *Chan[int]
		c := NewChan[int](1)
		if i, err := TrySelect(none.RecvCase(nil), none.SendCase(1)); i != -1 || err != nil {
			t.Errorf("TrySelect: %d, %v; want -1 and no error", i, err)
		}
		if i, err := Select(none.RecvCase(nil), c.SendCase(7), none.SendCase(1)); i != 1 || err != nil {
			t.Errorf("Select: %d, %v; want 1", i, err)
		}
		back := NewChan[int](0)
		go func() { // on a plain goroutine, so that the caller waits
			if v, err := c.Recv(); v != 7 || err != nil {
				t.Errorf("received %d, %v", v, err)
			}
			back.Send(8)
		}()
		got := 0
		if i, err := Select(none.RecvCase(&got), back.RecvCase(&got)); i != 1 || err != nil || got != 8 {
			t.Errorf("Select: %d, %v and %d; want 1 and 8", i, err, got)
		}
	}
	rt, _ := newSimRuntime(t, 2, false)
	rt.Go(check).Join()
	check()
	ctx, cancel := context.WithCancel(context.Background())
	waiting := rt.Go(func() {
		err := Under(ctx, func() error {
			_, err := Select((*Chan[int])(nil).RecvCase(nil))
			return err
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("Select of nothing but nil: %v, want the end of the context", err)
		}
	})
	cancel()
	waiting.Join()
}

func TestAcquireContextThatHasEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("why")
	cancel(why)
	check := func() {
		s := NewSemaphore(1)
		if err := s.AcquireContext(ctx, 1); !errors.Is(err, context.Canceled) || !errors.Is(err, why) {
			t.Errorf("AcquireContext: %v, want the context's error and cause", err)
		}
		if !s.TryAcquire(1) {
			t.Error("it took the unit")
		}
	}
	rt, _ := newSimRuntime(t, 1, false)
	rt.Go(check).Join()
	check()
}

// What a task sets for the profiler is not what the next task on its goroutine has, nor
// what another has in its Offload.
func TestLabelsEndWithTheirTask(t *testing.T) {
	if !coro.Exact {
		t.Skip("labels are left alone in this build")
	}
	rt, _ := newSimRuntime(t, 1, false)
	mine := pprof.WithLabels(context.Background(), pprof.Labels("task", "first"))
	rt.Go(func() {
		var g uintptr
		first := Go(func() {
			g = coro.G()
			pprof.SetGoroutineLabels(mine)
			Offload(func() {
				if coro.Labels() == nil {
					t.Error("an offloaded function has not the labels of its task")
				}
			})
		})
		first.Join()
		same := false
		for range 10 {
			Go(func() {
				same = same || coro.G() == g
				if coro.Labels() != nil {
					t.Error("a task has the labels of one before it")
				}
			}).Join()
		}
		if !same {
			t.Error("no task had the goroutine of the first: nothing was tested")
		}
	}).Join()
}

// One offload goroutine serves tasks with different labels.
func TestOffloadedHasTheLabelsOfItsTask(t *testing.T) {
	if !coro.Exact {
		t.Skip("labels are left alone in this build")
	}
	rt, _ := newSimRuntime(t, 1, false)
	rt.offload.limit = 1
	rt.Go(func() {
		release := make(chan struct{})
		first := Go(func() {
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("a", "b")))
			Offload(func() { <-release })
		})
		Yield()
		second := Go(func() {
			Offload(func() {
				if coro.Labels() != nil {
					t.Error("the labels of another task")
				}
			})
		})
		Yield()
		close(release)
		first.Join()
		second.Join()
	}).Join()
}

const bubbleVariable = "CAPRICCIO_TEST_BUBBLE"

// In a bubble of testing/synctest a runtime is refused, in a process in which nothing has
// measured the processor's counter before.
func TestBubbleIsRefused(t *testing.T) {
	if os.Getenv(bubbleVariable) == "" {
		child := exec.Command(os.Args[0], "-test.run=^TestBubbleIsRefused$", "-test.timeout=60s")
		child.Env = append(os.Environ(), bubbleVariable+"=1")
		if out, err := child.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) {
		if r := coro.CyclesPerSecond(); r <= 0 {
			t.Errorf("rate %v", r)
		}
		_, err := New(Config{NewPoller: func(int) (Poller, error) {
			t.Error("a poller was made")
			return nil, errors.ErrUnsupported
		}})
		if err == nil || !strings.Contains(err.Error(), "testing/synctest") {
			t.Errorf("New: %v", err)
		}
	})
	if coro.ClockStands() {
		t.Error("the clock stands still outside of a bubble")
	}
}
