package proxy

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestHTTP2Backends: which protocol a backend is spoken to in, and what it sees of a request that has lines about the connection.
func TestHTTP2Backends(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		fmt.Fprint(w, r.Proto, " ", r.Host, " ", r.RequestURI, " ", h["Connection"], h["Upgrade"], h["X-Named"], h["Te"], h["User-Agent"], h["Via"], h["X-Forwarded-Host"])
	})
	start := func(http2 bool) *httptest.Server {
		s := httptest.NewUnstartedServer(handler)
		s.EnableHTTP2 = http2
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	const lines = " example.org /a%2Fb?c=d [] [] [] [trailers] [] [1.1 knot] [example.org]"
	for _, c := range []struct{ name, backend, want string }{
		{"prior knowledge", behind(t, handler), "HTTP/2.0" + lines},
		{"by ALPN", start(true).URL, "HTTP/2.0" + lines},
		{"not offered", start(false).URL, "HTTP/1.1" + lines},
	} {
		f := serve(t, Config{Backends: []string{c.backend}, HTTP2: true, TLS: &tls.Config{InsecureSkipVerify: true}}, 1)
		for range 3 {
			_, got := f.ask("GET /a%2Fb?c=d HTTP/1.1\r\nHost: example.org\r\nTE: trailers\r\nUpgrade: websocket\r\nX-Named: x\r\nConnection: close, Upgrade, X-Named\r\n\r\n")
			testenv.Equal(t, got, c.want, c.name)
		}
		testenv.Equal(t, f.stats().Dials, 1, "%s: N connections", c.name)
	}
}

// TestHTTP2Failures: what becomes of requests whose backend can't be reached, is late, breaks off, or whose client leaves.
func TestHTTP2Failures(t *testing.T) {
	arrived, left := make(chan bool), make(chan bool)
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/late":
			<-r.Context().Done()
		case "/gone":
			arrived <- true
			<-r.Context().Done()
			left <- true
		case "/broken":
			panic(http.ErrAbortHandler)
		case "/600":
			w.WriteHeader(600)
		case "/cut":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "begin")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		default:
			io.WriteString(w, "ok")
		}
	})
	f := serve(t, Config{Backends: []string{backend}, HTTP2: true, ResponseTimeout: time.Hour}, 1)
	late := serve(t, Config{Backends: []string{backend}, HTTP2: true, ResponseTimeout: 100 * time.Millisecond}, 1)
	nobody := serve(t, Config{Backends: []string{"unix:" + t.TempDir() + "/none"}, HTTP2: true}, 1)
	for _, test := range []struct {
		f                  *front
		path, status, body string
		cause              cause
	}{
		{late, "/late", "504", "", causeTimeout}, {f, "/broken", "502", "", causeBroken}, {f, "/600", "502", "", causeMalformed},
		{f, "/cut", "200", "!", causes}, {nobody, "/", "502", "", causeConnect},
	} {
		status, body := test.f.ask(strings.Replace(aRequest, "/", test.path, 1))
		testenv.Equal(t, status, test.status, test.path)
		if test.body != "" {
			testenv.Equal(t, body, test.body, test.path)
		}
		if test.cause < causes {
			testenv.Equal(t, test.f.stats().Failures[test.cause.String()], 1, "%s: failures by %s", test.path, test.cause)
		}
	}
	c, _ := f.dial("GET /gone HTTP/1.1\r\nHost: h\r\n\r\n")
	<-arrived
	c.Close()
	<-left // the backend is told
	testenv.Until(t, "its end", func() bool { return f.stats().Outstanding == 0 && f.stats().Failures["client gone"] == 1 })
	f = serve(t, Config{Backends: []string{nobody.p.Backends[0], backend}, HTTP2: true}, 1)
	for range 4 {
		_, body := f.ask("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx")
		testenv.Equal(t, body, "ok", "another backend")
	}
}

// TestHTTP2SlowClient: how long a backend may be silent does not bound how long a client may take for what has come.
func TestHTTP2SlowClient(t *testing.T) {
	const size, silence = 32 << 20, time.Second // longer than a busy machine stands still
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for piece := make([]byte, 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	f := serve(t, Config{Backends: []string{backend}, HTTP2: true, IdleTimeout: silence}, 1)
	_, in := f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	resp := testenv.Need(http.ReadResponse(in, nil))(t)
	<-time.After(2 * silence)
	testenv.Got(io.Copy(io.Discard, resp.Body))(t, size, "bytes")
}

// TestProtocolOfTheClient is what Via and SERVER_PROTOCOL name, and not what the backend is spoken to in; and a trailer behind a
// body of known length, which only HTTP/2 has, goes on to a backend of HTTP/2.
func TestProtocolOfTheClient(t *testing.T) {
	answer := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %v %s %v %v", r.Proto, r.Header["Via"], body, err, r.Trailer["Sum"])
	}
	backend := behind(t, answer)
	for _, test := range []struct {
		c    Config
		want string
	}{
		{to(backend), "HTTP/1.1 [2.0 knot] body <nil> []"},
		{Config{Backends: []string{backend}, HTTP2: true}, "HTTP/2.0 [2.0 knot] body <nil> [s]"},
		{Config{Backends: []string{fastCGIServer(t, answer)}, FastCGI: nowhere}, "HTTP/2.0 [] body <nil> []"},
	} {
		r := serve(t, test.c, 1).request("POST", "/", "body")
		r.Trailer = http.Header{"Sum": {"s"}}
		_, got := roundTrip(t, testenv.PlainHTTP2(t), r)
		testenv.Equal(t, got, test.want)
	}
}

// TestTrailerLines: what is not to stand in a trailer is not passed on in one, nor what a client says of whom it forwards for.
func TestTrailerLines(t *testing.T) {
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.Trailer["Sum"], r.Trailer["X-Forwarded-For"], r.Trailer["Upgrade"], r.Trailer["Content-Length"])
	})
	for _, http2 := range []bool{false, true} {
		f := serve(t, Config{Backends: []string{backend}, HTTP2: http2}, 1)
		_, got := f.ask("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTrailer: Sum, X-Forwarded-For\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"1\r\nx\r\n0\r\nSum: s\r\nX-Forwarded-For: 6.6.6.6\r\nUpgrade: h2c\r\nContent-Length: 7\r\n\r\n")
		testenv.Equal(t, got, "[s] [] [] []", "HTTP/2: %v", http2)
	}
}

// TestTrailerOfGRPC: the status of a call reaches the client though the response of the backend has a length and announces no trailer,
// and other responses keep their length.
func TestTrailerOfGRPC(t *testing.T) {
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "ok")
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "5")
	})
	f := serve(t, Config{Backends: []string{backend}, HTTP2: true}, 1)
	for ctype, length := range map[string]int64{"application/grpc+proto": -1, "text/plain": 2} {
		resp, body := roundTrip(t, testenv.PlainHTTP2(t), f.request("POST", "/", "x", "TE: trailers", "Content-Type: "+ctype))
		testenv.Equal(t, body, "ok", ctype)
		testenv.Equal(t, resp.ContentLength, length, "%s: length", ctype)
		testenv.Equal(t, resp.Trailer.Get("Grpc-Status") == "5", length < 0, "%s: the trailer %v", ctype, resp.Trailer)
	}
}

// TestSlowUpload: how long a backend may take for its response, or pause in it, counts from the end of the request, however slowly
// that comes.
func TestSlowUpload(t *testing.T) {
	const limit = time.Second
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			http.NewResponseController(w).EnableFullDuplex()
			w.(http.Flusher).Flush()
		}
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	var uploads [4]net.Conn // over HTTP/1.1, and HTTP/2; with the head of the response behind the request, and before its body
	for i := range uploads {
		f := serve(t, Config{Backends: []string{backend}, HTTP2: i%2 == 1, ResponseTimeout: limit, IdleTimeout: limit}, 1)
		path := []string{"/", "/early"}[i/2]
		uploads[i], _ = f.dial("POST " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\n1")
	}
	<-time.After(2 * limit)
	for i, c := range uploads {
		io.WriteString(c, "2345")
		end := []string{"\r\n\r\n5", "\r\n1\r\n5\r\n0\r\n\r\n"}[i/2]
		if all, _ := io.ReadAll(c); !strings.HasSuffix(string(all), end) {
			t.Errorf("HTTP/%d: %q; want %q at the end", i%2+1, all, end)
		}
	}
}

// TestHeadOfAStream: the head of a response is passed on when it comes, though nothing of the body has.
func TestHeadOfAStream(t *testing.T) {
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	for _, http2 := range []bool{false, true} {
		f := serve(t, Config{Backends: []string{backend}, HTTP2: http2}, 1)
		c, in := f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if resp, err := http.ReadResponse(in, nil); err != nil || resp.StatusCode != 200 {
			t.Errorf("HTTP/2 %v: %v", http2, err)
		}
		c.Close()
	}
}

// TestHTTP2Window: a backend may send no more of a response than a client has taken and a large buffer.
func TestHTTP2Window(t *testing.T) {
	window := make(chan uint32, 1)
	backend := testenv.Serve(t, func(c net.Conn) {
		io.CopyN(io.Discard, c, int64(len(http2.ClientPreface)))
		frame, err := http2.NewFramer(c, c).ReadFrame()
		if settings, ok := frame.(*http2.SettingsFrame); ok {
			n, _ := settings.Value(http2.SettingInitialWindowSize)
			window <- n
		} else {
			t.Errorf("%v, %v; want SETTINGS", frame, err)
			close(window)
		}
	})
	f := serve(t, Config{Backends: []string{"http://" + backend}, HTTP2: true}, 1)
	f.get("/")
	if n := <-window; n == 0 || n > 64<<10 {
		t.Errorf("a backend may send %d bytes that no client takes", n)
	}
}

// TestServerErrors: errors of the server are told from errors of the client, in gRPC too.
func TestServerErrors(t *testing.T) {
	for _, test := range []struct {
		status int
		grpc   string
		want   bool
	}{
		{200, "", false}, {404, "", false}, {500, "", true}, {503, "", true},
		{200, "0", false}, {200, "5", false}, {200, "16", false}, {200, "2", true}, {200, "14", true},
	} {
		resp := &http.Response{StatusCode: test.status, Header: http.Header{}}
		if test.grpc != "" {
			resp.Header.Set("Grpc-Status", test.grpc)
		}
		testenv.Equal(t, isServerError(resp), test.want, "%d, gRPC %q", test.status, test.grpc)
	}
}
