package engine

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A guard protects the fields of a synchronisation object. As long as only the tasks
// of one loop use the object, that loop owns the guard and entering it costs two plain
// stores and a load: tasks of one loop can't interrupt each other, and code inside a
// guard never parks. The first use from elsewhere ends this for good; from then on a
// sync.Mutex does the work.
//
//	        first use             use from elsewhere
//	unused ───────────▶ owned by l ──────────────────▶ revoked ──▶ shared
//	   └──────── first use by a plain goroutine ────────────────────▲
//
// The owner says in Loop.inside which guard it is in, and then looks whether it still
// owns it; the revoker changes the owner and then looks whether it is inside. Each must
// see the other's store. That takes a memory barrier on both sides, but the owner's,
// which would cost as much as an atomic operation, is made for it by the one that
// revokes, with membarrier(2): an asymmetric Dekker lock. Where membarrier can't be
// had, and under the race detector, which can't follow this, the owner is asked through
// its inbox to give the guard up between two of its tasks; only there may a task park
// in enter, once in the life of the guard.
//
// Nothing inside a guard may park, panic or enter another guard; see enterAll. The zero
// value is an unused guard.
type guard struct {
	owner atomic.Pointer[Loop] // nil: unused; or one of the two below
	mu    sync.Mutex           // locked inside the guard once it is shared
}

var (
	sharedGuard  Loop // the owner of guards that are shared
	revokedGuard Loop // the owner of guards whose last owner may still be inside
)

// insideAll is the value of Loop.inside in between enterAll and exitAll.
const insideAll = ^uintptr(0)

// hold enters the guard if l, on which the caller runs, owns it; release must follow.
func (g *guard) hold(l *Loop) bool {
	l.inside = uintptr(unsafe.Pointer(g))
	if g.owner.Load() == l {
		return true
	}
	l.inside = 0
	return false
}

// release leaves a guard entered by hold.
func (l *Loop) release() { l.inside = 0 }

// enter begins a critical section of the caller, which runs on l, nil for a plain
// goroutine.
func (g *guard) enter(l *Loop) {
	if l == nil || !g.hold(l) {
		g.enterSlow(l)
	}
}

func (g *guard) enterSlow(l *Loop) {
	for g.settle(l) == l && l != nil {
		if g.hold(l) {
			return
		}
	}
	g.mu.Lock()
}

// exit ends a critical section.
func (g *guard) exit(l *Loop) {
	if l != nil && l.inside == uintptr(unsafe.Pointer(g)) {
		l.inside = 0
		return
	}
	g.exitShared()
}

//go:noinline
func (g *guard) exitShared() { g.mu.Unlock() }

// settle makes sure that the guard is owned by l or shared, and returns the owner,
// which may since have been revoked.
func (g *guard) settle(l *Loop) *Loop {
	for {
		owner := g.owner.Load()
		switch {
		case owner == &sharedGuard || owner == l && l != nil:
			return owner
		case owner == nil && l != nil:
			g.owner.CompareAndSwap(nil, l)
		case owner == nil:
			g.owner.CompareAndSwap(nil, &sharedGuard)
		case owner == &revokedGuard:
			runtime.Gosched()
		case canBarrier():
			g.revoke(owner)
		default:
			g.askFor(owner)
		}
	}
}

// revoke makes the guard shared, which owner, another loop, does not notice.
func (g *guard) revoke(owner *Loop) {
	if !g.owner.CompareAndSwap(owner, &revokedGuard) {
		return
	}
	barrier()
	for {
		in := uintptr(coro.Peek(uintptr(unsafe.Pointer(&owner.inside))))
		if in != uintptr(unsafe.Pointer(g)) && in != insideAll {
			break
		}
		runtime.Gosched()
	}
	barrier() // what owner has written inside is visible, also on arm64
	g.owner.Store(&sharedGuard)
}

// askFor gets owner, another loop, to make the guard shared.
func (g *guard) askFor(owner *Loop) {
	w := Self()
	if !owner.Post(func() {
		g.owner.Store(&sharedGuard)
		w.Wake()
	}) {
		<-owner.stopped
		g.owner.Store(&sharedGuard)
		return
	}
	w.waitFully(ReasonLoop, nil)
}

// A heldGuard is a guard inside of enterAll.
type heldGuard struct {
	g      *guard
	shared bool // its mutex is locked
}

// enterAll enters several different guards, given in the order of their addresses.
func enterAll(l *Loop, guards []heldGuard) {
	for !tryEnterAll(l, guards) {
	}
	for i := range guards {
		if guards[i].shared {
			guards[i].g.mu.Lock()
		}
	}
}

// tryEnterAll settles the guards, all before the first is entered, and marks those that
// are shared. It fails if one is revoked meanwhile.
func tryEnterAll(l *Loop, guards []heldGuard) bool {
	for _, h := range guards {
		h.g.settle(l)
	}
	if l != nil {
		l.inside = insideAll
	}
	for i := range guards {
		owner := guards[i].g.owner.Load()
		guards[i].shared = owner == &sharedGuard
		if !guards[i].shared && (l == nil || owner != l) {
			if l != nil {
				l.inside = 0
			}
			return false
		}
	}
	return true
}

// exitAll leaves what enterAll has entered.
func exitAll(l *Loop, guards []heldGuard) {
	for _, h := range guards {
		if h.shared {
			h.g.mu.Unlock()
		}
	}
	if l != nil {
		l.inside = 0
	}
}
