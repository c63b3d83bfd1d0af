//go:build !race

package stackchunk

const (
	// reserve is what the Go runtime keeps free at the end of a stack.
	reserve = 1024
	// overhead is at most what a chunk's own frames and the Go runtime's below take.
	overhead = 640
)
