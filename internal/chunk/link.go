package chunk

import "sync/atomic"

// Outside counts the calls without room of goroutines that are no tasks.
var Outside atomic.Uint64

// Begin links a chunk for f; a switch from c.From to the chunk must follow. It returns nil
// if f is to run in place. left is the headroom of the caller, so this must do with little
// stack.
func Begin(need uintptr, f func(), left uintptr) *Chunk {
	p, free := Current()
	if p == nil {
		Outside.Add(1)
		return nil
	}
	var c *Chunk
	if free {
		room := max(need, uintptr(Settings.MinChunk.Load()))
		class := classOf(room)
		if class < Classes {
			if c = p.idle[class]; c != nil {
				p.idle[class] = c.next
			} else {
				c = p.takeNew(class)
			}
		}
	}
	if c == nil {
		p.counts.InPlace++
		return nil
	}
	c.f = f
	c.Outcome = running
	c.From = c.Member.Link()
	n, k := &p.counts, c.counts
	k.Links++
	k.Internal += InternalWaste(left)
	k.External += uint64(c.Room - need)
	if n.InUse += uint64(c.size); n.InUse > n.Peak {
		n.Peak = n.InUse
	}
	return c
}

// InternalWaste is what of the caller's headroom would have been for frames.
func InternalWaste(left uintptr) uint64 { return uint64(max(left, Reserve) - Reserve) }
