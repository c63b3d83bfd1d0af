//go:build linux && race

package simserver

// raceEnabled reports whether the race detector watches, under which everything is slower, and
// pools (sync.Pool) drop what they are given by chance.
const raceEnabled = true
