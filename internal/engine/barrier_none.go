//go:build !linux || !(amd64 || arm64) || race || purego

package engine

// canBarrier: there is no barrier here, and guard.askFor does without one.
func canBarrier() bool { return false }

func barrier() {}

// QuickLocks reports whether a free lock is taken without its guard. Here a guard that plain goroutines use is better
// shared from the start: a later caller may have to wait for the loop that owns it.
const QuickLocks = false
