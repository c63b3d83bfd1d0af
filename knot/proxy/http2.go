package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownctx"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
	"github.com/capriccio-go/capriccio/task"
)

// A dialError is an error of making a connection.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// newHTTP2 makes what sends requests to b in HTTP/2: net/http's Transport, which shares connections among them (RFC 9113). Its
// calls wait natively: goroutines make them, and the request's task waits for those.
func (b *backend) newHTTP2() *http.Transport {
	c := b.p
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		u, err := b.dial(ctx)
		if err != nil {
			return nil, dialError{err}
		}
		return u.(*upstream).Conn, nil
	}
	t := &http.Transport{}
	t.DialContext, t.DialTLSContext, t.Protocols = dial, dial, new(http.Protocols)
	t.Protocols.SetHTTP1(b.tls != nil || !c.HTTP2) // without HTTP2 it is for copies
	t.Protocols.SetHTTP2(b.tls != nil && c.HTTP2)
	t.Protocols.SetUnencryptedHTTP2(b.tls == nil && c.HTTP2)
	t.DisableCompression, t.MaxResponseHeaderBytes = true, headBuffer
	t.DisableKeepAlives = !c.keeps()
	t.MaxIdleConnsPerHost, t.IdleConnTimeout = c.KeepConns, c.KeepTimeout
	t.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: largeBuffer, SendPingTimeout: c.IdleTimeout, PingTimeout: cmp.Or(c.ConnectTimeout, DefaultConnectTimeout)}
	return t
}

// checkHTTP2 sends the request of a Check, and returns the status of the answer.
func (b *backend) checkHTTP2(ctx context.Context) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, "GET", b.base()+b.p.Check.Path, nil)
	if err != nil {
		return 0, err
	}
	r.Host = cmp.Or(b.p.Check.Host, r.Host)
	r.Header.Set("User-Agent", "knot-check")
	resp, err := b.http2.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// base is the beginning of URLs.
func (b *backend) base() string {
	if b.tls != nil {
		return "https://" + b.host()
	}
	return "http://" + b.host()
}

// A progressTimeout cancels a request that makes no progress.
type progressTimeout struct {
	timer *time.Timer

	mu       sync.Mutex
	limit    time.Duration // of the present step; 0: none; guarded by mu
	isPaused bool          // a piece of the client's body is awaited, for which the client has its own time; guarded by mu
}

// newProgressTimeout returns one that does not run yet. When it does, cancel gets os.ErrDeadlineExceeded.
func newProgressTimeout(cancel context.CancelCauseFunc) *progressTimeout {
	p := &progressTimeout{timer: time.AfterFunc(time.Hour, func() { cancel(os.ErrDeadlineExceeded) })}
	p.timer.Stop()
	return p
}

// wait begins a step that may take limit from here, and from the end of each pause; 0: for ever.
func (p *progressTimeout) wait(limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = limit
	p.arm()
}

// pause begins or ends a wait for the client. Its end gives the present step its whole time again.
func (p *progressTimeout) pause(begins bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isPaused = begins
	p.arm()
}

// arm sets the timer. Caller holds mu.
func (p *progressTimeout) arm() {
	if p.limit > 0 && !p.isPaused {
		p.timer.Reset(p.limit)
	} else {
		p.timer.Stop()
	}
}

// An http2Body is the body of a request on its way. The Transport may read it until the request is over, and try to after that.
type http2Body struct {
	apart   ownctx.Body
	waits   *interrupter
	timeout *progressTimeout
	trailer http.Header   // with the names that the client has announced
	lines   []knot.Header // of the request

	mu   sync.Mutex
	over bool // guarded by mu: the exchange, and what it has, belong to another request
}

func (b *http2Body) Read(p []byte) (int, error) {
	b.timeout.pause(true)
	n, err := b.apart.Read(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.over:
		return 0, errOver
	case err == io.EOF:
		for line := range strings.SplitSeq(string(b.apart.Trailer()), "\r\n") {
			name, value, _ := strings.Cut(line, ":")
			if name = http.CanonicalHeaderKey(name); b.announced(name) && mayTrail([]byte(name), b.lines) {
				b.trailer[name] = append(b.trailer[name], strings.Trim(value, " \t"))
			}
		}
	case err != nil:
		b.waits.interrupt(&clientError{err})
	}
	b.timeout.pause(false)
	return n, err
}

func (b *http2Body) announced(name string) bool {
	_, is := b.trailer[name]
	return is
}

// Close has nothing to do: end is what ends it.
func (b *http2Body) Close() error { return nil }

func (b *http2Body) end() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.apart.End()
}

// outside runs fn, which waits natively, and waits for it.
func outside(fn func()) {
	var done task.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		fn()
	}()
	done.Wait()
}

// tryHTTP2 is try for a backend that speaks HTTP/2.
func (e *exchange) tryHTTP2(b *backend) error {
	defer b.leave(nil, false)
	ctx, cancel := context.WithCancelCause(e.waits.ctx)
	defer cancel(nil)
	ctx, drop := withDeadline(ctx, e.deadline)
	defer drop()
	timeout := newProgressTimeout(cancel)
	defer timeout.timer.Stop()
	req, body, err := e.http2Request(ctx, timeout)
	if err != nil {
		return err
	}
	if body != nil {
		defer body.end()
	}
	var resp *http.Response
	timeout.wait(b.p.ResponseTimeout)
	e.sentAt = elapsed()
	outside(func() { resp, err = b.http2.RoundTrip(req) })
	if err != nil {
		return e.failedHTTP2(ctx, err, timeout)
	}
	// Before the body is closed, or the Transport would wait to send the rest of the request.
	defer resp.Body.Close()
	defer cancel(nil)
	if resp.StatusCode < 200 || resp.StatusCode > 599 {
		return e.malformed(fmt.Errorf("status %d is not in 200 to 599", resp.StatusCode))
	}
	b.counts.status[resp.StatusCode/100].Add(1)
	e.endedFailures = b.noteAnswer()
	return e.passBackHTTP2(ctx, resp, timeout)
}

// http2Request is the request as the Transport wants it: that of HTTP/1.1 read again, so that there is one set of rules for
// what is passed on. body is nil unless it is read while it comes.
func (e *exchange) http2Request(ctx context.Context, timeout *progressTimeout) (*http.Request, *http2Body, error) {
	e.out = e.out[:0]
	http1{}.request(e, nil, e.ready)
	r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(e.out)))
	if err != nil {
		return nil, nil, errors.Join(knot.Status(400), err)
	}
	r = r.WithContext(ctx)
	r.URL.RawPath = escapeOdd(r.URL.RawPath)
	r.RequestURI, r.URL.Scheme, r.URL.Host, r.Close = "", "http", e.b.host(), false
	if e.b.tls != nil {
		r.URL.Scheme = "https"
	}
	if r.Trailer == nil && !e.ready { // package http looks for the trailers of chunked bodies only
		var ok bool
		if r.Trailer, ok = h1.AnnouncedTrailers(r.Header["Trailer"]); !ok {
			return nil, nil, knot.Status(400)
		}
	}
	for _, name := range [...]string{"Connection", "Upgrade", "Content-Length", "Trailer"} {
		r.Header.Del(name)
	}
	if r.Header["User-Agent"] == nil {
		r.Header["User-Agent"] = []string{""} // or the Transport would add its own
	}
	r.Body = http.NoBody
	if e.ready {
		if r.ContentLength = int64(len(e.content)); r.ContentLength > 0 {
			content := bytes.Clone(e.content)
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
			r.Body, _ = r.GetBody()
		}
		return r, nil, nil
	}
	apart, err := e.inner.BodyApart()
	if err != nil {
		return nil, nil, err
	}
	e.bodyTaken = true
	body := &http2Body{apart: apart, waits: e.waits, timeout: timeout, trailer: r.Trailer, lines: e.lines}
	r.Body = body
	return r, body, nil
}

// failedHTTP2 is the failure for an error of the Transport's.
func (e *exchange) failedHTTP2(ctx context.Context, err error, timeout *progressTimeout) error {
	var dial dialError
	if errors.As(err, &dial) && ctx.Err() == nil {
		return e.unreached(dial.error)
	}
	return e.broken(cmp.Or(e.tooLate(ctx, timeout), err), false, true)
}

// isServerError reports whether a response is an error of the server: by its status, or by that of gRPC, which is in the head if
// the response has no body (gRPC over HTTP/2, Trailers-Only). Errors of the client, such as NOT_FOUND, are none.
func isServerError(resp *http.Response) bool {
	switch resp.Header.Get("Grpc-Status") {
	case "2", "4", "8", "12", "13", "14", "15": // UNKNOWN, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, DATA_LOSS
		return true
	}
	return resp.StatusCode >= 500
}

// tooLate is os.ErrDeadlineExceeded if ctx has ended at its deadline, or by its progressTimeout, else nil.
func (e *exchange) tooLate(ctx context.Context, timeout *progressTimeout) error {
	timeout.mu.Lock()
	isPaused := timeout.isPaused
	timeout.mu.Unlock()
	if isPaused {
		e.endLateBody()
	}
	if cause := context.Cause(ctx); cause == os.ErrDeadlineExceeded || cause == context.DeadlineExceeded {
		return os.ErrDeadlineExceeded
	}
	return nil
}

// passBackHTTP2 sends the response to the client, as it comes.
func (e *exchange) passBackHTTP2(ctx context.Context, resp *http.Response, timeout *progressTimeout) error {
	x := e.x
	x.SetStatus(resp.StatusCode)
	took := time.Duration(elapsed() - e.sentAt)
	named := connectionNames(func(fn func(name, value []byte) bool) {
		for _, value := range resp.Header["Connection"] {
			fn([]byte("connection"), []byte(value))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		if text := []byte(name); !hopByHop(text) && !contains(named, text) {
			for _, value := range resp.Header[name] {
				if e.p.byReports && e.takeReport(text, []byte(value)) {
					continue
				}
				e.inner.CopyHeader(text, []byte(value))
			}
		}
	}
	e.b.measured(took, isServerError(resp), e.hasReport)
	if upgrade := resp.Header.Get("Upgrade"); upgrade != "" && resp.StatusCode == 426 { // it speaks HTTP/1.1
		x.AddHeader("Upgrade", upgrade)
	}
	for name := range resp.Trailer {
		e.inner.CopyHeader([]byte("Trailer"), []byte(name))
	}
	// HTTP/1.1 has trailers in chunked bodies only, and servers of gRPC do not announce theirs.
	if resp.ContentLength >= 0 && len(resp.Trailer) == 0 && !strings.HasPrefix(resp.Header.Get("Content-Type"), "application/grpc") {
		x.SetContentLength(resp.ContentLength)
	}
	if cookie := e.stickyCookie(); cookie != "" {
		x.AddHeader("Set-Cookie", cookie)
	}
	if resp.StatusCode == 204 || resp.StatusCode == 304 || e.method == "HEAD" {
		return e.inner.SendHead()
	}
	if resp.ContentLength < 0 && x.Flush() != nil { // a stream may be silent at first
		return e.clientLost()
	}
	for passed := int64(0); ; {
		late := e.tookLate() // before the Read: so far only the client can have used the time up
		var n int
		var err error
		timeout.wait(e.p.IdleTimeout)
		outside(func() { n, err = resp.Body.Read(e.in) })
		timeout.wait(0) // the client has its own time to take it
		passed += int64(n)
		lost := false
		if n > 0 {
			_, werr := x.Write(e.in[:n])
			e.r, e.w = n, n
			large := e.giveBack()
			lost = werr != nil || err == nil && passed != resp.ContentLength && x.Flush() != nil
			if large && !lost {
				e.grow()
			}
		} else if err == nil {
			continue
		}
		switch {
		case lost:
			return e.clientLost()
		case err == io.EOF:
			for _, name := range slices.Sorted(maps.Keys(resp.Trailer)) {
				for _, value := range resp.Trailer[name] {
					if x.AddTrailer(name, value) != nil {
						return e.clientLost()
					}
				}
			}
			return nil
		case err != nil && late != nil:
			return late
		case err != nil:
			return e.broken(cmp.Or(e.tooLate(ctx, timeout), err), false, false)
		}
	}
}
