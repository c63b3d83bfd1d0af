package engine

import "testing"

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
