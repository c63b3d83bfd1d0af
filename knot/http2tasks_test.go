package knot

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h2"
)

// TestHTTP2Windows: bodies larger than any window come whole both ways, on several requests at a time.
func TestHTTP2Windows(t *testing.T) {
	sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	eachHTTP2(t, func(s *Server) {
		s.Handler = echoHandler
		s.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerConnection: h2.FirstWindow, MaxReceiveBufferPerStream: h2.FirstWindow}
	}, func(t *testing.T, sv *served, client *http.Client, url string) {
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				body := io.Reader(bytes.NewReader(sent))
				if i%2 == 0 {
					body = io.MultiReader(body) // of a length that nobody knows
				}
				resp, err := client.Post(url+"/echo", "", body)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close()
				if got, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(got, sent) {
					t.Errorf("%d bytes came back, %v", len(got), err)
				}
			})
		}
		all.Wait()
	})
}

// TestHTTP2Trailers: and early hints.
func TestHTTP2Trailers(t *testing.T) {
	eachHTTP2(t, func(s *Server) {
		s.Handler = AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, hijacks := w.(http.Hijacker); hijacks || r.Proto != "HTTP/2.0" || r.TransferEncoding != nil {
				http.Error(w, fmt.Sprint(hijacks, r.Proto, r.TransferEncoding), 500)
				return
			}
			w.Header().Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			io.Copy(io.Discard, r.Body)
			w.Header().Set("Trailer", "X-Sum")
			if length := r.Header.Get("X-Length"); length != "" {
				w.Header().Set("Content-Length", length)
			}
			io.WriteString(w, r.Header.Get("X-Body"))
			w.Header().Set("X-Sum", r.Trailer.Get("X-Asked"))
			w.Header().Set(http.TrailerPrefix+"X-More", "more")
		}))
	}, func(t *testing.T, sv *served, client *http.Client, url string) {
		for _, c := range []struct {
			sent                 io.Reader
			length, answer, want string
		}{
			{bytes.NewReader(make([]byte, 100)), "", "body", "200body<nil>summore103</a>"},
			{io.MultiReader(bytes.NewReader(make([]byte, 100))), "", "body", "200body<nil>summore103</a>"}, // of a length that is not known
			{bytes.NewReader(make([]byte, 100)), "4", "body", "200body<nil>summore103</a>"},
			{bytes.NewReader(make([]byte, 100)), "0", "", "200<nil>summore103</a>"},
			{bytes.NewReader(make([]byte, 100)), "5", "body", "cut off"},
		} {
			r, _ := http.NewRequest("POST", url, c.sent)
			r.Header = http.Header{"X-Length": {c.length}, "X-Body": {c.answer}}
			r.Trailer = http.Header{"X-Asked": {"sum"}}
			early := ""
			r = r.WithContext(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				early += fmt.Sprint(code, h.Get("Link"))
				return nil
			}}))
			resp := testenv.Need(client.Do(r))(t)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if got := fmt.Sprint(resp.StatusCode, string(body), err, resp.Trailer.Get("X-Sum"), resp.Trailer.Get("X-More"), early); got != c.want && (err == nil || c.want != "cut off") {
				t.Errorf("to a request of length %d, a response of length %q: %s, want %s", r.ContentLength, c.length, got, c.want)
			}
		}
	})
}

// TestHTTP2Silence: what becomes of clients that say nothing, or do not read.
func TestHTTP2Silence(t *testing.T) {
	const short = 200 * time.Millisecond // some ticks of the coarse clock
	const idle = 2 * time.Second         // a busy machine needs that to begin
	cases := map[string]struct {
		s    *Server
		do   func(p *framePeer)
		want []string // verdicts
	}{
		"no request":            {&Server{IdleTimeout: idle}, func(p *framePeer) {}, []string{"away NO_ERROR", "end"}},
		"no further request":    {&Server{IdleTimeout: idle}, func(p *framePeer) { p.ask(0, "/nothing") }, []string{"200", "away NO_ERROR", "end"}},
		"no answer to a ping":   {&Server{HeadTimeout: -1, IdleTimeout: -1, HTTP2: &http.HTTP2Config{SendPingTimeout: short, PingTimeout: short}}, func(p *framePeer) {}, []string{"end"}},
		"a window that is shut": {&Server{WriteTimeout: short}, func(p *framePeer) { p.narrow(0); p.ask(0, "/large") }, []string{"200", "reset INTERNAL_ERROR"}},
		"a body that stops": {&Server{BodyTimeout: short}, func(p *framePeer) {
			p.headers(1, p.post("content-length", "5"), endsHeaders)
			p.WriteData(1, false, []byte("x"))
		}, []string{"408"}},
		"a head that stops": {&Server{HeadTimeout: short}, func(p *framePeer) { p.headers(3, p.get(), 0) }, []string{"end"}},
	}
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		peers := map[string]*framePeer{} // they are silent at the same time
		for name, c := range cases {
			s := &Server{H2C: true, Handler: echoHandler, HeadTimeout: c.s.HeadTimeout, IdleTimeout: c.s.IdleTimeout, WriteTimeout: c.s.WriteTimeout, BodyTimeout: c.s.BodyTimeout, HTTP2: c.s.HTTP2}
			p := start(s).framed()
			c.do(p)
			peers[name] = p
		}
		// One whose windows are wide, and that reads nothing at all, loses the connection.
		unread := start(&Server{H2C: true, Handler: echoHandler, WriteTimeout: short})
		wide := unread.frames(wholePre)
		wide.narrow(1<<31 - 1)
		wide.WriteWindowUpdate(0, 1<<30)
		for i := range 50 {
			wide.ask(i, "/large")
		}
		testenv.Need(io.ReadFull(wide.nc, make([]byte, 1)))(t) // it has been taken up
		for name, p := range peers {
			for _, want := range cases[name].want {
				testenv.Equal(t, p.verdict(), want, name)
			}
			p.nc.Close()
		}
		testenv.Until(t, "the connection ends of which nothing is read", func() bool { return unread.Stats().Conns == 0 })
	})
}

// FuzzHTTP2: whatever frames come, in whatever pieces, the connection comes to its end and nothing is left.
func FuzzHTTP2(f *testing.F) {
	var script bytes.Buffer
	p := newFramePeer(nil, nil, &script)
	p.WriteSettings()
	p.headers(1, p.get("cookie", "a=b"), wholeHead)
	p.headers(3, p.post("content-length", "3"), 0)
	p.WriteContinuation(3, true, nil)
	p.WriteData(3, true, []byte("abc"))
	p.WritePing(false, [8]byte{})
	p.headers(5, p.post(), endsHeaders)
	p.WriteData(5, false, []byte("abc"))
	p.WriteWindowUpdate(5, 1000)
	p.headers(5, p.head("x", "y"), wholeHead)
	p.WriteRSTStream(5, http2.ErrCodeCancel)
	p.WriteGoAway(0, http2.ErrCodeNo, nil)
	f.Add(script.Bytes(), 7)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		s := &Server{H2C: true, Handler: echoHandler, ErrorLog: quietLog()}
		nc := newScriptConn(wholePre, string(b), max(1, step))
		nc.discard = true
		s.ServeConn(nc)
		for s.Stats().Conns > 0 {
			runtime.Gosched()
		}
		s.Close()
	})
}

// TestHTTP2CloseEndsReads: a handler that closes the body may wait for the goroutine that reads it, though the
// client sends no more, as grpc-go does.
func TestHTTP2CloseEndsReads(t *testing.T) {
	eachHTTP2(t, func(s *Server) {
		s.BodyTimeout = -1
		s.Handler = adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			begun, read := make(chan struct{}), make(chan error)
			go func() {
				io.ReadFull(r.Body, make([]byte, 1))
				close(begun)
				_, err := io.Copy(io.Discard, r.Body)
				read <- err
			}()
			<-begun
			w.WriteHeader(200)
			w.(http.Flusher).Flush() // meanwhile the other one mostly comes to wait
			r.Body.Close()
			fmt.Fprint(w, <-read)
		}))
	}, func(t *testing.T, sv *served, client *http.Client, url string) {
		for range 10 {
			body, more := io.Pipe()
			go more.Write([]byte("a"))
			resp := testenv.Need(client.Post(url, "", body))(t)
			if got, err := io.ReadAll(resp.Body); string(got) != http.ErrBodyReadAfterClose.Error() || err != nil {
				t.Errorf("%q, %v", got, err)
			}
			resp.Body.Close()
			more.Close()
		}
	})
}

// TestHTTP2LongLine: one line that is longer than a head may be is answered as many are, and the connection goes on.
func TestHTTP2LongLine(t *testing.T) {
	sv := startServer(t, &Server{H2C: true, Handler: echoHandler, MaxHead: 1000}, 1)
	p := sv.framed()
	for i, c := range []struct {
		method string
		length int
		status string
	}{{"GET", 1001, "431"}, {"GET", 10_000, "431"}, {"HEAD", 1001, "431"}, {"GET", 100, "200"}, {"HEAD", 100, "200"}} {
		head := p.head(":method", c.method, ":scheme", "http", ":path", "/", ":authority", "h", "cookie", strings.Repeat("\xfe", c.length)) // which no code makes shorter
		p.headers(uint32(2*i+1), head, wholeHead)
		testenv.Equal(t, p.verdictButData(), c.status, "a line of %d bytes", c.length)
		testenv.Equal(t, p.ended, c.method == "HEAD", "%s with a line of %d bytes: no body", c.method, c.length)
	}
}

// TestHTTP2SmallTable: until a client knows that the table of headers is smaller, it may use the one that
// all begin with (RFC 9113, 4.3.1).
func TestHTTP2SmallTable(t *testing.T) {
	const size = 60
	sv := startServer(t, &Server{H2C: true, Handler: echoHandler, HTTP2: &http.HTTP2Config{MaxDecoderHeaderTableSize: size}}, 1)
	p := sv.framed()
	id := uint32(1)
	ask := func(want string) {
		t.Helper()
		p.headers(id, p.get("x-long", strings.Repeat("x", 2*size)), wholeHead)
		id += 2
		testenv.Equal(t, p.verdictButData(), want, "request %d", id-2)
	}
	ask("200")
	ask("200") // which refers to what the table has
	p.WriteSettingsAck()
	p.enc.SetMaxDynamicTableSize(size)
	ask("200")
	p.enc.SetMaxDynamicTableSize(size + 1)
	ask("away COMPRESSION_ERROR")
}
