//go:build linux

package netpoll

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// rawMax is the largest transfer, in bytes, done without telling the Go scheduler.
// Below it the kernel copies for a few microseconds at most; above it the loop's
// processor could be missed, so the call goes the ordinary way.
const rawMax = 64 << 10

// The wrappers below are the calls of the hot path. They never block: sockets are
// called with MSG_DONTWAIT, pipes are switched to O_NONBLOCK when they are adopted.
// recvfrom and sendto skip the file layer that read and write on a socket pass
// through, and MSG_NOSIGNAL keeps SIGPIPE away. Each retries EINTR.

func sysRecv(fd int32, b []byte, flags int) (int, syscall.Errno) {
	flags |= unix.MSG_DONTWAIT
	for {
		var r uintptr
		var e syscall.Errno
		if k := kernel.Net; k != nil {
			r, e = k.Recv(fd, kernel.Unseen(b), flags)
		} else if len(b) <= rawMax {
			r, _, e = syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		} else {
			r, _, e = syscall.Syscall6(unix.SYS_RECVFROM, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
		}
		if e == 0 {
			kernel.RaceRead(b[:r])
			return int(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func sysSend(fd int32, b []byte) (int, syscall.Errno) {
	const flags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	kernel.RaceWrite(b)
	for {
		var r uintptr
		var e syscall.Errno
		if k := kernel.Net; k != nil {
			r, e = k.Send(fd, kernel.Unseen(b))
		} else if len(b) <= rawMax {
			r, _, e = syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
		} else {
			r, _, e = syscall.Syscall6(unix.SYS_SENDTO, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), flags, 0, 0)
		}
		if e == 0 {
			return int(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// sysRead and sysWrite are for what is not a socket. Only pipes are known never to
// hold the caller up; a terminal or a device may, so raw says which it is.

func sysRead(fd int32, b []byte, raw bool) (int, syscall.Errno) {
	for {
		var r uintptr
		var e syscall.Errno
		if raw && len(b) <= rawMax {
			r, _, e = syscall.RawSyscall(unix.SYS_READ, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		} else {
			r, _, e = syscall.Syscall(unix.SYS_READ, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		}
		if e == 0 {
			kernel.RaceRead(b[:r])
			return int(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func sysWrite(fd int32, b []byte, raw bool) (int, syscall.Errno) {
	kernel.RaceWrite(b)
	for {
		var r uintptr
		var e syscall.Errno
		if raw && len(b) <= rawMax {
			r, _, e = syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		} else {
			r, _, e = syscall.Syscall(unix.SYS_WRITE, uintptr(fd),
				uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		}
		if e == 0 {
			return int(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func sysAccept(fd int32, rsa *unix.RawSockaddrAny) (nfd int32, salen uint32, e syscall.Errno) {
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

// sysClose does not retry: on Linux the descriptor is gone even after EINTR (close(2)). It is
// for sockets and pipes, which close at once.
func sysClose(fd int32) {
	if k := kernel.Net; k != nil {
		k.Close(int(fd))
		return
	}
	syscall.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}
