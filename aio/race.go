//go:build linux && race

package aio

import (
	"runtime"
	"unsafe"
)

// Raw system calls, and those of the kernel's own, are invisible to the race detector.
// Report what they do to buffers, and order every read after every write, as package
// syscall does.

const raceEnabled = true

var ioSync int64

func raceRead(p unsafe.Pointer, n int) {
	if n > 0 {
		runtime.RaceWriteRange(p, n)
	}
	runtime.RaceAcquire(unsafe.Pointer(&ioSync))
}

func raceWrite(p unsafe.Pointer, n int) {
	runtime.RaceReleaseMerge(unsafe.Pointer(&ioSync))
	if n > 0 {
		runtime.RaceReadRange(p, n)
	}
}
