//go:build !linux

package peerwatch

// The identifier below is undefined on purpose: it is the whole error message.
var _ = package_peerwatch_needs_linux_because_it_asks_poll_for_rdhup
