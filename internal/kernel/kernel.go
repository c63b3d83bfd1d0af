//go:build linux

// Package kernel is the seam between packages that make system calls and a simulation
// of the operating system. It has no implementation of its own: while Net and Disk are
// nil, as in every program, the callers make the system calls themselves, and the seam
// costs them the load of one word.
package kernel

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Net, if not nil, stands in for the system calls on sockets and epoll sets, Disk for
// what decides how long a transfer of a file takes and how it fails. They may be set
// only while no runtime runs in the process.
var (
	Net  Network
	Disk Files
)

// A Network simulates sockets, epoll and eventfd. Each method is the system call of its
// name, never blocking but for EpollWait, and may return EINTR where that may. Buffers
// and structures are the caller's, and may lie on its stack: they must not be kept.
// The methods may be called from any goroutine.
type Network interface {
	Socket(family, typ int) (fd uintptr, e syscall.Errno)
	Bind(fd int, sa *unix.RawSockaddrAny, salen uint32) syscall.Errno
	Listen(fd, backlog int) syscall.Errno
	Accept(fd int32, sa *unix.RawSockaddrAny) (nfd uintptr, salen uint32, e syscall.Errno)
	// Name is getsockname(2), or getpeername(2) if peer is set.
	Name(fd int32, peer bool, sa *unix.RawSockaddrAny) (salen uint32, e syscall.Errno)
	SetOption(fd, level, option, value int) syscall.Errno
	Option(fd, level, option int) (value int, e syscall.Errno)
	Shutdown(fd, how int) syscall.Errno
	Close(fd int) syscall.Errno

	Recv(fd int32, b []byte, flags int) (n uintptr, e syscall.Errno)
	Send(fd int32, b []byte) (n uintptr, e syscall.Errno)
	SendMsg(fd int32, vector []unix.Iovec) (n uintptr, e syscall.Errno)
	// SendFile takes the bytes from the file, whose descriptor is a real one.
	SendFile(fd, file int, off int64, n int) (sent uintptr, e syscall.Errno)

	EpollCreate() (fd uintptr, e syscall.Errno)
	EpollAdd(set, fd int, event unix.EpollEvent) syscall.Errno
	EpollDelete(set, fd int) syscall.Errno
	// EpollWait waits for at most timeout, for ever if that is below 0.
	EpollWait(set int, events []unix.EpollEvent, timeout time.Duration) (n uintptr, e syscall.Errno)
	Eventfd() (fd uintptr, e syscall.Errno)
	EventfdWrite(fd int) syscall.Errno

	// Epoch is a time before all times of the simulation.
	Epoch() time.Time
}

// A Files decides about transfers of files, whose bytes are in real ones. The methods
// may be called from any goroutine.
type Files interface {
	// Now is asked before n bytes of fd are read or written at once: how many of them
	// that is possible for, or EAGAIN or what else it fails with.
	Now(fd int32, write bool, n int) (int, syscall.Errno)
	// Wait is asked before an operation that waits for the disk, with the name that
	// package aio gives it. It blocks for as long as that takes.
	Wait(fd int32, op string, n int) (int, syscall.Errno)
}

// Unseen is s, hidden from the compiler's escape analysis, so that it can
// stay on the stack.
func Unseen[T any](s []T) []T {
	return unsafe.Slice(UnseenAt(unsafe.SliceData(s)), len(s))
}

// UnseenAt is Unseen for one variable.
func UnseenAt[T any](p *T) *T {
	x := uintptr(unsafe.Pointer(p))
	return *(**T)(unsafe.Pointer(&x))
}
