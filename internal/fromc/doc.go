// Package fromc calls a Go function from C, for tests of tasks that wait in such a
// function. Without cgo it is empty.
package fromc
