//go:build linux

package aio

import (
	"os"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// mallocs counts the allocations of f.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

func TestReadsDoNotAllocate(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	name := scratch(t, content(64<<10))
	everywhere(t, func(t *testing.T) {
		f := need(OpenFile(name, os.O_RDONLY, 0))(t)
		defer f.Close()
		p := make([]byte, 4096)
		read := func() {
			for i := range 1000 {
				need(f.ReadAt(p, int64(i%15)*4096))(t)
				if i%15 == 0 {
					need(f.Seek(0, 0))(t)
				}
				need(f.Read(p))(t)
			}
		}
		read()
		testenv.AtMost(t, mallocs(read), 100, "2,000 reads from memory allocated N times")
		withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
			if where == viaLoop && op == opRead {
				return 0, unix.EAGAIN
			}
			return n, 0
		})
		read()
		testenv.AtMost(t, mallocs(read), 200, "2,000 reads that wait allocated N times")
		faults.Store(nil)
	})
}
