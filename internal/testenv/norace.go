//go:build !race

package testenv

// Race says that the race detector watches.
const Race = false
