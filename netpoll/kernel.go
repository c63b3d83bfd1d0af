//go:build linux

package netpoll

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// The system calls that set things up. In a simulation they are those of kernel.Net, as
// are those of the hot path, each in its place in sys.go, copy.go, sendfile.go and epoll.go.

// errnoErr is e as an error, nil for 0.
func errnoErr(e syscall.Errno) error {
	if e != 0 {
		return e
	}
	return nil
}

func openSocket(family, typ int) (int, error) {
	if k := kernel.Net; k != nil {
		fd, e := k.Socket(family, typ)
		return int(fd), errnoErr(e)
	}
	return unix.Socket(family, typ|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
}

func bindSocket(fd int, sa *unix.RawSockaddrAny, salen uint32) syscall.Errno {
	if k := kernel.Net; k != nil {
		return k.Bind(fd, kernel.UnseenAt(sa), salen)
	}
	_, _, e := syscall.RawSyscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(sa)), uintptr(salen))
	return e
}

func listenOn(fd, backlog int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.Listen(fd, backlog))
	}
	return unix.Listen(fd, backlog)
}

func setOption(fd, level, option, value int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.SetOption(fd, level, option, value))
	}
	return unix.SetsockoptInt(fd, level, option, value)
}

func option(fd, level, option int) (int, error) {
	if k := kernel.Net; k != nil {
		v, e := k.Option(fd, level, option)
		return v, errnoErr(e)
	}
	return unix.GetsockoptInt(fd, level, option)
}

// sinceReceived is how long ago bytes came last on a TCP connection, 0 if that can't be known (tcp(7), TCP_INFO).
// In a simulation it is the value of that option, in milliseconds.
func sinceReceived(fd int) time.Duration {
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

func shutdown(fd, how int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.Shutdown(fd, how))
	}
	return unix.Shutdown(fd, how)
}

func closeFD(fd int) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.Close(fd))
	}
	return unix.Close(fd)
}

func epollCreate() (int, error) {
	if k := kernel.Net; k != nil {
		fd, e := k.EpollCreate()
		return int(fd), errnoErr(e)
	}
	return unix.EpollCreate1(unix.EPOLL_CLOEXEC)
}

func epollAdd(set, fd int, event *unix.EpollEvent) error {
	if k := kernel.Net; k != nil {
		return errnoErr(k.EpollAdd(set, fd, *event))
	}
	return unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, event)
}

func epollDelete(set, fd int) {
	if k := kernel.Net; k != nil {
		k.EpollDelete(set, fd)
		return
	}
	unix.EpollCtl(set, unix.EPOLL_CTL_DEL, fd, nil)
}

func openEventfd() (int, error) {
	if k := kernel.Net; k != nil {
		fd, e := k.Eventfd()
		return int(fd), errnoErr(e)
	}
	return unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
}

func writeEventfd(fd int) syscall.Errno {
	if k := kernel.Net; k != nil {
		return k.EventfdWrite(fd)
	}
	one := uint64(1)
	_, _, e := syscall.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), 8)
	return e
}
