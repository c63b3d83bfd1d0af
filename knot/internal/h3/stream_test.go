package h3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A client is the http.ResponseWriter of a request, which takes what it is allowed to.
type client struct {
	header   http.Header
	took     bytes.Buffer // statuses, headers and pieces of the body
	informed []int
	status   int
	takes    chan int // each lets one Write in; nil: all
	err      error    // of Write
}

func (c *client) Header() http.Header { return c.header }

func (c *client) WriteHeader(status int) {
	if status < 200 {
		c.informed = append(c.informed, status)
		return
	}
	c.status = status
}

func (c *client) Write(p []byte) (int, error) {
	if c.takes != nil {
		<-c.takes
	}
	if c.err != nil {
		return 0, c.err
	}
	return c.took.Write(p)
}

// request makes a request of HTTP/3 with that body; length -1: it says none.
func request(method, target string, length int64, body io.Reader) *http.Request {
	if body == nil {
		body = http.NoBody
	}
	return &http.Request{Method: method, RequestURI: target, URL: &url.URL{Path: "/"}, Host: "h", Proto: "HTTP/3.0", Header: http.Header{}, ContentLength: length, Body: io.NopCloser(body), RemoteAddr: "192.0.2.1:443"}
}

// begin makes a Stream of r.
func begin(t *testing.T, r *http.Request) (*Stream, *client) {
	t.Helper()
	st, c := new(Stream), &client{header: http.Header{}}
	testenv.Equal(t, st.Begin(c, r, time.Time{}), 0, "status")
	return st, c
}

// answer has the text of a response sent, and reports whether it was complete.
func answer(st *Stream, pieces ...string) (complete bool) {
	go func() {
		defer st.End()
		for _, p := range pieces {
			st.Write([]byte(p))
		}
	}()
	defer func() { complete = recover() == nil }()
	st.Answer()
	return
}

// TestHead: a head is that of HTTP/1.1, and what could be misunderstood there is refused.
func TestHead(t *testing.T) {
	with := func(r *http.Request, change func(*http.Request)) *http.Request {
		change(r)
		return r
	}
	for name, c := range map[string]struct {
		r      *http.Request
		want   string
		status int
	}{
		"plain":          {request("GET", "/a?b", -1, nil), "GET /a?b HTTP/1.1\r\nHost: h\r\n\r\n", 0},
		"a length":       {request("POST", "/", 3, strings.NewReader("abc")), "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 0},
		"no length":      {request("POST", "/", -1, strings.NewReader("abc")), "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 0},
		"GET, a body":    {request("GET", "/", -1, strings.NewReader("abc")), "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", 0},
		"a space":        {request("GET", "/a HTTP/1.1", -1, nil), "", 400},
		"in the host":    {with(request("GET", "/", -1, nil), func(r *http.Request) { r.Host = "h x" }), "", 400},
		"in the method":  {request("GET /", "/", -1, nil), "", 400},
		"a socket":       {with(request("CONNECT", "/", -1, nil), func(r *http.Request) { r.Proto = "websocket" }), "", 501},
		"a tunnel":       {request("CONNECT", "h:1", -1, strings.NewReader("abc")), "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n", 0},
		"its own length": {with(request("GET", "/", 0, nil), func(r *http.Request) { r.Header["Content-Length"] = []string{"0"} }), "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", 0},
		"two hosts":      {with(request("GET", "/", -1, nil), func(r *http.Request) { r.Header["Host"] = []string{"h"} }), "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0},
		"a trailer": {with(request("POST", "/", -1, strings.NewReader("a")), func(r *http.Request) { r.Trailer = http.Header{"X": {"y"}} }),
			"POST / HTTP/1.1\r\nHost: h\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX: y\r\n\r\n", 0},
	} {
		st := new(Stream)
		testenv.Equal(t, st.Begin(&client{header: http.Header{}}, c.r, time.Time{}), c.status, name)
		if c.status == 0 {
			text := testenv.Need(io.ReadAll(st))(t)
			testenv.Equal(t, string(text), c.want, name)
			testenv.Equal(t, st.RemoteAddr().String(), "192.0.2.1:443", name)
		}
	}
}

// TestAnswer: a response of HTTP/1.1 is taken apart, however it is cut.
func TestAnswer(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nContent-Type: a\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-T: y\r\n\r\n"
	for name, c := range map[string]struct {
		method, text, body string
		status             int
		complete           bool
	}{
		"fixed":        {"GET", "HTTP/1.1 201 C\r\nContent-Length: 2\r\n\r\nab", "ab", 201, true},
		"chunked":      {"GET", chunked, "abcde", 200, true},
		"informed":     {"GET", "HTTP/1.1 103 E\r\nLink: x\r\n\r\nHTTP/1.1 204 N\r\n\r\n", "", 204, true},
		"HEAD":         {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "", 200, true},
		"cut off":      {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", "ab", 200, false},
		"in the head":  {"GET", "HTTP/1.1 200 OK\r\nConte", "", 0, false},
		"nothing":      {"GET", "", "", 0, false},
		"more than it": {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", "a", 200, false},
	} {
		for _, size := range []int{1, 7, 1000} {
			var pieces []string
			for text := c.text; text != ""; {
				n := min(size, len(text))
				pieces, text = append(pieces, text[:n]), text[n:]
			}
			st, to := begin(t, request(c.method, "/", -1, nil))
			testenv.Equal(t, answer(st, pieces...), c.complete, "%s in pieces of %d: complete", name, size)
			testenv.Equal(t, to.took.String(), c.body, "%s in pieces of %d", name, size)
			testenv.Equal(t, to.status, c.status, name)
			for _, line := range []string{"Connection", "Transfer-Encoding", "Link"} {
				testenv.Equal(t, to.header.Get(line), "", name)
			}
			if name == "chunked" {
				testenv.Equal(t, to.header.Get(http.TrailerPrefix+"X-T"), "y", name)
			}
			if name == "informed" {
				testenv.EqualSlices(t, to.informed, []int{103}, name)
			}
		}
	}
}

// TestSlowClient: a writer gets ahead of its client by two buffers, and meets its deadline.
func TestSlowClient(t *testing.T) {
	st, c := begin(t, request("GET", "/", -1, nil))
	c.takes = make(chan int)
	var aborted sync.WaitGroup
	aborted.Go(func() { testenv.MustPanic(t, "an answer that is cut off", st.Answer) })
	testenv.Need(st.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n")))(t)
	written := 0
	for st.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); ; {
		n, err := st.Write(make([]byte, 10_000))
		written += n
		if err != nil {
			testenv.ErrorIs(t, err, os.ErrDeadlineExceeded)
			break
		}
	}
	testenv.AtMost(t, written, 2*bufferSize, "bytes written")
	testenv.ErrorIs(t, testenv.Err(st.AwaitRoom(1)), os.ErrDeadlineExceeded)
	testenv.ErrorIs(t, testenv.Err(st.WriteSome([]byte("a"))), os.ErrDeadlineExceeded)
	st.End()
	close(c.takes)
	aborted.Wait()
}

// TestClientGone: writers and watchers hear of it.
func TestClientGone(t *testing.T) {
	ctx, leave := context.WithCancel(t.Context())
	st, c := begin(t, request("GET", "/", -1, nil).WithContext(ctx))
	c.err = errors.New("reset")
	var aborted sync.WaitGroup
	aborted.Go(func() { testenv.MustPanic(t, "an answer without a client", st.Answer) })
	testenv.Until(t, "writes fail", func() bool {
		_, err := st.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc"[:40]))
		return errors.Is(err, ErrReset)
	})
	gone := make(chan bool, 2)
	fn := func() { gone <- true }
	testenv.True(t, st.OnHangup(&fn), "can watch")
	testenv.True(t, st.OnHangup(nil), "was watched")
	st.OnHangup(&fn)
	leave()
	<-gone
	testenv.True(t, !st.OnHangup(nil), "was told")
	st.OnHangup(&fn)
	<-gone
	st.End()
	aborted.Wait()
}

// A blocked body has no end before it is let go.
type blocked struct {
	goOn chan bool
	read int
}

func (b *blocked) Read(p []byte) (int, error) {
	b.read += len(p)
	if b.read > 1<<20 {
		<-b.goOn
		return 0, io.ErrUnexpectedEOF
	}
	return len(p), nil
}

// TestBodyNotRead: no more of a body is taken than fits, a read has its deadline, and the reader ends with the answer.
func TestBodyNotRead(t *testing.T) {
	b := &blocked{goOn: make(chan bool)}
	st, _ := begin(t, request("POST", "/", 1<<40, b))
	testenv.Need(st.Read(make([]byte, 1000)))(t)
	testenv.Until(t, "the reader waits", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.filler != nil
	})
	testenv.AtMost(t, b.read, 2*bufferSize, "bytes read ahead")
	testenv.True(t, answer(st, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "answered")

	b = &blocked{goOn: make(chan bool), read: 1 << 20}
	st, _ = begin(t, request("POST", "/", 10, b))
	testenv.Need(st.Read(make([]byte, 1000)))(t) // the head
	st.SetReadDeadline(time.Now().Add(time.Millisecond))
	testenv.ErrorIs(t, testenv.Err(st.Read(make([]byte, 1))), os.ErrDeadlineExceeded)
	close(b.goOn)
	st.SetReadDeadline(time.Time{})
	testenv.ErrorIs(t, testenv.Err(st.Read(make([]byte, 1))), io.EOF, "a body that is cut off")
	_, received := st.Trailer()
	testenv.True(t, !received, "not received")
	testenv.True(t, answer(st, "HTTP/1.1 400 B\r\nContent-Length: 0\r\n\r\n"), "answered")
}
