//go:build !race

package stackchunk

const (
	// reserve is what the Go runtime keeps free at the end of a stack.
	reserve = 1024
	// See overhead.
	optimized   = 640
	unoptimized = 1280
)
