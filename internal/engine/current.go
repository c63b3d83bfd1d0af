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

// OnSoleLoop returns the loop of a process that has only one, if the caller runs on it, else nil. It is quicker than
// CurrentLoop, but callers may only read with it which task runs there.
func OnSoleLoop() *Loop {
	if l := soleLoop.Load(); l.runsCaller() {
		return l
	}
	return nil
}

// runsCaller reports whether the caller runs on l; false if l is nil. Unlike Runs it does not mark l as entered (see
// coro.Running). So a caller that only reads which task runs on l may use it; a caller that changes l calls here instead.
func (l *Loop) runsCaller() bool { return l != nil && coro.Is(&l.curG) }

// Runs reports whether the caller runs on l. Unlike CurrentLoop it does not reattach a detached task, so
// that it may be called by a task that holds a native lock.
func (l *Loop) Runs() bool { return here() == l }

// hereSlow is here for the goroutines of several loops, for plain goroutines, and for
// tasks that are locked to their thread, which it records.
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
			var fence atomic.Int32
			fence.Add(1) // what is looked up now was there when curG was read
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
// It must not look further than to the goroutine of a detached task: in the slot of that goroutine any member of the
// ring may be parked, and run the next moment.
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

// entersAs is coro.Running for a goroutine that runs in place of the goroutine with identity g.
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

// members says which goroutines belong to which loop, of whatever runtime: a goroutine that
// looks for its loop does not know yet which runtime that is of.
var members registry

// A registry maps goroutine identities to loops. A reader looks for its own goroutine, whose entry can't change
// meanwhile.
//
// The goroutines of an only loop are not in it, which spares much memory where there
// are many; when a second loop is about to come, they enroll.
type registry struct {
	identMap[Loop]

	loopsMu sync.Mutex
	loops   map[*Loop]bool // guarded by loopsMu
}

// An identMap maps goroutine identities to values. Readers take no lock: a table is only ever
// added to, or replaced as a whole. A reader may miss what is entered meanwhile.
type identMap[V any] struct {
	mu    sync.Mutex
	table atomic.Pointer[identTable[V]]
	live  int // guarded by mu: entries with a value
	used  int // guarded by mu: entries with an identity
}

// An identTable is an open-addressed hash table with 1<<bits entries, at most half full.
type identTable[V any] struct {
	shift   uint
	entries []identEntry[V]
}

type identEntry[V any] struct {
	g     atomic.Uintptr
	value atomic.Pointer[V] // nil: removed
}

func newIdentTable[V any](bits uint) *identTable[V] {
	return &identTable[V]{shift: 64 - bits, entries: make([]identEntry[V], 1<<bits)}
}

// slot returns the entry of g, or the empty one where it would stand.
func (t *identTable[V]) slot(g uintptr) *identEntry[V] {
	mask := len(t.entries) - 1
	for i := int((uint64(g) * 0x9e3779b97f4a7c15) >> t.shift); ; i = (i + 1) & mask {
		e := &t.entries[i]
		if at := e.g.Load(); at == g || at == 0 {
			return e
		}
	}
}

func (m *identMap[V]) find(g uintptr) *V {
	t := m.table.Load()
	if t == nil {
		return nil
	}
	e := t.slot(g)
	if e.g.Load() != g { // the entry is empty, or another goroutine is just filling it
		return nil
	}
	return e.value.Load()
}

// enter gives the goroutine with identity g a value.
func (m *identMap[V]) enter(g uintptr, v *V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table.Load()
	if t == nil {
		t = newIdentTable[V](6)
		m.table.Store(t)
	}
	e := t.slot(g)
	if e.g.Load() == 0 {
		if m.used++; m.used > len(t.entries)/2 {
			t = m.rebuild(t)
			e = t.slot(g)
			m.used++
		}
	}
	e.value.Store(v)
	e.g.Store(g)
	m.live++
}

// rebuild replaces t by a table without removed entries that is at most a quarter full.
func (m *identMap[V]) rebuild(t *identTable[V]) *identTable[V] {
	bits := uint(6)
	for 1<<bits < 4*(m.live+1) {
		bits++
	}
	n := newIdentTable[V](bits)
	m.used = 0
	for i := range t.entries {
		if v := t.entries[i].value.Load(); v != nil {
			g := t.entries[i].g.Load()
			e := n.slot(g)
			e.value.Store(v)
			e.g.Store(g)
			m.used++
		}
	}
	m.table.Store(n)
	return n
}

// remove takes the value of g out again.
func (m *identMap[V]) remove(g uintptr) {
	m.mu.Lock()
	m.table.Load().slot(g).value.Store(nil)
	m.live--
	m.mu.Unlock()
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
		done := make(chan struct{})
		enroll := func() { sole.enroll(); close(done) }
		if here() == sole {
			enroll()
		} else if sole.Post(enroll) { // else it has ended, and has no goroutines
			<-done
		}
	}
	for _, l := range loops {
		l.enrolled = several
		r.loops[l] = true
	}
	r.setSole()
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
