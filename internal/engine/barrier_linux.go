//go:build linux && (amd64 || arm64) && !race && !purego

package engine

import (
	"sync"
	"syscall"

	"github.com/capriccio-go/capriccio/internal/coro"
)

// Commands of membarrier(2), Linux 4.14.
const (
	membarrierPrivateExpedited         = 1 << 3
	membarrierRegisterPrivateExpedited = 1 << 4
)

// canBarrier reports whether barrier works here.
var canBarrier = sync.OnceValue(func() bool {
	if !coro.Exact {
		return false
	}
	_, _, e := syscall.Syscall(sysMembarrier, membarrierRegisterPrivateExpedited, 0, 0)
	return e == 0
})

// barrier executes a full memory barrier on every thread of the process.
func barrier() {
	if _, _, e := syscall.Syscall(sysMembarrier, membarrierPrivateExpedited, 0, 0); e != 0 {
		panic("task: broken invariant: membarrier(2) worked before and now fails: " + e.Error())
	}
}

// QuickLocks reports whether a free lock is taken without its guard, see Mutex.lockQuick.
const QuickLocks = true
