package proxy

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
)

// A front is a server with a proxy.
type front struct {
	t    *testing.T
	p    *Proxy
	ln   net.Listener
	addr string
	log  testenv.Buffer
}

// serve runs c on as many loops; paths below /static/ are answered without it.
func serve(t *testing.T, c Config, loops int, change ...func(*knot.Server)) *front {
	t.Helper()
	f := &front{t: t}
	c.Log = slog.New(slog.NewTextHandler(&f.log, nil))
	p := testenv.Need(New(c))(t)
	f.p = p
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(loops), capriccio.WithHoldLimit(-1), capriccio.WithoutRefusals()))(t)
	s := &knot.Server{ErrorLog: c.Log, H2C: true, Handler: func(x *knot.Ctx) error {
		if strings.HasPrefix(x.Path(), "/static/") {
			return x.SendString(200, "text/plain", "static")
		}
		return p.Serve(x)
	}}
	for _, fn := range change {
		fn(s)
	}
	network, addr := "tcp", "127.0.0.1:0"
	if path, ok := strings.CutPrefix(s.Addr, "unix:"); ok {
		network, addr = "unix", path
	}
	ln := testenv.Need(netpoll.Listen(network, addr))(t)
	f.ln, f.addr = ln, ln.Addr().String()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		s.Shutdown(ctx)
		<-ended
		p.Close()
		rt.Close()
	})
	return f
}

// behind starts a server of net/http and returns it as a backend, for HTTP/1.1 and for HTTP/2 with prior knowledge.
func behind(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}

// clientHTTP2 is a client of HTTP/2 with prior knowledge.
func clientHTTP2(t *testing.T) *http.Transport {
	client := &http.Transport{Protocols: new(http.Protocols)}
	client.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(client.CloseIdleConnections)
	return client
}

// script is a backend that answers connection by connection, with whatever answers says, after it has read a request's head.
func script(t *testing.T, answer func(n int, c net.Conn, head string)) string {
	return "http://" + testenv.Serve(t, scripted(answer))
}

func scripted(answer func(n int, c net.Conn, head string)) func(net.Conn) {
	var conns atomic.Int32
	return func(c net.Conn) {
		n := int(conns.Add(1)) - 1
		in := bufio.NewReader(c)
		head := ""
		for !strings.HasSuffix(head, "\r\n\r\n") {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			head += line
		}
		answer(n, c, head)
	}
}

// raw sends text and returns all that comes until the connection ends.
func (f *front) raw(text string) string {
	f.t.Helper()
	network := "tcp"
	if f.addr[0] == '/' {
		network = "unix"
	}
	c := testenv.Need(net.Dial(network, f.addr))(f.t)
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, text)
	all, _ := io.ReadAll(c)
	return string(all)
}

func (f *front) do(req *http.Request) (*http.Response, string) {
	f.t.Helper()
	resp := testenv.Need(http.DefaultTransport.RoundTrip(req))(f.t)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testenv.Must(f.t, err, "%s %s", req.Method, req.URL)
	return resp, string(body)
}

func (f *front) request(method, target, body string, lines ...string) *http.Request {
	f.t.Helper()
	req := testenv.Need(http.NewRequest(method, "http://"+f.addr+target, strings.NewReader(body)))(f.t)
	if body == "" {
		req.Body = nil
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		if name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(name, value)
	}
	return req
}

func (f *front) get(target string) (int, string) {
	f.t.Helper()
	resp, body := f.do(f.request("GET", target, ""))
	return resp.StatusCode, body
}

// passesOn makes a request, with a body of that size, of the backend of TestPassesOn.
func (f *front) passesOn(method, target string, size int, chunked bool) {
	t := f.t
	t.Helper()
	content := strings.Repeat("0123456789", size/10+1)[:size]
	req := f.request(method, target, content, "Host: example.org")
	seen := fmt.Sprintf("%s %s example.org %d %x <nil> ", method, target, size, sha256.Sum256([]byte(content)))
	if chunked {
		req.ContentLength = -1
		req.Trailer = http.Header{"Sum": {"of the request"}}
		seen += "of the request"
	}
	resp, body := f.do(req)
	if got := resp.Header.Get("X-Seen"); got != strings.TrimSpace(seen) {
		t.Errorf("backend saw %s, want %s", got, seen)
	}
	if h := resp.Header; h.Get("Server") != "behind" || len(h["Set-Cookie"]) != 2 || len(h["Date"]) != 1 {
		t.Errorf("%v", h)
	}
	want := content
	switch target {
	case "/204", "/304":
		want = ""
	case "/404":
		want = "404 page not found\n"
	case "/", "/a%2Fb":
		want = content + "."
	case "/trailer":
		if method != "HEAD" && resp.Trailer.Get("Sum") != "of it" {
			t.Errorf("%s %s: trailer %v", method, target, resp.Trailer)
		}
	}
	if method == "HEAD" {
		want = ""
	}
	if body != want {
		t.Errorf("%s %s: %d bytes, want %d", method, target, len(body), len(want))
	}
}

// TestPassesOn: methods, targets, header lines and bodies of all sizes and framings go there and back.
func TestPassesOn(t *testing.T) {
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %d %x %v %v", r.Method, r.RequestURI, r.Host, len(body), sha256.Sum256(body), err, r.Trailer.Get("Sum")))
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		w.Header().Set("Server", "behind")
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.WriteHeader(304)
		case "/404":
			http.NotFound(w, r)
		case "/length":
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			w.Write(body)
		case "/trailer":
			w.Header().Set("Trailer", "Sum")
			w.Write(body)
			w.Header().Set("Sum", "of it")
		case "/early":
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(103)
			w.Write(body)
		default:
			w.Write(body)
			w.(http.Flusher).Flush()
			w.Write([]byte("."))
		}
	})
	for loops, http2 := range map[int]bool{1: false, 2: true, 3: false} {
		f := serve(t, Config{Backends: []string{backend}, HTTP2: http2}, loops)
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "BREW"} {
			for _, target := range []string{"/", "/length?a=b&c=%2F", "/204", "/304", "/404", "/trailer", "/early", "/a%2Fb"} {
				for _, size := range []int{0, 1, 100_000, 3_000_000} {
					large := size == 3_000_000 && (method != "PUT" || target != "/" && target != "/trailer")
					if (method != "POST" && method != "PUT") && size > 0 || size > 1 && target == "/204" || large && !testenv.Full() {
						continue
					}
					f.passesOn(method, target, size, false)
					if size > 0 {
						f.passesOn(method, target, size, true)
					}
				}
			}
		}
		s := f.p.Stats()[0]
		if s.Dials > 20 || s.Outstanding != 0 || s.Responses[2] == 0 || s.Responses[4] == 0 {
			t.Errorf("%+v", s)
		}
	}
}

// TestLines: what a backend is told, and what it is not.
func TestLines(t *testing.T) {
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "X-Secret, close")
		w.Header().Set("X-Secret", "s")
		w.Header().Set("Keep-Alive", "timeout=5")
		w.Header().Set("X-Kept", "k")
		var lines []string
		for name, values := range r.Header {
			for _, v := range values {
				lines = append(lines, name+": "+v)
			}
		}
		slices.Sort(lines)
		fmt.Fprintf(w, "%s %s %s\n%s", r.Method, r.RequestURI, r.Host, strings.Join(lines, "\n"))
	})
	host := strings.TrimPrefix(backend, "http://")
	const hops = "Connection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nProxy-Connection: a\r\nTE: trailers, gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nProxy-Authorization: p\r\n"
	for _, test := range []struct {
		name   string
		c      Config
		target string
		lines  string
		want   string
	}{
		{"hop by hop", Config{Forwarded: ForwardedNone}, "/a", hops + "X-End: 1\r\n", "GET /a h\nVia: 1.1 knot\nX-End: 1"},
		{"client", Config{}, "/", "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n", "GET / h\nVia: 1.1 knot\nX-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: h\nX-Forwarded-Proto: http"},
		{"client of a proxy", Config{Trust: testenv.Need(knot.ParseTrust("127.0.0.0/8"))(t)}, "/", "X-Forwarded-For: 7.7.7.7\r\nX-Forwarded-For: 8.8.8.8\r\nX-Forwarded-Proto: https\r\nVia: 1.0 fred\r\n", "GET / h\nVia: 1.0 fred, 1.1 knot\nX-Forwarded-For: 7.7.7.7, 8.8.8.8, 127.0.0.1\nX-Forwarded-Host: h\nX-Forwarded-Proto: https"},
		{"forwarded", Config{Forwarded: ForwardedRFC}, "/", "Forwarded: for=6.6.6.6\r\n", "GET / h\nForwarded: for=127.0.0.1;host=\"h\";proto=http\nVia: 1.1 knot"},
		{"none of it", Config{Forwarded: ForwardedNone}, "/", "X-Forwarded-For: 6.6.6.6\r\n", "GET / h\nVia: 1.1 knot"},
		{"host of the backend", Config{Host: "backend", Forwarded: ForwardedNone}, "/", "", "GET / " + host + "\nVia: 1.1 knot"},
		{"another host", Config{Host: "app.internal", Forwarded: ForwardedNone}, "/", "", "GET / app.internal\nVia: 1.1 knot"},
		{"strip", Config{Strip: "/api", Forwarded: ForwardedNone}, "/api/x%2Fy?q", "", "GET /x%2Fy?q h\nVia: 1.1 knot"},
		{"strip all", Config{Strip: "/api", Forwarded: ForwardedNone}, "/api", "", "GET / h\nVia: 1.1 knot"},
		{"strip escaped", Config{Strip: "/api", Forwarded: ForwardedNone}, "/%61pi/x y", "", "400"},
		{"strip escaped", Config{Strip: "/api", Forwarded: ForwardedNone}, "/%61pi/x%20y", "", "GET /x%20y h\nVia: 1.1 knot"},
		{"strip nothing", Config{Strip: "/api", Forwarded: ForwardedNone}, "/apis", "", "GET /apis h\nVia: 1.1 knot"},
		{"dots", Config{Forwarded: ForwardedNone}, "/a/../b/./c//d", "", "GET /b/c/d h\nVia: 1.1 knot"},
		{"hidden dots", Config{Forwarded: ForwardedNone}, "/a/%2e%2e/b", "", "GET /b h\nVia: 1.1 knot"},
		{"hidden slash and dots", Config{Forwarded: ForwardedNone}, "/a%2F..%2Fb", "", "GET /b h\nVia: 1.1 knot"},
		{"absolute", Config{Forwarded: ForwardedNone}, "http://other?q", "", "GET /?q other\nVia: 1.1 knot"},
		{"upgrade to HTTP/2", Config{Forwarded: ForwardedNone}, "/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n", "GET / h\nVia: 1.1 knot"},
	} {
		test.c.Backends = []string{backend}
		f := serve(t, test.c, 1)
		answer := f.raw("GET " + test.target + " HTTP/1.1\r\nHost: h\r\n" + test.lines + "\r\n" + "GET /static/ HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
		testenv.Must(t, err, test.name)
		body, _ := io.ReadAll(resp.Body)
		got := strings.ReplaceAll(string(body), "Te: trailers\n", "")
		if resp.StatusCode != 200 {
			got = fmt.Sprint(resp.StatusCode)
		}
		testenv.Equal(t, got, test.want, test.name)
		if resp.StatusCode == 200 && (resp.Header.Get("X-Secret") != "" || resp.Header.Get("Keep-Alive") != "" || resp.Header.Get("X-Kept") != "k" || resp.Close) {
			t.Errorf("%s: %v", test.name, resp.Header)
		}
	}
	f := serve(t, Config{Backends: []string{backend}}, 1)
	for line, want := range map[string]string{"TRACE / HTTP/1.1": "\r\nAllow: GET, HEAD, POST, ", "OPTIONS * HTTP/1.1\r\nMax-Forwards: 0": " 204 ", "OPTIONS / HTTP/1.1\r\nMax-Forwards: 7": "Max-Forwards: 6", "GET / HTTP/1.1\r\nMax-Forwards: 7": "Max-Forwards: 7"} {
		testenv.Contains(t, f.raw(line+"\r\nHost: h\r\nConnection: close\r\n\r\n"), want, line)
	}
}

// TestUpgradeRequired: a client that gets 426 is told which protocol is wanted (RFC 9110, 15.5.22).
func TestUpgradeRequired(t *testing.T) {
	backend := script(t, func(n int, c net.Conn, head string) {
		_, path, _ := strings.Cut(head, "/")
		fmt.Fprintf(c, "HTTP/1.1 %s No\r\nUpgrade: TLS/1.3, websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n", path[:3])
	})
	f := serve(t, Config{Backends: []string{backend}, KeepConns: -1}, 1)
	for status, want := range map[string]string{"426": "Connection: Upgrade\r\nUpgrade: TLS/1.3, websocket\r\n", "200": ""} {
		answer := f.raw("GET /" + status + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(answer, "HTTP/1.1 "+status) || !strings.Contains(answer, want) || strings.Contains(answer, "Upgrade:") != (want != "") {
			t.Errorf("%s: %q", status, answer)
		}
	}
}

// refusing returns an address that nobody listens on, and nobody else gets while the test runs.
func refusing(t *testing.T) string {
	fd := testenv.Need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	testenv.Must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name := testenv.Need(unix.Getsockname(fd))(t)
	return fmt.Sprint("127.0.0.1:", name.(*unix.SockaddrInet4).Port)
}

// TestLenientFraming: what is taken from a backend, although it could be written better, reaches the client as it should be.
func TestLenientFraming(t *testing.T) {
	for _, lines := range []string{"Content-Length: 2\r\nContent-Length: 2", "Content-Length: 2, 2", "Content-Length : 2", "A\t : b\r\nContent-Length: 2"} {
		backend := script(t, func(_ int, c net.Conn, _ string) { io.WriteString(c, "HTTP/1.1 200 OK\r\n"+lines+"\r\n\r\nok") })
		for method, body := range map[string]string{"GET": "ok", "HEAD": ""} {
			got := serve(t, Config{Backends: []string{backend}}, 1).raw(method + " / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			head, rest, _ := strings.Cut(got, "\r\n\r\n")
			if rest != body || strings.Count(head, "\r\nContent-Length: 2") != 1 || strings.Count(head, "Content-Length") != 1 || strings.Contains(head, "2, 2") || strings.Contains(head, "\t") {
				t.Errorf("%s, %q: %q", method, lines, got)
			}
		}
	}
}

// TestFailures: what a backend does wrong becomes the right status, and a line in the log that names it; what may be tried
// again is.
func TestFailures(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	closed := "http://" + refusing(t)
	say := func(text string) func(int, net.Conn, string) {
		return func(_ int, c net.Conn, _ string) { io.WriteString(c, text) }
	}
	silent := func(_ int, c net.Conn, _ string) { io.Copy(io.Discard, c) }
	good := script(t, say(ok))
	for _, test := range []struct {
		name     string
		backends []string
		method   string
		status   string
		body     string
		log      string
		cause    Cause
	}{
		{"well", []string{good}, "GET", "200", "ok", "", causes},
		{"nobody listens", []string{closed}, "GET", "502", "502", "connect", CauseConnect},
		{"the other one", []string{closed, good}, "POST", "200", "ok", "", CauseConnect},
		{"breaks off", []string{script(t, say(""))}, "GET", "502", "502", "broken", CauseBroken},
		{"breaks off, and the other one", []string{script(t, say("")), good}, "GET", "200", "ok", "", CauseBroken},
		{"breaks off, and must not be repeated", []string{script(t, say("")), script(t, say(""))}, "POST", "502", "502", "broken", CauseBroken},
		{"breaks off in the head", []string{script(t, say("HTTP/1.1 20")), good}, "GET", "502", "502", "broken", CauseBroken},
		{"breaks off in the body", []string{script(t, say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"))}, "GET", "200", "!", "broken", CauseBroken},
		{"breaks off in a chunk", []string{script(t, say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"))}, "GET", "200", "!", "broken", CauseBroken},
		{"garbage", []string{script(t, say("garbage\r\n\r\n"))}, "GET", "502", "502", "malformed", CauseMalformed},
		{"ambiguous", []string{script(t, say("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"))}, "GET", "502", "502", "malformed", CauseMalformed},
		{"a protocol that nobody asked for", []string{script(t, say("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"))}, "GET", "502", "502", "malformed", CauseMalformed},
		{"late", []string{script(t, silent)}, "GET", "504", "504", "timeout", CauseTimeout},
		{"late is not tried again", []string{script(t, silent), script(t, silent)}, "GET", "504", "504", "timeout", CauseTimeout},
		{"late in the body", []string{script(t, func(_ int, c net.Conn, _ string) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok")
			io.Copy(io.Discard, c)
		})}, "GET", "200", "!", "timeout", CauseTimeout},
		{"lines that end with LF", []string{script(t, say("HTTP/1.1 200 OK\nContent-Length: 2\n\nok"))}, "GET", "200", "ok", "", causes},
		{"blanks behind the size of a chunk", []string{script(t, say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2   \r\nok\r\n0   \r\n\r\n"))}, "GET", "200", "ok", "", causes},
		{"many lines", []string{script(t, say("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", 1000)+"Content-Length: 2\r\n\r\nok"))}, "GET", "200", "ok", "", causes},
		{"a large head", []string{script(t, say("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("b", 64<<10)+"\r\n\r\n"))}, "GET", "502", "502", "larger than 64 KB", CauseMalformed},
		{"until close", []string{script(t, say("HTTP/1.0 200 OK\r\n\r\nok"))}, "GET", "200", "ok", "", causes},
	} {
		c := Config{Backends: test.backends, ResponseTimeout: time.Minute, IdleTimeout: time.Minute}
		switch { // the others are not late on a slow machine either
		case test.status == "504":
			c.ResponseTimeout = 100 * time.Millisecond
		case test.cause == CauseTimeout:
			c.IdleTimeout = 100 * time.Millisecond
		}
		f := serve(t, c, 1)
		f.p.next.Store(^uint32(0)) // the first one first
		answer := f.raw(test.method + " / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		status, body := "", "!"
		if resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil); err == nil {
			status = fmt.Sprint(resp.StatusCode)
			if all, err := io.ReadAll(resp.Body); err == nil {
				body = string(all)
			}
		}
		if status != test.status || !strings.Contains(body, test.body) {
			t.Errorf("%s: status %s, body %q; want %s, %q", test.name, status, body, test.status, test.body)
		}
		name := strings.TrimPrefix(test.backends[0], "http://")
		if log := f.log.String(); test.log == "" && log != "" || test.log != "" && (!strings.Contains(log, test.log) || !strings.Contains(log, name)) {
			t.Errorf("%s: the log has %q, want %q and %s", test.name, log, test.log, name)
		}
		if test.cause < causes && f.p.Stats()[0].Failures[test.cause.String()] != 1 {
			t.Errorf("%s: %+v", test.name, f.p.Stats())
		}
	}
}

// TestStale: a backend that closes connections at rest, or speaks unasked on them, fails no request.
func TestStale(t *testing.T) {
	said := make(chan bool, 1)
	backend := script(t, func(n int, c net.Conn, head string) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if n%2 == 1 {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
		}
		c.Close()
		said <- true
	})
	f := serve(t, Config{Backends: []string{backend}}, 1)
	for range 50 {
		if status, body := f.get("/"); status != 200 || body != "ok" {
			t.Fatalf("%d %q", status, body)
		}
		<-said
		f.get("/static/") // the loop is told of the backend's words before it is of this
	}
	if s := f.p.Stats()[0]; s.Responses[2] != 50 || s.Responses[5] != 0 {
		t.Errorf("%+v", s)
	}
}

// The backend is behind a unix socket, and one of the clients speaks HTTP/2.
func TestUnixSocketAndHTTP2(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln := testenv.Need(net.Listen("unix", path))(t)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Sum")
		http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body)
		w.Header().Set("Sum", "1"+r.Trailer.Get("Up"))
	})}
	go s.Serve(ln)
	defer s.Close()
	f := serve(t, Config{Backends: []string{"unix:" + path}}, 2)
	h2 := clientHTTP2(t)
	content := strings.Repeat("0123456789", 100_000)
	for _, rt := range []*http.Transport{http.DefaultTransport.(*http.Transport), h2} {
		for _, length := range []int64{int64(len(content)), -1} {
			for range 5 {
				req := f.request("POST", "/", content)
				req.ContentLength = length
				if length < 0 {
					req.Trailer = http.Header{"Up": {"2"}}
				}
				resp := testenv.Need(rt.RoundTrip(req))(t)
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if want := map[bool]string{true: "12", false: "1"}[length < 0]; err != nil || string(body) != content || resp.Trailer.Get("Sum") != want {
					t.Errorf("HTTP/%d: %d bytes, %v, trailer %v", resp.ProtoMajor, len(body), err, resp.Trailer)
				}
			}
		}
	}
	if s := f.p.Stats()[0]; s.Name != path || s.Dials > 12 {
		t.Errorf("%+v", s)
	}
	os.Remove(path)
}
