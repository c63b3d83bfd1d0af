//go:build linux

package aio

import (
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestPoolLimitsAreChecked(t *testing.T) {
	defer SetPoolLimits(PoolLimits{})
	for _, l := range []PoolLimits{{Threads: -1}, {Threads: maxPoolThreads + 1}, {Threads: 4, PerDevice: 5}, {PerDevice: -1}} {
		if err := SetPoolLimits(l); err == nil {
			t.Errorf("%+v was accepted", l)
		} else if !contains(err, "want") {
			t.Errorf("%v does not say what would be right", err)
		}
	}
}

// One file system that hangs takes its share of the threads and no more; the others'
// requests pass.
func TestASlowFileSystemLeavesThreadsToOthers(t *testing.T) {
	must(t, SetPoolLimits(PoolLimits{Threads: 4, PerDevice: 3}))
	defer SetPoolLimits(PoolLimits{})
	rt := setting{"threads", openThreads, 2, false}.start(t)
	slow := need(Open(scratch(t, content(10))))(t)
	fast := need(Open(scratch(t, content(10))))(t)
	for _, f := range []*File{slow, fast} {
		f.settle()
	}
	slow.device.Store(1 << 40)
	fast.device.Store(2 << 40)

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
	var slowReaders, fastReaders sync.WaitGroup
	for range 20 {
		slowReaders.Add(1)
		rt.Go(func() {
			defer slowReaders.Done()
			need(slow.ReadAt(make([]byte, 10), 0))(t)
			done.Add(1)
		})
	}
	testenv.Until(t, "three reads hang", func() bool { return hanging.Load() == 3 && busyRequests(slow) == 20 })
	for range 50 {
		fastReaders.Add(1)
		rt.Go(func() {
			defer fastReaders.Done()
			need(fast.ReadAt(make([]byte, 10), 0))(t)
		})
	}
	fastReaders.Wait()
	threads.mu.Lock()
	running := threads.running
	threads.mu.Unlock()
	testenv.True(t, hanging.Load() == 3 && done.Load() == 0 && running <= 4,
		"%d reads hang, %d have passed, %d threads; want 3, 0 and at most 4", hanging.Load(), done.Load(), running)
	close(gate)
	slowReaders.Wait()
	must(t, slow.Close())
	must(t, fast.Close())
	testenv.Until(t, "the threads end", func() bool {
		threads.mu.Lock()
		defer threads.mu.Unlock()
		return threads.running == 0 && len(threads.waiting) == 0
	})
}

// The devices take turns.
func TestThePoolServesDevicesInTurn(t *testing.T) {
	p := pool{devices: make(map[uint64]*device), limits: PoolLimits{Threads: 0, PerDevice: 10}}
	for i := range 9 {
		f := &File{}
		f.device.Store(uint64(1 + i/3))
		p.submit(&request{op: opFunc, file: f, n: i})
	}
	p.limits.Threads = 10
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
	must(t, SetPoolLimits(PoolLimits{Threads: hanging + 1, PerDevice: hanging - maxWorking}))
	defer SetPoolLimits(PoolLimits{})
	for _, s := range settings() {
		if s.loops == 0 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			s.loops = 1
			rt := s.start(t)
			folder := need(Open(t.TempDir()))(t)
			defer folder.Close()
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
