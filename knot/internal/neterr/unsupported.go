//go:build !linux

package neterr

// The identifier below is undefined on purpose: it is the whole error message.
var _ = package_neterr_needs_linux_because_it_tells_errors_of_its_sockets
