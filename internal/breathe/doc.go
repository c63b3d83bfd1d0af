// Package breathe lets long work, such as a snapshot of the blocking graph, share a processor
// with loops: the worker gives the processor up after each fifth of a millisecond, and the
// loops once a turn, while there is such work. The Go scheduler alone would let a busy loop
// have it for 10 ms at a time, and then the work. The counts are of the process because
// processors are.
package breathe
