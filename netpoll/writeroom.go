//go:build linux

package netpoll

import (
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/kernel"
)

// The values of SO_MEMINFO that WriteRoom needs, in bytes (linux/sock_diag.h).
const (
	memSendBuffer = 3 // SK_MEMINFO_SNDBUF
	memQueued     = 5 // SK_MEMINFO_WMEM_QUEUED
	memValues     = 9 // SK_MEMINFO_VARS
)

// WriteRoom returns how many bytes, about, a Write can hand to the kernel now without waiting: rather too few than too
// many, as the kernel counts its own bookkeeping too. It is math.MaxInt where that can't be told, as for sockets other
// than those of TCP. A program asks before it reads a large piece to pass on: the piece would stay in memory while its
// receiver takes nothing. One system call (SO_MEMINFO, getsockopt(2)); it never parks.
func (c *inner) WriteRoom() int {
	d := &c.d
	if d.kind != kindTCP || kernel.Net != nil || d.use() != nil {
		return math.MaxInt
	}
	defer d.unuse()
	var mem [memValues]uint32
	size := uint32(unsafe.Sizeof(mem))
	_, _, e := syscall.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(d.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&mem)), uintptr(unsafe.Pointer(&size)), 0)
	if e != 0 {
		return math.MaxInt
	}
	free := int(mem[memSendBuffer]) - int(mem[memQueued])
	return max(free-free/4, 0)
}
