//go:build linux

package netpoll

import (
	"net"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/kernel"
	"github.com/capriccio-go/capriccio/netpoll/internal/sys"
)

// desc.life counts the users of a descriptor, so that close(2) happens once, after the
// last of them, and no system call ever meets a number that has been reused:
//
//	bit 0     closed: no new user may come
//	bit 1, 2  one user reads, one user writes
//	bit 3, 4  others queue for that
//	from 8    number of users
//
// A lock handed to the next in the queue keeps its bit and its user.
const (
	lifeClosed = 1 << 0
	lifeUser   = 1 << 8
)

// A side is a direction, as the bit of its lock in desc.life.
type side uint64

const (
	readSide  side = 1 << 1
	writeSide side = 1 << 2
)

// queued is the bit that says that others queue for the side's lock.
func (sd side) queued() uint64 { return uint64(sd) << 2 }

// lockQueue holds the waiters for a lock of one desc, first in, first out: a ring.
type lockQueue struct{ last *lockWaiter } // its next is the first

type lockWaiter struct {
	d       *desc
	w       *engine.Waiter
	sd      side
	granted bool // guarded by desc.mu until woken
	next    *lockWaiter
}

func (q *lockQueue) push(e *lockWaiter) {
	if q.last == nil {
		q.last = e
	}
	e.next, q.last.next = q.last.next, e
	q.last = e
}

// remove unlinks the first entry that match accepts.
func (q *lockQueue) remove(match func(*lockWaiter) bool) *lockWaiter {
	for prev := q.last; prev != nil; prev = prev.next {
		e := prev.next
		switch {
		case !match(e):
			if e == q.last {
				return nil
			}
			continue
		case e == prev:
			q.last = nil
		case e == q.last:
			q.last = prev
		}
		prev.next = e.next
		e.next = nil
		return e
	}
	return nil
}

// pop removes the first, nil if there is none.
func (q *lockQueue) pop() *lockWaiter { return q.remove(func(*lockWaiter) bool { return true }) }

func (q *lockQueue) has(sd side) bool {
	for e := q.last; e != nil; e = e.next {
		if e.next.sd == sd {
			return true
		}
		if e.next == q.last {
			break
		}
	}
	return false
}

// use counts the caller as a user; unuse must follow. It never parks.
func (d *desc) use() error {
	for {
		old := d.life.Load()
		if old&lifeClosed != 0 {
			return net.ErrClosed
		}
		if d.life.CompareAndSwap(old, old+lifeUser) {
			return nil
		}
	}
}

func (d *desc) unuse() {
	if now := d.life.Add(^uint64(lifeUser - 1)); now&lifeClosed != 0 && now < lifeUser {
		d.free()
	}
}

// lock makes the caller the only one on its side, and a user. It parks while another
// caller is.
func (d *desc) lock(sd side) error {
	old := d.life.Load()
	if old&(lifeClosed|uint64(sd)) == 0 && d.life.CompareAndSwap(old, (old|uint64(sd))+lifeUser) {
		return nil
	}
	return d.lockSlow(sd)
}

// tryLock is lock for callers that would rather not wait.
func (d *desc) tryLock(sd side) (bool, error) {
	for {
		old := d.life.Load()
		if old&lifeClosed != 0 {
			return false, net.ErrClosed
		}
		if old&uint64(sd) != 0 {
			return false, nil
		}
		if d.life.CompareAndSwap(old, (old|uint64(sd))+lifeUser) {
			return true, nil
		}
	}
}

func (d *desc) lockSlow(sd side) error {
	d.mu.Lock()
	for {
		old := d.life.Load()
		if old&lifeClosed != 0 {
			d.mu.Unlock()
			return net.ErrClosed
		}
		if old&uint64(sd) == 0 {
			if d.life.CompareAndSwap(old, (old|uint64(sd))+lifeUser) {
				d.mu.Unlock()
				return nil
			}
		} else if d.life.CompareAndSwap(old, old|sd.queued()) {
			break
		}
	}
	e := &lockWaiter{d: d, w: engine.Self(), sd: sd}
	d.queue.push(e)
	d.mu.Unlock()
	err := e.w.Wait(engine.ReasonDescriptor, e)
	if err != nil {
		return &contextError{err}
	}
	if !e.granted {
		return net.ErrClosed
	}
	return nil
}

func (e *lockWaiter) DescribeWait() string { return e.d.DescribeWait() }

func (e *lockWaiter) Withdraw(*engine.Waiter) bool {
	d := e.d
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.remove(func(x *lockWaiter) bool { return x == e }) == nil {
		return false
	}
	d.clearQueued(e.sd)
	return true
}

// clearQueued clears the side's queued bit if its queue is empty. Caller holds mu.
func (d *desc) clearQueued(sd side) {
	if !d.queue.has(sd) {
		d.life.And(^sd.queued())
	}
}

func (d *desc) unlock(sd side) {
	if old := d.life.Load(); old&(sd.queued()|lifeClosed) == 0 && d.life.CompareAndSwap(old, old&^uint64(sd)-lifeUser) {
		return
	}
	for {
		old := d.life.Load()
		if old&sd.queued() != 0 {
			if d.handOver(sd) {
				return
			}
			continue
		}
		now := old&^uint64(sd) - lifeUser
		if d.life.CompareAndSwap(old, now) {
			if now&lifeClosed != 0 && now < lifeUser {
				d.free()
			}
			return
		}
	}
}

// handOver gives the caller's lock to the first in the queue.
func (d *desc) handOver(sd side) bool {
	d.mu.Lock()
	e := d.queue.remove(func(x *lockWaiter) bool { return x.sd == sd })
	d.clearQueued(sd)
	if e != nil {
		e.granted = true
	}
	d.mu.Unlock()
	if e == nil {
		return false
	}
	e.w.Wake()
	return true
}

// close lets no new user come, wakes the parked ones with net.ErrClosed and waits
// until close(2) is done, which is at once unless a caller is in the middle of a
// system call. If the calling task's context has ended it does not wait.
func (d *desc) close() error {
	if err := d.shut(); err != nil {
		return err
	}
	if now := d.life.Load(); now >= 2*lifeUser {
		d.awaitFree()
		return nil
	}
	d.unuse()
	return nil
}

// shut is close without the last step: the caller remains a user and must unuse. It
// never parks.
func (d *desc) shut() error {
	for {
		old := d.life.Load()
		if old&lifeClosed != 0 {
			return net.ErrClosed
		}
		if d.life.CompareAndSwap(old, (old|lifeClosed)+lifeUser) {
			break
		}
	}
	d.flags.Or(flagClosing)
	d.poller.deregister(d)
	d.mu.Lock()
	if d.flags.Load()&flagLoose != 0 {
		loose.remove(d)
	}
	if d.deadlines != nil {
		d.deadlines.drop(d.loop)
	}
	q := d.queue
	d.queue = lockQueue{}
	d.life.And(^(readSide.queued() | writeSide.queued()))
	d.mu.Unlock()
	for e := q.pop(); e != nil; e = q.pop() {
		e.w.Wake()
	}
	d.interrupted(d.read.interrupt())
	d.giveUp()
	d.interrupted(d.write.interrupt())
	return nil
}

// awaitFree gives up the caller's use and parks until the last user has closed the fd.
func (d *desc) awaitFree() {
	if engine.Current() == nil && engine.CurrentLoop() != nil {
		d.unuse() // the loop's own goroutine must not wait
		return
	}
	e := &lockWaiter{d: d, w: engine.Self()}
	d.mu.Lock()
	d.queue.push(e)
	d.mu.Unlock()
	d.unuse()
	e.w.Wait(engine.ReasonClose, e) // cancelled or not, there is nothing to undo
}

// free closes the fd. Its caller was the last user.
func (d *desc) free() {
	engine.Release(engine.Descriptors, 1)
	if d.onFree != nil {
		d.onFree()
	}
	if d.requests != nil {
		d.requests.release()
	}
	if d.kind == kindFile {
		unix.Close(int(d.fd)) // may be a terminal or a device, which takes its time
	} else {
		if d.flags.Load()&flagShared != 0 {
			neverLinger(int(d.fd)) // its owner may have set what SetLinger does not
		}
		sys.CloseSocket(d.fd)
	}
	d.mu.Lock()
	closer := d.queue.pop()
	d.mu.Unlock()
	if closer != nil {
		closer.w.Wake()
	}
}

// neverLinger has close(2) of a socket not wait until its data is sent, as SetLinger does: the loop would wait
// with it, for as long as SO_LINGER says.
func neverLinger(fd int) {
	if kernel.Net != nil {
		return
	}
	if l, err := unix.GetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER); err == nil && l.Onoff != 0 && l.Linger != 0 {
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{})
	}
}
