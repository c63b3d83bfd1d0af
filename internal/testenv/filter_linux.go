package testenv

import "golang.org/x/sys/unix"

// SocketFilters reports whether sockets can have filters (SO_ATTACH_FILTER, socket(7)), by which a listener that
// is drained keeps new clients out. Some systems leave them to root.
func SocketFilters() bool {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	pass := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0xffffffff}
	return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &pass}) == nil
}
