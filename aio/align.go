//go:build linux

package aio

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// BufferAlignment is the alignment, in bytes, of what AlignedBuffer returns.
const BufferAlignment = 4096

// minBlock is the smallest size of a disk's blocks.
const minBlock = 512

// AlignedBuffer returns n bytes that begin at a multiple of BufferAlignment, for files
// opened with O_DIRECT: those move data between the disk and the caller's buffer, past
// the page cache, and want offset, length and address to be multiples of the disk's
// block size, which is BufferAlignment or a part of it. It never parks.
func AlignedBuffer(n int) []byte {
	b := make([]byte, n+BufferAlignment-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (BufferAlignment - 1))
	return b[skip : skip+n : skip+n]
}

// checkAligned explains what is wrong with p and off for direct I/O, as the kernel says
// only EINVAL. File.align is the alignment of memory, above that of offset and length.
func (f *File) checkAligned(p []byte, off int64) error {
	f.settle()
	a := f.align.Load()
	memory, disk := uint64(a>>32), a&(1<<32-1)
	if memory == 0 || disk == 0 {
		return nil // not known: the kernel decides
	}
	address := uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p))))
	if address%memory == 0 && uint64(off)%disk == 0 && uint64(len(p))%disk == 0 {
		return nil
	}
	return notAligned(memory, disk, address, off, len(p))
}

//go:noinline
func notAligned(memory, disk, address uint64, off int64, n int) error {
	return fmt.Errorf("O_DIRECT wants offset and length in multiples of %d and the buffer at a multiple of %d (see AlignedBuffer); got offset %d, length %d, buffer %d bytes off: %w",
		disk, memory, off, n, address%memory, unix.EINVAL)
}

// explainDirect makes the kernel's EINVAL for a file opened with O_DIRECT say more.
func (f *File) explainDirect(err error) error {
	if err == unix.EINVAL && f.direct {
		return fmt.Errorf("O_DIRECT wants offset, length and buffer (see AlignedBuffer) aligned to the disk's blocks: %w", err)
	}
	return err
}

// directEnd reports what a direct read has met that failed with err for its alignment: where
// a sequence of reads ends is not aligned if the file's length is not, and at the end
// there is nothing to read.
func (f *File) directEnd(off int64, err error) (int, error) {
	if info, e := f.stat(); e == nil && info.Mode().IsRegular() && off >= info.Size() {
		return 0, nil
	}
	return 0, err
}
