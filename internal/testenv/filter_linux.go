package testenv

import (
	"syscall"
	"unsafe"
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
