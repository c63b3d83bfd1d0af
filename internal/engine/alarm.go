package engine

import "time"

// An alarm calls a function after a time, unless it is stopped before. A timer of the Go runtime would do the
// same; but one that was stopped mostly stays in the runtime's heap, so that a thread wakes up at its time, and
// sysmon with it: some ten switches of threads for each wait of a loop that has little to do. So this is a timer of
// the kernel, where there is one. set and stop may be called by one goroutine at a time, ring comes on others.
type alarm struct {
	kernel *kernelTimer // nil: there is none
	timer  *time.Timer  // then
}

func newAlarm(ring func()) *alarm {
	a := &alarm{kernel: newKernelTimer(ring)}
	if a.kernel == nil {
		a.timer = time.AfterFunc(time.Hour, ring)
		a.timer.Stop()
	}
	return a
}

// set has the alarm ring after d, which is above 0, and not when it was set to before.
func (a *alarm) set(d time.Duration) {
	if a.kernel != nil {
		a.kernel.set(d)
		return
	}
	a.timer.Reset(d)
}

func (a *alarm) stop() {
	if a.kernel != nil {
		a.kernel.set(0)
		return
	}
	a.timer.Stop()
}

// close stops the alarm for good. It waits for a ring that has begun.
func (a *alarm) close() {
	if a.kernel != nil {
		a.kernel.close()
		return
	}
	a.timer.Stop()
}
