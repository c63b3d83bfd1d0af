//go:build linux

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// RawMax is the largest transfer, in bytes, done without telling the Go scheduler.
// Below it the kernel copies for a few microseconds at most; above it the loop's
// processor could be missed, so the call goes the ordinary way.
const RawMax = 64 << 10

// The wrappers below are the calls of the hot path. They never block: sockets are
// called with MSG_DONTWAIT, pipes are switched to O_NONBLOCK when they are adopted.
// recvfrom and sendto skip the file layer that read and write on a socket pass
// through, and MSG_NOSIGNAL keeps SIGPIPE away. Each retries EINTR.

func Recv(fd int32, b []byte, flags int) (int, syscall.Errno) {
	n, e := transfer(unix.SYS_RECVFROM, fd, b, flags|unix.MSG_DONTWAIT, true)
	if e == 0 {
		kernel.RaceRead(b[:n])
	}
	return n, e
}

func Send(fd int32, b []byte, flags int) (int, syscall.Errno) {
	kernel.RaceWrite(b)
	return transfer(unix.SYS_SENDTO, fd, b, flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, true)
}

// Read and Write are for descriptors other than sockets. Only pipes are known never to
// hold the caller up; a terminal or a device may, so raw says which it is.

func Read(fd int32, b []byte, raw bool) (int, syscall.Errno) {
	n, e := transfer(unix.SYS_READ, fd, b, 0, raw)
	if e == 0 {
		kernel.RaceRead(b[:n])
	}
	return n, e
}

func Write(fd int32, b []byte, raw bool) (int, syscall.Errno) {
	kernel.RaceWrite(b)
	return transfer(unix.SYS_WRITE, fd, b, 0, raw)
}

// transfer makes one of these calls. read and write have no flags.
func transfer(call uintptr, fd int32, b []byte, flags int, raw bool) (int, syscall.Errno) {
	for {
		var r uintptr
		var e syscall.Errno
		switch k := kernel.Net; {
		case k != nil && call == unix.SYS_RECVFROM:
			r, e = k.Recv(fd, kernel.Unseen(b), flags)
		case k != nil && call == unix.SYS_SENDTO:
			r, e = k.Send(fd, kernel.Unseen(b))
		case raw && len(b) <= RawMax:
			r, _, e = syscall.RawSyscall6(call, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		default:
			r, _, e = syscall.Syscall6(call, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		}
		if e == 0 {
			return int(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func Accept(fd int32, rsa *unix.RawSockaddrAny) (nfd int32, salen uint32, e syscall.Errno) {
	for {
		var r uintptr
		var e syscall.Errno
		if k := kernel.Net; k != nil {
			r, salen, e = k.Accept(fd, kernel.UnseenAt(rsa))
		} else {
			salen = unix.SizeofSockaddrAny
			r, _, e = syscall.RawSyscall6(unix.SYS_ACCEPT4, uintptr(fd), uintptr(unsafe.Pointer(rsa)),
				uintptr(unsafe.Pointer(&salen)), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0, 0)
		}
		if e == 0 {
			kernel.RaceRead(nil)
			return int32(r), salen, 0
		}
		if e != unix.EINTR {
			return -1, 0, e
		}
	}
}

// CloseSocket does not retry: on Linux the descriptor is gone even after EINTR (close(2)). It is
// for sockets and pipes, which close at once.
func CloseSocket(fd int32) {
	if k := kernel.Net; k != nil {
		k.Close(int(fd))
		return
	}
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}
