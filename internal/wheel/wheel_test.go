package wheel

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var seedFlag = flag.Uint64("seed", 0, "of the random tests; 0: another each time")

// A wheelModel is a wheel as a plain list.
type wheelModel struct {
	t     *testing.T
	rnd   *rand.Rand
	w     Wheel
	now   time.Duration
	armed map[*modelTimer]time.Duration
	fired int
}

type modelTimer struct {
	Timer
	m     *wheelModel
	again int // how often it adds itself when it fires
}

type firing func()

func (f firing) Expire() { f() }

func (m *wheelModel) add(x *modelTimer, at time.Duration) {
	x.Of = x
	m.w.Add(&x.Timer, at)
	m.armed[x] = at
}

func (x *modelTimer) Expire() {
	m := x.m
	m.fired++
	at, ok := m.armed[x]
	if !ok {
		m.t.Error("a timer fired that was not set")
	}
	testenv.AtMost(m.t, at, m.now, "a timer fired at %v, before its time", m.now)
	delete(m.armed, x)
	if x.again > 0 {
		x.again--
		m.add(x, m.now+m.someTime())
	}
	if m.rnd.IntN(4) == 0 { // stop some other one
		for y := range m.armed {
			m.remove(y)
			break
		}
	}
}

func (m *wheelModel) remove(x *modelTimer) {
	if !m.w.Remove(&x.Timer) || m.w.Remove(&x.Timer) {
		m.t.Error("remove does not know what is queued")
	}
	delete(m.armed, x)
}

// someTime is a delay of any order of magnitude, some of them beyond the wheel's reach.
func (m *wheelModel) someTime() time.Duration {
	return time.Duration(m.rnd.Int64N(1<<m.rnd.IntN(60))) - time.Millisecond
}

// step moves the clock and compares what is left with the list.
func (m *wheelModel) step(d time.Duration) {
	m.now += d
	m.w.Advance(m.now)
	for x, at := range m.armed {
		if at <= m.now-2*Tick && x.at <= m.w.tick {
			m.t.Fatalf("a timer for %v has not fired at %v", at, m.now)
		}
	}
	testenv.MustEqual(m.t, m.w.count, len(m.armed), "count")
	next, ok := m.w.Next()
	testenv.MustEqual(m.t, ok, len(m.armed) > 0, "what next says with %d timers", len(m.armed))
	for _, at := range m.armed {
		if next > max(at, m.now)+2*Tick {
			m.t.Fatalf("the next look is at %v, but a timer is due at %v (now %v)", next, at, m.now)
		}
	}
	if ok && next <= m.now-Tick {
		m.t.Fatalf("the next look, %v, was before now, %v", next, m.now)
	}
}

func TestWheelAgainstAList(t *testing.T) {
	rnd := testenv.Rand(t, *seedFlag)
	for range 300 {
		m := &wheelModel{t: t, rnd: rnd, armed: map[*modelTimer]time.Duration{}}
		m.now = time.Duration(rnd.Int64N(1 << rnd.IntN(60)))
		m.w.Init(m.now)
		for range 60 {
			switch rnd.IntN(4) {
			case 0, 1:
				m.add(&modelTimer{m: m, again: rnd.IntN(3)}, m.now+m.someTime())
			case 2:
				for x := range m.armed {
					m.remove(x)
					break
				}
			}
			switch rnd.IntN(3) {
			case 0:
				m.step(time.Duration(rnd.Int64N(1 << rnd.IntN(58))))
			case 1: // as a loop that sleeps until the next timer does
				if at, ok := m.w.Next(); ok {
					m.step(max(at-m.now, 0))
				}
			default:
				m.step(0)
			}
			if t.Failed() {
				return
			}
		}
	}
}

// A timer far beyond the reach does not hide one in the last level that is due before.
func TestWheelWrapsRound(t *testing.T) {
	const block = Tick << (slotBits * (levels - 1)) // of the last level
	var w Wheel
	w.Init(0)
	w.Advance(3 * block)
	var near, far Timer
	fired := ""
	near.Of = firing(func() { fired += "near " })
	far.Of = firing(func() { fired += "far " })
	w.Add(&far, 1000*block)
	w.Add(&near, 6*block)
	if at, _ := w.Next(); at > 6*block {
		t.Errorf("next look at %v, want %v or before", at, 6*block)
	}
	w.Advance(7 * block)
	testenv.Equal(t, fired, "near ", "fired")
	w.Advance(999 * block)
	testenv.Equal(t, fired, "near ", "fired before its time")
	w.Advance(1001 * block)
	testenv.Equal(t, fired, "near far ", "fired")
}

func TestWheelThatIsEmptySkipsLongGaps(t *testing.T) {
	var w Wheel
	w.Init(0)
	w.Advance(100 * 365 * 24 * time.Hour)
	var x Timer
	fired := false
	x.Of = firing(func() { fired = true })
	at := 100*365*24*time.Hour + time.Second
	w.Add(&x, at)
	w.Advance(at - time.Microsecond)
	testenv.Equal(t, fired, false, "early")
	w.Advance(at + Tick)
	testenv.Equal(t, fired, true, "late")
}
