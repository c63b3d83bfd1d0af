//go:build linux

package uring

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrClosed is returned by a Driver after Close.
var ErrClosed = errors.New("uring: the driver is closed")

// ErrFull is returned by Entry when the kernel takes nothing out of a full submission
// queue. It lasts until completions have been reaped, or memory has been freed.
var ErrFull = errors.New("uring: the submission queue is full, and the kernel takes nothing out of it")

// batchSize is how many completions are taken out of the queue at once.
const batchSize = 64

// retryPause bounds a wait while the kernel refuses to take requests.
const retryPause = time.Millisecond

// A Driver is the ring of one loop. Everything in it is loop-private: methods are called
// on the loop's goroutine. NewDriver may run elsewhere, as may Close of a driver that was never used.
//
//	            Entry, Prepare…, Track        Flush, Wait       Reap, Wait: Complete
//	free entry ────────────────────────▶ queued ───────▶ in flight ────────────────▶ done
//	                                                       │    ▲  CQEFMore: not the last
//	                                                       └────┘
type Driver struct {
	// Attachment is for the package that uses the driver on its loop; nil at first.
	Attachment any

	ring      *Ring
	table     table
	bufRings  []bufRing
	events    []event // taken out of the completion queue, not completed yet
	before    []func()
	running   []func() // those of before that are being called
	cqes      [batchSize]*CompletionQueueEvent
	ts        syscall.Timespec // here because the kernel reads it
	spare     *cancelling      // to be used again
	closeWait time.Duration
	stats     Stats
	limit     int  // completions of one Reap
	keeps     bool // see Config.Cooperative
	flushing  bool
	reaping   bool
	closed    bool
}

// event is a copy of a completion.
type event struct {
	data  uint64
	res   int32
	flags uint32
}

// bufRing is a ring of provided buffers to be given up by Close.
type bufRing struct {
	br      *BufAndRing
	group   int
	entries uint32
}

// Stats counts since the driver was made.
type Stats struct {
	Enters      uint64 // system calls that handed over or waited, as far as the driver knows
	Completions uint64 // handed to a Completer
	Stale       uint64 // completions of no request in flight, dropped
	Refused     uint64 // EAGAIN and EBUSY
}

// Stats returns what has been counted.
func (d *Driver) Stats() Stats { return d.stats }

// Ring returns the ring, for registrations. Its queues belong to the driver.
func (d *Driver) Ring() *Ring { return d.ring }

// Fd returns the ring's descriptor, readable while completions are to be reaped.
func (d *Driver) Fd() int { return d.ring.RingFd() }

// Pending returns how many entries and functions of BeforeFlush wait for Flush or Wait.
func (d *Driver) Pending() int {
	if d.closed {
		return 0
	}
	return int(d.ring.SQReady()) + len(d.before)
}

// InFlight returns how many tracked requests have not had their last completion;
// cancellations count too.
func (d *Driver) InFlight() int { return d.table.used }

// Entry returns the next free entry, cleared; if the queue is full it is handed over
// first. Fill it in and Track it before the next call of a method. An entry that is not
// tracked completes unnoticed: Close does not wait for it, so it must not point to memory.
// Errors: ErrFull, ErrClosed.
func (d *Driver) Entry() (*SubmissionQueueEntry, error) {
	if d.closed {
		return nil, ErrClosed
	}
	return d.entry()
}

func (d *Driver) entry() (*SubmissionQueueEntry, error) {
	sqe := d.ring.GetSQE()
	if sqe == nil {
		if err := d.submit(); err != nil {
			return nil, err
		}
		if sqe = d.ring.GetSQE(); sqe == nil {
			return nil, ErrFull
		}
	}
	*sqe = SubmissionQueueEntry{}
	return sqe, nil
}

// Track gives the entry a token, after Prepare: c gets its completions and is referenced
// until the last. The entry must not have SqeCQESkipSuccess, with which there may be none.
func (d *Driver) Track(sqe *SubmissionQueueEntry, c Completer) Token {
	if c == nil {
		panic("uring: Driver.Track: got no Completer; an entry that nobody waits for is not tracked")
	}
	t := d.table.put(c)
	sqe.UserData = uint64(t)
	return t
}

// BeforeFlush has f called once, at the start of the next Flush or Wait, which hands over
// what f asks for. Close calls it too; Entry refuses by then.
func (d *Driver) BeforeFlush(f func()) { d.before = append(d.before, f) }

// prepare calls what BeforeFlush was given. Functions that are added meanwhile wait for
// the next time.
func (d *Driver) prepare() {
	if len(d.before) == 0 || d.flushing {
		return
	}
	d.flushing = true
	d.before, d.running = d.running[:0], d.before
	for i, f := range d.running {
		d.running[i] = nil
		f()
	}
	d.flushing = false
}

// Flush hands over all entries, without waiting. That the kernel takes none for now is
// no error: Pending tells. Errors are *os.SyscallError, ErrClosed.
func (d *Driver) Flush() error {
	if d.closed {
		return ErrClosed
	}
	d.prepare()
	return d.submit()
}

// submit never calls a Completer, because it runs in Entry.
func (d *Driver) submit() error {
	for {
		left := d.ring.SQReady()
		if left == 0 {
			return nil
		}
		d.stats.Enters++
		_, err := d.ring.Submit()
		switch {
		case err == nil, errors.Is(err, unix.EINTR):
			if err == nil && d.ring.SQReady() >= left {
				return nil // it takes none
			}
		case errors.Is(err, unix.EBUSY):
			// Completions that the queue had no room for come first.
			d.stats.Refused++
			if !d.unload() {
				return nil
			}
		case errors.Is(err, unix.EAGAIN):
			d.stats.Refused++
			return nil
		default:
			return enterError(err)
		}
	}
}

func enterError(err error) error { return fmt.Errorf("uring: io_uring_enter: %w", err) }

// Reap calls the Completers of the completions that are there, at most as many as the
// queue holds, and returns their number. It makes a system call only if the kernel says
// that it holds completions back. In a Completer it does nothing.
func (d *Driver) Reap() int {
	if d.reaping || d.closed && d.table.used == 0 {
		return 0
	}
	d.reaping = true
	total := 0
	for total < d.limit && (len(d.events) > 0 || d.unload()) {
		for i := 0; i < len(d.events); i++ { // Entry in a Completer may add some
			total++
			d.complete(d.events[i])
		}
		d.events = d.events[:0]
	}
	d.reaping = false
	return total
}

// unload takes completions out of the queue into events; false: there are none.
func (d *Driver) unload() bool {
	n := d.ring.PeekBatchCQE(d.cqes[:])
	for _, cqe := range d.cqes[:n] {
		d.events = append(d.events, event{cqe.UserData, cqe.Res, cqe.Flags})
	}
	d.ring.CQAdvance(n)
	return n > 0
}

func (d *Driver) complete(e event) {
	if e.data == 0 {
		return // of an entry without a Completer
	}
	c := d.table.take(Token(e.data), e.flags&CQEFMore == 0)
	if c == nil {
		d.stats.Stale++
		return
	}
	d.stats.Completions++
	c.Complete(e.res, e.flags)
}

// Wait is Flush, a wait for a completion, and Reap, with one system call; none if timeout
// is 0 and nothing is to be handed over or to be fetched. timeout < 0 waits for ever. It
// does not wait if completions are there, and may return early. Errors are ErrClosed and
// the errnos of io_uring_enter(2) except EINTR, ETIME, EAGAIN and EBUSY.
func (d *Driver) Wait(timeout time.Duration) error {
	if d.closed {
		return ErrClosed
	}
	d.prepare()
	if timeout == 0 || len(d.events) > 0 || d.ring.CQReady() > 0 {
		err := d.submit()
		d.Reap()
		return err
	}
	err := d.wait(timeout)
	d.Reap()
	return err
}

// wait hands over and waits for one completion.
func (d *Driver) wait(timeout time.Duration) error {
	if d.keeps {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	var err error
	d.stats.Enters++
	if timeout < 0 {
		_, err = d.ring.SubmitAndWait(1)
	} else {
		d.ts = syscall.NsecToTimespec(int64(timeout))
		_, err = d.ring.SubmitAndWaitTimeout(1, &d.ts, nil)
	}
	switch {
	case err == nil, errors.Is(err, unix.ETIME), errors.Is(err, unix.EINTR):
		if d.ring.SQReady() > 0 && d.ring.CQReady() == 0 {
			return d.submit() // it stopped at a bad entry, and did not wait
		}
		return nil
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EBUSY):
		d.stats.Refused++
		return d.pause()
	}
	return enterError(err)
}

// pause waits for completions, which free what the kernel is short of.
func (d *Driver) pause() error {
	d.ts = syscall.NsecToTimespec(int64(retryPause))
	d.stats.Enters++
	_, err := d.ring.WaitCQETimeout(&d.ts)
	for _, expected := range []error{nil, unix.ETIME, unix.EINTR, unix.EAGAIN, unix.EBUSY} {
		if errors.Is(err, expected) {
			return nil
		}
	}
	return enterError(err)
}

// SetupBufRing makes an empty ring for provided buffers, as the group with that ID; entries is a power of two. Fill it
// with BufRingAdd and BufRingAdvance. Close gives it up. Errors wrap an *os.SyscallError: EINVAL (before Linux 5.19, or
// a bad number of entries), EEXIST.
func (d *Driver) SetupBufRing(entries uint32, group int) (*BufAndRing, error) {
	if d.closed {
		return nil, ErrClosed
	}
	br, err := d.ring.SetupBufRing(entries, group, 0)
	if err != nil {
		return nil, fmt.Errorf("uring: a ring of %d provided buffers: %w", entries, err)
	}
	d.bufRings = append(d.bufRings, bufRing{br, group, entries})
	return br, nil
}
