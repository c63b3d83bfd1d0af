//go:build !linux

package uring

// The identifier below is undefined on purpose: it is the whole error message.
var _ = package_uring_needs_linux_because_it_is_an_interface_of_that_kernel
