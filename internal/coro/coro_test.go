package coro

import (
	"flag"
	"iter"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var seed = flag.Uint64("seed", 0, "seed of the random schedules; 0 picks one")

func newRand(t *testing.T) *rand.Rand { return testenv.Rand(t, *seed) }

// A ring is the smallest user of the package: members switch to random members.
type ring struct {
	t       *testing.T
	loop    Party
	rnd     *rand.Rand
	cur     *Party
	members []*member
	left    int // switches still to do
	dead    int
	closing bool
}

type member struct {
	Coro
	r    *ring
	id   int
	runs int
	gone bool
}

func (r *ring) add() *member {
	m := &member{r: r, id: len(r.members)}
	m.Init(m.run)
	r.members = append(r.members, m)
	return m
}

func (r *ring) switchTo(from, to *Party) {
	if from == to {
		return
	}
	r.cur = to
	Switch(from, to)
	if r.cur != from && !r.closing {
		r.t.Errorf("resumed %p while %p should run", from, r.cur)
	}
}

func (r *ring) pick() *Party {
	for {
		i := r.rnd.IntN(len(r.members) + 1)
		if i == len(r.members) {
			return &r.loop
		}
		if !r.members[i].gone {
			return &r.members[i].Party
		}
	}
}

func (m *member) run(yield func(struct{}) bool) {
	m.Enter(yield)
	r := m.r
	normal := false
	defer func() {
		m.gone = true
		r.dead++
		if normal {
			return
		}
		// Goexit while the ring lives.
		n := r.add()
		r.cur = &n.Party
		m.Leave(&n.Party, true)
	}()
	for !r.closing {
		m.runs++
		r.left--
		switch {
		case r.left <= 0:
			r.switchTo(&m.Party, &r.loop)
		case r.rnd.IntN(20) == 0:
			runtime.Goexit()
		case r.rnd.IntN(20) == 0 && len(r.members)-r.dead > 1:
			to := r.pick()
			if to == &m.Party {
				continue
			}
			r.cur = to
			m.Leave(to, false)
			normal = true
			return
		default:
			r.switchTo(&m.Party, r.pick())
		}
	}
	normal = true
}

func (r *ring) close() {
	r.closing = true
	for i := 0; i < len(r.members); i++ { // more may come meanwhile
		if m := r.members[i]; !m.gone {
			Switch(&r.loop, &m.Party)
			i = -1
		}
	}
}

func TestRandomSwitchesLeaveNothing(t *testing.T) {
	rnd := newRand(t)
	before := runtime.NumGoroutine()
	for range testenv.Rounds(15, 50) {
		r := &ring{t: t, rnd: rnd, left: 5000}
		for range 1 + rnd.IntN(100) {
			r.add()
		}
		for r.left > 0 {
			if to := r.pick(); to != &r.loop {
				r.switchTo(&r.loop, to)
			}
		}
		r.close()
	}
	testenv.WaitGoroutines(t, before)
}

func TestCheck(t *testing.T) {
	before := runtime.NumGoroutine()
	testenv.Check(t, Check())
	testenv.WaitGoroutines(t, before)
}

func TestGoexitWithLoopInOwnSlot(t *testing.T) {
	before := runtime.NumGoroutine()
	var loop Party
	var first, second Coro
	ran := false
	first.Init(func(yield func(struct{}) bool) {
		first.Enter(yield)
		defer func() { first.Leave(&second.Party, true) }()
		runtime.Goexit()
	})
	second.Init(func(yield func(struct{}) bool) {
		second.Enter(yield)
		ran = true
		Switch(&second.Party, &loop)
	})
	Switch(&loop, &first.Party)
	testenv.Equal(t, ran, true, "the successor ran")
	Switch(&loop, &second.Party)
	testenv.WaitGoroutines(t, before)
}

// The ring of a runtime without direct switches does not lean on how functions of
// different types are called.
func TestPlainCoroutines(t *testing.T) {
	cast := asEnds
	defer func() { asEnds = cast }()
	asEnds = func(func() (struct{}, bool), func(struct{}) bool) (n, y func() bool) {
		panic("the ends of a plain coroutine were given another type")
	}
	before := runtime.NumGoroutine()
	var loop Party
	var members [3]Coro
	closing, ran := false, 0
	for i := range members {
		c := &members[i]
		c.InitPlain(func(yield func(struct{}) bool) {
			c.Enter(yield)
			for !closing {
				ran++
				Switch(&c.Party, &loop)
			}
		})
	}
	for range 10 {
		for i := range members {
			Switch(&loop, &members[i].Party)
		}
	}
	closing = true
	for i := range members {
		Switch(&loop, &members[i].Party)
	}
	testenv.Equal(t, ran, 30, "they ran N times")
	testenv.WaitGoroutines(t, before)
}
func TestIdentity(t *testing.T) {
	words := [2]uintptr{G()}
	g := words[0]
	testenv.MustEqual(t, g != 0, true, "there is a G")
	testenv.MustEqual(t, G(), g, "G a second time")
	testenv.Equal(t, Running(&words[0])&Here, Here, "Running of the own identity")
	testenv.Equal(t, words[1], 1, "the word after it")
	words[1] = 0
	other := make(chan [2]uintptr)
	go func() { other <- [2]uintptr{G(), uintptr(Running(&words[0]))} }()
	if o := <-other; o[0] == g || o[1] != 0 || words[1] != 0 {
		t.Errorf("another goroutine: G() = %#x (here %#x), Running = %v", o[0], g, o[1])
	}
}

func TestThreadLockedIsSeen(t *testing.T) {
	if !Exact {
		t.Skip("the portable stubs do not know the thread lock")
	}
	g := [2]uintptr{G()}
	testenv.MustEqual(t, Running(&g[0])&ThreadLocked, 0, "locked before LockOSThread")
	runtime.LockOSThread()
	locked := Running(&g[0])
	runtime.UnlockOSThread()
	if locked&ThreadLocked == 0 {
		t.Error("not seen as locked after LockOSThread")
	}
	testenv.Equal(t, Running(&g[0])&ThreadLocked, 0, "locked after UnlockOSThread")
}

//go:noinline
func pathA(base uintptr) uint64 { return leaf(base) }

//go:noinline
func pathB(base uintptr) uint64 { return leaf(base) }

//go:noinline
func leaf(base uintptr) uint64 { return Fingerprint(base) }

//go:noinline
func entry() uint64 { return fromEntry() }

//go:noinline
func fromEntry() uint64 { return pathA(Depth()) }

//go:noinline
func deeper(n int, base uintptr) uint64 {
	var pad [256]byte
	if n == 0 {
		return pathA(base) + uint64(pad[0])
	}
	return deeper(n-1, base) + uint64(pad[n%256])
}

func TestFingerprintFollowsCallPath(t *testing.T) {
	var a [2]uint64
	for i := range a {
		a[i] = pathA(0)
	}
	testenv.Equal(t, a[1], a[0], "the same path")
	testenv.Equal(t, pathB(0) == a[0], false, "two paths, one fingerprint")
	seen := map[uint64]int{}
	for n := range 200 { // grows, and so moves, the stack on the way
		fp := deeper(n, 0)
		if at, dup := seen[fp]; dup && n < 100 {
			t.Errorf("depth %d and %d have one fingerprint", n, at)
		}
		seen[fp] = n
	}
}

func TestFingerprintBaseCutsFrames(t *testing.T) {
	if !Exact {
		t.Skip("the portable stubs hash the whole stack")
	}
	viaA, viaB := func() uint64 { return entry() }(), entry()
	testenv.Equal(t, viaA, viaB, "a path without the frames below base")
}

func TestHeadroomShrinksWithDepth(t *testing.T) {
	if !Exact {
		t.Skip("the portable stubs do not know the stack")
	}
	var inner uintptr
	outer := Headroom()
	func() {
		var pad [200]byte
		pad[outer%200]++
		inner = Headroom() + uintptr(pad[0])*0
	}()
	testenv.AtLeast(t, outer, 1, "Headroom")
	testenv.AtMost(t, outer, 1<<30, "Headroom")
	testenv.AtMost(t, inner, outer+1<<12, "deeper call has more room: N after %d", outer)
}

func TestCyclesAdvance(t *testing.T) {
	a := Cycles()
	b := Cycles()
	testenv.AtLeast(t, b, a, "Cycles went back from %d", a)
	testenv.AtLeast(t, CyclesPerSecond(), 1e6, "CyclesPerSecond")
	testenv.AtMost(t, CyclesPerSecond(), 1e11, "CyclesPerSecond")
}

func BenchmarkSwitch(b *testing.B) {
	var loop Party
	var c Coro
	done := false
	c.Init(func(yield func(struct{}) bool) {
		c.Enter(yield)
		for !done {
			Switch(&c.Party, &loop)
		}
	})
	for b.Loop() {
		Switch(&loop, &c.Party)
	}
	done = true
	Switch(&loop, &c.Party)
}

func BenchmarkGosched(b *testing.B) {
	for b.Loop() {
		runtime.Gosched()
	}
}

func BenchmarkRunning(b *testing.B) {
	g := [2]uintptr{G()}
	for b.Loop() {
		Running(&g[0])
	}
}

func BenchmarkFingerprint(b *testing.B) {
	for b.Loop() {
		leaf(0)
	}
}

func BenchmarkCycles(b *testing.B) {
	for b.Loop() {
		Cycles()
	}
}

// What iter.Pull costs by itself: the floor of a link and unlink.
func BenchmarkPull(b *testing.B) {
	done := false
	next, _ := iter.Pull(func(yield func(struct{}) bool) {
		for !done {
			yield(struct{}{})
		}
	})
	next()
	for b.Loop() {
		next()
	}
	done = true
	next()
}
