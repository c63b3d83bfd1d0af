//go:build race

package stackchunk

const (
	// reserve is what the Go runtime keeps free at the end of a stack.
	reserve = 2048
	// See overhead.
	optimized   = 1024
	unoptimized = 2048
)
