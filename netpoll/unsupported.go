//go:build !linux

package netpoll

// The identifier below is undefined on purpose: it is the whole error message.
var _ = package_netpoll_needs_linux_because_it_waits_with_epoll
