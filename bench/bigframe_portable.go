//go:build !amd64 && !arm64

package main

// bigFrame needs bigFrameBytes of stack, in many frames, and touches every page of it.
func bigFrame() { useStack(bigFrameBytes) }
