package engine

import (
	"context"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/wheel"
)

// The primitives of package task are built on this package, so its tests have the least of them that they need.

// A Mutex is a lock that is handed over, see task.Mutex.
type Mutex struct {
	g             Guard
	locked        bool          // guarded by g
	owner         *Task         // guarded by g
	awaitedHolder AwaitedHolder // guarded by g
	waiters       WaiterList    // guarded by g
}

// begin locks m, or returns a Waiter that will have it.
func (m *Mutex) begin() *Waiter {
	l := m.g.EnterToWait()
	if !m.locked {
		m.locked, m.owner = true, l.Running()
		m.g.Exit(l)
		return nil
	}
	w, o := SelfOn(l), m.owner
	m.awaitedHolder.Set(o)
	m.waiters.Push(w)
	m.g.Exit(l)
	o.Hasten(l)
	return w
}

func (m *Mutex) Lock() {
	if w := m.begin(); w != nil {
		w.WaitFully(ReasonMutex, (*mutexPoint)(m))
	}
}

func (m *Mutex) LockContext(ctx context.Context) error {
	return TakeUnder(ctx, func(ctx context.Context) error {
		if w := m.begin(); w != nil {
			return w.WaitUntil(ctx, ReasonMutex, (*mutexPoint)(m))
		}
		return nil
	}, m.Unlock)
}

func (m *Mutex) Unlock() {
	l := m.g.Enter()
	w := m.waiters.Turn(l)
	if w == nil {
		m.locked, m.owner = false, nil
		m.g.Exit(l)
		return
	}
	m.waiters.Unlink(w)
	m.owner = w.Task()
	m.settle()
	m.g.Exit(l)
	w.WakeFrom(l)
}

// settle records the awaited task. It is called inside the guard.
func (m *Mutex) settle() {
	if m.waiters.Empty() {
		m.awaitedHolder.Set(nil)
	} else {
		m.awaitedHolder.Set(m.owner)
	}
}

type mutexPoint Mutex

func (p *mutexPoint) Withdraw(w *Waiter) bool {
	m := (*Mutex)(p)
	l := m.g.Enter()
	defer m.g.Exit(l)
	defer m.settle()
	return m.waiters.Remove(w)
}

func (p *mutexPoint) HeldBy() *Task {
	l := p.g.Enter()
	defer p.g.Exit(l)
	return p.owner
}

// A WaitGroup waits for tasks, see task.WaitGroup.
type WaitGroup struct {
	mu      sync.Mutex
	count   int        // guarded by mu
	waiters WaiterList // guarded by mu
}

func (wg *WaitGroup) Add(n int) {
	wg.mu.Lock()
	var all WakeChain
	if wg.count += n; wg.count == 0 {
		all = wg.waiters.TakeAll()
	}
	wg.mu.Unlock()
	all.WakeFrom(here())
}

func (wg *WaitGroup) Done() { wg.Add(-1) }

func (wg *WaitGroup) Wait() {
	l := reattach()
	wg.mu.Lock()
	if wg.count == 0 {
		wg.mu.Unlock()
		return
	}
	w := SelfOn(l)
	wg.waiters.Push(w)
	wg.mu.Unlock()
	w.WaitFully(ReasonWaitGroup, (*waitGroupPoint)(wg))
}

func (wg *WaitGroup) Go(fn func()) {
	wg.Add(1)
	GoWith(Options{Dropped: wg.Done, Inner: fn}, func() {
		defer wg.Done()
		Outside(CallPlain, fn)
	})
}

type waitGroupPoint WaitGroup

func (p *waitGroupPoint) Withdraw(w *Waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiters.Remove(w)
}

// An expiry is called when its timer expires.
type expiry func()

func (e expiry) Expire() { e() }

// startAfter starts fn after d, on the first loop of rt, for a plain goroutine.
func startAfter(rt *Runtime, d time.Duration, fn func()) (stop func()) {
	l := rt.Loop(0)
	timer := &wheel.Timer{Of: expiry(func() { l.Start(fn) })}
	l.Post(func() { l.AddTimer(timer, After(l.Now(), d)) })
	return func() { l.Post(func() { l.RemoveTimer(timer) }) }
}
