//go:build linux

package uring

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// cancelEvery is how long Close waits for a completion before it cancels again: a cancellation misses a request that is
// on its way between two places in the kernel.
const cancelEvery = 20 * time.Millisecond

// Close hands over what is queued, cancels everything, calls the Completers of what was
// in flight, and gives up the ring and its memory; the memory of requests may be reused
// only then. It waits for requests that can't be cancelled, such as a read of a file on
// disk that has begun. If they take longer than Config.CloseTimeout the error says so; the
// ring is closed nevertheless, and what they point to stays referenced for ever. A second
// Close does nothing.
func (d *Driver) Close() error {
	if d.closed {
		return nil
	}
	d.closed = true
	d.prepare()
	d.before = nil
	err := d.drain()
	d.Reap()
	if n := d.unfinished(); n > 0 {
		abandoned.mu.Lock()
		abandoned.slots = append(abandoned.slots, d.table.slots)
		abandoned.mu.Unlock()
		err = errors.Join(fmt.Errorf("uring: closed with %d requests still in flight; their memory is never reused", n), err)
	}
	for _, b := range d.bufRings {
		freeBufRing(d.ring, b.br, b.group, b.entries)
	}
	d.bufRings = nil
	d.ring.QueueExit()
	d.table = table{}
	d.events = nil
	d.Attachment = nil
	return err
}

// unfinished counts what is in flight apart from Close's own request.
func (d *Driver) unfinished() int {
	n := 0
	for _, s := range d.table.slots {
		if _, own := s.c.(*cancelAll); s.c != nil && !own {
			n++
		}
	}
	return n
}

// drain cancels until nothing is in flight, or time is up.
func (d *Driver) drain() error {
	began := time.Now()
	byToken := false
	for d.table.used > 0 {
		one := byToken
		if one {
			d.cancelEach()
		} else {
			sqe, err := d.entry()
			if err != nil {
				return err
			}
			sqe.PrepareCancel64(0, int(AsyncCancelAny|AsyncCancelAll))
			d.Track(sqe, (*cancelAll)(&byToken))
		}
		for until := time.Now().Add(cancelEvery); d.table.used > 0; {
			left := time.Until(until)
			if left <= 0 {
				break
			}
			if err := d.wait(left); err != nil {
				return err
			}
			if d.Reap(); byToken != one {
				break // all at once was refused
			}
		}
		if time.Since(began) > d.closeWait {
			break
		}
	}
	return nil
}

// cancelEach cancels one by one, for kernels before Linux 5.19.
func (d *Driver) cancelEach() {
	for _, t := range d.table.tokens() {
		sqe, err := d.entry()
		if err != nil {
			return // the next round goes on
		}
		sqe.PrepareCancel64(uint64(t), 0)
	}
}

// cancelAll takes the answer to a cancellation of everything; it is true if the kernel
// can't do that.
type cancelAll bool

func (c *cancelAll) Complete(res int32, _ uint32) {
	if res == -int32(unix.EINVAL) {
		*c = true
	}
}
