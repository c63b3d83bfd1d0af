//go:build !race

package stackchunk

// reserve is what the Go runtime keeps free at the end of a stack.
const reserve = 1024
