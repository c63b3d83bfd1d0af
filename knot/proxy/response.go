package proxy

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// maxInterim is how many informational responses (1xx) a backend may send for one request. Servers send one or two.
const maxInterim = 16

var errInterim = fmt.Errorf("more than %d informational responses (1xx)", maxInterim)

// receiveHead waits for the head of the response, passing informational ones on. ResponseTimeout is for all of them together.
func (e *exchange) receiveHead() error {
	for interim := 0; ; {
		whole, err := false, error(nil)
		if e.r < e.w {
			whole, err = e.p.wire.head(e)
		}
		switch {
		case err != nil:
			return e.malformed(err)
		case !whole:
			if err := e.fill(e.sentAt, e.p.ResponseTimeout); err != nil {
				return e.broken(err, false, interim == 0 && e.w == 0 && !e.rec.begun())
			}
			continue
		case e.res.Status == 101:
			return e.switchProtocols()
		case e.res.Status >= 200:
			return nil
		}
		if interim++; interim > maxInterim {
			return e.malformed(errInterim)
		}
		if e.res.Status > 101 { // the client has had its 100 Continue
			var lines []knot.Header
			e.res.Each(e.head, func(name, value []byte) bool {
				if !hopByHop(name) {
					lines = append(lines, knot.Header{Name: string(name), Value: string(value)})
				}
				return true
			})
			if err := e.x.Inform(e.res.Status, lines...); err != nil {
				return e.clientLost()
			}
		}
		e.r += e.res.Size
	}
}

// passBack sends the response to the client.
func (e *exchange) passBack() error {
	x, res := e.x, &e.res
	named := e.connectionNames()
	x.SetStatus(res.Status)
	took := time.Duration(elapsed() - e.sentAt)
	res.Each(e.head, func(name, value []byte) bool {
		if e.p.byReports && e.takeReport(name, value) {
			return true
		}
		if !hopByHop(name) && !contains(named, name) && !(e.p.FastCGI != nil && h1.TextIs(name, "status")) {
			e.inner.CopyHeader(name, value)
		}
		return true
	})
	e.b.measured(took, res.Status >= 500, e.hasReport)
	if upgrade := res.Find(e.head, "upgrade"); upgrade != nil && res.Status == 426 {
		x.AddHeader("Upgrade", string(upgrade)) // RFC 9110, 15.5.22
	}
	if cookie := e.stickyCookie(); cookie != "" {
		x.AddHeader("Set-Cookie", cookie)
	}
	if n := res.Length(); n >= 0 {
		x.SetContentLength(n)
	}
	e.r += res.Size
	e.body = res.Body(e.method)
	if e.p.FastCGI == nil && e.body.Done() {
		if res.Status == 204 || res.Status == 304 || e.method == "HEAD" {
			return e.inner.SendHead()
		}
		return nil
	}
	return e.passBody()
}

// passBody sends the body of the response as it comes.
func (e *exchange) passBody() error {
	x := e.x
	drop := e.method == "HEAD" || e.res.Status == 204 || e.res.Status == 304
	if drop {
		if err := e.inner.SendHead(); err != nil {
			return err
		}
	}
	since, moved := int64(0), true // when the last piece was passed on
	for {
		piece, used, err := e.p.wire.next(e)
		moved = moved || len(piece) > 0
		if len(piece) > 0 && !drop {
			if _, werr := x.Write(piece); werr != nil {
				if errors.Is(werr, knot.ErrTooLong) {
					return e.malformed(errors.New("more body than its Content-Length"))
				}
				return e.clientLost()
			}
		}
		e.r += used
		switch {
		case err == io.EOF && e.rec.announced > 0 && !drop:
			return e.malformed(errors.New("less body than its Content-Length"))
		case err == io.EOF:
			return e.endBody()
		case err != nil:
			return e.malformed(err)
		case used > 0 || len(piece) > 0:
			continue
		}
		large := e.giveBack()
		if x.Flush() != nil {
			return e.clientLost()
		}
		if large && (e.body.Chunked || e.body.Left > firstBuffer) {
			e.grow()
		}
		if err := e.tookLate(); err != nil {
			return err
		}
		if moved {
			since, moved = elapsed(), false
		}
		if err := e.fill(since, e.p.IdleTimeout); err != nil {
			if err == io.EOF {
				if err = e.p.wire.ended(e); err == nil {
					return e.endBody()
				}
			}
			return e.broken(err, false, false)
		}
	}
}

// clientLost is the failure for a client that does not take the response.
func (e *exchange) clientLost() error {
	e.waits.interrupt(errGone)
	return e.broken(errGone, false, false)
}

// endBody ends the response with its trailer.
func (e *exchange) endBody() error {
	for _, t := range e.trailer {
		if e.x.AddTrailer(t.Name, t.Value) != nil {
			return e.clientLost()
		}
	}
	return nil
}

// giveBack gives the buffer back if nothing is left in it, and reports whether the body is one for a large buffer.
func (e *exchange) giveBack() bool {
	if e.r != e.w {
		return false
	}
	large := e.big != nil || e.w == len(e.in)
	if e.big != nil {
		largeBuffers.Put(e.big)
		e.big = nil
	}
	e.in, e.r, e.w = e.own, 0, 0
	return large
}

// grow takes a large buffer, and uses as much of it as the client takes without a wait: a request must not hold more while its
// client does not read.
func (e *exchange) grow() {
	if room := e.inner.WriteRoom(); room > len(e.own) {
		e.big = largeBuffers.Get().(*[largeBuffer]byte)
		e.in = e.big[:min(room, largeBuffer)]
	}
}
