package testenv

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SocketFilters reports whether sockets can have filters (SO_ATTACH_FILTER, socket(7)), by which a listener that
// is drained keeps new clients out. Some systems leave them to root.
func SocketFilters() bool {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer syscall.Close(fd)
	pass := syscall.SockFilter{Code: syscall.BPF_RET | syscall.BPF_K, K: 0xffffffff}
	program := syscall.SockFprog{Len: 1, Filter: &pass}
	_, _, e := syscall.Syscall6(syscall.SYS_SETSOCKOPT, uintptr(fd), syscall.SOL_SOCKET, syscall.SO_ATTACH_FILTER,
		uintptr(unsafe.Pointer(&program)), unsafe.Sizeof(program), 0)
	return e == 0
}

// Refuse makes a system call fail with errno e in all threads of the process, for good
// (seccomp(2)).
func Refuse(call uintptr, e syscall.Errno) error {
	statement := func(code uint16, jf uint8, k uint32) unix.SockFilter {
		return unix.SockFilter{Code: code, Jf: jf, K: k}
	}
	filter := []unix.SockFilter{
		statement(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0), // the number of the call
		statement(unix.BPF_JMP|unix.BPF_JEQ|unix.BPF_K, 1, uint32(call)),
		statement(unix.BPF_RET|unix.BPF_K, 0, unix.SECCOMP_RET_ERRNO|uint32(e)),
		statement(unix.BPF_RET|unix.BPF_K, 0, unix.SECCOMP_RET_ALLOW),
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread() // the filter spreads from this thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
