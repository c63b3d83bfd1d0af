package sched

import (
	"testing"
	"time"
)

// A heap at its limit because of what was not let in: a task that keeps some of it is held until that has
// been tried, and again when others hold much more; not any more when there is room again.
func TestHoldingIsInVain(t *testing.T) {
	l := NewLedger()
	heap := mustAdd(t, l, Spec{Name: "heap", Limit: 100 * mib, Kind: Collected})
	l.NewGate("requests")
	l.SetIdle(true)
	now := time.Duration(0)
	run := func(d time.Duration, used float64) (granted int, vain bool) {
		for end := now + d; now < end; now += 10 * time.Millisecond {
			l.Observe(now, heap, used)
			l.Tick(now)
		}
		_, _, _, vain = l.InVain(heap)
		granted = l.grant(heap, mib, 3)
		l.giveBack(heap, mib, granted)
		return granted, vain
	}
	for _, x := range []struct {
		lasts   time.Duration
		used    float64
		granted int
		vain    bool
	}{
		{150 * time.Millisecond, 97 * mib, 0, false},
		{100 * time.Millisecond, 97 * mib, 3, true},
		{time.Second, 99 * mib, 3, true},
		{350 * time.Millisecond, 110 * mib, 0, false}, // until the least of the last 200 ms is more
		{9 * time.Second, 110 * mib, 0, false},
		{time.Second, 110 * mib, 3, true},
		{350 * time.Millisecond, 120 * mib, 0, false},
		{39 * time.Second, 120 * mib, 0, false},
		{time.Second, 120 * mib, 3, true},
		{100 * time.Millisecond, 80 * mib, 3, false},
		{450 * time.Millisecond, 97 * mib, 3, true}, // as at first
	} {
		granted, vain := run(x.lasts, x.used)
		if granted != x.granted || vain != x.vain {
			t.Errorf("%v, %v MiB in use: %d are let go, in vain: %v; want %d, %v", now, x.used/mib, granted, vain, x.granted, x.vain)
		}
		if l.Calm() != vain {
			t.Errorf("%v: calm is %v, in vain: %v", now, !vain, vain)
		}
		if p, _, _ := l.pressure(now); vain && p > 1 {
			t.Errorf("%v: pressure is %v, although those inside are not the cause", now, p)
		}
	}
}
