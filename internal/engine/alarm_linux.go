package engine

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

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

// set has it go off after d; 0: not at all. The Go runtime is not told of the system call, for which it would wake sysmon.
func (k *kernelTimer) set(d time.Duration) {
	unix.TimerfdSettime(k.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
}

func (k *kernelTimer) close() {
	k.file.Close()
	<-k.done
}
