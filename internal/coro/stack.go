//go:build linux && (amd64 || arm64) && !purego

package coro

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Stack looks at the goroutine with identity g, which may run meanwhile. If it waits, in the Go
// runtime or in a system call, Stack fills in pcs with the return addresses on its stack,
// innermost first, and returns how many there are; otherwise, and if that can't be found out, it
// returns 0. The kind of wait must be judged by the addresses. again, as long as pcs, is for its own use.
//
// The addresses are those of one moment if the goroutine has not run in between. If it has,
// Stack notices that in almost all cases, and a frame that was on the stack all the time
// is among the others nevertheless.
func Stack(g uintptr, pcs, again []uintptr) int {
	y := layout()
	if y.status == 0 {
		return 0
	}
	n := y.walk(g, pcs)
	if n == 0 || n == len(pcs) {
		return 0
	}
	if m := y.walk(g, again); m != n || !slices.Equal(again[:n], pcs[:n]) {
		return 0
	}
	return n
}

// CanStack reports whether Stack can be used with this Go release.
func CanStack() bool { return layout().status != 0 }

// A gLayout says where a g of the Go runtime keeps what. Its stack bounds are at 0 and 8.
type gLayout struct {
	status uintptr // 4 bytes
	bp     uintptr // frame pointer, while it does not run
}

// spAt is where g keeps the stack pointer, pcAt the program counter, while it does not run
// (g.sched, as lookAhead has it).
const (
	spAt = 56
	pcAt = 64
)

// States of a g (runtime.gStatus).
const (
	gRunning = 2
	gSyscall = 3
	gWaiting = 4
)

func (y *gLayout) statusOf(g uintptr) uint32 {
	w := Peek(g + y.status&^7)
	return uint32(w >> (y.status & 7 * 8))
}

// walk follows the frame pointers of g.
func (y *gLayout) walk(g uintptr, pcs []uintptr) int {
	status := y.statusOf(g)
	if status != gWaiting && status != gSyscall || len(pcs) == 0 {
		return 0
	}
	lo, hi := uintptr(Peek(g)), uintptr(Peek(g+8))
	sp, pc, bp := uintptr(Peek(g+spAt)), uintptr(Peek(g+pcAt)), uintptr(Peek(g+y.bp))
	pcs[0] = pc
	n := 1
	// Stacks lie in memory that the Go runtime never unmaps; each frame is above the last.
	for at, below := bp, sp; n < len(pcs); n++ {
		if at == 0 {
			break // the base
		}
		if at < below || at+16 > hi || at%8 != 0 || at < lo {
			return 0
		}
		ret := uintptr(Peek(at + 8))
		if ret == 0 {
			break
		}
		pcs[n] = ret
		below, at = at+16, uintptr(Peek(at))
	}
	if y.statusOf(g) != status || uintptr(Peek(g)) != lo || uintptr(Peek(g+8)) != hi || uintptr(Peek(g+spAt)) != sp ||
		uintptr(Peek(g+pcAt)) != pc || uintptr(Peek(g+y.bp)) != bp {
		return 0
	}
	return n
}

// layout is what Stack knows of the Go runtime; all are 0 if that could not be found out.
var layout = sync.OnceValue(findLayout)

// findLayout tries it out: with a goroutine that waits for a channel, one that sleeps, one in a
// system call, and one that computes.
func findLayout() gLayout {
	var fds [2]int
	if syscall.Pipe2(fds[:], syscall.O_CLOEXEC) != nil {
		return gLayout{}
	}
	defer syscall.Close(fds[0])
	end := make(chan struct{})
	var computed atomic.Bool
	start := func(wait func()) uintptr {
		g := make(chan uintptr, 1)
		go func() {
			g <- G()
			wait()
		}()
		return <-g
	}
	onChan := start(func() { probeWait(end) })
	onSelect := start(func() {
		select {
		case <-end:
		case <-make(chan int):
		}
	})
	inCall := start(func() { var b [1]byte; syscall.Read(fds[0], b[:]) })
	computes := start(func() {
		for !computed.Load() {
			runtime.Gosched() // it can run all the time, but does not keep others from it
		}
	})
	defer func() {
		computed.Store(true)
		close(end)
		syscall.Close(fds[1])
	}()
	// The goroutines get there after a moment, and nothing signals that.
	for wait := 20 * time.Microsecond; wait < time.Second; wait *= 2 {
		time.Sleep(wait)
		if y, ok := layoutBy(onChan, onSelect, inCall, computes); ok {
			return y
		}
	}
	return gLayout{}
}

// layoutBy finds the one place with the right value in all four, and in the caller.
func layoutBy(onChan, onSelect, inCall, computes uintptr) (gLayout, bool) {
	const words = 56
	var found gLayout
	me := G()
	for at := uintptr(16); at < words*8; at += 4 {
		y := gLayout{status: at}
		if y.statusOf(onChan) == gWaiting && y.statusOf(onSelect) == gWaiting && y.statusOf(inCall) == gSyscall && y.statusOf(me) == gRunning && y.statusOf(computes) <= gRunning && y.statusOf(computes) != 0 {
			if found.status != 0 {
				return found, false
			}
			found = y
		}
	}
	if found.status == 0 {
		return found, false
	}
	for at := uintptr(pcAt + 8); at <= pcAt+48; at += 8 {
		y := gLayout{found.status, at}
		if y.shows(onChan, "internal/coro.probeWait") && y.shows(inCall, "syscall.Read") {
			return y, true
		}
	}
	return found, false
}

// shows reports whether the stack of g has a function with that name, and ends at its base.
func (y *gLayout) shows(g uintptr, function string) bool {
	var pcs [64]uintptr
	n := y.walk(g, pcs[:])
	if n == 0 || n == len(pcs) {
		return false
	}
	seen, last := false, ""
	frames := runtime.CallersFrames(pcs[:n])
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		if f.Function != "" {
			last = f.Function
		}
		if len(f.Function) >= len(function) && f.Function[len(f.Function)-len(function):] == function {
			seen = true
		}
	}
	return seen && last == "runtime.goexit"
}

//go:noinline
func probeWait(end chan struct{}) { <-end }
