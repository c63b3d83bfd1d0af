package knot

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// The exchange as an http.Request.

// request makes the http.Request, which keeps nothing of the Ctx. It is called in the task.
func (e *exchange) request() error {
	x := e.x
	e.ctx.e = e
	e.header = make(http.Header)
	r := &e.r
	*r = *blankRequest.WithContext(&e.ctx) // nothing else can set the context
	b := x.headBytes()
	text := string(b[:x.head.Size]) // all strings are parts of this one
	r.Method = x.methodOf(text)
	r.RequestURI = part(text, x.head.Target)
	r.Host = part(text, x.head.Host)
	if r.URL = e.parseTarget(r.RequestURI); r.URL == nil {
		return Status(http.StatusBadRequest)
	}
	r.ProtoMajor, r.ProtoMinor = 1, int(x.head.Minor)
	r.Proto = protoText(r.ProtoMinor)
	framed := x.c.stream != nil
	if framed {
		r.ProtoMajor, r.ProtoMinor, r.Proto = 2, 0, "HTTP/2.0"
	}
	r.ContentLength, r.Body = x.ContentLength(), http.NoBody
	r.Close = !framed && !x.head.Persistent()
	if r.ContentLength != 0 {
		r.Body = (*requestBody)(e)
		if b := &x.body; b.Chunked || b.Left > int64(x.w-x.r) {
			// Reading the rest does not send the responses to earlier requests.
			if err := x.flush(); err != nil {
				return err
			}
		}
	}
	r.Header = x.headerOf(text)
	if x.head.HasCoding && !framed {
		r.TransferEncoding = []string{"chunked"}
	}
	if v := r.Header["Pragma"]; len(v) > 0 && v[0] == "no-cache" && r.Header["Cache-Control"] == nil {
		r.Header["Cache-Control"] = []string{"no-cache"}
	}
	if r.ContentLength < 0 || x.body.trails {
		var ok bool
		if r.Trailer, ok = h1.AnnouncedTrailers(r.Header["Trailer"]); !ok {
			return Status(http.StatusBadRequest)
		}
		delete(r.Header, "Trailer")
	}
	r.RemoteAddr, r.TLS = x.c.facts()
	e.ctx.std = x.srv.stdContext(x.c)
	return nil
}

var blankRequest = new(http.Request)

// part is the piece of the head that s says.
func part(head string, s h1.Span) string { return head[s.From:s.To] }

func (x *Ctx) methodOf(head string) string {
	h := &x.head
	if h.Method != h1.MethodUnknown {
		return h1.MethodNames[h.Method]
	}
	return head[h.Start : h.Target.From-1]
}

func protoText(minor int) string {
	switch minor {
	case 0:
		return "HTTP/1.0"
	case 1:
		return "HTTP/1.1"
	}
	return "HTTP/1." + strconv.Itoa(minor)
}

// parseTarget is url.ParseRequestURI, nil instead of an error, and quick for targets of
// which nothing is escaped, nor would be. That of CONNECT may be an authority.
func (e *exchange) parseTarget(target string) *url.URL {
	path, query, asks := strings.Cut(target, "?")
	simple := len(path) > 0 && path[0] == '/' && (!asks || query != "")
	for i := 0; simple && i < len(path); i++ {
		simple = plainInPath[path[i]]
	}
	for i := 0; simple && i < len(query); i++ {
		simple = query[i] > ' ' && query[i] < 0x7f
	}
	if simple {
		e.url = url.URL{Path: path, RawQuery: query}
		return &e.url
	}
	authority := path != "" && path[0] != '/' && e.r.Method == http.MethodConnect
	if authority {
		target = "http://" + target
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil
	}
	if authority {
		u.Scheme = ""
	}
	return u
}

// plainInPath marks what stands in a path unescaped, however it is written (RFC 3986, 3.3).
var plainInPath = h1.ByteSet("/-._~$&+,:;=@" + h1.Digits + h1.Letters)

// headerOf is the header of the request as net/http has it: without Host and
// Transfer-Encoding.
func (x *Ctx) headerOf(head string) http.Header {
	fields := x.head.Fields
	values := make([]string, len(fields))
	header := make(http.Header, len(fields))
	for i := range fields {
		key := headerKey(part(head, fields[i].Name))
		if key == "Host" || key == "Transfer-Encoding" {
			continue
		}
		value := part(head, fields[i].Value)
		if before, twice := header[key]; twice {
			header[key] = append(before, value)
			continue
		}
		values[i] = value
		header[key] = values[i : i+1 : i+1]
	}
	return header
}

// headerKey is textproto.CanonicalMIMEHeaderKey, which is slow for names that are not in
// canonical form, as those are that browsers send over HTTP/2 and some proxies pass on.
func headerKey(name string) string {
	start := true
	for i := range len(name) {
		ch := name[i]
		if start && 'a' <= ch && ch <= 'z' || !start && 'A' <= ch && ch <= 'Z' {
			return textproto.CanonicalMIMEHeaderKey(name)
		}
		start = ch == '-'
	}
	return name
}

// connFacts is what all requests of net/http on a connection have in common.
type connFacts struct {
	remote string
	tls    *tls.ConnectionState
	std    stdContext // of the connection itself, not of a request of HTTP/2
}

// facts returns the client's address and what is known of TLS.
func (c *conn) facts() (remote string, secure *tls.ConnectionState) {
	if c.known == nil {
		f := new(connFacts)
		if addr := c.nc.RemoteAddr(); addr != nil {
			f.remote = addr.String()
		}
		if s, ok := c.nc.(interface{ ConnectionState() tls.ConnectionState }); ok {
			state := s.ConnectionState()
			f.tls = &state
		}
		c.known = f
	}
	return c.known.remote, c.known.tls
}

// noteTrailer takes up a trailer line of the request. It is called by the reader of the
// body.
func (e *exchange) noteTrailer(name, value []byte) {
	if e.r.Trailer == nil {
		e.r.Trailer = make(http.Header)
	}
	key := textproto.CanonicalMIMEHeaderKey(string(name))
	e.r.Trailer[key] = append(e.r.Trailer[key], string(value))
}

// A requestBody is the body of an exchange.
type requestBody exchange

func (b *requestBody) Read(p []byte) (int, error) {
	e := (*exchange)(b)
	e.reading.Lock()
	defer e.reading.Unlock()
	if e.x == nil || e.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	n, err := e.x.Body().Read(p)
	if err == nil || err == io.EOF {
		return n, err
	}
	if errors.Is(err, errReturned) || e.stoppedReading() {
		return n, http.ErrBodyReadAfterClose
	}
	if e.bodyErr == nil {
		e.bodyErr = err
	}
	return n, plainError(err, e.x.srv.limits.maxBody)
}

// plainError is err as the body of a net/http server would have it: callers there compare
// it as it is, and don't look into what it wraps.
func plainError(err error, maxBody int64) error {
	var ofConn net.Error // a timeout, a reset
	switch {
	case errors.Is(err, Status(http.StatusRequestEntityTooLarge)):
		return &http.MaxBytesError{Limit: maxBody}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return io.ErrUnexpectedEOF
	case errors.As(err, &ofConn):
		return ofConn
	}
	return err
}

// Close does not read what is left: the server does, if it is not too much. Nor does it
// wait for a Read that another goroutine is in; that one ends when the handler returns, and
// for a request of HTTP/2 at once, since handlers (of gRPC) wait for it after Close.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	if e := (*exchange)(b); e.r.ProtoMajor == 2 {
		e.endReads()
	}
	return nil
}
