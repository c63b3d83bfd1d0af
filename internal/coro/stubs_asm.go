//go:build (amd64 || arm64) && !purego

package coro

import (
	"runtime"
	"unsafe"
)

// Exact means that the stubs are assembly: identity is an address, the counter is
// the CPU's, the headroom is real.
const Exact = true

// G identifies the running goroutine. The value is never 0, is unique among the
// goroutines alive, and may be reused after the goroutine's end.
func G() uintptr

// Is reports whether *word, which another thread may be writing, is the running goroutine's identity. It
// leaves no note, as Running does.
func Is(word *uintptr) bool

// Running compares the running goroutine's identity with *word and reports whether the
// goroutine is locked to its thread. The word may be written at the same time by
// another thread: equality can be seen only by the goroutine itself, because no one
// else writes its identity there while it runs.
//
// If they are equal, the word after that is set to 1, and then the comparison is made again: so another thread that
// changes *word, and looks at the word after it when every thread has executed a memory barrier since, knows that the
// goroutine has not seen equality if that second word is still 0.
func Running(word *uintptr) State

// RunsFree is a faster Running(word) == Here. It may say no if the thread lock can't
// be found out; Running knows then.
func RunsFree(word *uintptr) bool

// Peek loads the aligned word at addr, which another thread may be writing. It
// synchronises nothing and is not seen by the race detector: for statistics only.
func Peek(addr uintptr) uint64

// CopyWords copies n aligned words from src, which another thread may be writing, to
// dst. Each word is copied whole; nothing is synchronised, and the race detector does
// not see the loads. For statistics only: no word may be a pointer.
func CopyWords(dst, src unsafe.Pointer, n uintptr)

// Headroom is the number of bytes left on the running goroutine's present stack.
func Headroom() uintptr

// counter reads the CPU's time stamp counter (amd64: TSC, arm64: CNTVCT_EL0). Its
// rate is constant but differs between machines.
func counter() uint64

// Depth is the distance in bytes from the caller's frame to the base of the stack;
// it stays the same when the stack moves.
func Depth() uintptr

// Fingerprint hashes the return addresses on the call stack from that of the caller of the
// caller down to the frames that are less than base bytes (see Depth) from the stack's base,
// at most 128 of them. Equal call paths give equal values within one process.
func Fingerprint(base uintptr) uint64

// lockedOffset is where runtime.g keeps the thread that it is locked to; 0 if that
// could not be found out.
//
//lint:ignore U1000 the assembly reads it
var lockedOffset = findLockedOffset()

// findLockedOffset locks a goroutine to its thread and looks which one word of its
// g changes from 0 to the address of the thread, which g holds elsewhere too.
//
//lint:ignore U1000 see lockedOffset
func findLockedOffset() uintptr {
	found := make(chan uintptr)
	go func() {
		const words = 56 // runtime.g is a little larger in every release since Go 1.21
		var before, locked, after [words]uint64
		g := G()
		read := func(to *[words]uint64) {
			for i := range to {
				to[i] = Peek(g + uintptr(i)*8)
			}
		}
		read(&before)
		runtime.LockOSThread()
		read(&locked)
		runtime.UnlockOSThread()
		read(&after)
		at := 0
		for i := range locked {
			if before[i] != 0 || after[i] != 0 || locked[i] == 0 {
				continue
			}
			for j := range locked {
				if i != j && locked[j] == locked[i] {
					if at != 0 && at != i {
						found <- 0
						return
					}
					at = i
				}
			}
		}
		found <- uintptr(at) * 8
	}()
	return <-found
}

// lookAhead loads into the cache what the Go runtime keeps about the goroutine soon, the
// top of the stack of the goroutine next, and the lines of the other two.
//
//go:noescape
func lookAhead(soon, next uintptr, at *slot, end unsafe.Pointer)

// Prefetch loads the cache line at p.
func Prefetch(p unsafe.Pointer)
