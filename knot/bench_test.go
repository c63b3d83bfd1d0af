package knot

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

const plainRequest = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"

var benchRequests = []struct{ name, text string }{{"plain", plainRequest}, {"browser", httpcases.Browser}}

// BenchmarkRequest is a whole request on a connection in memory, a fixed
// response of 13 bytes included; its rival does the least that net/http can:
// ReadRequest and Response.Write.
func BenchmarkRequest(b *testing.B) {
	payload := []byte("Hello, World!")
	for _, request := range benchRequests {
		for _, depth := range []int{1, 16} {
			row := bytes.Repeat([]byte(request.text), depth)
			name := request.name
			if depth > 1 {
				name += "-pipelined"
			}
			b.Run("knot/"+name, func(b *testing.B) { benchKnot(b, row, depth, payload) })
			b.Run("net-http/"+name, func(b *testing.B) { benchNetHTTP(b, row, depth, payload) })
		}
	}
}

func benchKnot(b *testing.B, row []byte, depth int, payload []byte) {
	s := &Server{Handler: func(x *Ctx) error { return x.Send(200, "text/plain", payload) }}
	s.ready()
	defer s.Close()
	benchServe(b, s, row, depth)
}

// benchServe serves row, of depth requests, again and again.
func benchServe(b *testing.B, s *Server, row []byte, depth int) {
	nc := newScriptConn(row, nil, 1)
	nc.discard = true
	c := &conn{nc: nc, srv: s}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%depth != 0 {
			continue // figures are per request
		}
		nc.taken = 0
		c.state.Store(connIdle)
		x := s.borrow(c)
		x.run()
		giveBack(x)
	}
}

func benchNetHTTP(b *testing.B, row []byte, depth int, payload []byte) {
	in := bytes.NewReader(row)
	r := bufio.NewReader(in)
	w := bufio.NewWriter(io.Discard)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%depth == 0 {
			in.Reset(row)
			r.Reset(in)
		}
		req := testenv.Need(http.ReadRequest(r))(b)
		resp := http.Response{
			StatusCode: 200, ProtoMajor: 1, ProtoMinor: 1, Request: req,
			Header:        http.Header{"Content-Type": {"text/plain"}, "Date": {"Sat, 01 Aug 2026 10:00:00 GMT"}},
			ContentLength: int64(len(payload)), Body: io.NopCloser(bytes.NewReader(payload)),
		}
		testenv.Must(b, resp.Write(w))
		if i%depth == depth-1 {
			w.Flush()
		}
	}
}

// BenchmarkFile serves a small cached file on a connection in memory.
func BenchmarkFile(b *testing.B) {
	files := testenv.Need(OpenFiles("testdata/site"))(b)
	defer files.Close()
	s := &Server{Handler: files.Serve}
	s.ready()
	defer s.Close()
	benchServe(b, s, []byte("GET /notes.txt HTTP/1.1\r\nHost: h\r\n\r\n"), 1)
}

// BenchmarkHandler is BenchmarkRequest with a handler of net/http; its rival is what the
// server of net/http itself does for a request, on a connection in memory too.
func BenchmarkHandler(b *testing.B) {
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "Hello, World!")
	})
	for _, request := range benchRequests {
		b.Run("knot/"+request.name, func(b *testing.B) {
			s := &Server{Handler: AdaptHTTP(hello)}
			s.ready()
			defer s.Close()
			benchServe(b, s, []byte(request.text), 1)
		})
		b.Run("net-http/"+request.name, func(b *testing.B) {
			b.ReportAllocs()
			nc := &repeatConn{scriptConn: scriptConn{input: []byte(request.text), discard: true}, left: b.N, closed: make(chan struct{})}
			http.Serve(&oneConn{conn: nc}, hello)
			<-nc.closed
		})
	}
}

// A repeatConn gives a request again and again, one with each Read.
type repeatConn struct {
	scriptConn
	left   int
	closed chan struct{}
}

func (c *repeatConn) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.EOF
	}
	c.left--
	return copy(p, c.input), nil
}

func (c *repeatConn) Close() error { close(c.closed); return nil }

// A oneConn is a listener with one connection.
type oneConn struct{ conn net.Conn }

func (l *oneConn) Accept() (net.Conn, error) {
	c := l.conn
	if l.conn = nil; c == nil {
		return nil, io.EOF
	}
	return c, nil
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }
