// Package proc starts, pins, reads and ends the processes that an experiment
// measures.
//
// It never measures the calling process and keeps nothing alive: every child
// is killed when its owner closes it, and the kernel kills it when the driver
// dies. All functions may be called from any goroutine.
package proc
