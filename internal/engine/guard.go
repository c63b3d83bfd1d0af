package engine

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// A Guard protects the fields of a synchronisation object. As long as only the tasks
// of one loop use the object, that loop owns the guard and entering it costs two plain
// stores and a load: tasks of one loop can't interrupt each other, and code inside a
// guard never parks. The first use from elsewhere ends this for good; from then on a
// sync.Mutex does the work.
//
//	        first use             use from elsewhere
//	unused ───────────▶ owned by l ──────────────────▶ revoked ──▶ shared
//	   └──────── first use by a plain goroutine ────────────────────▲
//
// The owner says in Loop.inside which guard it is in, and then looks whether it still owns it; the revoker changes the
// owner and then looks whether it is inside. Each must see the other's store. That takes a memory barrier on both
// sides, but the owner's, which would cost as much as an atomic operation, is made for it by the revoker, with
// membarrier(2): an asymmetric Dekker lock. Where membarrier can't be had, and under the race detector, which can't
// follow this, the owner is asked through its inbox to give the guard up between two of its tasks; only there may a
// task park in Enter, once in the life of the guard. guard_test.go tries every order of steps.
//
// Nothing inside a guard may park, panic or enter another guard; see Guards. The zero
// value is an unused guard.
type Guard struct {
	owner atomic.Pointer[Loop] // nil: unused; or one of the two below
	mu    sync.Mutex           // locked inside the guard once it is shared
}

var (
	sharedGuard  Loop // the owner of guards that are shared
	revokedGuard Loop // the owner of guards whose last owner may still be inside
)

// insideAll is the value of Loop.inside in between Guards.Enter and Exit.
const insideAll = ^uintptr(0)

// hold enters the guard if l, on which the caller runs, owns it; release must follow.
func (g *Guard) hold(l *Loop) bool {
	l.inside = uintptr(unsafe.Pointer(g))
	if g.owner.Load() == l {
		return true
	}
	l.inside = 0
	return false
}

// release leaves a guard entered by hold.
func (l *Loop) release() { l.inside = 0 }

// Enter begins a critical section and returns the loop on which the caller runs, nil for a plain
// goroutine: Exit is called with that.
func (g *Guard) Enter() *Loop {
	l := here()
	g.EnterOn(l)
	return l
}

// EnterToWait is Enter for a caller that may wait after that: it reattaches a detached task first.
func (g *Guard) EnterToWait() *Loop {
	l := reattach()
	g.EnterOn(l)
	return l
}

// EnterOn is Enter for a caller that knows that it runs on l.
func (g *Guard) EnterOn(l *Loop) {
	if l == nil || !g.hold(l) {
		g.enterSlow(l)
	}
}

func (g *Guard) enterSlow(l *Loop) {
	for g.settle(l) == l && l != nil {
		if g.hold(l) {
			return
		}
	}
	g.mu.Lock()
}

// Exit ends a critical section.
func (g *Guard) Exit(l *Loop) {
	if l != nil && l.inside == uintptr(unsafe.Pointer(g)) {
		l.inside = 0
		return
	}
	g.exitShared()
}

//go:noinline
func (g *Guard) exitShared() { g.mu.Unlock() }

// settle makes sure that the guard is owned by l or shared, and returns the owner,
// which may since have been revoked.
func (g *Guard) settle(l *Loop) *Loop {
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
func (g *Guard) revoke(owner *Loop) {
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
func (g *Guard) askFor(owner *Loop) {
	w := Self()
	if !owner.Post(func() {
		g.owner.Store(&sharedGuard)
		w.Wake()
	}) {
		<-owner.end.stopped
		g.owner.Store(&sharedGuard)
		return
	}
	w.WaitFully(ReasonLoop, nil)
}

// Guards are several guards that are entered at once. All callers enter them in the same order, so there is no
// deadlock. The zero value has none.
type Guards []HeldGuard

// A HeldGuard is one of several Guards.
type HeldGuard struct {
	g      *Guard
	shared bool // its mutex is locked; between Enter and Exit
}

// With returns the guards with g, which may be among them already.
func (guards Guards) With(g *Guard) Guards {
	at, found := slices.BinarySearchFunc(guards, g, func(h HeldGuard, g *Guard) int {
		return cmp.Compare(uintptr(unsafe.Pointer(h.g)), uintptr(unsafe.Pointer(g)))
	})
	if found {
		return guards
	}
	return slices.Insert(guards, at, HeldGuard{g: g})
}

// Enter enters all; the caller runs on l, nil for a plain goroutine.
func (guards Guards) Enter(l *Loop) {
	for !guards.tryEnter(l) {
	}
	for i := range guards {
		if guards[i].shared {
			guards[i].g.mu.Lock()
		}
	}
}

// tryEnter settles all guards before it enters the first, and marks the shared guards. It reports false if a guard
// was revoked meanwhile.
func (guards Guards) tryEnter(l *Loop) bool {
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

// Exit leaves what Enter has entered.
func (guards Guards) Exit(l *Loop) {
	for _, h := range guards {
		if h.shared {
			h.g.mu.Unlock()
		}
	}
	if l != nil {
		l.inside = 0
	}
}
