package task

import (
	"sync"
	"sync/atomic"
)

// A guard protects the fields of a synchronisation object. As long as only the tasks
// of one loop use the object, that loop owns the guard and entering it costs a load:
// tasks of one loop can't interrupt each other, and code inside a guard never parks.
// The first use from elsewhere ends this for good: the owner gives the guard up
// between two of its tasks, and from then on a sync.Mutex does the work.
//
//	        first use             use from elsewhere
//	unused ───────────▶ owned by l ──────────────────▶ shared
//	   └──────── first use by a plain goroutine ─────────▲
//
// Giving up goes through the owner's inbox, so it needs the owner to reach the end of
// its present step. The zero value is an unused guard.
type guard struct {
	owner atomic.Pointer[Loop] // nil: unused; &sharedGuard: shared
	mu    sync.Mutex           // locked inside the guard once it is shared
}

var sharedGuard Loop

// enter begins a critical section of the caller, who runs on l, nil for a plain
// goroutine. A task may park here once in the life of the guard, before the section
// begins. Nothing in the section may park.
func (g *guard) enter(l *Loop) {
	if l != nil && g.owner.Load() == l {
		return
	}
	g.enterSlow(l)
}

func (g *guard) enterSlow(l *Loop) {
	g.settle(l)
	if l == nil || g.owner.Load() != l {
		g.mu.Lock()
	}
}

// owns says that l, on which the caller runs, owns g: the caller is as good as inside.
func (g *guard) owns(l *Loop) bool { return l != nil && g.owner.Load() == l }

// exit ends a critical section.
func (g *guard) exit(l *Loop) {
	if l != nil && g.owner.Load() == l {
		return
	}
	g.exitShared()
}

//go:noinline
func (g *guard) exitShared() { g.mu.Unlock() }

// settle makes sure that the guard is shared or owned by l, so that a following enter
// does not park. Whoever must enter several guards at once settles them all first.
func (g *guard) settle(l *Loop) {
	for {
		owner := g.owner.Load()
		switch {
		case owner == &sharedGuard || owner == l && l != nil:
			return
		case owner == nil && l != nil:
			g.owner.CompareAndSwap(nil, l)
		case owner == nil:
			g.owner.CompareAndSwap(nil, &sharedGuard)
		default:
			g.revoke(owner)
		}
	}
}

// revoke makes the guard shared, which owner, another loop, must do.
func (g *guard) revoke(owner *Loop) {
	w := Self()
	defer w.Release()
	if !owner.Post(func() {
		g.owner.Store(&sharedGuard)
		w.Wake()
	}) {
		<-owner.stopped
		g.owner.Store(&sharedGuard)
		return
	}
	w.parkFully(ReasonLoop, g)
}

// withdraw says that a wait for the owner can't be given up: it ends in any case.
func (g *guard) withdraw(*Waiter) bool { return false }
