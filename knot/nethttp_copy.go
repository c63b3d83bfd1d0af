package knot

import (
	"io"
	"net/http"
	"sync"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

const (
	copySize = 32 << 10
	// sniffSize is how much of a body http.DetectContentType looks at.
	sniffSize = 512
)

var copyBuffers = sync.Pool{New: func() any { return new([copySize]byte) }}

// ReadFrom implements io.ReaderFrom. A file of 32 KB or more, within the declared Content-Length,
// is sent from the kernel's page cache (sendfile(2)); parts that are not there are waited for
// without holding up the loop.
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

// sendFile sends what is left of src if that is a regular file, and the response is one for
// which sendfile(2) pays; else it does nothing.
func (e *exchange) sendFile(src io.Reader) (int64, error) {
	p, ok := nethttp.FilePartOf(src)
	if !ok || p.Size < sendfileMin {
		return 0, nil
	}
	sent, err := e.sendPart(&p)
	p.Sent(sent)
	return sent, err
}

// sendPart sends p, or none of it if the response is not fit for that.
func (e *exchange) sendPart(p *nethttp.FilePart) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x, err := e.prepareWrite()
	if err != nil {
		return 0, err
	}
	r := &x.resp
	nc, ok := ownconn.Of(x.c.nc).(fileSender)
	if !ok || x.head.Method == h1.MethodHead || h1.Bodyless(r.status) || p.Size > r.length-r.written || x.pace.Rate > 0 {
		return 0, nil
	}
	file, err := p.Open()
	if err != nil {
		return 0, nil
	}
	defer file.Close()
	if r.phase == respOpen {
		if err := x.startStream(); err != nil {
			return 0, err
		}
	}
	if r.recoded || r.drop {
		return 0, nil
	}
	x.shrinkBuffersFor(p.Size)
	x.beginWrite()
	sent, err := nc.SendFile(x.out, store.DescriptorOf(file), p.From, p.Size, &handlerPages{file, e, x})
	x.spend(sent + int64(len(x.out)))
	r.written += sent
	return sent, x.fileSent(x.endWrite(err))
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
