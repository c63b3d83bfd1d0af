package engine

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

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
		a.set(time.Hour)
		a.stop()
		testenv.Equal(t, isSet(t, a), false, "kernel timer %v: it is set after it was stopped", kernel)
		a.set(time.Hour)
		testenv.Equal(t, isSet(t, a), true, "kernel timer %v: it is set after that", kernel)
		a.close()
		testenv.Equal(t, rung.Load(), 3, "kernel timer %v: rings", kernel)
	}
}

// isSet reports whether a will ring. It may stop a.
func isSet(t *testing.T, a *alarm) bool {
	if a.kernel == nil {
		return a.timer.Stop()
	}
	var left unix.ItimerSpec
	testenv.Must(t, unix.TimerfdGettime(a.kernel.fd, &left))
	return left.Value != unix.Timespec{}
}
