package engine

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// An alarm calls a function after a time, unless it is stopped before. It is a timer of the kernel, where there is one.
// A stopped timer of the Go runtime mostly stays in the runtime's heap, so that a thread wakes up at its time, and
// sysmon with it: some ten thread switches for each wait of a mostly idle loop. set and stop may be called by one
// goroutine at a time; ring is called on other goroutines.
type alarm struct {
	kernel *kernelTimer // nil: the kernel has none for us
	timer  *time.Timer  // used if kernel is nil
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

// close stops the alarm for good, and gives back what it has of the kernel.
func (a *alarm) close() {
	if a.kernel != nil {
		a.kernel.close()
		return
	}
	a.timer.Stop()
}

// A kernelTimer is a timerfd(2), for which a goroutine waits in the Go runtime's poller.
type kernelTimer struct {
	fd   int // valid until close
	file *os.File
	done chan struct{} // closed when the goroutine has ended
}

// newKernelTimer returns nil if no descriptor is left, or the kernel has no such timers.
func newKernelTimer(ring func()) *kernelTimer {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil
	}
	k := &kernelTimer{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), done: make(chan struct{})}
	if k.file.SetReadDeadline(time.Time{}) != nil { // the Go runtime does not poll it
		k.file.Close()
		return nil
	}
	go func() {
		defer close(k.done)
		for count := make([]byte, 8); ; ring() {
			if _, err := k.file.Read(count); err != nil {
				return
			}
		}
	}()
	return k
}

// set has the timer go off after d; 0: not at all. The Go runtime is not told of the system call, for which it would
// wake sysmon.
func (k *kernelTimer) set(d time.Duration) {
	unix.TimerfdSettime(k.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

func (k *kernelTimer) close() {
	k.file.Close()
	<-k.done
}
