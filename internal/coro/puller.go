//go:build (amd64 || arm64) && !purego

package coro

import (
	"iter"
	"runtime"
	"slices"
	"unsafe"
)

// Puller returns the identity of the goroutine that waits in iter.Pull's next or stop for the goroutine with identity
// of to yield or return; 0 if iter.Pull has not made the goroutine with identity of, or if that can't be found out. It
// must be the calling goroutine's identity or the result of another Puller in the same chain: such a goroutine can't
// end meanwhile.
func Puller(of uintptr) uintptr

// pull is what Puller knows of the Go runtime; all are 0 if that could not be found out.
//
//lint:ignore U1000 the assembly reads it
var pull = findPull()

type pullLayout struct {
	start   uintptr // where a goroutine of iter.Pull starts
	startAt uintptr // where a g keeps that
	coroAt  uintptr // how far from the base of its stack such a goroutine keeps its coro, which begins with the goroutine that waits for it
}

// findPull tries it out with three pulls from different depths.
func findPull() pullLayout {
	found := make(chan pullLayout)
	go func() {
		first := probePull(0)
		for i := 1; i < 3; i++ {
			if probePull(i) != first {
				first = pullLayout{}
			}
		}
		found <- first
	}()
	return <-found
}

// probePull makes a pull and looks: at its g for where it starts, and at the base of its
// stack for the first word that both ends of the pull hold too and that leads to the caller.
//
//go:noinline
func probePull(depth int) (p pullLayout) {
	if depth > 0 {
		return probePull(depth - 1)
	}
	me := G()
	var next func() (struct{}, bool)
	var stop func()
	next, stop = iter.Pull(func(func(struct{}) bool) {
		const words = 56
		var of [words]uintptr
		var base [32]uintptr
		g := G()
		high := uintptr(Peek(g + 8))
		copyFrom(&of[0], g, words)
		copyFrom(&base[0], high-unsafe.Sizeof(base), uintptr(len(base)))
		if uintptr(Peek(g+8)) != high { // the stack has moved
			return
		}
		for i, w := range of {
			if f := runtime.FuncForPC(w); f != nil && f.Entry() == w && f.Name() == "runtime.corostart" {
				p.start, p.startAt = w, uintptr(i)*8
			}
		}
		inNext := (*[3]uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&next)))
		inStop := (*[3]uintptr)(*(*unsafe.Pointer)(unsafe.Pointer(&stop)))
		for i := len(base) - 1; i >= 0; i-- {
			w := base[i]
			if w%8 == 0 && w>>32 == me>>32 && slices.Contains(inNext[1:], w) && slices.Contains(inStop[1:], w) &&
				uintptr(Peek(w)) == me {
				p.coroAt = uintptr(len(base)-i) * 8
				return
			}
		}
	})
	next()
	if p.start == 0 || p.coroAt == 0 {
		return pullLayout{}
	}
	return p
}

func copyFrom(to *uintptr, from, n uintptr) {
	CopyWords(unsafe.Pointer(to), *(*unsafe.Pointer)(unsafe.Pointer(&from)), n)
}
