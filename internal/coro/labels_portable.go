//go:build !(amd64 || arm64) || purego

package coro

import "unsafe"

// Labels is always nil here: labels are left as they are.
func Labels() unsafe.Pointer { return nil }

// SetLabels does nothing.
func SetLabels(unsafe.Pointer) {}
