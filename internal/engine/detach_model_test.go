package engine

import (
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// The protocols of guards and of detaching rest on memory barriers that one side makes for the other, which the race
// detector can't follow. Here they are small models, of which every order of steps is tried, with memory in which
// stores come late. A step of a model is one access to memory. Whoever changes guard.go or detach.go changes the model too.

const (
	modelThreads = 3
	modelVars    = 10
	modelStores  = 6 // that a thread may have on their way
)

// A modelStore is a store on its way to memory.
type modelStore struct{ addr, value int8 }

// A modelState is all that a model has.
type modelState struct {
	mem   [modelVars]int8
	late  [modelThreads][modelStores]modelStore // in the order of the program
	n     [modelThreads]int8                    // stores on their way
	pc    [modelThreads]int8                    // the next step; modelEnd: none
	round [modelThreads]int8
	reg   [modelThreads]int8
}

// modelEnd is the pc of a thread that has nothing more to do.
const modelEnd = 127

// allEnded is the pc when all threads have nothing more to do.
var allEnded = [modelThreads]int8{modelEnd, modelEnd, modelEnd}

// A model is one program for each thread.
type model struct {
	start modelState
	// step carries out the next step of thread th, and reports false if it can't go on now. A step that has a choice is
	// tried with each.
	step func(m *modelState, th, choice int8) bool
	// broken says what is wrong in a state, "" if nothing is.
	broken func(m *modelState) string
	// goal is reached in some state.
	goal func(m *modelState) bool
	// weak memory lets stores to different addresses pass each other, as on arm64; else they are in order, as on amd64.
	weak bool
}

func (m *modelState) load(th, addr int8) int8 {
	for i := m.n[th] - 1; i >= 0; i-- {
		if w := m.late[th][i]; w.addr == addr {
			return w.value
		}
	}
	return m.mem[addr]
}

func (m *modelState) store(th, addr, value int8) bool {
	if m.n[th] == modelStores {
		return false
	}
	m.late[th][m.n[th]] = modelStore{addr, value}
	m.n[th]++
	return true
}

// arrive lets a store on its way come to memory.
func (m *modelState) arrive(th, i int8) {
	w := m.late[th][i]
	m.mem[w.addr] = w.value
	m.n[th]--
	copy(m.late[th][i:], m.late[th][i+1:])
	m.late[th][m.n[th]] = modelStore{}
}

// fence lets all stores of a thread come to memory, as every atomic operation does that writes.
func (m *modelState) fence(th int8) {
	for m.n[th] > 0 {
		m.arrive(th, 0)
	}
}

// barrier is membarrier(2).
func (m *modelState) barrier() {
	for th := range int8(modelThreads) {
		m.fence(th)
	}
}

// swap is an atomic store.
func (m *modelState) swap(th, addr, value int8) {
	m.fence(th)
	m.mem[addr] = value
}

func (m *modelState) compareAndSwap(th, addr, old, value int8) bool {
	m.fence(th)
	if m.mem[addr] != old {
		return false
	}
	m.mem[addr] = value
	return true
}

// to goes on at pc, unless a store has no room.
func (m *modelState) to(th, pc int8, ok bool) bool {
	m.pc[th] = pc
	return ok
}

// either goes on at yes or at no.
func (m *modelState) either(th int8, condition bool, yes, no int8) bool {
	if condition {
		return m.to(th, yes, true)
	}
	return m.to(th, no, true)
}

// finished ends a round of a thread: it goes on at again, or has nothing more to do.
func (m *modelState) finished(th, again, rounds int8) bool {
	if m.round[th]++; m.round[th] == rounds {
		again = modelEnd
	}
	return m.to(th, again, true)
}

// next appends the states that may follow.
func (x *model) next(m *modelState, to []modelState) []modelState {
	for th := range int8(modelThreads) {
		for i := range m.n[th] {
			first := true // to its address
			for _, w := range m.late[th][:i] {
				first = first && x.weak && w.addr != m.late[th][i].addr
			}
			if first {
				s := *m
				s.arrive(th, i)
				to = append(to, s)
			}
		}
		if m.pc[th] == modelEnd {
			continue
		}
		for choice := range int8(2) {
			if s := *m; x.step(&s, th, choice) && s != *m {
				to = append(to, s)
			}
		}
	}
	return to
}

// explore returns what is wrong in the first state found in which something is, and how many states there are.
func (x *model) explore() (wrong string, states int) {
	seen := map[modelState]bool{x.start: true}
	todo := []modelState{x.start}
	var next []modelState
	reached := false
	for len(todo) > 0 {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if wrong = x.broken(&m); wrong != "" {
			return wrong, len(seen)
		}
		reached = reached || x.goal(&m)
		next = x.next(&m, next[:0])
		if len(next) == 0 && m.pc != allEnded {
			return "a thread waits for ever", len(seen)
		}
		for _, s := range next {
			if !seen[s] {
				seen[s] = true
				todo = append(todo, s)
			}
		}
	}
	if !reached {
		return "what it is for never happens", len(seen)
	}
	return "", len(seen)
}

// tryModel explores a model in both kinds of memory, without a fault and with each of some. Of these in turn says in which
// kind something is to be found: weak or not.
func tryModel(t *testing.T, of func(fault string) model, faults map[string]bool) {
	for _, weak := range []bool{false, true} {
		x := of("")
		x.weak = weak
		wrong, states := x.explore()
		testenv.Equal(t, wrong, "", "weak memory %v", weak)
		t.Logf("%d states with weak memory %v", states, weak)
	}
	for fault, weakOnly := range faults {
		x := of(fault)
		x.weak = weakOnly
		wrong, states := x.explore()
		if wrong == "" {
			t.Errorf("%s: nothing is wrong in %d states", fault, states)
		}
		t.Logf("%s: %s", fault, wrong)
	}
}

// The memory of the model of detaching, and the values of curG.
const (
	dCurG, dEntered, dWaits, dMu, dTable, dN, dClaims, dDetached = 0, 1, 2, 3, 4, 5, 6, 7

	dNobody, dTask, dOther = 0, 1, 2
)

// detachModel has the goroutine of a task (thread 0) wait natively, wake at any time and use its loop, again and again, while
// the watchdog (thread 1) tries to take the loop from it.
func detachModel(fault string) model {
	const rounds = 3
	x := model{goal: func(m *modelState) bool { return m.mem[dDetached] == 1 && m.pc[0] == modelEnd }}
	x.start.mem[dCurG] = dTask
	x.start.pc[2] = modelEnd
	x.broken = func(m *modelState) string {
		uses := m.pc[0] >= 5 && m.pc[0] <= 8
		switch {
		case uses && m.mem[dDetached] == 1:
			return "the loop is used by a goroutine that it was taken from"
		case m.pc[0] == 7 && m.n[0] == 0 && m.mem[dCurG] == dTask:
			return "a task that waits is taken for the one that runs"
		case m.pc[0] == 100:
			return "a task takes itself for a plain goroutine"
		case m.pc[1] == modelEnd && m.pc[0] != modelEnd && m.mem[dDetached] == 0 && m.mem[dCurG] == dNobody && m.n[1] == 0:
			return "the loop belongs to nobody"
		}
		return ""
	}
	x.step = func(m *modelState, th, choice int8) bool {
		to := func(pc int8, ok bool) bool { return m.to(th, pc, ok) }
		either := func(condition bool, yes, no int8) bool { return m.either(th, condition, yes, no) }
		finished := func(again int8) bool { return m.finished(th, again, rounds) }
		if th == 0 {
			switch m.pc[0] {
			case 0: // the Go runtime has it wait, and run again
				m.swap(th, dWaits, 1)
				return to(1, true)
			case 1:
				m.swap(th, dWaits, 0)
				return to(2, true)
			case 2, 11: // coro.RunsFree; coro.Running
				return either(m.load(th, dCurG) == dTask, m.pc[0]+1, map[int8]int8{2: 10, 11: 14}[m.pc[0]])
			case 3, 12:
				return to(m.pc[0]+1, fault == "who enters does not say so" || m.store(th, dEntered, 1))
			case 4, 13:
				return either(m.load(th, dCurG) == dTask, 5, map[int8]int8{4: 10, 13: 14}[m.pc[0]])
			case 5:
				return either(choice == 1, 6, 8)
			case 6: // another task runs meanwhile
				return to(7, m.store(th, dCurG, dOther))
			case 7:
				return to(8, m.store(th, dCurG, dTask))
			case 8:
				return finished(0)
			case 10: // hereSlow
				m.reg[th] = m.load(th, dClaims)
				return to(11, true)
			case 14:
				m.fence(th)
				return to(15, true)
			case 15: // isAway
				return either(m.load(th, dN) == 0, 17, 16)
			case 16:
				return either(m.load(th, dTable) == 0, 17, 18)
			case 17:
				return either(m.load(th, dClaims) == m.reg[th] || fault == "claims are not looked at again", 100, 10)
			case 18:
				return either(m.mem[dDetached] == 1, modelEnd, 10) && m.mem[dMu] == 0
			}
			panic("no such step")
		}
		switch m.pc[th] {
		case 0: // claim
			if m.load(th, dCurG) != dTask {
				return finished(0)
			}
			return to(1, true)
		case 1, 5:
			if m.load(th, dWaits) == 0 {
				return finished(0)
			}
			return either(m.pc[th] == 1, 2, 6)
		case 2:
			m.swap(th, dEntered, 0)
			return to(3, true)
		case 3:
			m.barrier()
			return to(5, true)
		case 6, 7, 8, 9: // what there is to be found
			addr := []int8{dMu, dTable, dN, dClaims}[m.pc[th]-6]
			m.swap(th, addr, m.load(th, addr)+1)
			return to(m.pc[th]+1, true)
		case 10:
			return either(m.compareAndSwap(th, dCurG, dTask, dNobody), 11, 20)
		case 11:
			if fault != "no barrier after the claim" {
				m.barrier()
			}
			return to(12, true)
		case 12:
			return either(m.load(th, dEntered) != 0 && fault != "entered is not looked at", 15, 13)
		case 13:
			return either(m.load(th, dWaits) == 0, 15, 14)
		case 14:
			m.swap(th, dDetached, 1)
			m.swap(th, dMu, 0)
			return to(modelEnd, true)
		case 15:
			if fault == "curG is put back whatever it is" {
				m.swap(th, dCurG, dTask)
			} else {
				m.compareAndSwap(th, dCurG, dNobody, dTask)
			}
			return to(20, true)
		case 20, 21, 22, 23:
			addr, by := []int8{dClaims, dN, dTable, dMu}[m.pc[th]-20], int8(-1)
			if addr == dClaims {
				by = 1
			}
			m.swap(th, addr, m.load(th, addr)+by)
			if m.pc[th] == 23 {
				return finished(0)
			}
			return to(m.pc[th]+1, true)
		}
		panic("no such step")
	}
	return x
}

func TestModelOfDetaching(t *testing.T) {
	tryModel(t, detachModel, map[string]bool{
		"who enters does not say so":      false,
		"entered is not looked at":        false,
		"no barrier after the claim":      false,
		"claims are not looked at again":  false,
		"curG is put back whatever it is": false,
	})
}
