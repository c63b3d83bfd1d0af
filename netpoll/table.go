//go:build linux

package netpoll

import (
	"errors"
	"sync"
	"sync/atomic"
)

var errPollerClosed = errors.New("netpoll: the poller is closed")

// A table maps the tokens given to the kernel to descriptors. A token is a slot number
// (low half) and the slot's generation (high half), which grows each time the slot is
// given away: an event for a descriptor that is gone meanwhile has an old generation
// and is dropped. Tokens are never zero.
//
// Finding takes no lock. The table grows to the largest number of descriptors that were
// registered at once (at most RLIMIT_NOFILE) and keeps 12 bytes for each.
type table struct {
	chunks atomic.Pointer[[]*tableChunk] // replaced as a whole, under mu
	active atomic.Int64                  // descriptors registered

	mu     sync.Mutex
	free   []uint32 // guarded by mu: slots to use again, the last freed first
	used   uint32   // guarded by mu: slots that were ever used
	ending bool     // guarded by mu: Interrupt was called
	closed bool     // guarded by mu
}

const tableChunkSize = 256

// With what the allocator adds, it just fits one of its size classes.
type tableChunk struct {
	d          [tableChunkSize]atomic.Pointer[desc]
	generation [tableChunkSize]uint32 // guarded by table.mu
}

// add gives d a token and calls arm, which tells the kernel; if that fails, d is not
// registered. The poller cannot be closed meanwhile.
func (t *table) add(d *desc, arm func() error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errPollerClosed
	}
	var i uint32
	if n := len(t.free); n > 0 {
		i = t.free[n-1]
		t.free = t.free[:n-1]
	} else {
		i = t.used
		if i%tableChunkSize == 0 {
			t.grow()
		}
		t.used++
	}
	c, at := t.entry(i)
	if c.generation[at]++; c.generation[at] == 0 {
		c.generation[at] = 1
	}
	d.token = uint64(c.generation[at])<<32 | uint64(i)
	if t.ending {
		d.flags.Or(flagForTasks)
	}
	c.d[at].Store(d)
	if err := arm(); err != nil {
		c.d[at].Store(nil)
		t.free = append(t.free, i)
		return err
	}
	t.active.Add(1)
	return nil
}

// grow adds a chunk. Caller holds mu.
func (t *table) grow() {
	var chunks []*tableChunk
	if old := t.chunks.Load(); old != nil {
		chunks = append(chunks, *old...)
	}
	chunks = append(chunks, new(tableChunk))
	t.chunks.Store(&chunks)
}

// entry returns where slot i is; nil: nowhere.
func (t *table) entry(i uint32) (c *tableChunk, at uint32) {
	chunks := t.chunks.Load()
	if chunks == nil || i/tableChunkSize >= uint32(len(*chunks)) {
		return nil, 0
	}
	return (*chunks)[i/tableChunkSize], i % tableChunkSize
}

// find returns the descriptor of a token, nil if it is not registered any more.
func (t *table) find(token uint64) *desc {
	c, at := t.entry(uint32(token))
	if c == nil {
		return nil
	}
	if d := c.d[at].Load(); d != nil && d.token == token {
		return d
	}
	return nil
}

// remove takes the token of d back and calls disarm, if d was there.
func (t *table) remove(d *desc, disarm func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, at := t.entry(uint32(d.token))
	if c == nil || c.d[at].Load() != d {
		return
	}
	c.d[at].Store(nil)
	t.free = append(t.free, uint32(d.token))
	t.active.Add(-1)
	disarm()
}

// each calls f for every registered descriptor, in slot order.
func (t *table) each(f func(*desc)) {
	chunks := t.chunks.Load()
	if chunks == nil {
		return
	}
	for _, c := range *chunks {
		for i := range c.d {
			if d := c.d[i].Load(); d != nil {
				f(d)
			}
		}
	}
}

// Interrupt implements engine.Interrupter.
func (t *table) Interrupt() {
	t.mu.Lock()
	t.ending = true
	t.mu.Unlock()
	t.each((*desc).interruptPlain)
}

// close takes no more descriptors, closes those left and calls last. Hooks are dropped, as no loop runs tasks any more.
func (t *table) close(last func() error) error {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.each(func(d *desc) {
		if w := d.read.interrupt(); w == hooked {
			d.takeHook()
		} else if w != nil {
			defer w.Wake()
		}
		if d.shut() == nil {
			d.unuse()
		}
	})
	t.mu.Lock()
	defer t.mu.Unlock()
	return last()
}
