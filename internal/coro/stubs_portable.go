//go:build purego || !(amd64 || arm64)

package coro

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// Exact means that the stubs are assembly. These are the portable ones, which are
// slow (about a microsecond for the identity) but need nothing of the machine.
const Exact = false

// G identifies the running goroutine by its number.
func G() uintptr {
	var buf [32]byte
	n := runtime.Stack(buf[:], false)
	var id uintptr
	for _, c := range buf[len("goroutine "):n] {
		if c < '0' || c > '9' {
			break
		}
		id = id*10 + uintptr(c-'0')
	}
	return id
}

// Is reports whether *word is the running goroutine's identity.
func Is(word *uintptr) bool { return atomic.LoadUintptr(word) == G() }

// Running compares the running goroutine's identity with *word. Whether it is
// locked to its thread is not known here.
func Running(word *uintptr) State {
	g := G()
	if atomic.LoadUintptr(word) != g {
		return 0
	}
	atomic.StoreUintptr((*uintptr)(unsafe.Add(unsafe.Pointer(word), unsafe.Sizeof(g))), 1)
	if atomic.LoadUintptr(word) != g {
		return 0
	}
	return Here
}

// RunsFree is Running(word) == Here.
func RunsFree(word *uintptr) bool { return Running(word) == Here }

// Peek loads the word at addr.
func Peek(addr uintptr) uint64 {
	return atomic.LoadUint64(*(**uint64)(unsafe.Pointer(&addr)))
}

// CopyWords copies n aligned words from src to dst.
func CopyWords(dst, src unsafe.Pointer, n uintptr) {
	for i := range n {
		*(*uint64)(unsafe.Add(dst, i*8)) = atomic.LoadUint64((*uint64)(unsafe.Add(src, i*8)))
	}
}

// Headroom is not known here: it claims to be ample.
func Headroom() uintptr { return 1 << 20 }

var epoch = time.Now()

// counter counts nanoseconds.
func counter() uint64 { return uint64(time.Since(epoch)) }

// Depth is not known here.
func Depth() uintptr { return 0 }

// Fingerprint hashes the program counters on the call stack above the
// caller, at most 128 of them.
func Fingerprint(base uintptr) uint64 {
	var pcs [128]uintptr
	h := uint64(0xcbf29ce484222325)
	for _, pc := range pcs[:runtime.Callers(2, pcs[:])] {
		h = (h + uint64(pc)) * 0x9e3779b97f4a7c15
	}
	return h ^ h>>32
}

func lookAhead(soon, next uintptr, at *slot, end unsafe.Pointer) {}

// Prefetch does nothing here.
func Prefetch(p unsafe.Pointer) {}

// Puller is not known here.
func Puller(of uintptr) uintptr { return 0 }

// Stack is not known here.
func Stack(g uintptr, pcs, again []uintptr) int { return 0 }

// CanStack reports whether Stack can be used.
func CanStack() bool { return false }
