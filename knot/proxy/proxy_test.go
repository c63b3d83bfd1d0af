package proxy

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

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
		if loops == 1 && !testenv.Full() { // most tests have one
			continue
		}
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
		s := f.stats()
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
	host, none := strings.TrimPrefix(backend, "http://"), Config{Forwarded: ForwardedNone}
	const hops = "Connection: x-hop, keep-alive\r\nX-Hop: 1\r\nKeep-Alive: 1\r\nProxy-Connection: a\r\nTE: trailers, gzip\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nProxy-Authorization: p\r\n"
	for _, test := range []struct {
		name                string
		c                   Config
		target, lines, want string
	}{
		{"hop by hop", none, "/a", hops + "X-End: 1\r\n", "GET /a h\nVia: 1.1 knot\nX-End: 1"},
		{"client", Config{}, "/", "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\n", "GET / h\nVia: 1.1 knot\nX-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: h\nX-Forwarded-Proto: http\nX-Real-Ip: 127.0.0.1"},
		{"client of a proxy", Config{Trust: testenv.Need(knot.ParseTrust("127.0.0.0/8"))(t)}, "/", "X-Forwarded-For: 7.7.7.7\r\nX-Forwarded-For: 8.8.8.8\r\nX-Real-IP: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nVia: 1.0 fred\r\n", "GET / h\nVia: 1.0 fred, 1.1 knot\nX-Forwarded-For: 7.7.7.7, 8.8.8.8, 127.0.0.1\nX-Forwarded-Host: h\nX-Forwarded-Proto: https\nX-Real-Ip: 8.8.8.8"},
		{"client as a program says", Config{Header: func(*knot.Ctx) []knot.Header { return []knot.Header{{Name: "x-real-ip", Value: "192.0.2.7"}} }}, "/", "X-Real-IP: 6.6.6.6\r\n", "GET / h\nVia: 1.1 knot\nX-Forwarded-For: 127.0.0.1\nX-Forwarded-Host: h\nX-Forwarded-Proto: http\nX-Real-Ip: 192.0.2.7"},
		{"forwarded", Config{Forwarded: ForwardedRFC}, "/", "Forwarded: for=6.6.6.6\r\n", "GET / h\nForwarded: for=127.0.0.1;host=\"h\";proto=http\nVia: 1.1 knot"},
		{"none of it", none, "/", "X-Forwarded-For: 6.6.6.6\r\n", "GET / h\nVia: 1.1 knot"},
		{"none of a proxy's", Config{Forwarded: ForwardedNone, Trust: testenv.Need(knot.ParseTrust("127.0.0.0/8"))(t)}, "/", "X-Forwarded-For: 7.7.7.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: x\r\nForwarded: for=7.7.7.7\r\nX-Real-IP: 7.7.7.7\r\n", "GET / h\nVia: 1.1 knot"},
		{"host of the backend", Config{Host: "backend", Forwarded: ForwardedNone}, "/", "", "GET / " + host + "\nVia: 1.1 knot"},
		{"another host", Config{Host: "app.internal", Forwarded: ForwardedNone}, "/", "", "GET / app.internal\nVia: 1.1 knot"},
		{"absolute", none, "http://other?q", "", "GET /?q other\nVia: 1.1 knot"},
		{"upgrade to HTTP/2", none, "/", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n", "GET / h\nVia: 1.1 knot"},
	} {
		test.c.Backends = []string{backend}
		f := serve(t, test.c, 1)
		answer := f.raw("GET " + test.target + " HTTP/1.1\r\nHost: h\r\n" + test.lines + "\r\n" + strings.Replace(aRequest, "/", "/static/", 1))
		resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
		testenv.Must(t, err, test.name)
		body, _ := io.ReadAll(resp.Body)
		testenv.Equal(t, strings.ReplaceAll(string(body), "Te: trailers\n", ""), test.want, test.name)
		if h := resp.Header; resp.StatusCode != 200 || h.Get("X-Secret") != "" || h.Get("Keep-Alive") != "" || h.Get("X-Kept") != "k" || resp.Close {
			t.Errorf("%s: %s %v", test.name, resp.Status, h)
		}
	}
	f := serve(t, to(backend), 1)
	for line, want := range map[string]string{
		"TRACE / HTTP/1.1": "\r\nAllow: GET, HEAD, POST, ", "OPTIONS * HTTP/1.1\r\nMax-Forwards: 0": " 204 ",
		"OPTIONS / HTTP/1.1\r\nMax-Forwards: 7": "Max-Forwards: 6", "GET / HTTP/1.1\r\nMax-Forwards: 7": "Max-Forwards: 7",
	} {
		testenv.Contains(t, f.raw(strings.Replace(aRequest, "GET / HTTP/1.1", line, 1)), want, line)
	}
}

// TestUpgradeRequired: a client that gets 426 is told which protocol is wanted (RFC 9110, 15.5.22).
func TestUpgradeRequired(t *testing.T) {
	for status, want := range map[string]string{"426": "Connection: Upgrade\r\nUpgrade: TLS/1.3, websocket\r\n", "200": ""} {
		backend := says(t, "HTTP/1.1 "+status+" No\r\nUpgrade: TLS/1.3, websocket\r\nConnection: Upgrade\r\nContent-Length: 0\r\n\r\n")
		answer := serve(t, to(backend), 1).raw(aRequest)
		if !strings.HasPrefix(answer, "HTTP/1.1 "+status) || !strings.Contains(answer, want) || strings.Contains(answer, "Upgrade:") != (want != "") {
			t.Errorf("%s: %q", status, answer)
		}
	}
}

// TestLenientFraming: what is taken from a backend, although it could be written better, reaches the client as it should be.
func TestLenientFraming(t *testing.T) {
	for _, lines := range []string{"Content-Length: 2\r\nContent-Length: 2", "Content-Length: 2, 2", "Content-Length : 2", "A\t : b\r\nContent-Length: 2"} {
		f := serve(t, to(says(t, "HTTP/1.1 200 OK\r\n"+lines+"\r\n\r\nok")), 1)
		for method, body := range map[string]string{"GET": "ok", "HEAD": ""} {
			got := f.raw(strings.Replace(aRequest, "GET", method, 1))
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
	good, closed, breaks, late := says(t, okResponse), refusing(t), says(t, ""), silent(t, "")
	response := func(lines, body string) string { return says(t, "HTTP/1.1 200 OK\r\n"+lines+"\r\n"+body) }
	const chunked = "Transfer-Encoding: chunked\r\n"
	for _, test := range []struct {
		name     string
		method   string
		backends []string
		want     string // status, and what the body begins with
		log      string
		cause    cause
	}{
		{"well", "GET", []string{good}, "200 ok", "", causes},
		{"nobody listens", "GET", []string{closed}, "502 ", "connect", causeConnect},
		{"the other one", "POST", []string{closed, good}, "200 ok", "", causeConnect},
		{"breaks off", "GET", []string{breaks}, "502 ", "broken", causeBroken},
		{"breaks off, and the other one", "GET", []string{breaks, good}, "200 ok", "", causeBroken},
		{"breaks off, and must not be repeated", "POST", []string{breaks, says(t, "")}, "502 ", "broken", causeBroken},
		{"breaks off in the head", "GET", []string{says(t, "HTTP/1.1 20"), good}, "502 ", "broken", causeBroken},
		{"breaks off in the body", "GET", []string{response("Content-Length: 3\r\n", "ok")}, "200 !", "broken", causeBroken},
		{"breaks off in a chunk", "GET", []string{response(chunked, "5\r\nab")}, "200 !", "broken", causeBroken},
		{"garbage", "GET", []string{says(t, "garbage\r\n\r\n")}, "502 ", "malformed", causeMalformed},
		{"a protocol that nobody asked for", "GET", []string{says(t, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n")}, "502 ", "malformed", causeMalformed},
		{"late", "GET", []string{late}, "504 ", "timeout", causeTimeout},
		{"late is not tried again", "GET", []string{late, silent(t, "")}, "504 ", "timeout", causeTimeout},
		{"late in the body", "GET", []string{silent(t, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok")}, "200 !", "timeout", causeTimeout},
		{"many lines", "GET", []string{response(strings.Repeat("A: b\r\n", 1000)+"Content-Length: 2\r\n", "ok")}, "200 ok", "", causes},
		{"a large head", "GET", []string{response("A: "+strings.Repeat("b", 64<<10)+"\r\n", "")}, "502 ", "larger than 64 KB", causeMalformed},
		{"until close", "GET", []string{says(t, "HTTP/1.0 200 OK\r\n\r\nok")}, "200 ok", "", causes},
	} {
		c := Config{Backends: test.backends, ResponseTimeout: time.Minute, IdleTimeout: time.Minute}
		switch { // the others are not late on a slow machine either
		case test.want == "504 ":
			c.ResponseTimeout = 100 * time.Millisecond
		case test.cause == causeTimeout:
			c.IdleTimeout = 100 * time.Millisecond
		}
		f := serve(t, c, 1)
		f.p.stable.turn.Store(^uint64(0)) // the first one first
		status, body := f.ask(strings.Replace(aRequest, "GET", test.method, 1))
		if got := status + " " + body; !strings.HasPrefix(got, test.want) {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
		name := "backend=" + strings.TrimPrefix(test.backends[0], "http://")
		if log := f.log.String(); test.log == "" && log != "" || test.log != "" && (!strings.Contains(log, test.log) || !strings.Contains(log, `msg="knot: backend failed" `+name+" cause=")) {
			t.Errorf("%s: the log has %q, want %q and %s", test.name, log, test.log, name)
		}
		if test.cause < causes {
			testenv.Equal(t, f.stats().Failures[test.cause.String()], 1, "%s: failures by %s", test.name, test.cause)
		}
	}
}

// TestStale: a backend that closes connections at rest, or speaks unasked on them, fails no request.
func TestStale(t *testing.T) {
	said := make(chan bool, 1)
	backend := script(t, func(n int, c net.Conn, head string) {
		io.WriteString(c, okResponse)
		if n%2 == 1 {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison")
		}
		c.Close()
		said <- true
	})
	f := serve(t, to(backend), 1)
	for range 50 {
		if status, body := f.get("/"); status != 200 || body != "ok" {
			t.Fatalf("%d %q", status, body)
		}
		<-said
		f.get("/static/") // the loop is told of the backend's words before it is of this
	}
	if s := f.stats(); s.Responses[2] != 50 || s.Responses[5] != 0 {
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
	f := serve(t, to("unix:"+path), 2)
	content := strings.Repeat("0123456789", 50_000)
	for _, client := range []http.RoundTripper{http.DefaultTransport, testenv.PlainHTTP2(t)} {
		for range 5 {
			resp, body := roundTrip(t, client, f.request("POST", "/", content))
			if body != content || resp.Trailer.Get("Sum") != "1" {
				t.Errorf("HTTP/%d: %d bytes, trailer %v", resp.ProtoMajor, len(body), resp.Trailer)
			}
			req := f.request("POST", "/", content)
			req.ContentLength, req.Trailer = -1, http.Header{"Up": {"2"}}
			resp, body = roundTrip(t, client, req)
			if body != content || resp.Trailer.Get("Sum") != "12" {
				t.Errorf("HTTP/%d, of unknown length: %d bytes, trailer %v", resp.ProtoMajor, len(body), resp.Trailer)
			}
		}
	}
	if s := f.stats(); s.Name != path || s.Dials > 12 {
		t.Errorf("%+v", s)
	}
}
