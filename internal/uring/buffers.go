//go:build linux

package uring

import "unsafe"

// Buffers are receive buffers in a ring that the kernel takes them from when bytes have come
// (IORING_REGISTER_PBUF_RING). The methods belong to the driver's goroutine, but Bytes, which any may call.
type Buffers struct {
	Free   int // buffers in the ring; the caller subtracts those that the kernel has taken
	ring   *BufAndRing
	group  int    // constant: the ID of the group of buffers in the driver
	memory []byte // constant
	stride int    // constant: from one buffer to the next
	size   int    // constant: of a buffer
	mask   int    // constant
}

// cacheLine sets buffers off against each other, so that their first bytes do not
// compete for the same lines of the processor's caches.
const cacheLine = 64

// Open makes n buffers of size bytes and gives them to the kernel as the group with that ID; n is a power of two.
func (b *Buffers) Open(d *Driver, n, size, group int) error {
	ring, err := d.SetupBufRing(uint32(n), group)
	if err != nil {
		return err
	}
	b.ring, b.group, b.size, b.mask = ring, group, size, n-1
	b.stride = (size+cacheLine-1)&^(cacheLine-1) + cacheLine
	// Ordinary memory, which does not move: a reader may still be copying from it when
	// the driver has been closed.
	b.memory = make([]byte, n*b.stride)
	for i := range n {
		b.Add(uint16(i))
	}
	return nil
}

// Close takes no buffers any more; the ring itself goes with the driver.
func (b *Buffers) Close() { b.Free, b.ring = 0, nil }

// Size is the size of a buffer, in bytes.
func (b *Buffers) Size() int { return b.size }

// Bytes is a buffer.
func (b *Buffers) Bytes(bid uint16) []byte {
	at := int(bid) * b.stride
	return b.memory[at : at+b.size]
}

// Add gives a buffer to the kernel, unless b is closed.
func (b *Buffers) Add(bid uint16) {
	if b.ring == nil {
		return
	}
	b.ring.BufRingAdd(uintptr(unsafe.Pointer(&b.memory[int(bid)*b.stride])), uint32(b.size), bid, b.mask, 0)
	b.ring.BufRingAdvance(1)
	b.Free++
}

// PrepareReceive makes sqe a multishot receive from fd into buffers of b, which ends after limit bytes (Linux 6.17); 0: it
// goes on.
func (b *Buffers) PrepareReceive(sqe *SubmissionQueueEntry, fd int, limit uint32) {
	sqe.PrepareRecvMultishot(fd, 0, 0, 0)
	sqe.Flags |= SqeBufferSelect
	sqe.BufIG = uint16(b.group)
	sqe.SpliceFdIn = int32(limit) // optlen
}
