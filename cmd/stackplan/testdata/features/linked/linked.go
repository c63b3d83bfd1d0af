// Package linked calls a function by another name that the linker knows.
package linked

import _ "unsafe" // for go:linkname

//go:linkname nanotime runtime.nanotime
func nanotime() int64

//go:linkname other github.com/capriccio-go/capriccio/cmd/stackplan/testdata/features/linked.real
func other(n int) int

//go:noinline
func real(n int) int {
	var buf [2000]int
	for i := range buf {
		buf[i] = n
	}
	return buf[n] + 1
}

// Call calls both.
//
//go:noinline
func Call(n int) int {
	before := nanotime()
	k := other(n)
	if nanotime() < before {
		return 0
	}
	return k
}
