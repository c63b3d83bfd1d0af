package engine

import (
	"sync"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A guard changes hands once in its life, so each round uses a fresh Mutex: its owner
// is in the middle of using it when others come.
func TestGuardIsRevokedInUse(t *testing.T) {
	eachLoops(t, func(t *testing.T, rt *Runtime) {
		const each = 200
		rounds := testenv.Rounds(100, 300)
		if !canBarrier() {
			rounds = 30 // they take far longer then, as the owner has to answer
		}
		for range rounds {
			var mu Mutex
			count := 0 // guarded by mu
			var done sync.WaitGroup
			work := func() {
				defer done.Done()
				for range each {
					mu.Lock()
					count++
					mu.Unlock()
				}
			}
			users := rt.Loops() + 2
			done.Add(users)
			for i := range rt.Loops() {
				GoOn(rt.Loop(i), work)
			}
			go work()
			go work()
			done.Wait()
			mu.Lock()
			testenv.MustEqual(t, count, users*each, "count")
			mu.Unlock()
		}
	})
}

// The one that revokes must not need an answer from the owner: here the owner's loop
// blocks natively on a lock that the other holds.
func TestRevokingNeedsNoAnswer(t *testing.T) {
	if !canBarrier() {
		t.Skip("membarrier(2) is not to be had, or this is the race detector: the owner has to answer")
	}
	rt := newRuntime(t, 2)
	for range 100 {
		var native sync.Mutex
		var mu Mutex
		run(t, rt, func() { // mu now belongs to some loop
			mu.Lock()
			mu.Unlock()
		})
		spread(t, rt, rt.Loops(), func(int) {
			native.Lock()
			defer native.Unlock()
			mu.Lock()
			mu.Unlock()
		})()
	}
}

// The memory of a guard's model, and the values of owner and inside.
const (
	gOwner, gInside, gMu, gData = 0, 1, 2, 3

	gUnused, gOwned, gRevoked, gShared = 0, 1, 2, 3
	gOut, gIn, gInAll                  = 0, 1, 2
)

// guardModel has the loop that owns a guard (thread 0) enter it again and again, by Enter and by Guards.Enter, while two
// plain goroutines do once. Each adds 1 to data inside.
func guardModel(fault string) model {
	const rounds = 3
	x := model{goal: func(m *modelState) bool { return m.pc == allEnded }, broken: func(m *modelState) string {
		inside := 0
		for th, pc := range m.pc {
			if pc >= 20 && pc < 30 || th == 0 && pc >= 2 && pc <= 3 {
				inside++
			}
		}
		switch {
		case inside > 1:
			return "two are inside"
		case m.pc == allEnded && m.n == [modelThreads]int8{} && m.mem[gData] != rounds+2:
			return "an addition is lost"
		}
		return ""
	}}
	x.step = func(m *modelState, th, choice int8) bool {
		to := func(pc int8, ok bool) bool { return m.to(th, pc, ok) }
		finished := func(ok bool) bool {
			if th > 0 {
				return m.finished(th, 0, 1) && ok
			}
			return m.finished(th, 0, rounds) && ok
		}
		if th == 0 {
			switch m.pc[0] {
			case 0: // hold; or Guards.tryEnter
				if fault == "the owner looks before it says where it is" && m.load(th, gOwner) == gOwned {
					return to(1, true)
				}
				in := int8(gIn)
				if choice == 1 {
					in = gInAll
				}
				return to(1, m.store(th, gInside, in))
			case 1:
				if fault == "the owner looks before it says where it is" && m.load(th, gInside) == gOut {
					return to(2, m.store(th, gInside, gIn))
				}
				switch m.load(th, gOwner) {
				case gOwned:
					return to(2, true)
				case gShared:
					if m.load(th, gInside) == gInAll { // Guards.Enter locks the mutex without leaving
						return to(7, true)
					}
				}
				return to(5, true)
			case 2:
				m.reg[th] = m.load(th, gData)
				return to(3, true)
			case 3:
				return to(4, m.store(th, gData, m.reg[th]+1))
			case 4:
				return finished(m.store(th, gInside, gOut))
			case 5:
				return to(6, m.store(th, gInside, gOut))
			case 6: // settle
				switch m.load(th, gOwner) {
				case gShared:
					return to(7, true)
				case gOwned:
					return to(0, true)
				case gUnused:
					m.compareAndSwap(th, gOwner, gUnused, gOwned)
					return true
				}
				return false // revoked
			}
		}
		switch m.pc[th] {
		case 0: // settle of a plain goroutine
			switch m.load(th, gOwner) {
			case gShared:
				return to(7, true)
			case gUnused:
				m.compareAndSwap(th, gOwner, gUnused, gShared)
				return true
			case gOwned: // revoke
				if m.compareAndSwap(th, gOwner, gOwned, gRevoked) {
					m.pc[th] = 1
				}
				return true
			}
			return false
		case 1:
			if fault != "no barrier before the look" {
				m.barrier()
			}
			return to(2, true)
		case 2:
			in := m.load(th, gInside)
			return to(3, in == gOut || in == gInAll && fault == "Guards are not waited for")
		case 3:
			if fault != "no barrier after the look" {
				m.barrier()
			}
			return to(4, true)
		case 4:
			m.swap(th, gOwner, gShared)
			return to(0, true)
		case 7:
			if m.mem[gMu] != 0 {
				return false
			}
			m.swap(th, gMu, 1)
			return to(20, true)
		case 20:
			m.reg[th] = m.load(th, gData)
			return to(21, true)
		case 21:
			return to(22, m.store(th, gData, m.reg[th]+1))
		case 22:
			m.swap(th, gMu, 0)
			if m.load(th, gInside) != gOut && th == 0 {
				return to(30, true)
			}
			return finished(true)
		case 30: // Guards.Exit
			return finished(m.store(th, gInside, gOut))
		}
		panic("no such step")
	}
	return x
}

func TestModelOfGuards(t *testing.T) {
	tryModel(t, guardModel, map[string]bool{
		"no barrier before the look":                 false,
		"no barrier after the look":                  true,
		"Guards are not waited for":                  false,
		"the owner looks before it says where it is": false,
	})
}
