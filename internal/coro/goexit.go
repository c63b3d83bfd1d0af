package coro

import "runtime"

// ByGoexit reports whether the calling deferred function runs because of runtime.Goexit,
// and not because of a panic. It is for where recover has returned nil, which it also does
// for panic(nil) if GODEBUG has panicnil=1. Called by a deferred function, in its own frame.
func ByGoexit() bool {
	var pcs [8]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.Goexit":
			return true
		case f.Function == "runtime.gopanic" || !more:
			return false
		}
	}
}

// InGoexit reports whether the calling goroutine is being ended by runtime.Goexit, whatever has panicked and
// been recovered since that was called.
func InGoexit() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		if n == 0 {
			return false
		}
		frames := runtime.CallersFrames(pcs[:n])
		for more := true; more; {
			var f runtime.Frame
			if f, more = frames.Next(); f.Function == "runtime.Goexit" {
				return true
			}
		}
	}
}
