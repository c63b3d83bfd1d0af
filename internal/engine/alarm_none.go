//go:build !linux

package engine

import "time"

// A kernelTimer is only there on Linux.
type kernelTimer struct{}

func newKernelTimer(func()) *kernelTimer { return nil }

func (*kernelTimer) set(time.Duration) {}
func (*kernelTimer) close()            {}
