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
