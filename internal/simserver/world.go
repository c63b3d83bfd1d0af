//go:build linux

package simserver

import (
	"container/heap"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A World is one simulation. Fields without a word are fixed.
type World struct {
	seed  uint64
	began time.Time // of the bubble's time
	kick  chan struct{}

	// clock is the time as the running loop sees it, in nanoseconds: the bubble's, and what
	// the loop has worked since it was resumed. atomic
	clock atomic.Uint64

	mu      sync.Mutex
	rnd     *rand.Rand // guarded by mu, as is all below
	aside   *rand.Rand // for goroutines beside a loop that runs
	events  eventHeap
	posted  uint64
	running *cpu
	stopped time.Duration // until when the process is stopped
	quota   quota
	cpus    []*cpu
	trace   uint64   // hash of what has happened
	steps   uint64   // events carried out
	broken  []string // what is wrong

	Net    *Network
	Disk   *Disk
	Memory *Memory
}

// A cpu is what one event loop runs on: the one that waits in an epoll set. Guarded by
// World.mu, but for resume.
type cpu struct {
	index   int
	resume  chan struct{}
	waiting bool          // in EpollWait, for events
	armed   uint64        // number of the event that ends the wait
	since   time.Duration // when it was resumed
	busy    time.Duration // time it has run in all
	reached time.Duration // when it began to wait
}

// A quota is how much processor time the process may have in each period of 100 ms, as in
// a control group (cpu.max). Guarded by World.mu.
type quota struct {
	share float64 // of one processor; 0: all there is
	from  time.Duration
	used  time.Duration
}

const quotaPeriod = 100 * time.Millisecond

// spend takes d from the quota. If that is used up, it returns when there is more.
func (q *quota) spend(now, d time.Duration) time.Duration {
	if q.share == 0 {
		return now
	}
	if now-q.from >= quotaPeriod {
		q.from, q.used = now/quotaPeriod*quotaPeriod, 0
	}
	q.used += d
	if q.used < time.Duration(q.share*float64(quotaPeriod)) {
		return now
	}
	return q.from + quotaPeriod
}

// An event is something to be done at a time: fn by the conductor, or the resumption of
// a loop.
type event struct {
	at     time.Duration
	tie    uint64 // random: the order among events of one time
	number uint64
	fn     func()
	cpu    *cpu
}

type eventHeap []*event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].tie < h[j].tie
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *eventHeap) Pop() any {
	old := *h
	n := len(old) - 1
	e := old[n]
	old[n] = nil
	*h = old[:n]
	return e
}

// newWorld makes a world from a seed, in a bubble.
func newWorld(seed uint64) *World {
	w := &World{
		seed: seed, began: time.Now(), kick: make(chan struct{}, 1),
		rnd: rand.New(rand.NewPCG(seed, 0x5eed)), aside: rand.New(rand.NewPCG(seed, 0xa51de)),
	}
	w.Net = newNetwork(w)
	w.Disk = newDisk(w)
	w.Memory = newMemory(w)
	return w
}

// Since is the bubble's time.
func (w *World) since() time.Duration { return time.Since(w.began) }

// Now implements engine.Clock: the time as the running loop sees it, and the bubble's for
// all others.
func (w *World) Now() time.Duration {
	return max(time.Duration(w.clock.Load()), w.since())
}

// post has the conductor do fn at a time. The caller holds mu.
func (w *World) post(at time.Duration, fn func()) {
	w.push(&event{at: at, fn: fn})
}

func (w *World) push(e *event) *event {
	w.posted++
	e.number = w.posted
	if e.cpu == nil {
		e.tie = w.draw().Uint64()
	} else { // it may be pushed while several loops start, in any order
		e.tie = w.seed ^ (uint64(e.at)<<8+uint64(e.cpu.index)+1)*0x9e3779b97f4a7c15
	}
	heap.Push(&w.events, e)
	select {
	case w.kick <- struct{}{}:
	default:
	}
	return e
}

// At has the conductor do fn at a time, or at once if that is past.
func (w *World) At(at time.Duration, fn func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.post(at, fn)
}

// After is At, from now on.
func (w *World) After(d time.Duration, fn func()) { w.At(w.Now()+d, fn) }

// note adds to the trace by which two runs are compared. The caller holds mu.
func (w *World) note(what string, values ...uint64) {
	h := fnv.New64a()
	var b [8]byte
	add := func(v uint64) {
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		h.Write(b[:])
	}
	add(w.trace)
	h.Write([]byte(what))
	for _, v := range values {
		add(v)
	}
	w.trace = h.Sum64()
}

// Drive carries out events until done, which is called between two of them, returns true.
func (w *World) Drive(done func() bool) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	synctest.Wait()
	for !done() {
		w.mu.Lock()
		now := w.since()
		next := time.Hour
		if len(w.events) > 0 {
			next = max(w.events[0].at-now, 0)
		}
		if next > 0 {
			w.mu.Unlock()
			timer.Reset(next)
			select {
			case <-timer.C:
			case <-w.kick:
			}
			synctest.Wait() // timers of others that are due now
			continue
		}
		e := heap.Pop(&w.events).(*event)
		if e.cpu == nil {
			w.clock.Store(uint64(now))
			w.steps++
			w.mu.Unlock()
			e.fn()
			continue
		}
		w.resume(e, now)
	}
}

// resume lets the loop of e run until it waits again. The caller holds mu, which is
// unlocked.
func (w *World) resume(e *event, now time.Duration) {
	c := e.cpu
	if c.armed != e.number { // it has been resumed by something else
		w.mu.Unlock()
		return
	}
	if may := max(w.stopped, w.quota.spend(now, 0)); now < may {
		c.armed = w.push(&event{at: may, cpu: c}).number
		w.mu.Unlock()
		return
	}
	w.steps++
	w.note("run", uint64(c.index), uint64(now))
	w.running, c.armed, c.waiting, c.since = c, 0, false, now
	w.clock.Store(uint64(now))
	w.mu.Unlock()
	c.resume <- struct{}{}
	synctest.Wait()
	w.mu.Lock()
	w.running = nil
	w.mu.Unlock()
}

// beside reports whether the caller is neither the conductor nor the loop that runs, but a
// goroutine that runs beside that. What it does must not depend on how far the loop is.
// The caller holds mu.
func (w *World) beside() bool { return w.running != nil && engine.CurrentLoop() == nil }

// draw is the source of random numbers for the caller, and now is its time. The caller
// holds mu.
func (w *World) draw() *rand.Rand {
	if w.beside() {
		return w.aside
	}
	return w.rnd
}

func (w *World) now() time.Duration {
	if w.beside() {
		return w.since()
	}
	return w.Now()
}

// charge records that the running loop has worked for d. The caller holds mu.
func (w *World) charge(d time.Duration) {
	if w.running != nil && !w.beside() {
		w.clock.Add(uint64(d))
	}
}

// pay has the loop of c, which is the caller's, go on at the time that it has reached by its
// work. The caller holds mu before and after.
func (w *World) pay(c *cpu) {
	if w.running != c {
		return
	}
	until := time.Duration(w.clock.Load())
	c.busy += until - c.since
	w.quota.spend(until, until-c.since)
	c.armed = w.push(&event{at: until, cpu: c}).number
	w.mu.Unlock()
	<-c.resume
	w.mu.Lock()
}

// quantum is how far a loop may be ahead of the rest of the world while it goes on.
const quantum = 10 * time.Microsecond

// Work is what handlers call to use the processor for d. It does not park: the loop is
// busy meanwhile.
func (w *World) Work(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.running
	if c == nil || w.beside() {
		return // the processor time of other goroutines is not simulated
	}
	w.charge(d)
	w.pay(c)
}

// wait ends when the loop of c is woken, or the timeout has passed; below 0 there is none.
// The caller holds mu before and after.
func (w *World) wait(c *cpu, timeout time.Duration) {
	if w.running == c {
		now := time.Duration(w.clock.Load())
		c.busy += now - c.since
		w.quota.spend(now, now-c.since)
	}
	c.waiting, c.armed, c.reached = true, 0, w.Now()
	if timeout >= 0 {
		c.armed = w.push(&event{at: w.Now() + timeout, cpu: c}).number
	}
	w.mu.Unlock()
	<-c.resume
	w.mu.Lock()
}

// wake ends the wait of c soon, if it waits. The caller holds mu.
func (w *World) wake(c *cpu) {
	if !c.waiting {
		return
	}
	c.waiting = false
	latency := time.Duration(1000 + w.draw().IntN(20_000)) // to get a processor
	c.armed = w.push(&event{at: max(w.now(), c.reached) + latency, cpu: c}).number
}

// SetQuota gives the process a share of one processor; 0: it has all of them.
func (w *World) SetQuota(share float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.quota.share = share
}

// Stop stops the process for d, as SIGSTOP does: the clock goes on, and so do the clients
// and the kernel.
func (w *World) Stop(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = max(w.stopped, w.Now()+d)
	w.note("stop", uint64(w.stopped))
}

// held returns when the process is not stopped.
func (w *World) held() {
	w.mu.Lock()
	until := w.stopped
	w.mu.Unlock()
	if d := until - w.since(); d > 0 {
		time.Sleep(d)
	}
}

// Busy is how long all loops together have run.
func (w *World) Busy() (sum time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.cpus {
		sum += c.busy
	}
	return sum
}
