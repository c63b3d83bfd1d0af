package task_test

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim/programs"
	"github.com/capriccio-go/capriccio/task"
)

func TestTicker(t *testing.T) {
	rt := programs.Simulated(t, 2, 0)
	defer rt.Close()
	rt.Go(func() {
		l := engine.CurrentLoop()
		from := l.Now()
		tick := task.NewTicker(10 * time.Millisecond)
		for i := 1; i <= 5; i++ {
			if _, err := tick.C.Recv(); err != nil {
				t.Error(err)
			}
			want := time.Duration(i) * 10 * time.Millisecond
			if d := l.Now() - from - want; d < 0 || d > 5*time.Millisecond {
				t.Errorf("tick %d after %v, want %v", i, l.Now()-from, want)
			}
		}
		task.Sleep(100 * time.Millisecond) // ticks are missed: one waits
		if _, ok, _ := tick.C.TryRecv(); !ok {
			t.Error("no tick waits")
		}
		if _, ok, _ := tick.C.TryRecv(); ok {
			t.Error("a second tick waits")
		}
		tick.Reset(time.Second)
		from = l.Now()
		tick.C.Recv()
		if d := l.Now() - from; d < time.Second {
			t.Errorf("after Reset a tick came after %v", d)
		}
		tick.Stop()
		tick.Stop()
		if i, err := task.Select(tick.C.RecvCase(nil), task.AfterCase(5*time.Second)); i != 1 || err != nil {
			t.Errorf("a tick after Stop: %d, %v", i, err)
		}
		defer func() {
			if recover() == nil {
				t.Error("NewTicker(0) does not panic")
			}
		}()
		task.NewTicker(0)
	}).Join()
}
