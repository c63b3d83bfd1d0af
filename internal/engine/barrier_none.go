//go:build !linux || !(amd64 || arm64) || race || purego

package engine

// canBarrier: there is no barrier here, and guard.askFor does without one.
func canBarrier() bool { return false }

func barrier() {}

// QuickLocks reports whether what is free is locked without the guard. Here the guard of what plain goroutines
// use is better shared from the start: whatever comes later may have to wait for the loop that owns it.
const QuickLocks = false
