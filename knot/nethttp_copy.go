package knot

import (
	"io"
	"io/fs"
	"net/http"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

const (
	copySize = 32 << 10
	// sniffSize is how much of a body http.DetectContentType looks at.
	sniffSize = 512
)

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// ReadFrom implements io.ReaderFrom. A file whose length is the rest of the declared
// Content-Length is sent from the kernel's page cache (sendfile(2)), and what is not there is
// waited for without holding up the loop.
func (e *exchange) ReadFrom(src io.Reader) (total int64, err error) {
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	if !e.decided() {
		n, err := engine.Copy(e, io.LimitReader(src, sniffSize), buf[:sniffSize])
		if total = n; err != nil || n < sniffSize {
			return total, err
		}
	}
	n, err := e.sendFile(src)
	if total += n; err != nil {
		return total, err
	}
	n, err = engine.Copy(e, src, buf[:])
	return total + n, err
}

// decided reports whether the Content-Type does not depend on the body any more.
func (e *exchange) decided() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.x != nil && !e.wrote {
		e.writeHead(e.x, http.StatusOK)
	}
	return e.typed || e.failure != nil
}

// osFile is an *os.File, or what its WriteTo makes of it.
type osFile interface {
	io.ReadSeeker
	syscall.Conn
	Stat() (fs.FileInfo, error)
	Name() string
}

// sendFile sends what is left of src if that is a regular file, and the response is one for
// which sendfile(2) pays; else it does nothing.
func (e *exchange) sendFile(src io.Reader) (int64, error) {
	limited, _ := src.(*io.LimitedReader)
	if limited != nil {
		src = limited.R
	}
	f, ok := src.(osFile)
	if !ok {
		return 0, nil
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, nil
	}
	from, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, nil
	}
	size := info.Size() - from
	if limited != nil {
		size = min(size, limited.N)
	}
	if size < sendfileMin {
		return 0, nil
	}
	sent, err := e.sendPart(f, from, size)
	if limited != nil {
		limited.N -= sent
	}
	if sent > 0 {
		f.Seek(from+sent, io.SeekStart)
	}
	return sent, err
}

// sendPart sends size bytes of f, or none if the response is not fit for it.
func (e *exchange) sendPart(f osFile, from, size int64) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.writing()
	if err != nil {
		return 0, err
	}
	r := &x.resp
	nc, ok := x.c.nc.(fileSender)
	if !ok || x.head.Method == h1.MethodHead || h1.Bodyless(r.status) || size > r.length-r.written || x.pace.rate > 0 {
		return 0, nil
	}
	file, err := secondFile(f)
	if err != nil {
		return 0, nil
	}
	defer file.Close()
	if r.phase == respOpen {
		if err := x.startStream(); err != nil {
			return 0, err
		}
	}
	x.slimFor(size)
	x.beginWrite()
	sent, err := nc.SendFile(x.out, store.DescriptorOf(file), from, size, &handlerPages{file, e, x})
	r.written += sent
	return sent, x.fileSent(x.endWrite(err))
}

// secondFile is f for package aio, which f does not depend on.
func secondFile(f osFile) (file *aio.File, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	failed := raw.Control(func(fd uintptr) {
		var second int
		if second, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			file, err = aio.NewFile(second, f.Name())
		}
	})
	if err == nil {
		err = failed
	}
	return file, err
}

// handlerPages tells SendFile what of the file of a handler is in memory.
type handlerPages struct {
	*aio.File
	e *exchange
	x *Ctx
}

// Moved and Resident are those of entryPages.
func (p *handlerPages) Moved() {
	p.e.armWrite(p.x)
	p.x.c.moved()
}

func (p *handlerPages) Resident(off, n int64) int64 {
	p.Moved()
	return p.File.Resident(off, n)
}
