package engine

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// here returns the loop on which the caller runs, as a task or as the loop's own
// goroutine; nil on a plain goroutine.
func here() *Loop {
	if l := soleLoop.Load(); l != nil && coro.RunsFree(&l.curG) {
		return l
	}
	return hereSlow()
}

// Runs reports whether the caller runs on l, as CurrentLoop does. But a task that has waited
// natively and is away from its loop does not come back for that: it may be called by those that hold
// a lock.
func (l *Loop) Runs() bool { return here() == l }

// hereSlow is here for the goroutines of several loops, for plain goroutines, and for
// tasks that are locked to their thread, of which it leaves a note.
func hereSlow() *Loop {
	g := coro.G()
	for {
		claims := detachments.claims.Load()
		l := soleLoop.Load()
		if l == nil {
			l = members.find(g)
		}
		s := coro.State(0)
		if l != nil {
			s = coro.Running(&l.curG)
		}
		if s&coro.Here == 0 {
			if away, claimed := isAway(g); away {
				return nil
			} else if claimed { // and not detached after all
				continue
			}
			if l = pulledBy(g); l != nil {
				s = coro.Running(&l.curG)
			}
		}
		if l != nil && s&coro.ThreadLocked != 0 {
			l.lockSeen = true
		}
		if l != nil || detachments.claims.Load() == claims { // while a claim stands curG is 0
			return l
		}
	}
}

// maxPulls is how many iter.Pulls may be nested in a task.
const maxPulls = 64

// pulledBy returns the loop of the task that waits in the next or stop of an iter.Pull for
// the goroutine g, the caller, nil if there is none. Such a goroutine runs for the task: when
// it waits, it is parked in the task's place (see coro.Switch), and when the wait is over it
// is what is resumed. l.curG remains that of the task's own goroutine.
//
// It must not look further than to a task's goroutine that is away from its loop: in the slot of
// that one any member of the ring may be parked, and run the next moment.
func pulledBy(g uintptr) *Loop {
	for range maxPulls {
		if g = coro.Puller(g); g == 0 {
			return nil
		}
		if away, _ := isAway(g); away {
			return nil
		}
		l := soleLoop.Load()
		if l == nil {
			l = members.find(g)
		}
		if l != nil && l.entersAs(g) {
			if l.hub {
				panic("task: a wait inside of an iter.Pull needs direct switches between tasks, which are off (Config.NoHandOver)")
			}
			return l
		}
	}
	return nil
}

// entersAs is what coro.Running does, for a goroutine that runs for that with identity g.
func (l *Loop) entersAs(g uintptr) bool {
	if uintptr(coro.Peek(uintptr(unsafe.Pointer(&l.curG)))) != g {
		return false
	}
	atomic.StoreUintptr(&l.entered, 1)
	return uintptr(coro.Peek(uintptr(unsafe.Pointer(&l.curG)))) == g
}

// soleLoop is the loop of a process that has only one; nil if there are none or
// several. It spares the look-up in members.
var soleLoop atomic.Pointer[Loop]

// members says which goroutines belong to which loop.
var members registry

// A registry maps goroutine identities to loops. Readers take no lock: a table is
// only ever added to, or replaced as a whole. A reader looks for itself, and that can't
// change meanwhile.
//
// The goroutines of an only loop are not in it, which spares much memory where there
// are many; when a second loop is about to come, they enroll.
type registry struct {
	mu    sync.Mutex
	table atomic.Pointer[identTable]
	live  int // guarded by mu: entries with a loop
	used  int // guarded by mu: entries with an identity

	loopsMu sync.Mutex
	loops   map[*Loop]bool // guarded by loopsMu
}

// An identTable is an open-addressed hash table with 1<<bits entries, at most half full.
type identTable struct {
	shift   uint
	entries []identEntry
}

type identEntry struct {
	g    atomic.Uintptr
	loop atomic.Pointer[Loop] // nil: removed
}

func newIdentTable(bits uint) *identTable {
	return &identTable{shift: 64 - bits, entries: make([]identEntry, 1<<bits)}
}

// slot returns the entry of g, or the empty one where it would stand.
func (t *identTable) slot(g uintptr) *identEntry {
	mask := len(t.entries) - 1
	for i := int((uint64(g) * 0x9e3779b97f4a7c15) >> t.shift); ; i = (i + 1) & mask {
		e := &t.entries[i]
		if at := e.g.Load(); at == g || at == 0 {
			return e
		}
	}
}

func (r *registry) find(g uintptr) *Loop {
	t := r.table.Load()
	if t == nil {
		return nil
	}
	e := t.slot(g)
	if e.g.Load() != g { // the entry is empty, or somebody else is just entering it
		return nil
	}
	return e.loop.Load()
}

// enter says that the goroutine with identity g, the caller, belongs to l.
func (r *registry) enter(g uintptr, l *Loop) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.table.Load()
	if t == nil {
		t = newIdentTable(6)
		r.table.Store(t)
	}
	e := t.slot(g)
	if e.g.Load() == 0 {
		if r.used++; r.used > len(t.entries)/2 {
			t = r.rebuild(t)
			e = t.slot(g)
			r.used++
		}
	}
	e.g.Store(g)
	e.loop.Store(l)
	r.live++
}

// rebuild replaces t by a table without removed entries that is at most a quarter full.
func (r *registry) rebuild(t *identTable) *identTable {
	bits := uint(6)
	for 1<<bits < 4*(r.live+1) {
		bits++
	}
	n := newIdentTable(bits)
	r.used = 0
	for i := range t.entries {
		if l := t.entries[i].loop.Load(); l != nil {
			g := t.entries[i].g.Load()
			e := n.slot(g)
			e.loop.Store(l)
			e.g.Store(g)
			r.used++
		}
	}
	r.table.Store(n)
	return n
}

// remove takes the identity of the caller out again.
func (r *registry) remove(g uintptr) {
	r.mu.Lock()
	r.table.Load().slot(g).loop.Store(nil)
	r.live--
	r.mu.Unlock()
}

// addLoops prepares for loops that are about to start. If there is an only loop, this
// waits until it has come to the end of its present step.
func (r *registry) addLoops(loops []*Loop) {
	r.loopsMu.Lock()
	defer r.loopsMu.Unlock()
	if r.loops == nil {
		r.loops = make(map[*Loop]bool)
	}
	several := len(r.loops)+len(loops) > 1
	if sole := soleLoop.Load(); several && sole != nil {
		sole.enrollSoon()
	}
	for _, l := range loops {
		l.enrolled = several
		r.loops[l] = true
	}
	r.setSole()
}

// enrollSoon waits until the goroutines of l have enrolled. If l has ended there are
// none.
func (l *Loop) enrollSoon() {
	if here() == l {
		l.enroll()
		return
	}
	done := make(chan struct{})
	if l.Post(func() {
		l.enroll()
		close(done)
	}) {
		<-done
	}
}

// removeLoop is called when l and its workers have ended.
func (r *registry) removeLoop(l *Loop) {
	r.loopsMu.Lock()
	defer r.loopsMu.Unlock()
	delete(r.loops, l)
	r.setSole()
}

func (r *registry) setSole() {
	soleLoop.Store(nil)
	if len(r.loops) == 1 {
		for only := range r.loops {
			soleLoop.Store(only)
		}
	}
}
