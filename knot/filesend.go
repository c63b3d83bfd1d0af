package knot

import (
	"cmp"
	"io"
	"strconv"
	"sync"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/neterr"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// sendEntry answers GET and HEAD with the file, a part of it, or 304.
func (x *Ctx) sendEntry(f *Files, e *store.Entry) error {
	if x.head.HasConditionOrRange {
		return x.sendConditionalOrRange(f, e)
	}
	if e.Full && x.pace.Rate == 0 && len(x.resp.filters) == 0 {
		return x.sendFull(e)
	}
	x.addLines(e)
	x.describe(e)
	return x.sendBody(e, 0, e.Length)
}

// addLines adds the header lines that a 304 has, too.
func (x *Ctx) addLines(e *store.Entry) {
	x.dropReplaced(e)
	x.resp.fields = append(x.resp.fields, e.Lines[:e.Head.Validators]...)
}

// dropReplaced drops the header lines of the response in whose place the file has others.
func (x *Ctx) dropReplaced(e *store.Entry) {
	own := e.Lines[e.Head.Own:e.Head.Validators]
	if len(own) == 0 {
		return
	}
	x.resp.named = x.resp.named || h1.HasLine(own, []byte("server"))
	if len(x.resp.fields) > 0 {
		x.resp.fields = h1.WithoutLines(x.resp.fields, own)
	}
}

// sendFull answers from memory: the prepared header lines and the content leave in one
// system call.
func (x *Ctx) sendFull(e *store.Entry) error {
	r := &x.resp
	x.dropReplaced(e)
	x.commitOpen()
	r.length, r.written, r.phase = e.Length, e.Length, respDone
	if x.head.Method == h1.MethodHead {
		r.written = 0
		return x.emit(e.Lines)
	}
	if err := x.emit(e.Lines); err != nil {
		return err
	}
	return x.emitParts(e.Parts, e.Length)
}

// sendConditionalOrRange answers a request that has a condition (RFC 9110, 13) or a range (RFC 9110, 14).
func (x *Ctx) sendConditionalOrRange(f *Files, e *store.Entry) error {
	r, h := &x.resp, &e.Head
	verdict := x.fileRequest.Condition(h.Tag, h.Modified)
	if verdict == store.Failed {
		return Status(412)
	}
	var ranges []store.Range
	if verdict == store.Proceed && x.head.Method == h1.MethodGet {
		var ok bool
		if ranges, ok = x.fileRequest.WantedRanges(h, e.Length, f.maxRanges); !ok {
			r.fields = strconv.AppendInt(append(r.fields, "Content-Range: bytes */"...), e.Length, 10)
			r.fields = append(r.fields, "\r\n"...)
			return x.SendError(416)
		}
	}
	x.addLines(e)
	if verdict == store.NotModified {
		r.status = 304
		return nil
	}
	if len(ranges) > 0 {
		return x.sendRanges(e, ranges)
	}
	x.describe(e)
	return x.sendBody(e, 0, e.Length)
}

// describe adds what the header says about the content of the file and a 304 does not.
func (x *Ctx) describe(e *store.Entry) {
	x.resp.fields = append(x.resp.fields, e.Lines[e.Head.Validators:e.Head.Coded]...)
	x.resp.ctype = e.Head.Type
}

// sendRanges sends parts of the file.
func (x *Ctx) sendRanges(e *store.Entry, ranges []store.Range) error {
	r := &x.resp
	if len(ranges) == 1 {
		r.status = 206
		x.describe(e)
		r.fields = ranges[0].AppendHeader(r.fields, e.Length)
		return x.sendBody(e, ranges[0].From, ranges[0].To-ranges[0].From)
	}
	m := &store.Parts{Type: e.Head.Type, Size: e.Length}
	m.MakeBoundary()
	total := m.Length(ranges, r.held[:0])
	x.describe(e)
	if total >= e.Length { // more than the file itself
		return x.sendBody(e, 0, e.Length)
	}
	r.status, r.ctype = 206, m.ContentType()
	x.beginBytes(total)
	left := total
	for _, part := range ranges {
		lines := m.AppendHead(r.held[:0], part)
		r.held = lines[:0]
		if err := x.emit(lines); err != nil {
			return x.endBytes(e, left, err)
		}
		sent, err := x.sendSection(e, part.From, part.To-part.From)
		left -= int64(len(lines)) + sent
		if err != nil || sent < part.To-part.From {
			return x.endBytes(e, left, err)
		}
	}
	end := m.AppendEnd(r.held[:0])
	r.held = end[:0]
	return x.endBytes(e, left-int64(len(end)), x.emit(end))
}

// sendBody commits the response and sends length bytes of the file.
func (x *Ctx) sendBody(e *store.Entry, from, length int64) error {
	x.beginBytes(length)
	if x.head.Method == h1.MethodHead || x.resp.drop {
		x.resp.written, x.resp.phase = 0, respDone
		return nil
	}
	if x.resp.coding != nil {
		return x.sendCoded(e, from, length)
	}
	sent, err := x.sendSection(e, from, length)
	return x.endBytes(e, length-sent, err)
}

// beginBytes commits a response of n bytes.
func (x *Ctx) beginBytes(length int64) {
	r := &x.resp
	r.length, r.written = length, length
	if len(r.filters) > 0 {
		if x.runFilters(length); r.coding != nil {
			return // it is committed when there is something coded
		}
	}
	r.phase = respFixed
	x.commit(r.wire(length))
}

// sendCoded sends length bytes of the file through the encoder of the response.
func (x *Ctx) sendCoded(e *store.Entry, from, length int64) error {
	if e.Full {
		for _, p := range section(e.Parts, from, length) {
			if err := x.encode(p); err != nil {
				return err
			}
		}
		return x.complete()
	}
	buf := copyBuffers.Get().(*[copySize]byte)
	defer copyBuffers.Put(buf)
	for sent := int64(0); sent < length; {
		n, err := e.ReadAt(buf[:min(copySize, length-sent)], from+sent)
		if n > 0 {
			err = cmp.Or(err, x.encode(buf[:n]))
			sent += int64(n)
		}
		if err != nil || n <= 0 {
			if x.writeErr == nil { // the file, not the client, is at fault
				e.Drop()
			}
			return cmp.Or(err, store.ErrShrank)
		}
	}
	return x.complete()
}

// endBytes ends a response; left bytes of it were not sent.
func (x *Ctx) endBytes(e *store.Entry, left int64, err error) error {
	if left > 0 && err == nil {
		err = store.ErrShrank
	}
	if err == nil {
		x.resp.phase = respDone
		return nil
	}
	x.resp.written -= left
	if x.writeErr == nil {
		// Too late to say anything but by closing. The file is not what it was.
		x.closing, x.aborted = true, true
		e.Drop()
	}
	return err
}

// sendSection sends length bytes of the file, at the pace of the response, and returns how many
// it has sent.
func (x *Ctx) sendSection(e *store.Entry, from, length int64) (sent int64, err error) {
	for sent < length {
		n, err := x.nextPaced(length - sent)
		if err != nil {
			return sent, err
		}
		m, err := x.sendPiece(e, from+sent, n)
		sent += m
		if err != nil || m < n {
			return sent, err
		}
	}
	return sent, nil
}

func (x *Ctx) sendPiece(e *store.Entry, from, length int64) (int64, error) {
	if x.writeErr != nil {
		return 0, x.writeErr
	}
	if e.Full {
		if err := x.emitParts(section(e.Parts, from, length), length); err != nil {
			return 0, err
		}
		return length, nil
	}
	if nc, ok := ownconn.Of(x.c.nc).(fileSender); ok && length >= sendfileMin {
		return x.sendPages(nc, e, from, length)
	}
	return x.sendCopied(e, from, length)
}

// section returns length bytes of parts, beginning at offset from.
func section(parts [][]byte, from, length int64) [][]byte {
	some := make([][]byte, 0, len(parts))
	for _, p := range parts {
		n := int64(len(p))
		if from < n && length > 0 {
			p = p[from:min(from+length, n)]
			some = append(some, p)
			length -= int64(len(p))
		}
		from = max(from-n, 0)
	}
	return some
}

// sendfileMin is from how many bytes on a file is sent without a copy.
const sendfileMin = 32 << 10

// fileSender is a connection with sendfile.
type fileSender interface {
	SendFile(head []byte, fd int, off, n int64, pages ownconn.Pages) (int64, error)
}

// entryPages are the pages of an entry that is sent. SendFile calls Resident before each piece and after each wait for the
// disk, and each call sets the deadline of the write anew.
type entryPages struct {
	store.Pages
	x *Ctx
}

// Moved is called by SendFile.
func (p *entryPages) Moved() {
	p.x.c.armWrite(p.x.srv.settings().write)
	p.x.c.moved()
}

// Resident implements ownconn.Pages.
func (p *entryPages) Resident(off, n int64) int64 {
	p.Moved()
	return p.Pages.Resident(off, n)
}

// sendPages sends from the kernel's page cache.
func (x *Ctx) sendPages(nc fileSender, e *store.Entry, from, length int64) (int64, error) {
	p := &x.pages
	*p = entryPages{store.Pages{Of: e, Clock: &x.srv.clock}, x}
	x.shrinkBuffersFor(length)
	x.c.armWrite(x.srv.settings().write)
	x.beginWrite()
	sent, err := nc.SendFile(x.out, e.FD, from, length, p)
	x.spend(sent + int64(len(x.out)))
	*p = entryPages{}
	return sent, x.fileSent(x.endWrite(err))
}

// fileSent is afterWrite for a SendFile. It returns the error, but none for a file that has become shorter, which the caller sees.
func (x *Ctx) fileSent(err error) error {
	if err == io.ErrUnexpectedEOF {
		err = nil
	}
	if neterr.OfDisk(err) {
		x.afterWrite(nil)
		return err
	}
	return x.afterWrite(err)
}

// sendCopied sends through a buffer.
func (x *Ctx) sendCopied(e *store.Entry, from, length int64) (sent int64, err error) {
	if st := x.c.stream; st != nil && length > int64(cap(x.out)-len(x.out)) {
		return x.sendFromPages(st, e, from, length)
	}
	for sent < length {
		end := len(x.out)
		free := int64(cap(x.out) - end)
		large := length-sent > free
		if large {
			if free, err = x.beginPiece(); err != nil {
				return sent, err
			}
			end = len(x.out)
		}
		n, err := e.ReadAt(x.out[end:end+int(min(free, length-sent))], from+sent)
		if n > 0 {
			x.out = x.out[:end+n]
			sent += int64(n)
		}
		if large {
			err = cmp.Or(err, x.endPiece())
		}
		if n <= 0 || err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// leastPiece is how much of a file is read while the client takes nothing, in bytes.
const leastPiece = 4 << 10

// beginPiece makes room for the next piece of a file, as large as what the client takes without a wait, and returns how
// large. It may park.
func (x *Ctx) beginPiece() (int64, error) {
	if cap(x.out)-len(x.out) < leastPiece {
		if err := x.flush(); err != nil {
			return 0, err
		}
	}
	room := x.roomFor(store.WideSize)
	if room < leastPiece {
		x.shrinkBuffers(leastPiece)
		return leastPiece, nil
	}
	x.widen()
	return int64(min(room, cap(x.out)-len(x.out))), nil
}

// endPiece sends the piece, and gives its buffer back. It may park.
func (x *Ctx) endPiece() (err error) {
	if x.wide != nil {
		err = x.narrow()
	} else {
		err = x.flush()
	}
	x.busyReads()
	return err
}

var wideBuffers = sync.Pool{New: func() any { return new([store.WideSize]byte) }}

// widen puts a large buffer in place of the output buffer, with its content.
func (x *Ctx) widen() {
	x.wide = wideBuffers.Get().(*[store.WideSize]byte)
	x.narrowOut = x.out[:0]
	x.out = append(x.wide[:0], x.out...)
	x.recount()
}

// narrow undoes widen, after sending what is in the large buffer.
func (x *Ctx) narrow() error {
	err := x.flush()
	wideBuffers.Put(x.wide)
	x.out, x.wide, x.narrowOut = x.narrowOut, nil, nil
	x.recount()
	return err
}
