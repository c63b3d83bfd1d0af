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
			got := f.raw("GET /a%2Fb?c=d HTTP/1.1\r\nHost: example.org\r\nTE: trailers\r\nUpgrade: websocket\r\nX-Named: x\r\nConnection: close, Upgrade, X-Named\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, "\r\n\r\n"+c.want) {
				t.Errorf("%s: %q, want %s", c.name, got, c.want)
			}
		}
		testenv.Equal(t, f.p.Stats()[0].Dials, 1, "%s: N connections", c.name)
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
	nobody := "unix:" + t.TempDir() + "/none"
	get := func(f *front, path string) string {
		return f.raw("GET " + path + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	}
	f := serve(t, Config{Backends: []string{backend}, HTTP2: true, ResponseTimeout: 100 * time.Millisecond}, 1)
	if got := get(f, "/late"); !strings.HasPrefix(got, "HTTP/1.1 504 ") {
		t.Errorf("late: %q", got)
	}
	f = serve(t, Config{Backends: []string{backend}, HTTP2: true, ResponseTimeout: time.Hour}, 1)
	if got := get(f, "/broken"); !strings.HasPrefix(got, "HTTP/1.1 502 ") {
		t.Errorf("broken: %q", got)
	}
	if got := get(f, "/600"); !strings.HasPrefix(got, "HTTP/1.1 502 ") || f.p.Stats()[0].Failures["malformed"] != 1 {
		t.Errorf("a status that is none: %q %v", got, f.p.Stats()[0].Failures)
	}
	if got := get(f, "/cut"); !strings.HasSuffix(got, "\r\n\r\nbegin") {
		t.Errorf("cut: %q", got)
	}
	c, _ := f.dial("GET /gone HTTP/1.1\r\nHost: h\r\n\r\n")
	<-arrived
	c.Close()
	<-left // the backend is told
	testenv.Until(t, "its end", func() bool { s := f.p.Stats()[0]; return s.Outstanding == 0 && s.Failures["client gone"] == 1 })
	f = serve(t, Config{Backends: []string{nobody}, HTTP2: true}, 1)
	if got := get(f, "/"); !strings.HasPrefix(got, "HTTP/1.1 502 ") || f.p.Stats()[0].Failures["connect"] != 1 {
		t.Errorf("unreachable: %q %v", got, f.p.Stats()[0].Failures)
	}
	f = serve(t, Config{Backends: []string{nobody, backend}, HTTP2: true}, 1)
	for range 4 {
		if got := f.raw("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx"); !strings.HasSuffix(got, "ok") {
			t.Errorf("another backend: %q", got)
		}
	}
}

// TestHTTP2SlowClient: how long a backend may be silent does not bound how long a client may take for what has come.
func TestHTTP2SlowClient(t *testing.T) {
	const size, silence = 32 << 20, 500 * time.Millisecond
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
	client := &http.Client{Transport: clientHTTP2(t)}
	backend := behind(t, answer)
	for _, test := range []struct {
		c    Config
		want string
	}{
		{Config{Backends: []string{backend}}, "HTTP/1.1 [2.0 knot] body <nil> []"},
		{Config{Backends: []string{backend}, HTTP2: true}, "HTTP/2.0 [2.0 knot] body <nil> [s]"},
		{Config{Backends: []string{fastCGIServer(t, answer)}, FastCGI: &FastCGI{Root: "/nowhere"}}, "HTTP/2.0 [] body <nil> []"},
	} {
		r, err := http.NewRequest("POST", "http://"+serve(t, test.c, 1).addr, strings.NewReader("body"))
		testenv.Must(t, err)
		r.Trailer = http.Header{"Sum": {"s"}}
		resp, err := client.Do(r)
		testenv.Must(t, err)
		got, err := io.ReadAll(resp.Body)
		if resp.Body.Close(); string(got) != test.want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, test.want)
		}
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
		got := f.raw("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTrailer: Sum, X-Forwarded-For\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"1\r\nx\r\n0\r\nSum: s\r\nX-Forwarded-For: 6.6.6.6\r\nUpgrade: h2c\r\nContent-Length: 7\r\n\r\n")
		if !strings.HasSuffix(got, "\r\n\r\n[s] [] [] []") {
			t.Errorf("HTTP/2 %v: %q", http2, got)
		}
	}
}

// TestSlowUpload: how long a backend may take for its response counts from the end of the request, however slowly that comes.
func TestSlowUpload(t *testing.T) {
	const limit = 500 * time.Millisecond
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	var uploads [2]net.Conn // over HTTP/1.1, and HTTP/2
	for i := range uploads {
		f := serve(t, Config{Backends: []string{backend}, HTTP2: i == 1, ResponseTimeout: limit}, 1)
		uploads[i], _ = f.dial("POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\n1")
	}
	<-time.After(3 * limit)
	for i, c := range uploads {
		io.WriteString(c, "2345")
		if all, _ := io.ReadAll(c); !strings.HasSuffix(string(all), "\r\n\r\n5") {
			t.Errorf("HTTP/%d: %q", i+1, all)
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
		c.SetReadDeadline(time.Now().Add(time.Minute))
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
