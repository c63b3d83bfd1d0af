//go:build race

package chunk

const (
	// Reserve is what the Go runtime keeps free at the end of a stack.
	Reserve = 2048
	// See overhead.
	optimized   = 1024
	unoptimized = 2048
)
