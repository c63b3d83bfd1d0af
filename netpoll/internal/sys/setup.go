//go:build linux

// Package sys makes the system calls of package netpoll, or has a simulation make them (kernel.Net). The calls never block,
// park or retry, but for EINTR. They may be called from any goroutine.
package sys

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// errnoErr is e as an error, nil for 0.
func errnoErr(e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

func Socket(family, typ int) (int, error) {
	if k := kernel.Net; k != nil {
		fd, e := k.Socket(family, typ)
		return int(fd), errnoErr(e)
	}
	return unix.Socket(family, typ|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

func Bind(fd int, sa *unix.RawSockaddrAny, salen uint32) syscall.Errno {
	if k := kernel.Net; k != nil {
		return k.Bind(fd, kernel.UnseenAt(sa), salen)
	}
	_, _, e := syscall.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(sa)), uintptr(salen))
	return e
}

func Listen(fd, backlog int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.Listen(fd, backlog))
	}
	return unix.Listen(fd, backlog)
}

func SetOption(fd, level, option, value int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.SetOption(fd, level, option, value))
	}
	return unix.SetsockoptInt(fd, level, option, value)
}

func Option(fd, level, option int) (int, error) {
	if k := kernel.Net; k != nil {
		v, e := k.Option(fd, level, option)
		return v, errnoErr(e)
	}
	return unix.GetsockoptInt(fd, level, option)
}

// SinceReceived is how long ago bytes came last on a TCP connection, 0 if that can't be known (tcp(7), TCP_INFO).
// In a simulation it is the value of that option, in milliseconds.
func SinceReceived(fd int) time.Duration {
	if k := kernel.Net; k != nil {
		ms, e := k.Option(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if e != 0 {
			return 0
		}
		return time.Duration(ms) * time.Millisecond
	}
	info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
	if err != nil {
		return 0
	}
	return time.Duration(info.Last_data_recv) * time.Millisecond
}

func Shutdown(fd, how int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.Shutdown(fd, how))
	}
	return unix.Shutdown(fd, how)
}

func Close(fd int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.Close(fd))
	}
	return unix.Close(fd)
}

func EpollCreate() (int, error) {
	if k := kernel.Net; k != nil {
		fd, e := k.EpollCreate()
		return int(fd), errnoErr(e)
	}
	return unix.EpollCreate1(unix.EPOLL_CLOEXEC)
}

func EpollAdd(set, fd int, event *unix.EpollEvent) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.EpollAdd(set, fd, *event))
	}
	return unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, event)
}

func EpollDelete(set, fd int) {
	if k := kernel.Net; k != nil {
		k.EpollDelete(set, fd)
		return
	}
	unix.EpollCtl(set, unix.EPOLL_CTL_DEL, fd, nil)
}

func Eventfd() (int, error) {
	if k := kernel.Net; k != nil {
		fd, e := k.Eventfd()
		return int(fd), errnoErr(e)
	}
	return unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
}

func WriteEventfd(fd int) syscall.Errno {
	if k := kernel.Net; k != nil {
		return k.EventfdWrite(fd)
	}
	one := uint64(1)
	_, _, e := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
	return e
}

// Connect is connect(2).
func Connect(fd int, sa *unix.RawSockaddrAny, salen uint32) syscall.Errno {
	_, _, e := syscall.RawSyscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(sa)), uintptr(salen))
	return e
}

// Name is getsockname(2), or getpeername(2) if peer is set.
func Name(fd int32, peer bool, sa *unix.RawSockaddrAny) (salen uint32, e syscall.Errno) {
	if k := kernel.Net; k != nil {
		return k.Name(fd, peer, kernel.UnseenAt(sa))
	}
	call := uintptr(unix.SYS_GETSOCKNAME)
	if peer {
		call = unix.SYS_GETPEERNAME
	}
	salen = unix.SizeofSockaddrAny
	if _, _, e = syscall.RawSyscall(call, uintptr(fd), uintptr(unsafe.Pointer(sa)), uintptr(unsafe.Pointer(&salen))); e != 0 {
		return 0, e
	}
	kernel.RaceRead(nil)
	return salen, 0
}
