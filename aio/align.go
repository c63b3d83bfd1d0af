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

// explainDirect makes the kernel's EINVAL for a file opened with O_DIRECT say what would be right.
func (f *File) explainDirect(err error) error {
	if err == unix.EINVAL && f.direct {
		return fmt.Errorf("O_DIRECT wants offset, length and buffer (see AlignedBuffer) aligned to the disk's blocks: %w", err)
	}
	return err
}

// directEnd is the result of a direct read at off that failed with EINVAL. A sequence of reads ends at an offset that is
// not aligned if the file's length is not: there nothing is left to read.
func (f *File) directEnd(off int64) (int, error) {
	if info, e := f.stat(); e == nil && info.Mode().IsRegular() && off >= info.Size() {
		return 0, nil
	}
	return 0, f.explainDirect(unix.EINVAL)
}
