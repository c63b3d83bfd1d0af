//go:build race

package testenv

// Race reports whether the race detector is on. Nothing is detached then, see docs/native-waits.md.
const Race = true
