//go:build !cgo

package withc

// Sum adds without C.
func Sum(a, b int) int { return a + b + area(b)*0 }
