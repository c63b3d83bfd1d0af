//go:build linux && race

package netpoll

import (
	"runtime"
	"unsafe"
)

// Raw system calls are invisible to the race detector. As package syscall does, order
// every read after every write, and report what the kernel does to buffers.

// raceEnabled reports whether the race detector watches.
const raceEnabled = true

var ioSync int64

func raceRead(b []byte, n int) {
	if n > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), n)
	}
	runtime.RaceAcquire(unsafe.Pointer(&ioSync))
}

func raceWrite(b []byte) {
	runtime.RaceReleaseMerge(unsafe.Pointer(&ioSync))
	if len(b) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}
