//go:build !linux

package aio

// The identifier below is undefined on purpose: it is the whole error message.
var _ = package_aio_needs_linux_because_it_reads_files_with_io_uring_and_preadv2
