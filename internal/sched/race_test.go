//go:build race

package sched

// raced means that the race detector is on: it makes simulations, which have one goroutine
// anyway, twenty times slower.
const raced = true
