//go:build !race

package chunk

const (
	// Reserve is what the Go runtime keeps free at the end of a stack.
	Reserve = 1024
	// See overhead.
	optimized   = 640
	unoptimized = 1280
)
