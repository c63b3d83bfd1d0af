//go:build race

package kernel

import (
	"runtime"
	"unsafe"
)

// Raw system calls, and those of the kernel's own, are invisible to the race detector. As package
// syscall does, order every read after every write, and report what the kernel does to buffers.

// Race reports whether the race detector watches.
const Race = true

var ioSync int64

// RaceRead reports that the kernel has filled b.
func RaceRead(b []byte) {
	if len(b) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
	runtime.RaceAcquire(unsafe.Pointer(&ioSync))
}

// RaceWrite reports that the kernel will read b.
func RaceWrite(b []byte) {
	runtime.RaceReleaseMerge(unsafe.Pointer(&ioSync))
	if len(b) > 0 {
		runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(b)), len(b))
	}
}
