package store

import (
	"sync/atomic"

	"github.com/capriccio-go/capriccio/knot/internal/clock"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
)

// Pages tells SendFile (ownconn.Pages) what of an open file is in memory.
type Pages struct {
	Of    *Entry
	Clock *clock.Clock

	upTo  int64 // all from the beginning to here was seen in memory since began
	began int64 // reading of the clock
}

// ReadAt implements io.ReaderAt as far as SendFile needs it.
func (p *Pages) ReadAt(b []byte, off int64) (int, error) { return p.Of.ReadAt(b, off) }

// seenFor is for how long a file that is sent again and again is not looked for in memory anew, which
// takes three system calls: its pages are the last that the kernel takes away, like those of this program.
const seenFor = 2 * clock.Tick

// Resident implements ownconn.Pages.
func (p *Pages) Resident(off, n int64) int64 {
	e, now := p.Of, p.Clock.Now()
	// Another Clock may have seen it, that began earlier.
	if seen := e.Seen.Load(); seen != 0 && seen <= now && now-seen < int64(seenFor) {
		return n
	}
	have := e.Slow().Resident(off, n)
	if off == 0 {
		p.upTo, p.began = 0, now
	}
	if off <= p.upTo && off+have > p.upTo {
		if p.upTo = off + have; p.upTo >= e.Length {
			e.Seen.Store(p.began)
		}
	}
	return have
}

// Prefetch implements ownconn.Pages.
func (p *Pages) Prefetch(off, n int64) error { return p.Of.Slow().Prefetch(off, n) }

const (
	// aheadPiece is what one task has read ahead, in bytes.
	aheadPiece = 256 << 10
	// aheadMost is how many such tasks there are at a time, in the whole process.
	aheadMost = 128
)

var aheads atomic.Int32

// Ahead begins to read n bytes from off on, or less if much is being read already. The
// tasks need not be users of the entry: if it is released, their file is closed.
func (p *Pages) Ahead(off, n int64) {
	file := p.Of.Slow()
	for end := off + n; off < end; off += aheadPiece {
		from, size := off, min(end-off, aheadPiece) // the task's own: off goes on
		if aheads.Add(1) > aheadMost {
			aheads.Add(-1)
			return
		}
		tasks.SpawnApart(func() {
			defer aheads.Add(-1)
			file.Prefetch(from, size)
		})
	}
}
