package engine

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/chunk"
	"github.com/capriccio-go/capriccio/internal/coro"
)

// While a task runs on a linked stack chunk (package stackchunk), Task.worker is that of
// the chunk: the task parks there and is resumed there like anywhere else.

// A chunkWorker is the worker of a stack chunk. Loop-private.
type chunkWorker struct {
	worker // first, see asChunk. Its task stays nil
	loop   *Loop
	chunk  *chunk.Chunk
	below  *worker // on which the task goes on when the chunk is unlinked; nil: it isn't linked
	print  uint64  // hash of the call path below, if there is a recorder
}

func (w *worker) onChunk() bool { return *w.Mark()&workerChunk != 0 }

// asChunk returns the chunkWorker that w is a part of, nil if it is none.
func (w *worker) asChunk() *chunkWorker {
	if !w.onChunk() {
		return nil
	}
	return (*chunkWorker)(unsafe.Pointer(w))
}

func init() {
	StackSpace.Usually(func() int64 { return int64(chunk.Settings.Process.Load()) })
	chunk.SetHosts(func() (*chunk.Pool, bool) {
		l := soleLoop.Load()
		free := l != nil && coro.RunsFree(&l.curG) // this is here, which is not inlined
		if !free {
			if l = hereSlow(); l == nil {
				return nil, false
			}
			at := coro.Running(&l.curG) // not Here: inside of an iter.Pull
			free = at&coro.Here != 0 && at&coro.ThreadLocked == 0
		}
		if l.cur == nil {
			return nil, false
		}
		return l.chunks, free && !l.hub
	})
}

// NewMember implements chunk.Host.
func (l *Loop) NewMember(c *chunk.Chunk) chunk.Member {
	m := &chunkWorker{loop: l, chunk: c}
	*m.Mark() = workerChunk
	return m
}

// Current implements chunk.Host.
func (l *Loop) Current() *coro.Coro { return &l.cur.worker.Coro }

// Coro implements chunk.Member, as do the following methods.
func (m *chunkWorker) Coro() *coro.Coro { return &m.worker.Coro }

// Start is called on the new goroutine. If it is a seed that takes the place of another,
// the task is not on it, and Unlink follows.
func (m *chunkWorker) Start() {
	m.g = coro.G()
	m.loop.curG = m.g
	if m.loop.enrolled {
		m.enroll(m.loop, m.g)
	}
}

// End is called on the goroutine at its end.
func (m *chunkWorker) End() {
	if m.below != nil { // it is ended by Goexit, and Unlink comes too late
		reattach()
		m.loop.unlockThread()
	}
	*m.Mark() |= workerGone
	if *m.Mark()&workerEnrolled != 0 {
		members.remove(m.g)
	}
}

// Link makes m the worker of the running task.
func (m *chunkWorker) Link() (from *coro.Coro) {
	l := m.loop
	t := l.cur
	w := t.worker
	if l.rec != nil {
		m.recordLink(l, w)
	}
	m.below = w
	t.worker = &m.worker
	l.curG = m.g
	l.account.Taken[chunksIndex%admit.MaxResources] += uint64(m.chunk.Size())
	return &w.Coro
}

// recordLink is what Link does for the recorder.
//
//go:noinline
func (m *chunkWorker) recordLink(l *Loop, w *worker) {
	m.print = w.fingerprint(l) * 0x9e3779b97f4a7c15
	l.links.meet(m.print)
	m.note = w.note
	l.account.Moves += uint64(m.chunk.Size()) // and back again: most links are over before it looks
	l.account.Moved |= 1 << (chunksIndex % admit.MaxResources)
}

// Nested reports whether m is linked on another chunk.
func (m *chunkWorker) Nested() bool { return m.below.onChunk() }

// Unlink gives the running task its worker back.
func (m *chunkWorker) Unlink() (to *coro.Coro, refusal string) {
	l := m.loop
	if !coro.RunsFree(&l.curG) {
		reattach()
		if locked, _ := l.unlockThread(); locked {
			refusal = threadLockRefusal
		}
	}
	l.dropLabels()
	w := m.below
	m.below = nil
	if l.rec != nil {
		l.account.Moves -= uint64(m.chunk.Size())
		l.account.Moved |= 1 << (chunksIndex % admit.MaxResources)
	}
	l.cur.worker = w
	l.curG = w.g
	l.account.Given[chunksIndex%admit.MaxResources] += uint64(m.chunk.Size())
	return &w.Coro, refusal
}

// fingerprint hashes the call path of the running task, whose worker is w. What a chunk
// has below the function that it runs is the same on all chunks.
//
//go:noinline
func (w *worker) fingerprint(l *Loop) uint64 {
	if w.onChunk() {
		return coro.Fingerprint(0) ^ w.asChunk().print
	}
	return coro.Fingerprint(l.base)
}

// linkPaths are the call paths below chunks, by their fingerprints. Loop-private. It is for reports only, so it may
// forget: paths in excess of maxLinkPaths are not known.
type linkPaths struct {
	known map[uint64][]uintptr
	pcs   [80]uintptr
}

const maxLinkPaths = 1024

// meet makes sure that the caller's path, with that fingerprint, is known.
func (p *linkPaths) meet(print uint64) {
	if _, ok := p.known[print]; !ok && len(p.known) < maxLinkPaths {
		p.learn(print)
	}
}

//go:noinline
func (p *linkPaths) learn(print uint64) {
	if p.known == nil {
		p.known = make(map[uint64][]uintptr)
	}
	// Without Callers, learn, meet and recordLink, so that Link is the first.
	p.known[print] = append([]uintptr(nil), p.pcs[:runtime.Callers(4, p.pcs[:])]...)
}

// appendCallers appends to pcs the program counters of the frames that runtime.Callers
// does not see because the running task is on a linked stack chunk: for each chunk those
// of the call that linked it, a little of the linking first. It appends nothing if the
// task is on its own stack, and what it can if calls were too many different ones.
func (l *Loop) appendCallers(pcs []uintptr) []uintptr {
	for w := l.cur.worker; ; {
		m := w.asChunk()
		if m == nil {
			return pcs
		}
		pcs = append(pcs, l.links.known[m.print]...)
		w = m.below
	}
}

// A panicTrail holds the stacks of the chunks that a panic has left. The stack on a chunk is gone
// when the panic goes on in the caller of the chunk.
type panicTrail struct {
	value  any     // of the panic
	next   *worker // the caller in which the panic goes on
	stacks [][]uintptr
}

// maxTrail is the number of chunks whose stacks are kept.
const maxTrail = 8

// Panicked keeps the stack of the panic v for the report.
func (m *chunkWorker) Panicked(v any) {
	reattach()
	e := m.loop.cur.extend()
	p := e.trail
	if p == nil || p.next != &m.worker || !identical(p.value, v) {
		p = &panicTrail{value: v}
		e.trail = p
	}
	p.next = m.below
	if len(p.stacks) < maxTrail {
		var pcs [100]uintptr
		p.stacks = append(p.stacks, append([]uintptr(nil), pcs[:runtime.Callers(3, pcs[:])]...))
	}
}

// identical reports whether a and b are one value, not only equal.
func identical(a, b any) bool {
	return *(*[2]uintptr)(unsafe.Pointer(&a)) == *(*[2]uintptr)(unsafe.Pointer(&b))
}

// chunkStacksOfPanic returns as text the stacks of the chunks that the panic v has left, see panicTrail; "" if v has
// left none.
func (t *Task) chunkStacksOfPanic(v any) string {
	p := t.extra().trail
	if p == nil || !identical(p.value, v) {
		return ""
	}
	var text strings.Builder
	for _, pcs := range p.stacks {
		text.WriteString("on a linked stack chunk:\n")
		writeFrames(&text, pcs)
		text.WriteString("\nwhich was linked by:\n")
	}
	return text.String()
}

// chunkRoot is the function below the one that a chunk was linked for.
const chunkRoot = "github.com/capriccio-go/capriccio/internal/chunk.(*Chunk).serve"

// writeFrames writes frames in the form of debug.Stack, as far as they are the task's.
func writeFrames(text *strings.Builder, pcs []uintptr) {
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if f.Function == chunkRoot {
			return
		}
		fmt.Fprintf(text, "%s(...)\n\t%s:%d\n", f.Function, f.File, f.Line)
		if !more {
			return
		}
	}
}

// chunkCallers describes the stack below the chunk that the running task is on; empty
// if it is on none.
func (l *Loop) chunkCallers() string {
	if l.cur.worker.asChunk() == nil {
		return ""
	}
	var text strings.Builder
	text.WriteString("\nwhich is a linked stack chunk; it was linked by:\n")
	pcs := l.appendCallers(nil)
	if pcs == nil {
		text.WriteString("(known only if there is a blocking graph)\n")
	} else {
		writeFrames(&text, pcs)
	}
	return text.String()
}

// PanicStack is debug.Stack for a deferred function that has recovered v on the calling
// task: with the parts of the stack that v has crossed on stack chunks before it, which are
// gone by then.
func PanicStack(v any) []byte {
	stack := debug.Stack()
	if t := Current(); t != nil {
		return append([]byte(t.chunkStacksOfPanic(v)), stack...)
	}
	return stack
}
