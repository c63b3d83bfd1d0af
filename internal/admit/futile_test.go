package admit

import (
	"testing"
	"time"
)

const mib = 1 << 20

// The heap is at its limit because of memory that no admitted task holds: tasks are held back until that is clear, and
// admitted then until there is room again.
func TestRefusingIsFutile(t *testing.T) {
	l := NewLedger()
	heap := mustAdd(t, l, Spec{Name: "heap", Limit: 100 * mib, Kind: Collected})
	l.NewLimit("requests")
	now := time.Duration(0)
	for _, x := range []struct {
		lasts   time.Duration
		used    float64
		granted int
		futile  bool
	}{
		{150 * time.Millisecond, 97 * mib, 0, false},
		{100 * time.Millisecond, 97 * mib, 3, true},
		{time.Second, 110 * mib, 3, true},
		{100 * time.Millisecond, 80 * mib, 3, false},
		{450 * time.Millisecond, 97 * mib, 3, true}, // as at first
	} {
		for end := now + x.lasts; now < end; now += 10 * time.Millisecond {
			l.Observe(now, heap, x.used)
			l.Tick(now)
		}
		_, _, _, futile := l.Futile(heap)
		granted := l.Grant(heap, mib, 3)
		l.GiveBack(heap, mib, granted)
		if granted != x.granted || futile != x.futile {
			t.Errorf("%v, %v MiB in use: %d are let go, futile: %v; want %d, %v", now, x.used/mib, granted, futile, x.granted, x.futile)
		}
		if l.Calm() != futile {
			t.Errorf("%v: calm is %v, futile: %v", now, !futile, futile)
		}
		if p, _ := l.pressure(now); futile && p > 1 {
			t.Errorf("%v: pressure is %v, although admitted tasks are not the cause", now, p)
		}
	}
}
