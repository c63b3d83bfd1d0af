//go:build linux && !giouring

package uring

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// kernel is what a Ring needs of the operating system. Tests put another in its place.
type kernel interface {
	setup(entries uint32, p *Params) (fd int, e syscall.Errno)
	// enter is io_uring_enter(2). wait tells the Go scheduler that it may take long.
	enter(fd int, submit, complete, flags uint32, arg unsafe.Pointer, size uintptr, wait bool) (int, syscall.Errno)
	register(fd int, op uint32, arg unsafe.Pointer, n uint32) (int, syscall.Errno)
	// mmap maps memory of a ring, or anonymous memory if fd is negative.
	mmap(fd int, offset int64, length uintptr) (unsafe.Pointer, error)
	munmap(p unsafe.Pointer, length uintptr)
	close(fd int)
}

type linux struct{}

func (linux) setup(entries uint32, p *Params) (int, syscall.Errno) {
	fd, _, e := syscall.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	return int(fd), e
}

func (linux) enter(fd int, submit, complete, flags uint32, arg unsafe.Pointer, size uintptr, wait bool) (int, syscall.Errno) {
	if wait {
		n, _, e := syscall.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), uintptr(complete),
			uintptr(flags), uintptr(arg), size)
		return int(n), e
	}
	n, _, e := syscall.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(fd), uintptr(submit), uintptr(complete),
		uintptr(flags), uintptr(arg), size)
	return int(n), e
}

func (linux) register(fd int, op uint32, arg unsafe.Pointer, n uint32) (int, syscall.Errno) {
	r, _, e := syscall.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(fd), uintptr(op), uintptr(arg), uintptr(n), 0, 0)
	return int(r), e
}

func (linux) mmap(fd int, offset int64, length uintptr) (unsafe.Pointer, error) {
	flags := unix.MAP_SHARED | unix.MAP_POPULATE
	if fd < 0 {
		flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	}
	return unix.MmapPtr(fd, offset, nil, length, unix.PROT_READ|unix.PROT_WRITE, flags)
}

func (linux) munmap(p unsafe.Pointer, length uintptr) { unix.MunmapPtr(p, length) }

func (linux) close(fd int) { unix.Close(fd) }
