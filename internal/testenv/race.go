//go:build race

package testenv

// Race says that the race detector watches. Nothing is detached then, see docs/native-waits.md.
const Race = true
