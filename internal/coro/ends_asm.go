//go:build (amd64 || arm64) && !purego

package coro

import "unsafe"

// asEnds gives both ends of a pull one type. An argument or result of size 0 takes no
// register in Go's calling convention (GOROOT/src/cmd/compile/abi-internal.md), so the
// three types are called alike. Check finds out. A variable for tests.
var asEnds = func(next func() (struct{}, bool), yield func(struct{}) bool) (n, y func() bool) {
	return *(*func() bool)(unsafe.Pointer(&next)), *(*func() bool)(unsafe.Pointer(&yield))
}
