//go:build linux

package netpoll_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/stackchunk"
)

// A second runtime makes the goroutines of the first known while a task of that waits natively on a chunk, whose goroutine
// a stand-in has taken the place of.
func TestEnrollsTasksAwayOnChunks(t *testing.T) {
	native(t, engine.Config{}, func(t *testing.T, rt *engine.Runtime) {
		away, end := make(chan bool), make(chan bool)
		one := engine.GoOn(rt.Loop(0), func() {
			me := engine.Current()
			stackchunk.Call(100<<10, func() {
				<-end
				testenv.Equal(t, engine.Current(), me, "on the chunk")
			})
			testenv.Equal(t, engine.Current(), me, "behind it")
		})
		engine.GoOn(rt.Loop(0), func() { close(away) }) // which the loop does once it goes on without the other
		<-away
		second := testenv.Need(engine.New(engine.Config{Loops: 1, NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }}))(t)
		close(end)
		testenv.Check(t, one.Join())
		testenv.Check(t, second.Close())
		testenv.Check(t, rt.Close())
	})
}

// A calledBack waits natively where the runtime or netpoll calls it in the middle of something, on a stack chunk or
// where such a call has room: its loop stays.
type calledBack struct {
	slog.Handler
	t    *testing.T
	need stackchunk.Bytes
	rt   *engine.Runtime
	told bool // of the task
}

func (c *calledBack) waits(where string) {
	before := c.rt.Detached()
	stackchunk.Call(c.need, func() { time.Sleep(10 * time.Millisecond) })
	if n := c.rt.Detached() - before; n != 0 || !c.rt.Loop(0).Runs() {
		c.t.Errorf("%s, a need of %d: %d times detached, on its loop %v", where, c.need, n, c.rt.Loop(0).Runs())
	}
}

func (c *calledBack) Enabled(context.Context, slog.Level) bool { return true }

func (c *calledBack) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "task: a task held its loop") && c.rt.Loop(0).Runs() {
		c.told = true
		c.waits("in a log handler")
	}
	return nil
}

func TestLoopsStayInTheMiddle(t *testing.T) {
	for _, need := range []stackchunk.Bytes{1, 100 << 10} {
		c := &calledBack{Handler: slog.DiscardHandler, t: t, need: need}
		rt, err := engine.New(engine.Config{Loops: 1, HoldLimit: 5 * time.Millisecond, Log: slog.New(c), NewPoller: func(int) (engine.Poller, error) { return poller.Epoll() }})
		testenv.Must(t, err)
		c.rt = rt
		testenv.Check(t, engine.GoOn(rt.Loop(0), func() {
			for !c.told { // the test's time limit ends this
				for began := time.Now(); time.Since(began) < 50*time.Millisecond; { // which is told when it parks, if the watchdog has seen it
				}
				engine.Sleep(time.Millisecond)
			}
			r, w, err := netpoll.Pipe()
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			defer w.Close()
			raw := testenv.Need(w.SyscallConn())(t)
			testenv.Check(t, raw.Write(func(uintptr) bool {
				c.waits("in a function of a RawConn")
				return true
			}))
		}).Join())
		testenv.Check(t, rt.Close())
	}
}
