//go:build linux && !giouring

package uring

import (
	"sync/atomic"
	"unsafe"
)

// SetupBufRing makes an empty ring of provided buffers as the group with ID bgid, with room for nentries, a power of
// two. flags must be 0. EINVAL: the kernel does not know it (it came with Linux 5.19); EEXIST: the ID is in use.
func (ring *Ring) SetupBufRing(nentries uint32, bgid int, flags uint32) (*BufAndRing, error) {
	length := uintptr(nentries) * unsafe.Sizeof(BufAndRing{})
	p, err := ring.kernel.mmap(-1, 0, max(length, 1))
	if err != nil {
		return nil, err
	}
	m := mapping{p, max(length, 1)}
	reg := &BufReg{RingAddr: uint64(uintptr(p)), RingEntries: nentries, Bgid: uint16(bgid)}
	if _, err := ring.register(RegisterPbufRing, unsafe.Pointer(reg), 1); err != nil {
		ring.munmap(&m)
		return nil, err
	}
	if ring.bufRings == nil {
		ring.bufRings = make(map[int]mapping)
	}
	ring.bufRings[bgid] = m
	return (*BufAndRing)(p), nil // memory of the kernel is zero
}

// FreeBufRing gives up the ring of provided buffers bgid, and its memory.
func (ring *Ring) FreeBufRing(bgid int) error {
	_, err := ring.register(UnregisterPbufRing, unsafe.Pointer(&BufReg{Bgid: uint16(bgid)}), 1)
	if m, ok := ring.bufRings[bgid]; ok {
		delete(ring.bufRings, bgid)
		ring.munmap(&m)
	}
	return err
}

// BufRingAdd puts a buffer into the ring, bufOffset places after its end. The kernel sees
// it after BufRingAdvance.
func (br *BufAndRing) BufRingAdd(addr uintptr, length uint32, bid uint16, mask, bufOffset int) {
	at := uintptr(int(br.Tail)+bufOffset) & uintptr(mask)
	b := (*BufAndRing)(unsafe.Add(unsafe.Pointer(br), at*unsafe.Sizeof(BufAndRing{})))
	b.Addr, b.Len, b.Bid = uint64(addr), length, bid // not Tail
}

// BufRingAdvance shows the kernel the next count buffers. The tail has 16 bits, which
// package sync/atomic has nothing for: it is stored together with its neighbour, which
// only the loop writes.
func (br *BufAndRing) BufRingAdvance(count int) {
	pair := [2]uint16{br.Bid, br.Tail + uint16(count)}
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&br.Bid)), *(*uint32)(unsafe.Pointer(&pair)))
}
