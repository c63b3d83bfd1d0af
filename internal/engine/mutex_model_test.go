package engine

import "testing"

// The memory of the model of task.Mutex: its state, owner, guard, the waiters in their order, who has been woken, data.
const (
	mState, mOwner, mGuard, mFirst, mSecond, mData, mWoken = 0, 1, 2, 3, 4, 5, 6 // and the two after mWoken

	mUnlocked, mLocked, mAwaited = 0, 1, 2
	mAddition                    = 10 // the pc with which what needs the lock begins
)

// mutexModel has three threads lock a task.Mutex, whose quick ways take no guard, add 1 to data, and unlock it. The second one
// may give up waiting.
func mutexModel(fault string) model {
	x := model{goal: func(m *modelState) bool { return m.mem[mData] == modelThreads }}
	x.broken = func(m *modelState) string {
		holders := 0
		for th, pc := range m.pc {
			if pc == mAddition || pc == mAddition+1 {
				holders++
				if m.load(int8(th), mOwner) != int8(th)+1 {
					return "the holder is not the owner"
				}
			}
		}
		gaveUp := m.round[1]
		switch {
		case holders > 1:
			return "two hold the lock"
		case m.pc == allEnded && m.n == [modelThreads]int8{} && (m.mem[mData] != modelThreads-gaveUp || m.mem[mState] != mUnlocked || m.mem[mOwner] != 0):
			return "an addition is lost, or the lock is not free in the end"
		}
		return ""
	}
	x.step = func(m *modelState, th, choice int8) bool {
		me := th + 1
		to := func(pc int8, ok bool) bool { return m.to(th, pc, ok) }
		either := func(condition bool, yes, no int8) bool { return m.either(th, condition, yes, no) }
		enter := func(pc int8) bool { return to(pc, m.compareAndSwap(th, mGuard, 0, 1)) }
		exit := func(pc int8) bool {
			m.swap(th, mGuard, 0)
			return to(pc, true)
		}
		switch m.pc[th] {
		case 0: // lockQuick
			return either(m.compareAndSwap(th, mState, mUnlocked, mLocked), 9, 1)
		case 1: // lockOn
			return enter(2)
		case 2: // take
			return either(m.load(th, mState) == mAwaited, 5, 3)
		case 3:
			return either(m.compareAndSwap(th, mState, mUnlocked, mLocked), 8, 4)
		case 4:
			if fault == "who waits leaves no note" {
				return to(5, true)
			}
			m.compareAndSwap(th, mState, mLocked, mAwaited)
			return to(2, true)
		case 5: // enqueue
			at := int8(mFirst)
			if m.load(th, mFirst) != 0 {
				at = mSecond
			}
			return to(6, m.store(th, at, me))
		case 6:
			return exit(7)
		case 7:
			if m.mem[mWoken+th] == 1 {
				return to(mAddition, true)
			}
			return th == 1 && choice == 1 && enter(30)
		case 8: // locked inside the guard
			if !m.store(th, mOwner, me) {
				return false
			}
			return exit(mAddition)
		case 9: // locked outside
			return to(mAddition, m.store(th, mOwner, me))
		case mAddition:
			m.reg[th] = m.load(th, mData)
			return to(mAddition+1, true)
		case mAddition + 1:
			return to(20, m.store(th, mData, m.reg[th]+1))
		case 20: // unlockQuick
			return either(m.load(th, mState) == mLocked, 21, 23)
		case 21:
			if fault == "the owner is taken back after the lock" {
				return to(22, true)
			}
			return to(22, m.store(th, mOwner, 0))
		case 22:
			if fault == "who unlocks does not look again" {
				m.swap(th, mState, mUnlocked)
				return to(modelEnd, true)
			}
			if !m.compareAndSwap(th, mState, mLocked, mUnlocked) {
				return to(23, true)
			}
			if fault == "the owner is taken back after the lock" {
				return to(29, true)
			}
			return to(modelEnd, true)
		case 29:
			return to(modelEnd, m.store(th, mOwner, 0))
		case 23: // handOver
			return enter(24)
		case 24:
			m.reg[th] = m.load(th, mFirst)
			if m.reg[th] == 0 {
				return to(25, m.store(th, mOwner, 0))
			}
			return to(26, m.store(th, mFirst, m.load(th, mSecond)) && m.store(th, mSecond, 0) && m.store(th, mOwner, m.reg[th]))
		case 25:
			m.swap(th, mState, mUnlocked)
			return exit(modelEnd)
		case 26:
			if m.load(th, mFirst) == 0 {
				m.swap(th, mState, mLocked)
			}
			return exit(27)
		case 27:
			m.swap(th, mWoken+m.reg[th]-1, 1)
			return to(modelEnd, true)
		case 30: // Withdraw
			switch {
			case m.load(th, mFirst) == me:
				return to(31, m.store(th, mFirst, m.load(th, mSecond)) && m.store(th, mSecond, 0))
			case m.load(th, mSecond) == me:
				return to(31, m.store(th, mSecond, 0))
			}
			return exit(7) // it has been woken, or is about to be
		case 31:
			if m.load(th, mFirst) == 0 {
				value := int8(mLocked)
				if fault == "who gives up frees the lock" {
					value = mUnlocked
				}
				m.swap(th, mState, value)
			}
			m.round[th] = 1
			return exit(modelEnd)
		}
		panic("no such step")
	}
	return x
}

func TestModelOfQuickLocks(t *testing.T) {
	tryModel(t, mutexModel, map[string]bool{
		"who waits leaves no note":               false,
		"who unlocks does not look again":        false,
		"the owner is taken back after the lock": false,
		"who gives up frees the lock":            false,
	})
}
