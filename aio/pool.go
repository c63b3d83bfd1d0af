//go:build linux

package aio

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// maxPoolThreads is the most threads that SetPoolLimits takes.
const maxPoolThreads = 4096

// SetPoolLimits bounds the threads of the process that wait for the disk where io_uring can't: because there is none,
// or for operations that it lacks, like reading folders. Requests under way go on. It never parks. There is no limit on
// the requests that wait for a thread: each is a parked task.
//
// all is how many threads there may be, at most 4096; 0: 4 per processor, at least 16 and at most 64. perDevice is how
// many of them may work for one file system at a time, so that one that is slow or gone leaves some to the others; 0:
// three in four. Which file system a path leads to shows only when it has been followed: all paths below a folder that
// is open (OpenAt) count as one more file system, and so do all others together.
func SetPoolLimits(all, perDevice int) error {
	if all < 0 || all > maxPoolThreads {
		return fmt.Errorf("aio: SetPoolLimits of %d threads; want 1 to %d, or 0 for the default", all, maxPoolThreads)
	}
	if all == 0 {
		all = min(max(4*runtime.GOMAXPROCS(0), 16), 64)
	}
	if perDevice < 0 || perDevice > all {
		return fmt.Errorf("aio: SetPoolLimits of %d threads for a device; want 1 to %d, the number of threads, or 0 for three in four", perDevice, all)
	}
	if perDevice == 0 {
		perDevice = max(all*3/4, 1)
	}
	threads.mu.Lock()
	defer threads.mu.Unlock()
	threads.most, threads.perDevice = all, perDevice
	for len(threads.waiting) > 0 && threads.running < threads.most { // the other threads may hang
		threads.running++
		go runThread() // which ends if nothing is left for it
	}
	return nil
}

func init() {
	if err := SetPoolLimits(0, 0); err != nil {
		panic(err)
	}
}

// threads is the pool of the process, as the disks are the machine's: two runtimes that had a pool
// each would ask twice as much of a disk as is wanted. Its threads are goroutines that end when there is
// nothing to do, so that an idle process has none.
var threads = pool{devices: make(map[uint64]*device)}

// A pool runs requests on threads of their own: first in, first out for each device, the
// devices in turn.
type pool struct {
	mu      sync.Mutex
	most    int                // guarded by mu: threads, at most
	running int                // guarded by mu: threads
	devices map[uint64]*device // guarded by mu: devices with requests, and some more
	waiting []*device          // guarded by mu: devices with queued requests, the next first

	perDevice int // guarded by mu: threads that work for a device, at most
}

// A device is a file system, as far as the pool goes.
type device struct {
	id         uint64
	running    int      // guarded by pool.mu: threads that work for it
	head, tail *request // guarded by pool.mu: queued
}

// submit queues r, or starts a thread for it. It may be called from anywhere.
func (p *pool) submit(r *request) {
	id := 1<<63 | uint64(uint32(r.fd)) // of the folder
	if r.op == opClose {
		id = uint64(r.off)
	} else if r.file != nil {
		id = r.file.device.Load()
	}
	r.state = statePooled
	p.mu.Lock()
	d := p.devices[id]
	if d == nil {
		d = &device{id: id}
		p.devices[id] = d
	}
	if d.head == nil {
		p.waiting = append(p.waiting, d)
	}
	d.push(r)
	start := p.running < p.most && d.running < p.perDevice
	if start {
		p.running++
	}
	p.mu.Unlock()
	if start {
		go runThread()
	}
}

// runThread is a thread of the pool. It takes no argument, as that would be allocated.
func runThread() { threads.work() }

// work carries out queued requests.
func (p *pool) work() {
	for r, d := p.next(nil); r != nil; r, d = p.next(d) {
		r.call()
		r.w.Wake()
	}
}

// next ends one request of d, if that is not nil, and takes another for the calling
// thread, nil if none may be taken.
func (p *pool) next(d *device) (*request, *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d != nil {
		d.running--
		p.forget(d)
	}
	if p.running <= p.most {
		for i, d := range p.waiting {
			if d.running >= p.perDevice {
				continue
			}
			r := d.head
			d.remove(r)
			d.running++
			p.waiting = slices.Delete(p.waiting, i, i+1)
			if d.head != nil {
				p.waiting = append(p.waiting, d)
			}
			return r, d
		}
	}
	p.running--
	return nil, nil
}

// keptDevices is how many devices without requests the pool remembers.
const keptDevices = 64

// forget drops d if it has neither requests nor threads, and there are many devices. Caller holds mu.
func (p *pool) forget(d *device) {
	if d.running == 0 && d.head == nil && len(p.devices) > keptDevices {
		delete(p.devices, d.id)
	}
}

// cancel ends r if no thread has taken it yet; a thread can't be called back.
func (p *pool) cancel(r *request) {
	p.mu.Lock()
	d := r.dev
	if d == nil {
		p.mu.Unlock()
		r.dropped.Store(true)
		return
	}
	d.remove(r)
	if d.head == nil {
		p.waiting = slices.DeleteFunc(p.waiting, func(w *device) bool { return w == d })
		p.forget(d)
	}
	p.mu.Unlock()
	r.res, r.errno = 0, unix.ECANCELED
	r.w.Wake()
}

// push appends r. Caller holds pool.mu.
func (d *device) push(r *request) {
	r.dev, r.prev, r.next = d, d.tail, nil
	if d.tail == nil {
		d.head = r
	} else {
		d.tail.next = r
	}
	d.tail = r
}

// remove unlinks r. Caller holds pool.mu.
func (d *device) remove(r *request) {
	if r.prev == nil {
		d.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		d.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.dev, r.prev, r.next = nil, nil, nil
}
