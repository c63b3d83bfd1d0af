// Package programs runs random small programs over everything that package task offers
// and checks what must hold in all of them: locks exclude, channels neither lose nor
// double a value, no wait ends early or for no reason, every task ends as it should.
// It is a test suite: Run works on any runtime, whatever its pollers are.
package programs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/sim"
	"github.com/capriccio-go/capriccio/task"
)

// A world is what the actors of one program share.
type world struct {
	t        testing.TB
	rt       *engine.Runtime
	settle   time.Duration // rest after which the program is thought to be stuck
	locks    []lock        // taken in ascending order only
	pipes    []*pipe
	tickets  *tickets
	once     task.Once
	onces    atomic.Int32
	contexts []cancelable
	progress atomic.Int64 // operations done
	actors   task.WaitGroup
	values   atomic.Int64 // the value sent last
	timers   task.WaitGroup
	seed     uint64
	failed   atomic.Bool

	mu    sync.Mutex
	tasks []*actor // guarded by mu
}

type cancelable struct {
	ctx    context.Context
	cancel context.CancelFunc
}

func (w *world) failf(format string, args ...any) {
	if w.failed.Swap(true) {
		return // the first failure is the telling one
	}
	w.t.Errorf("program %d: %s", w.seed, fmt.Sprintf(format, args...))
}

func newWorld(t testing.TB, rt *engine.Runtime, seed uint64, rnd *rand.Rand) *world {
	w := &world{t: t, rt: rt, seed: seed, settle: 2 * time.Millisecond, tickets: newTickets()}
	if _, simulated := rt.Loop(0).Poller().(*sim.Poller); simulated {
		w.settle = time.Second
	}
	for range 1 + rnd.IntN(4) {
		switch rnd.IntN(3) {
		case 0:
			w.locks = append(w.locks, &mutexLock{})
		case 1:
			w.locks = append(w.locks, &rwLock{})
		case 2:
			size := 1 + rnd.Int64N(4)
			w.locks = append(w.locks, &semLock{size: size, s: task.NewSemaphore(size)})
		}
	}
	for range 1 + rnd.IntN(3) {
		w.pipes = append(w.pipes, newPipe(rnd.IntN(3)))
	}
	for range rnd.IntN(3) {
		ctx, cancel := context.WithCancel(context.Background())
		w.contexts = append(w.contexts, cancelable{ctx, cancel})
	}
	return w
}

// run lets the actors act until nothing moves any more, then closes what they wait for,
// and checks what is left when all have ended. It is called by a task.
func (w *world) run() {
	last := int64(-1)
	for still := 0; still < 2; {
		engine.Sleep(w.settle)
		now := w.progress.Load()
		if now == last {
			still++
		} else {
			still = 0
		}
		last = now
	}
	for _, p := range w.pipes {
		p.c.Close()
	}
	w.tickets.close()
	w.actors.Wait()
	w.timers.Wait()
	w.mu.Lock()
	tasks := w.tasks
	w.mu.Unlock()
	for _, a := range tasks {
		a.checkEnd(a.task.Join())
	}
	for i, l := range w.locks {
		if !l.free() {
			w.failf("lock %d (%T) is still held", i, l)
		}
	}
	for i, p := range w.pipes {
		if err := p.check(); err != nil {
			w.failf("channel %d: %v", i, err)
		}
	}
	if err := w.tickets.check(); err != nil {
		w.failf("%v", err)
	}
	if n := w.onces.Load(); n > 1 {
		w.failf("Once ran %d times", n)
	}
	for _, c := range w.contexts {
		c.cancel()
	}
}

// A lock admits so much at a time. hold is called inside, and reports whether that is all
// that is inside.
type lock interface {
	acquire(a *actor) (release func(), err error)
	free() bool
}

type mutexLock struct {
	mu     task.Mutex
	inside atomic.Int32
	count  int // guarded by mu, for the race detector
}

func (l *mutexLock) acquire(a *actor) (func(), error) {
	switch a.rnd.IntN(3) {
	case 0:
		l.mu.Lock()
	case 1:
		if err := l.mu.LockContext(context.Background()); err != nil {
			return nil, err
		}
	case 2:
		if !l.mu.TryLock() {
			return nil, errBusy
		}
	}
	if n := l.inside.Add(1); n != 1 {
		a.w.failf("%d inside a Mutex", n)
	}
	l.count++
	return func() { l.inside.Add(-1); l.mu.Unlock() }, nil
}

func (l *mutexLock) free() bool { return l.mu.TryLock() }

type rwLock struct {
	rw     task.RWMutex
	inside atomic.Int32 // readers, and 1000 for a writer
	count  int          // guarded by rw
}

func (l *rwLock) acquire(a *actor) (func(), error) {
	try := a.rnd.IntN(4) == 0
	if a.rnd.IntN(3) == 0 {
		if try && !l.rw.TryLock() {
			return nil, errBusy
		} else if !try {
			l.rw.Lock()
		}
		if n := l.inside.Add(1000); n != 1000 {
			a.w.failf("%d inside an RWMutex beside a writer", n-1000)
		}
		l.count++
		return func() { l.inside.Add(-1000); l.rw.Unlock() }, nil
	}
	if try && !l.rw.TryRLock() {
		return nil, errBusy
	} else if !try {
		l.rw.RLock()
	}
	if n := l.inside.Add(1); n >= 1000 {
		a.w.failf("a reader inside an RWMutex beside a writer")
	}
	_ = l.count
	return func() { l.inside.Add(-1); l.rw.RUnlock() }, nil
}

func (l *rwLock) free() bool { return l.rw.TryLock() }

type semLock struct {
	size   int64
	s      *task.Semaphore
	inside atomic.Int64
}

func (l *semLock) acquire(a *actor) (func(), error) {
	n := 1 + a.rnd.Int64N(l.size)
	if a.rnd.IntN(3) == 0 {
		if !l.s.TryAcquire(n) {
			return nil, errBusy
		}
	} else if err := l.s.Acquire(n); err != nil {
		return nil, err
	}
	if in := l.inside.Add(n); in > l.size {
		a.w.failf("%d units of a Semaphore of %d taken", in, l.size)
	}
	return func() { l.inside.Add(-n); l.s.Release(n) }, nil
}

func (l *semLock) free() bool { return l.s.TryAcquire(l.size) }

var errBusy = errors.New("busy")

// A pipe is a channel with accounts of what went in and what came out.
type pipe struct {
	c   *task.Chan[int64]
	mu  sync.Mutex
	in  map[int64]int // guarded by mu
	out map[int64]int // guarded by mu
}

func newPipe(capacity int) *pipe {
	return &pipe{c: task.NewChan[int64](capacity), in: map[int64]int{}, out: map[int64]int{}}
}

func (p *pipe) sent(v int64)     { p.mu.Lock(); p.in[v]++; p.mu.Unlock() }
func (p *pipe) received(v int64) { p.mu.Lock(); p.out[v]++; p.mu.Unlock() }

func (p *pipe) check() error {
	for v := range p.c.All() {
		p.received(v)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for v, n := range p.out {
		if n != 1 || p.in[v] != 1 {
			return fmt.Errorf("value %d was received %d times and sent %d times", v, n, p.in[v])
		}
	}
	if len(p.in) != len(p.out) {
		return fmt.Errorf("%d values sent, %d received", len(p.in), len(p.out))
	}
	return nil
}

// tickets is a counter under a Mutex and a Cond.
type tickets struct {
	mu     task.Mutex
	cond   *task.Cond
	n      int  // guarded by mu
	made   int  // guarded by mu
	taken  int  // guarded by mu
	closed bool // guarded by mu
}

func newTickets() *tickets {
	k := &tickets{}
	k.cond = task.NewCond(&k.mu)
	return k
}

func (k *tickets) add(all bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	k.made++
	if all {
		k.cond.Broadcast()
	} else {
		k.cond.Signal()
	}
}

func (k *tickets) take(cancelable bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.n == 0 && !k.closed {
		if !cancelable {
			k.cond.Wait()
		} else if err := k.cond.WaitContext(context.Background()); err != nil {
			return err
		}
	}
	if k.n > 0 {
		k.n--
		k.taken++
	}
	return nil
}

func (k *tickets) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	k.cond.Broadcast()
}

func (k *tickets) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made != k.taken+k.n {
		return fmt.Errorf("tickets: %d made, %d taken, %d left", k.made, k.taken, k.n)
	}
	return nil
}
