package engine

import (
	"runtime"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/recorder"
)

// A loop tells its recorder where its tasks start, wait, go on and end.

// Graph returns the blocking graph of rt, also when rt is closed; nil if rt is nil or has none.
func (rt *Runtime) Graph() *recorder.Graph {
	if rt == nil {
		return nil
	}
	return rt.cfg.Graph
}

// record records that t, which runs, waits, yields or passes where it is.
//
//go:noinline
func (l *Loop) record(t *Task, why Reason) {
	var print uint64
	if t.worker.onChunk() || l.label != "" {
		print = l.labelled(t.worker.fingerprint(l)) + uint64(why)
	} else {
		print = coro.Fingerprint(l.base) + uint64(why)
	}
	switch {
	case l.rec.Park(&t.rec, t.worker.note, why, print):
		l.label = ""
		return
	case l.rec.Knows(&t.rec, print):
		l.rec.Arrive(&t.rec, t.worker.note, why)
	default:
		l.meet(t, why, print)
	}
	l.label = ""
	if l.rec.NeedsStack() {
		l.readHeap()
	}
}

// meet is called at a place that the recorder has not met. It needs more stack than the rest.
//
//go:noinline
func (l *Loop) meet(t *Task, why Reason, print uint64) {
	pcs := make([]uintptr, 80)
	pcs = l.appendCallers(pcs[:runtime.Callers(1, pcs)])
	l.rec.Meet(&t.rec, t.worker.note, why, print, l.label, pcs)
}

// labelled is the fingerprint of a place with the label.
func (l *Loop) labelled(print uint64) uint64 {
	for i := range len(l.label) {
		print = (print ^ uint64(l.label[i])) * 0x100000001b3
	}
	return print
}

// resumed records that the wait of t is over and t runs.
func (l *Loop) resumed(t *Task) {
	if l.rec.Resume(&t.rec, t.worker.note) {
		l.readHeap()
	}
}

// readHeap has the recorder read the size of the heap for the running task, whose stack may be too small for that: on the
// loop's own goroutine, see runFrom.
//
//go:noinline
func (l *Loop) readHeap() {
	w := l.cur.worker
	if w.onChunk() || coro.Running(&l.curG)&coro.ThreadLocked != 0 { // there is room; or it can't be switched away from
		l.rec.ReadHeap()
		return
	}
	g := l.curG
	l.curG = l.g
	coro.Switch(&w.Party, &l.party)
	l.curG = g
}
