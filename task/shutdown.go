package task

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Close is Shutdown without waiting for the tasks to end by themselves.
func (rt *Runtime) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return rt.Shutdown(ctx)
}

// Shutdown ends the runtime. It waits for the tasks to end until ctx does; then it
// cancels those that are left (their waits return ErrShutdown) and waits for
// Config.Grace; then it makes every wait end its task, running its deferred functions,
// as runtime.Goexit does; at last it ends the loops and closes the pollers. After it,
// nothing of the runtime is left, except for tasks that never wait and functions that
// are still offloaded; the error says how many of the former there are, on which loops. It must be called on a plain
// goroutine. Later calls wait for the first and return the same.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	if here() != nil {
		return fmt.Errorf("task: Shutdown was called by a task; call it on a plain goroutine")
	}
	rt.closeOnce.Do(func() {
		rt.closeErr = rt.shutdown(ctx)
		close(rt.closed)
	})
	<-rt.closed
	return rt.closeErr
}

func (rt *Runtime) shutdown(ctx context.Context) error {
	idle := rt.waitIdle(ctx)
	rt.cancel(ErrShutdown)
	rt.onLoops(func(l *Loop) {
		l.cancelAll = true
		for t := l.tasks; t != nil; t = t.allNext {
			l.cancel(t)
		}
	})
	if !idle {
		grace, stop := context.WithTimeout(context.Background(), rt.cfg.Grace)
		idle = rt.waitIdle(grace)
		stop()
	}
	rt.onLoops(func(l *Loop) {
		l.unwinding = true
		for t := l.tasks; t != nil; t = t.allNext {
			if t.state == stateParked {
				l.makeReady(t)
			}
		}
	})
	var err error
	if !idle {
		grace, stop := context.WithTimeout(context.Background(), rt.cfg.Grace)
		if !rt.waitIdle(grace) {
			err = rt.stuckError()
		}
		stop()
	}
	rt.watch.close()
	rt.setDefault(false)
	for _, l := range rt.loops {
		l.Post(func() { l.closing = true })
	}
	if err == nil {
		for _, l := range rt.loops {
			<-l.stopped
		}
	}
	return err
}

// onLoops runs fn on the own goroutine of every loop and waits for those that answer
// within the grace time; a loop held by a task does so later.
func (rt *Runtime) onLoops(fn func(l *Loop)) {
	done := make(chan struct{}, len(rt.loops))
	n := 0
	for _, l := range rt.loops {
		if l.Post(func() { fn(l); done <- struct{}{} }) {
			n++
		}
	}
	timeout := time.NewTimer(rt.cfg.Grace)
	defer timeout.Stop()
	for ; n > 0; n-- {
		select {
		case <-done:
		case <-timeout.C:
			return
		}
	}
}

// waitIdle waits until no loop has a task, as seen twice in a row, or ctx ends.
func (rt *Runtime) waitIdle(ctx context.Context) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for quiet := 0; ; {
		if rt.countTasks() == 0 {
			quiet++
		} else {
			quiet = 0
		}
		if quiet == 2 {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		if quiet == 0 {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
}

// countTasks counts the tasks, started or not, on all loops; a loop that does not
// answer counts as having one.
func (rt *Runtime) countTasks() int {
	counts := make(chan int, len(rt.loops))
	rt.onLoops(func(l *Loop) {
		n := int(l.taskCount)
		if l.anyReady() || l.inbox.pending.Load() {
			n++
		}
		counts <- n
	})
	total := len(rt.loops)
	for range rt.loops {
		select {
		case n := <-counts:
			total += n - 1
		default:
		}
	}
	return total
}

// stuckError names the tasks that hold their loops.
func (rt *Runtime) stuckError() error {
	var names []string
	for _, l := range rt.loops {
		if n := l.Tasks(); n > 0 {
			names = append(names, fmt.Sprintf("%d on loop %d", n, l.index))
		}
	}
	return fmt.Errorf("task: shutdown: tasks that never wait are still running (%s); their loops were left to them", strings.Join(names, ", "))
}

// finishLoop runs at the end of a loop's goroutine, after its workers.
func (l *Loop) finishLoop() {
	for _, m := range l.closeInbox() {
		switch m.kind {
		case msgStart, msgStartHere:
			l.drop(m.t)
		case msgCall:
			m.fn()
		}
	}
	if err := l.poller.Close(); err != nil {
		l.rt.log.Error("task: closing the poller", "loop", l.index, "error", err)
	}
}
