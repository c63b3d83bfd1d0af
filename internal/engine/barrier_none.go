//go:build !linux || !(amd64 || arm64) || race || purego

package engine

// canBarrier says that there is no barrier here; guard.askFor does without.
func canBarrier() bool { return false }

func barrier() {}

// ownQuickly: see Mutex.lockQuick.
const ownQuickly = false
