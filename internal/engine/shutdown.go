package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"
)

// An ending is how far the shutdown of a loop has come. Loop-private.
type ending struct {
	cancelAll bool          // every task is cancelled
	unwinding bool          // every wait ends its task
	closing   bool          // workers end
	stopped   chan struct{} // fixed; closed when the loop's goroutine has ended

	keyedBy []weak.Pointer[sync.Map] // maps that have the loop as a key, see DeleteAtEnd
}

// Close is Shutdown without waiting for the tasks to end by themselves.
func (rt *Runtime) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return rt.Shutdown(ctx)
}

// Shutdown ends the runtime, see task.Runtime.Shutdown.
func (rt *Runtime) Shutdown(ctx context.Context) error {
	if reattach() != nil {
		return fmt.Errorf("task: Shutdown was called by a task; call it on a plain goroutine")
	}
	rt.closeOnce.Do(func() {
		rt.closeErr = rt.shutdown(ctx)
		if rt.cfg.Closed != nil {
			rt.cfg.Closed()
		}
	})
	return rt.closeErr
}

func (rt *Runtime) shutdown(ctx context.Context) error {
	idle := rt.waitIdle(ctx)
	rt.cancel(ErrShutdown)
	rt.post(func(l *Loop) {
		l.end.cancelAll = true
		for t := l.roster.tasks; t != nil; t = t.allNext {
			l.cancel(t)
		}
	})
	if !idle {
		grace, stop := context.WithTimeout(context.Background(), rt.cfg.Grace)
		rt.waitIdle(grace)
		stop()
	}
	rt.unwind(ErrShutdown)
	rt.post(func(l *Loop) {
		l.end.unwinding = true
		for t := l.roster.tasks; t != nil; t = t.allNext {
			if t.state == stateParked {
				l.makeReady(t)
			}
		}
	})
	for _, l := range rt.loops {
		if p, ok := l.poller.(Interrupter); ok {
			p.Interrupt()
		}
	}
	var err error
	// From now on no task starts. One that has meanwhile, after the last look, may be there.
	grace, stop := context.WithTimeout(context.Background(), rt.cfg.Grace)
	if !rt.waitIdle(grace) {
		err = rt.stuckError()
	}
	stop()
	rt.watch.close()
	rt.setDefault(false)
	for _, l := range rt.loops {
		l.Post(func() { l.end.closing = true })
	}
	loops.working.Add(-int32(rt.Working())) // also if tasks are left: their loops get no new work
	if err == nil {
		for _, l := range rt.loops {
			<-l.end.stopped
		}
	}
	return err
}

// post runs fn on the own goroutine of every loop. On a loop that a task holds it runs later, but before all that is
// posted after it. post returns on how many loops.
func (rt *Runtime) post(fn func(l *Loop)) (n int) {
	for _, l := range rt.loops {
		if l.Post(func() { fn(l) }) {
			n++
		}
	}
	return n
}

// onLoops is post that waits until all loops have answered, at most for the grace time
// and until stop is closed.
func (rt *Runtime) onLoops(stop <-chan struct{}, fn func(l *Loop)) {
	done := make(chan struct{}, len(rt.loops))
	n := rt.post(func(l *Loop) { fn(l); done <- struct{}{} })
	timeout := time.NewTimer(rt.cfg.Grace)
	defer timeout.Stop()
	for ; n > 0; n-- {
		select {
		case <-done:
		case <-timeout.C:
			return
		case <-stop:
			return
		}
	}
}

// waitIdle waits until no loop has a task, as seen twice in a row, or ctx ends. It does
// not outlast ctx for a loop that a task holds.
func (rt *Runtime) waitIdle(ctx context.Context) bool {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for quiet := 0; ctx.Err() == nil; {
		if rt.countTasks(ctx) == 0 {
			quiet++
		} else {
			quiet = 0
		}
		if quiet == 2 {
			return true
		}
		if quiet == 0 {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}
	return false
}

// countTasks counts the tasks, started or not, on all loops; a loop that does not
// answer before ctx ends counts as having one.
func (rt *Runtime) countTasks(ctx context.Context) int {
	counts := make(chan int, len(rt.loops))
	rt.onLoops(ctx.Done(), func(l *Loop) {
		n := int(l.roster.count)
		if l.anyReady() || l.holdsBack() || l.inbox.pending.Load() {
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

// stuckError tells where tasks are left, and what could end them.
func (rt *Runtime) stuckError() error {
	var counts []string
	for _, l := range rt.loops {
		if n := l.Tasks(); n > 0 {
			counts = append(counts, fmt.Sprintf("%d on loop %d", n, l.index))
		}
	}
	natively := ""
	if some, n := rt.awayTasks(namedAtEnd); n > 0 {
		natively = fmt.Sprintf("%d of them wait natively, which only what they wait for can end, so close the channel, or wait for task.Context().Done() too: %s; ", n, strings.Join(some, ", "))
	}
	firmly := ""
	if why, n := rt.firmTasks(); n > 0 {
		firmly = fmt.Sprintf("%d wait for what can't be broken off (%s); ", n, strings.Join(why, ", "))
	}
	return fmt.Errorf("task: shutdown: tasks are left (%s): %s%sof offloaded functions %d still run; the others never wait; their loops were left to them",
		strings.Join(counts, ", "), natively, firmly, rt.offload.running.Load())
}

// firmTasks counts the tasks whose waits can't be ended, except for offloaded functions and native waits, and returns
// their reasons. Loops that don't answer are not waited for.
func (rt *Runtime) firmTasks() (why []string, n int) {
	limit, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	for _, t := range rt.tasks(limit.Done()) {
		if t.State != stateNames[stateParked] || t.Reason == ReasonOffload || t.Reason == ReasonNative {
			continue
		}
		n++
		if r := t.Reason.String(); !slices.Contains(why, r) {
			why = append(why, r)
		}
	}
	return why, n
}

// DeleteAtEnd deletes the key l from m when l ends, so that a map that outlives the runtime does not keep it in memory. l
// refers to m weakly: m may be collected before. Call it on l, once for each map.
func (l *Loop) DeleteAtEnd(m *sync.Map) {
	e := &l.end
	if len(e.keyedBy) == cap(e.keyedBy) { // look for maps that have been collected, before it grows
		e.keyedBy = slices.DeleteFunc(e.keyedBy, func(p weak.Pointer[sync.Map]) bool { return p.Value() == nil })
	}
	e.keyedBy = append(e.keyedBy, weak.Make(m))
}

const namedAtEnd = 3 // tasks that stuckError names

// finishLoop runs at the end of a loop's goroutine, after its workers.
func (l *Loop) finishLoop() {
	l.inbox.mu.Lock()
	l.inbox.closed = true
	left := l.inbox.in // messages that no worker will handle
	l.inbox.mu.Unlock()
	for _, m := range left {
		switch m.kind {
		case msgStart, msgStartHere:
			l.drop(m.t)
		case msgCall:
			m.fn()
		}
	}
	if l.watch.alarm != nil {
		l.watch.alarm.close()
	}
	if err := l.poller.Close(); err != nil {
		l.rt.log.Error("task: closing the poller", "loop", l.index, "error", err)
	}
	for _, p := range l.end.keyedBy {
		if m := p.Value(); m != nil {
			m.Delete(l)
		}
	}
}
