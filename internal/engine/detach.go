package engine

import (
	"cmp"
	"errors"
	"io"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/kernel"
)

// Detaching: a task that waits natively (for a Go channel, a sync.Mutex, a system call) for long is
// detached from its loop. For the loop the task then is parked, and other tasks run; the blocked
// goroutine is an ordinary one until it reattaches (reattach).
//
//	running ──watchdog: claim──▶ claimed ──decide──▶ detached ──reattach──▶ queued ──picked──▶ running
//	   ▲                            │
//	   └────────── give up ─────────┘
//
// Exactly one of the goroutines of a loop runs and is in no slot (package coro). A stand-in, a
// goroutine that was never part of the ring, takes the place of the blocked goroutine: it parks in
// the task's Party by a switch to the loop's own goroutine. When the task wants to reattach it is
// queued ahead of the ready tasks. The task that switches to it resumes the stand-in, which
// passes its place on through a channel, and ends.
//
// The blocked goroutine may wake at any moment. It may use the state of the loop
// only after it has found its identity in Loop.curG, which all of the engine does with
// coro.RunsFree and coro.Running. They then set the word after it, Loop.entered, and look at
// curG once more. So the watchdog can detach safely in these steps:
//
//  1. The watchdog clears entered, and makes every thread execute a barrier.
//  2. It looks at the goroutine's stack. It goes on only if the goroutine waits, and waits
//     outside of the runtime: the innermost frame of these packages is one that calls the
//     program's code, and reattaches when that returns (runTasks, Outside). Some need not reattach
//     (Copy, stackchunk.Call); then it depends on the next frame, on the stack below if that is a chunk's.
//  3. It changes curG to 0, if it still is the goroutine's, and makes every thread execute a
//     barrier again.
//  4. If entered is still 0 and the stack is still the same, the goroutine was outside at
//     2 and has not entered since, and a goroutine that enters from now on sees curG to be 0. The task
//     is detached. Otherwise the watchdog puts curG back.
//
// A caller that finds curG to be 0 at 3 waits for the decision, see isAway. The goroutine needs no
// barrier of its own, as membarrier(2) makes it execute one, as in guard: detaching costs its
// paths one store. detach_model_test.go tries every order of steps. No task is detached where membarrier is
// missing, under the race detector, which can't follow this, on loops that are locked to a thread or switch through
// their own goroutine (NoHandOver), and if the stacks of other goroutines can't be read
// (coro.CanStack).
//
// While it is detached, the goroutine of the task counts as a plain one for calls that need no task:
// it unlocks, closes and wakes. It reattaches (reattach) before it waits as a task does, when
// it asks which task it is, and when its function returns. It would deadlock if another task waited for a lock that
// it holds meanwhile, so no code that holds a lock of these packages calls reattach.

// A detachment is one absence of a task from its loop.
type detachment struct {
	l     *Loop
	t     *Task
	g     uintptr // identity of its goroutine
	place *nativePlace
	since time.Duration // of the runtime's clock

	mu       sync.Mutex
	detached bool          // guarded by mu, which is held from the claim to the decision
	role     chan struct{} // capacity 1: the part of the running member, for g

	back bool // loop-private: g waits for role
}

// absences counts the tasks of a loop that are detached. Loop-private but for the atomic fields.
type absences struct {
	leaving *detachment   // the one being made: its stand-in switches to the loop's own goroutine
	now     atomic.Int32  // tasks that are detached
	total   atomic.Uint64 // detachments in all
}

// DescribeWait implements WaitDescriber.
func (d *detachment) DescribeWait() string { return "natively, in " + d.place.name }

// Withdraw implements WaitPoint: only the goroutine itself can end the wait.
func (d *detachment) Withdraw(*Waiter) bool { return false }

// detachments finds the detachment of a goroutine that is claimed or detached. A goroutine that looks for its own
// while it is being claimed may miss it; it then sees that claims has changed, see hereSlow.
var detachments struct {
	identMap[detachment]
	n      atomic.Int32  // registered detachments
	claims atomic.Uint64 // made, counted before the claim, and ended, counted when curG has been put back
}

// detachmentOf returns the detachment of goroutine g; nil if it is neither claimed nor detached.
func detachmentOf(g uintptr) *detachment {
	if detachments.n.Load() == 0 {
		return nil
	}
	return detachments.find(g)
}

func (d *detachment) register() {
	detachments.enter(d.g, d)
	detachments.n.Add(1)
	detachments.claims.Add(1)
}

func (d *detachment) unregister() {
	detachments.claims.Add(1)
	detachments.n.Add(-1)
	detachments.remove(d.g)
}

// isAway reports whether the goroutine g, the caller or one that waits for it in an iter.Pull, is
// detached from its loop. If that is being decided it waits, and reports claimed.
func isAway(g uintptr) (away, claimed bool) {
	d := detachmentOf(g)
	if d == nil {
		return false, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.detached, true
}

// NoneDetached reports whether no goroutine at all is detached: then reattach would do nothing.
func NoneDetached() bool { return detachments.n.Load() == 0 }

// reattach is here for a call that only a task can make: it first reattaches a detached task to its
// loop. The caller must not hold a lock of these packages.
func reattach() *Loop {
	l := here()
	if l != nil || NoneDetached() {
		return l
	}
	for g, pulls := coro.G(), 0; g != 0 && pulls < maxPulls; g, pulls = coro.Puller(g), pulls+1 {
		if d := detachmentOf(g); d != nil {
			d.reattach()
			return here() // it may have locked its thread meanwhile
		}
	}
	return nil
}

func (d *detachment) reattach() {
	d.place.ended(d.l.rt.Now() - d.since)
	d.l.send(message{kind: msgReattach, t: d.t})
	signal(d.l.rt.watch.hurry) // the task that runs now may wait for what this one holds
	<-d.role
	d.unregister()
	t := d.t
	t.fixed, t.on = false, nil
	if t.recorded {
		t.recorded = false
		t.loop.resumed(t)
	}
}

// beOnLoop is for functions that are about to park t, the caller, whose Waiter a caller outside of
// this package may have taken before a native wait.
func (t *Task) beOnLoop() {
	if !coro.RunsFree(&t.loop.curG) {
		reattach()
	}
}

// Outside returns fn(a), where fn calls the program's code. While that code waits natively the
// task can be detached; it is on its loop again when Outside returns. A task that waits in the
// program's code is not detached if a package of this module has called that code without Outside.
// Outside may be called from any goroutine.
func Outside[A, R any](fn func(A) R, a A) R {
	defer reattach()
	return fn(a)
}

// Copy copies from r to w through buf, as io.CopyBuffer does without looking for their ReadFrom and WriteTo, until the
// end of r. Methods of the program may wait natively, see Outside, but the task may still be detached when Copy
// returns: it reattaches where it waits next. So the caller must not rely on its loop, nor hold a lock.
func Copy(w io.Writer, r io.Reader, buf []byte) (total int64, err error) {
	for {
		n, err := r.Read(buf)
		if n > 0 {
			m, werr := w.Write(buf[:n])
			if m < 0 || m > n {
				m, werr = 0, cmp.Or(werr, errInvalidWrite)
			}
			total += int64(m)
			if werr == nil && m < n {
				werr = io.ErrShortWrite
			}
			if werr != nil {
				return total, werr
			}
		}
		switch {
		case err == io.EOF:
			return total, nil
		case err != nil:
			return total, err
		}
	}
}

var errInvalidWrite = errors.New("invalid write result") // as package io has it

// After it has found a task that waits, and when a detached task wants its loop back, the watchdog goes on to look for
// tasks that wait where others have waited for long: where all tasks of a loop want one lock they come one after the
// other, and at one task per DetachAfter thousands would take seconds.
const (
	chaseSpin = 50 * time.Microsecond  // how long it looks without a pause, after the last task that it found
	chaseFor  = 2 * time.Millisecond   // how long it looks in all, after that task
	chaseNap  = 100 * time.Microsecond // between two looks then
)

// chase detaches tasks as soon as they wait at slow places. It is called when a task has been detached, and when a
// detached task wants its loop back. procs is how many processors there are.
func (w *watchdog) chase(procs int) {
	for last := w.now(); ; {
		runtime.Gosched()
		awake := 0
		for _, l := range w.rt.loops {
			if l.inbox.sleeping.Load() {
				continue
			}
			awake++
			step := coro.Peek(uintptr(unsafe.Pointer(&l.switches)))
			if l.runsTask() && w.detach(l, step, true) {
				last = w.now()
			}
		}
		select {
		case <-w.stop:
			return
		case <-w.hurry:
			last = w.now()
		default:
		}
		since := w.now().Sub(last)
		switch {
		case awake == 0: // the next task that reattaches has this begin again
			return
		case since < chaseSpin:
		case awake >= procs || since >= chaseFor: // a nap would keep a processor from them
			return
		default:
			w.nap(chaseNap)
		}
	}
}

// napFor is time.Sleep, which takes a millisecond on an idle processor.
func napFor(d time.Duration) {
	nap := syscall.NsecToTimespec(int64(d))
	syscall.Nanosleep(&nap, nil)
}

// detach takes l from the task of that step if it waits natively; with knownSlow only where tasks
// have waited for long before.
func (w *watchdog) detach(l *Loop, step uint64, knownSlow bool) bool {
	if !l.detachable() {
		return false
	}
	d := w.claim(l, step, knownSlow)
	if d == nil {
		return false
	}
	go d.standIn()
	return true
}

// claim takes l from the task that runs on it, if that waits natively. It returns nil if the task does not, or can't be
// detached.
func (w *watchdog) claim(l *Loop, step uint64, knownSlow bool) *detachment {
	g := uintptr(coro.Peek(uintptr(unsafe.Pointer(&l.curG))))
	if g == 0 {
		return nil
	}
	if at := w.native.look(g); at == nil || knownSlow && at.score.Load() <= 0 { // most often; this costs the others nothing
		return nil
	}
	atomic.StoreUintptr(&l.entered, 0)
	barrier()
	if coro.Peek(uintptr(unsafe.Pointer(&l.switches))) != step || !l.runsTask() {
		return nil
	}
	place := w.native.look(g)
	if place == nil || int(l.away.now.Load()) >= w.rt.cfg.DetachLimit {
		return nil
	}
	d := &detachment{l: l, g: g, place: place, since: w.rt.Now(), role: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.register()
	if !atomic.CompareAndSwapUintptr(&l.curG, g, 0) {
		d.unregister()
		return nil
	}
	barrier()
	if atomic.LoadUintptr(&l.entered) != 0 || w.native.look(g) != place {
		// If g has entered it may have switched already; then curG is not 0 any more.
		atomic.CompareAndSwapUintptr(&l.curG, 0, g)
		d.unregister()
		return nil
	}
	// From here on only the caller runs on l.
	if l.cur == nil || l.cur.worker == nil || l.curG != 0 || l.cur.worker.g != g || !w.native.mayLeave(l.cur.worker, place.linked) {
		atomic.StoreUintptr(&l.curG, g)
		d.unregister()
		return nil
	}
	d.t = l.cur
	d.detached = true
	if !knownSlow && place.score.Load() <= 0 {
		place.score.Store(1) // it has lasted
	}
	return d
}

// standIn takes the part of the goroutine of d, and gives it back when the task is picked.
func (d *detachment) standIn() {
	l, party := d.l, &d.t.worker.Party
	// The switch to the task makes this goroutine curG. The detached goroutine must not find itself
	// there before it is reattached.
	d.t.worker.g = coro.G()
	l.switches++
	l.cur = nil
	l.curG = l.g
	l.away.leaving = d
	coro.Switch(party, &l.party)
	for t := d.t; !d.back; { // a shutdown has made it ready, or a Wake that came early
		if l.rec != nil {
			l.rec.Resume(&t.rec, t.worker.note)
			l.recordNative(d)
		}
		t.state = stateParked
		l.switchTo(party, nil)
	}
	l.away.now.Add(-1)
	d.t.worker.g = d.g
	l.curG = d.g
	d.role <- struct{}{}
}

// noteDetached is called on the loop's own goroutine when a stand-in has switched to it.
func (l *Loop) noteDetached() {
	d := l.away.leaving
	l.away.leaving = nil
	l.away.now.Add(1)
	l.away.total.Add(1)
	t := d.t
	t.extend().detached++
	t.why, t.on, t.fixed = ReasonNative, d, true
	t.state = stateParked
	if l.rec != nil {
		t.recorded = true
		l.recordNative(d)
		if l.rec.NeedsStack() {
			l.rec.ReadHeap()
		}
		if l.entry.bottlenecks != nil {
			l.waitBegins(t)
		}
	}
	if t.notified {
		l.makeReady(t)
	}
	if l.manyAway() && l.rt.watch.mayReport() {
		l.rt.log.Warn("task: many tasks wait natively at once; newcomers wait at the entrances, and at the limit the loop waits, too",
			"loop", l.index, "away", l.away.now.Load(), "limit", l.rt.cfg.DetachLimit, "at", d.place.at)
	}
	if !d.place.told.Load() && l.rt.watch.mayReport() {
		d.place.told.Store(true)
		l.rt.log.Info("task: a task waits natively, and its loop goes on without it; where that is often, package task waits cheaper, or task.Offload (told once for each place)",
			"task", t.String(), "loop", l.index, "at", d.place.at, "after", l.rt.cfg.DetachAfter)
	}
}

// recordNative records the wait of d.
func (l *Loop) recordNative(d *detachment) {
	t, print, pcs := d.t, d.place.print, slices.Clip(d.place.pcs)
	for m := t.worker.asChunk(); m != nil; m = m.below.asChunk() { // and what has linked it
		print ^= m.print
		pcs = append(pcs, l.links.known[m.print]...)
	}
	switch note := t.worker.note; {
	case l.rec.Park(&t.rec, note, ReasonNative, print):
	case l.rec.Knows(&t.rec, print):
		l.rec.Arrive(&t.rec, note, ReasonNative)
	default:
		l.rec.Meet(&t.rec, t.worker.note, ReasonNative, print, "", pcs)
	}
}

// manyAway reports whether new work is to wait at the entrances, as three quarters of the limit of detached
// tasks are in use. The last quarter is for admitted tasks.
func (l *Loop) manyAway() bool {
	limit := int32(min(l.rt.cfg.DetachLimit, math.MaxInt32))
	return l.away.now.Load() >= limit-limit/4
}

// awayTasks returns names and places of the first detached tasks of rt, and how many there are.
func (rt *Runtime) awayTasks(first int) (some []string, n int) {
	table := detachments.table.Load()
	if table == nil {
		return nil, 0
	}
	for i := range table.entries {
		d := table.entries[i].value.Load()
		if d == nil || d.l.rt != rt {
			continue
		}
		d.mu.Lock()
		if d.detached {
			if n++; n <= first {
				some = append(some, d.t.String()+" at "+d.place.at)
			}
		}
		d.mu.Unlock()
	}
	return some, n
}

// Detachments is how often the loop was taken from the calling task because it waited natively. On a
// plain goroutine it is 0. It never parks.
func Detachments() int {
	if l := here(); l != nil && l.cur != nil {
		return int(l.cur.extra().detached)
	}
	return 0
}

// Detached is how many times a task was detached, on all loops.
func (rt *Runtime) Detached() (n uint64) {
	for _, l := range rt.loops {
		n += l.away.total.Load()
	}
	return n
}

// Detaches reports whether loops are taken from tasks that wait natively, see Config.DetachAfter.
// That takes membarrier(2), a Go release whose goroutines can be looked at, and loops that are not
// locked to threads; it is not done under the race detector.
func (rt *Runtime) Detaches() bool { return rt.WhyHeld() == "" }

// WhyHeld says why no loop is taken from a task that waits natively; "" if loops are.
func (rt *Runtime) WhyHeld() string {
	switch l := rt.loops[0]; {
	case kernel.Race:
		return "the race detector is on"
	case rt.cfg.HoldLimit < 0:
		return "the watchdog is off (WithHoldLimit)"
	case rt.cfg.DetachAfter < 0:
		return "detaching is off (WithDetaching)"
	case l.detachable():
		return ""
	}
	return "not with this Go release, kernel or processor"
}

// detachable reports whether tasks of l can be detached.
func (l *Loop) detachable() bool {
	return l.rt.cfg.DetachAfter >= 0 && !l.hub && canBarrier() && coro.CanStack()
}
