//go:build amd64 || arm64

package main

// bigFrame has a frame of bigFrameBytes and touches every page of it. In Go it would also
// clear it, and the compiler moves single variables of that size off the stack.
func bigFrame()
