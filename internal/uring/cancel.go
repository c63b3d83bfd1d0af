//go:build linux

package uring

import (
	"time"

	"golang.org/x/sys/unix"
)

// The first and the longest pause before a futile cancellation is tried again.
const (
	firstRetry = time.Millisecond
	lastRetry  = 128 * time.Millisecond
)

// Cancel asks the kernel to end a request. Its completion still comes, with ECANCELED or
// whatever happened before. A token that is not in flight any more is ignored. Errors are
// those of Entry: nothing has been asked.
//
// A request that a thread of the kernel works on (SqeAsync, or an operation that would block) gets a signal, which is
// lost if it comes just before the thread begins to wait; a request that follows a link is not found before it begins.
// So the cancellation is asked for again, at growing intervals, until the request has ended.
func (d *Driver) Cancel(t Token) error {
	if d.closed || d.table.find(t) == nil {
		return nil
	}
	sqe, err := d.entry()
	if err != nil {
		return err
	}
	c := d.spare
	if c == nil {
		c = &cancelling{d: d}
	} else {
		d.spare = c.next
	}
	c.t, c.pause = t, firstRetry
	c.ask(sqe)
	return nil
}

// cancelling is a cancellation of one request. It takes the completions of its own
// requests:
//
//	asked ──▶ done, because the request has ended or will
//	 ▲  │ futile
//	 │  ▼
//	pausing
type cancelling struct {
	d       *Driver
	t       Token
	pause   time.Duration
	pausing bool
	ts      unix.Timespec // of the pause
	next    *cancelling   // of a spare one
}

func (c *cancelling) ask(sqe *SubmissionQueueEntry) {
	c.pausing = false
	sqe.PrepareCancel64(uint64(c.t), 0)
	c.d.Track(sqe, c)
}

func (c *cancelling) Complete(res int32, _ uint32) {
	d := c.d
	again := c.pausing || res == -int32(unix.EALREADY) || res == -int32(unix.ENOENT)
	if again && !d.closed && d.table.find(c.t) != nil {
		// Without an entry the request ends by itself, or in Close.
		if sqe, err := d.entry(); err == nil {
			if c.pausing {
				c.ask(sqe)
			} else {
				c.wait(sqe)
			}
			return
		}
	}
	c.next, d.spare = d.spare, c
}

func (c *cancelling) wait(sqe *SubmissionQueueEntry) {
	c.pausing = true
	c.ts = unix.NsecToTimespec(int64(c.pause))
	c.pause = min(2*c.pause, lastRetry)
	PrepareTimeout(sqe, &c.ts, 0, 0)
	c.d.Track(sqe, c)
}
