package knot

import (
	"errors"
	"net"
	"time"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/knot/internal/nethttp"
)

// Functions for handlers that pass requests on to another server, and its responses back.

// ErrNoHijack is returned by Hijack for a request that has no connection of its own: one of HTTP/2 or HTTP/3.
var ErrNoHijack = errors.New("knot: a request of HTTP/2 has no connection to take over")

// RawPath is the path of the request target as it came, or that of Rewrite, escapes and all; a view. "*" for OPTIONS *.
func (x *Ctx) RawPath() []byte {
	if x.rewritten != nil {
		return x.rewritten.path
	}
	return x.head.Path.Of(x.headBytes())
}

// Inform sends an informational response, 102 to 199, before the response itself. A client of HTTP/1.0 gets
// none. It may park.
func (x *Ctx) Inform(status int, lines ...Header) error {
	if status < 102 || status > 199 || x.head.Minor == 0 || x.resp.phase != respOpen {
		return x.writeErr
	}
	x.out = append(x.out, h1.StatusLine(status)...)
	for _, line := range lines {
		if h1.IsToken(line.Name) {
			x.out = h1.AppendField(x.out, line.Name, line.Value)
		}
	}
	x.out = append(x.out, "\r\n"...)
	return x.flush()
}

// AddTrailer adds a line to the trailer of the response. The body is sent in chunks then; one whose length
// was declared, and a client of HTTP/1.0, has no trailer. It may park.
func (x *Ctx) AddTrailer(name, value string) error {
	r := &x.resp
	if x.writeErr != nil || !nethttp.MayTrail(name) {
		return x.writeErr
	}
	if r.phase == respOpen && r.length < 0 && x.head.Minor > 0 && x.head.Method != h1.MethodHead && !h1.Bodyless(r.status) {
		if err := x.startStream(); err != nil {
			return err
		}
	}
	r.trailer = h1.AppendField(r.trailer, name, value)
	return nil
}

// Hijack makes the connection the caller's: the server does not know it any more, and Shutdown does not
// wait for it. It has no deadlines; rest is what the client has sent besides the request. The
// access log has the request as a 101. x must not be used afterwards: return from the handler, or go on with nc.
// If nc has the method OnReadable, as a *netpoll.Conn does, over TLS too, it can wait without a task. Hijack
// fails, and nothing has changed, once the response has begun, and for requests of HTTP/2 and HTTP/3. It may park.
func (x *Ctx) Hijack() (nc net.Conn, rest []byte, err error) {
	if x.c.stream != nil {
		return nil, nil, ErrNoHijack
	}
	if err := x.begun(); err != nil {
		return nil, nil, err
	}
	x.rejoin()
	if err := x.flush(); err != nil { // responses to requests before this one
		return nil, nil, err
	}
	c := x.c
	if err := c.nc.SetDeadline(time.Time{}); err != nil {
		return nil, nil, err
	}
	rest = x.hijack()
	c.leave()
	return c.nc, rest, nil
}
