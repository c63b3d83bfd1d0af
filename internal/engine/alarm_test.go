package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// An alarm rings once when it was set, not after it was stopped or closed, and at the last time it was set to; with
// and without a timer of the kernel.
func TestAlarmRings(t *testing.T) {
	for _, kernel := range []bool{true, false} {
		var rung atomic.Int32
		ring := func() { rung.Add(1) }
		a := newAlarm(ring)
		if kernel && a.kernel == nil {
			t.Log("no timerfd here")
			continue
		}
		if !kernel && a.kernel != nil {
			a.close()
			a = &alarm{timer: time.AfterFunc(time.Hour, ring)}
		}
		for n := int32(1); n <= 3; n++ {
			a.set(time.Hour)
			a.set(time.Millisecond)
			testenv.Until(t, "a ring", func() bool { return rung.Load() == n })
		}
		a.set(50 * time.Millisecond)
		a.stop()
		other := newAlarm(func() { rung.Add(100) })
		other.set(60 * time.Millisecond)
		testenv.Until(t, "another alarm", func() bool { return rung.Load() >= 100 })
		other.close()
		a.set(time.Hour)
		a.close()
		testenv.Equal(t, rung.Load(), 103, "kernel timer %v: rings, and 100 of another", kernel)
	}
}
