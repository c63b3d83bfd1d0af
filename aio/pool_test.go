//go:build linux

package aio

import (
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestPoolLimitsAreChecked(t *testing.T) {
	defer SetPoolLimits(0, 0)
	for _, l := range [][2]int{{-1, 0}, {maxPoolThreads + 1, 0}, {4, 5}, {0, -1}} {
		testenv.ErrorSays(t, SetPoolLimits(l[0], l[1]), "want", "%v", l) // what would be right
	}
}

// One file system that hangs takes its share of the threads and no more; the others'
// requests pass.
func TestASlowFileSystemLeavesThreadsToOthers(t *testing.T) {
	must(t, SetPoolLimits(4, 3))
	defer SetPoolLimits(0, 0)
	rt := setting{"threads", openThreads, 2}.start(t)
	slow, fast := scratchFile(t, content(10), os.O_RDONLY), scratchFile(t, content(10), os.O_RDONLY)
	for i, f := range []*File{slow, fast} {
		f.settle()
		f.device.Store(uint64(i+1) << 40)
	}
	gate := make(chan struct{})
	var hanging, done atomic.Int32
	withFault(t, func(_ opcode, where via, fd int32, n int) (int, syscall.Errno) {
		if where == viaLoop {
			return 0, unix.EOPNOTSUPP
		}
		if fd == slow.fd {
			hanging.Add(1)
			<-gate
		}
		return n, 0
	})
	readers := func(n int, f *File) (all []*engine.Task) {
		for range n {
			all = append(all, rt.Go(func() {
				need(f.ReadAt(make([]byte, 10), 0))(t)
				if f == slow {
					done.Add(1)
				}
			}))
		}
		return all
	}
	slowReaders := readers(20, slow)
	testenv.Until(t, "three reads hang", func() bool { return hanging.Load() == 3 && busyRequests(slow) == 20 })
	for _, r := range readers(50, fast) {
		must(t, r.Join())
	}
	threads.mu.Lock()
	running := threads.running
	threads.mu.Unlock()
	testenv.True(t, hanging.Load() == 3 && done.Load() == 0 && running <= 4,
		"%d reads hang, %d have passed, %d threads; want 3, 0 and at most 4", hanging.Load(), done.Load(), running)
	close(gate)
	for _, r := range slowReaders {
		must(t, r.Join())
	}
	testenv.Until(t, "the threads end", func() bool {
		threads.mu.Lock()
		defer threads.mu.Unlock()
		return threads.running == 0 && len(threads.waiting) == 0
	})
}

// Requests that wait for a thread get one when the limits are raised, although what the others do does not end.
func TestRaisedLimitsServeWhatWaits(t *testing.T) {
	must(t, SetPoolLimits(1, 1))
	defer SetPoolLimits(0, 0)
	rt := setting{"threads", openThreads, 1}.start(t)
	call := func(folder int32, fn func()) *engine.Task {
		return rt.Go(func() {
			r := newRequest(opFunc, folder)
			r.fn = fn
			need(r.perform())(t)
		})
	}
	begun, gate := make(chan struct{}), make(chan struct{})
	hangs := call(1, func() { close(begun); <-gate })
	defer func() {
		close(gate)
		must(t, hangs.Join())
	}()
	<-begun
	var done atomic.Bool
	call(2, func() { done.Store(true) })
	testenv.Until(t, "the second waits for a thread", func() bool {
		threads.mu.Lock()
		defer threads.mu.Unlock()
		return len(threads.waiting) == 1
	})
	must(t, SetPoolLimits(2, 1))
	testenv.Until(t, "the second is served", done.Load)
}

// The devices take turns.
func TestThePoolServesDevicesInTurn(t *testing.T) {
	p := pool{devices: make(map[uint64]*device), most: 0, perDevice: 10}
	for i := range 9 {
		f := &File{}
		f.device.Store(uint64(1 + i/3))
		p.submit(&request{op: opFunc, file: f, n: i})
	}
	p.most = 10
	p.running = 1
	var order string
	for r, d := p.next(nil); r != nil; r, d = p.next(d) {
		order += strconv.Itoa(r.n)
	}
	testenv.Equal(t, order, "036147258", "served in the order")
}

// What hangs in the kernel, in opens here, keeps neither all workers of a loop's ring nor the
// threads for other folders.
func TestOpensThatHangLeaveOthersAlone(t *testing.T) {
	hanging := 4*runtime.NumCPU() + 2 // more than a ring has workers
	must(t, SetPoolLimits(hanging+1, hanging-maxWorking))
	defer SetPoolLimits(0, 0)
	for _, s := range settings() {
		if s.loops == 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			s.loops = 1
			rt := s.start(t)
			folder := closing(t, need(Open(t.TempDir()))(t))
			must(t, unix.Mkfifoat(int(folder.fd), "fifo", 0o600))
			// Without O_NONBLOCK an open waits until somebody opens the other end.
			open := func() {
				r := newRequest(opOpen, folder.fd)
				r.setPath("fifo")
				r.how = unix.OpenHow{Flags: unix.O_RDONLY | unix.O_CREAT | unix.O_CLOEXEC, Mode: 0o600}
				r.q = unsafe.Pointer(&r.how)
				fd := need(r.perform())(t)
				sysClose(int32(fd))
			}
			var begun, ended sync.WaitGroup
			for range hanging {
				begun.Add(1)
				ended.Add(1)
				rt.Go(func() { begun.Done(); open(); ended.Done() })
			}
			begun.Wait()
			var made atomic.Bool
			rt.Go(func() { must(t, Mkdir(filepath.Join(t.TempDir(), "new"), 0o700)); made.Store(true) })
			defer func() {
				fd := need(unix.Openat(int(folder.fd), "fifo", unix.O_RDWR, 0))(t)
				ended.Wait()
				sysClose(int32(fd))
			}()
			testenv.Until(t, "a folder is made", made.Load)
		})
	}
}
