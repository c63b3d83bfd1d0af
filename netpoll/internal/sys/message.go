//go:build linux

package sys

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// SendMsg sends what iov holds, size bytes, with ancillary data, to an address if tolen is above 0 (sendmsg(2)).
func SendMsg(fd int32, iov []unix.Iovec, size int, oob []byte, to *unix.RawSockaddrAny, tolen uint32) (int, syscall.Errno) {
	const flags = unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL
	msg := unix.Msghdr{Iov: unsafe.SliceData(iov), Control: unsafe.SliceData(oob)}
	msg.SetIovlen(len(iov))
	msg.SetControllen(len(oob))
	if tolen > 0 {
		msg.Name, msg.Namelen = (*byte)(unsafe.Pointer(to)), tolen
	}
	for {
		var r uintptr
		var e syscall.Errno
		if k := kernel.Net; k != nil {
			r, e = k.SendMsg(fd, kernel.Unseen(iov))
		} else if size <= RawMax {
			r, _, e = syscall.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), flags)
		} else {
			r, _, e = syscall.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), flags)
		}
		if e == 0 {
			return int(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// RecvMsg receives one datagram with its address and ancillary data (recvmsg(2)).
func RecvMsg(fd int32, b, oob []byte, rsa *unix.RawSockaddrAny) (n, oobn, flags int, salen uint32, e syscall.Errno) {
	for {
		iov := unix.Iovec{Base: unsafe.SliceData(b)}
		iov.SetLen(len(b))
		msg := unix.Msghdr{
			Name: (*byte)(unsafe.Pointer(rsa)), Namelen: unix.SizeofSockaddrAny,
			Iov: &iov, Control: unsafe.SliceData(oob),
		}
		msg.SetIovlen(1)
		msg.SetControllen(len(oob))
		r, _, e := syscall.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)),
			unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if e == 0 {
			kernel.RaceRead(b[:min(int(r), len(b))])
			return int(r), int(msg.Controllen), int(msg.Flags), msg.Namelen, 0
		}
		if e != unix.EINTR {
			return 0, 0, 0, 0, e
		}
	}
}

// RecvUnix is Recv on a unix stream socket. drains reports whether a read shorter than asked for leaves
// nothing: the kernel stops at a message with descriptors, or with other credentials if they were asked for
// (SO_PASSCRED). MSG_CTRUNC tells of both here, where there is room for neither (recvmsg(2), unix(7)).
func RecvUnix(fd int32, b []byte) (n int, drains bool, e syscall.Errno) {
	if len(b) > RawMax || kernel.Net != nil {
		n, e = Recv(fd, b, 0)
		return n, false, e
	}
	n, _, flags, _, e := RecvMsg(fd, b, nil, nil)
	return n, flags&unix.MSG_CTRUNC == 0, e
}

// SendFile sends n bytes of a file from offset off on (sendfile(2)). If raw is set the Go scheduler is not told. It does not
// retry EINTR.
func SendFile(fd int32, file int, off, n int64, raw bool) (sent uintptr, e syscall.Errno) {
	kernel.RaceWrite(nil)
	switch k := kernel.Net; {
	case k != nil:
		return k.SendFile(int(fd), file, off, int(n))
	case raw:
		sent, _, e = syscall.RawSyscall6(unix.SYS_SENDFILE, uintptr(fd), uintptr(file), uintptr(unsafe.Pointer(&off)), uintptr(n), 0, 0)
	default:
		sent, _, e = syscall.Syscall6(unix.SYS_SENDFILE, uintptr(fd), uintptr(file), uintptr(unsafe.Pointer(&off)), uintptr(n), 0, 0)
	}
	return sent, e
}

// Splice moves up to n bytes between a pipe and another descriptor (splice(2)).
func Splice(from, to int, n int64) (int64, syscall.Errno) {
	for {
		r, _, e := syscall.Syscall6(unix.SYS_SPLICE, uintptr(from), 0, uintptr(to), 0, uintptr(n), unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if e == 0 {
			return int64(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}
