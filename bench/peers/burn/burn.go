// Package burn keeps the processor busy.
package burn

var sink uint64

// Steps computes for some steps, of which none can be left out: as many take the same
// time here as in the driver's servers, as each has to wait for the one before.
//
//go:noinline
func Steps(n int) {
	v := sink
	for range n {
		v = v*6364136223846793005 + 1442695040888963407
	}
	sink = v
}
