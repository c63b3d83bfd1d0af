//go:build !linux || 386 || arm || mips || mipsle

package coro

// The identifier below is undefined on purpose. Everything that needs the runtime imports this
// package, so it is the whole error message.
var _ = capriccio_needs_64_bit_linux_because_it_waits_with_epoll_and_io_uring
