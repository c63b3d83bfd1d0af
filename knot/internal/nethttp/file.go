package nethttp

import (
	"io"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/aio"
)

// osFile is an *os.File, or what its WriteTo makes of it.
type osFile interface {
	io.ReadSeeker
	syscall.Conn
	Stat() (fs.FileInfo, error)
	Name() string
}

// A FilePart is what is left of a regular file that a handler copies to its response: Size bytes from From on.
type FilePart struct {
	From, Size int64

	file    osFile
	limited *io.LimitedReader // around the file; nil: none
}

// FilePartOf returns what is left of src if that is a regular file, maybe limited by io.LimitReader.
func FilePartOf(src io.Reader) (p FilePart, ok bool) {
	if p.limited, ok = src.(*io.LimitedReader); ok {
		src = p.limited.R
	}
	if p.file, ok = src.(osFile); !ok {
		return p, false
	}
	info, err := p.file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return p, false
	}
	if p.From, err = p.file.Seek(0, io.SeekCurrent); err != nil {
		return p, false
	}
	p.Size = info.Size() - p.From
	if p.limited != nil {
		p.Size = min(p.Size, p.limited.N)
	}
	return p, true
}

// Open opens the file once more for package aio, which the handler's does not depend on.
func (p *FilePart) Open() (file *aio.File, err error) {
	raw, err := p.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		var second int
		if second, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			file, err = aio.NewFile(second, p.file.Name())
		}
	})
	if err == nil {
		err = failed
	}
	return file, err
}

// Sent moves src on behind the bytes that have been sent of it.
func (p *FilePart) Sent(n int64) {
	if p.limited != nil {
		p.limited.N -= n
	}
	if n > 0 {
		p.file.Seek(p.From+n, io.SeekStart)
	}
}
