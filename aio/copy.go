//go:build linux

package aio

import (
	"io"
	"io/fs"
	"sync"
	"syscall"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// copySize is the size in bytes of the buffers that ReadFrom, WriteTo and Prefetch borrow.
const copySize = 128 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// ReadFrom writes what r gives until io.EOF, through a borrowed buffer of 128 KiB. It
// parks.
func (f *File) ReadFrom(r io.Reader) (int64, error) {
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	return engine.Copy(f, r, buf[:])
}

// WriteTo gives w what it reads up to the end of the file. If w is an io.ReaderFrom, that
// does it, which may be able to let the kernel copy; else a borrowed buffer of 128 KiB. It
// parks.
func (f *File) WriteTo(w io.Writer) (int64, error) {
	if rf, ok := w.(io.ReaderFrom); ok {
		return rf.ReadFrom(plainReader{f})
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	return engine.Copy(w, f, buf[:])
}

// A plainReader is a File without WriteTo, so that what it is given to does not call
// that in turn.
type plainReader struct{ source }

type source interface {
	io.Reader
	io.ReaderAt
	io.Seeker
	syscall.Conn
	Stat() (fs.FileInfo, error)
	Resident(off, n int64) int64
	Prefetch(off, n int64) error
}
