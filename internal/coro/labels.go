//go:build (amd64 || arm64) && !purego

package coro

import "unsafe"

// Labels are the profiler labels of the running goroutine (runtime/pprof,
// SetGoroutineLabels); nil: none.
//
// These two are what runtime/pprof itself calls. It has no other way to set labels back to what
// they were without a context, and would bring in the whole profiler. The Go runtime
// keeps both names for such users (go.dev/issue/67401).
//
//go:linkname Labels runtime/pprof.runtime_getProfLabel
func Labels() unsafe.Pointer

// SetLabels sets what Labels has returned.
//
//go:linkname SetLabels runtime/pprof.runtime_setProfLabel
func SetLabels(labels unsafe.Pointer)
