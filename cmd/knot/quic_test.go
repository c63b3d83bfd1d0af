package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// over3 is a client that speaks HTTP/3.
func over3(t *testing.T) *http.Client {
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(func() { transport.Close() })
	return &http.Client{Transport: transport}
}

// quicSite is the head of a configuration with a certificate, and a table of an address that speaks HTTP/3.
func quicSite(t *testing.T, addr string) string {
	t.Helper()
	crt, key := pair(t, t.TempDir(), "a.example", 1)
	return fmt.Sprintf("tls-cert = %q\ntls-key = %q\nmax-body = '64MB'\n%%s[[listen]]\naddr = %q\nhttp3 = true\n", crt, key, addr)
}

// send has a client send a request, and returns the response with its body.
func send(t *testing.T, c *http.Client, method, url string, body io.Reader, header ...string) (*http.Response, string) {
	t.Helper()
	r := testenv.Need(http.NewRequestWithContext(t.Context(), method, url, body))(t)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp := testenv.Need(c.Do(r))(t)
	defer resp.Body.Close()
	return resp, string(testenv.Need(io.ReadAll(resp.Body))(t))
}

// TestHTTP3 serves files and a backend over HTTP/3, with limits, log and what tells clients of it.
func TestHTTP3(t *testing.T) {
	backend := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/sum" {
			n, err := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n, " ", r.ContentLength, " ", r.Trailer.Get("X-End"), " ", err)
			return
		}
		w.Header().Set("Trailer", "X-Back")
		w.Header().Set("X-Saw", r.Header.Get("X-Forwarded-For")+" "+r.Header.Get("X-Forwarded-Proto")+" "+r.Header.Get("Via"))
		io.Copy(w, r.Body)
		w.Header().Set("X-Back", "end")
	})
	ln := testenv.Listen(t)
	go http.Serve(ln, backend)
	log := filepath.Join(t.TempDir(), "log")
	addr := freePort(t)
	file := configFile(t, quicSite(t, addr)+"[[site]]\nroot = %q\n[[site.header]]\nmatch = '/**'\nset = { X-Site = 'a' }\n[[site.proxy]]\nmatch = '/api/**'\nto = ['http://%s']\n[[site.limit]]\nmatch = '/index.html'\nrate = '1/h'\nburst = 1\n",
		fmt.Sprintf("log = %q\n", log), sampleSite, ln.Addr())
	p := quicRun(t, file)
	url, c := "https://"+addr, over3(t)

	resp, body := send(t, c, "GET", url+"/notes.txt", nil)
	testenv.Equal(t, resp.Proto, "HTTP/3.0")
	testenv.Equal(t, resp.StatusCode, 200)
	testenv.Contains(t, body, "Bowline")
	testenv.Equal(t, resp.Header.Get("X-Site"), "a")
	testenv.Equal(t, resp.Header.Get("Alt-Svc"), "", "over HTTP/3")
	whole := body
	resp, body = send(t, c, "GET", url+"/notes.txt", nil, "Range", "bytes=2-5")
	testenv.Equal(t, resp.StatusCode, 206)
	testenv.Equal(t, body, whole[2:6])
	resp, _ = send(t, c, "HEAD", url+"/notes.txt", nil)
	testenv.Equal(t, resp.ContentLength, int64(len(whole)))
	resp, _ = send(t, c, "GET", url+"/none", nil)
	testenv.Equal(t, resp.StatusCode, 404)
	over2 := clientOf(t, "")
	resp, _ = send(t, over2, "GET", url+"/none", nil)
	_, port, _ := net.SplitHostPort(addr)
	testenv.Equal(t, resp.Header.Get("Alt-Svc"), fmt.Sprintf(`h3=":%s"; ma=86400`, port))
	// The same client has one bucket, whatever it speaks.
	resp, _ = send(t, over2, "GET", url+"/index.html", nil)
	testenv.Equal(t, resp.StatusCode, 200)
	resp, _ = send(t, c, "GET", url+"/index.html", nil)
	testenv.Equal(t, resp.StatusCode, 429)

	resp, body = send(t, c, "POST", url+"/api/echo", strings.NewReader("knots"))
	testenv.Equal(t, body, "knots")
	testenv.Equal(t, resp.Header.Get("X-Saw"), "127.0.0.1 https 3.0 knot")
	testenv.Equal(t, resp.Trailer.Get("X-Back"), "end")
	large := bytes.Repeat([]byte("0123456789abcdef"), 8<<20/16)
	_, body = send(t, c, "PUT", url+"/api/echo", bytes.NewReader(large))
	testenv.True(t, body == string(large), "%d bytes of %d come back", len(body), len(large))
	_, body = send(t, c, "POST", url+"/api/sum", io.MultiReader(bytes.NewReader(large))) // without a length
	testenv.Equal(t, body, fmt.Sprint(len(large), " -1  <nil>"))
	r := testenv.Need(http.NewRequest("POST", url+"/api/sum", io.MultiReader(strings.NewReader("abc"))))(t)
	r.Trailer = http.Header{"X-End": {"yes"}}
	resp = testenv.Need(c.Do(r))(t)
	text := testenv.Need(io.ReadAll(resp.Body))(t)
	testenv.Equal(t, string(text), "3 -1 yes <nil>")
	resp, _ = send(t, c, "PUT", url+"/api/echo", bytes.NewReader(make([]byte, 65<<20)))
	testenv.Equal(t, resp.StatusCode, 413)

	p.end()
	lines := string(testenv.Need(os.ReadFile(log))(t))
	testenv.Contains(t, lines, `127.0.0.1 - - `)
	testenv.Contains(t, lines, `"GET /notes.txt HTTP/3.0" 200`)
	testenv.Contains(t, lines, `"PUT /api/echo HTTP/3.0" 413`)
}

// quicRun runs knot by a configuration.
func quicRun(t *testing.T, file string) *program {
	t.Helper()
	p := startRun(t, "-config", file)
	go io.Copy(&p.rest, p.out)
	return p
}

// rawRequest sends frames on a stream of its own, and returns the status of the response, or the code of the stream or
// connection that ends.
func rawRequest(t *testing.T, conn *quic.Conn, ends bool, frames ...[]byte) (status string, code uint64) {
	t.Helper()
	str := testenv.Need(conn.OpenStream())(t)
	str.Write(bytes.Join(frames, nil))
	if ends {
		str.Close()
	}
	in := quicvarint.NewReader(str)
	for {
		kind, err := quicvarint.Read(in)
		var stream *quic.StreamError
		var app *quic.ApplicationError
		switch {
		case errors.As(err, &stream):
			return "", uint64(stream.ErrorCode)
		case errors.As(err, &app):
			return "", uint64(app.ErrorCode)
		}
		testenv.Must(t, err)
		payload := make([]byte, testenv.Need(quicvarint.Read(in))(t))
		testenv.Need(io.ReadFull(in, payload))(t)
		if kind == 1 {
			field := testenv.Need(qpack.NewDecoder().Decode(payload)())(t)
			return field.Value, 0
		}
	}
}

// frame is one of HTTP/3.
func frame(kind uint64, payload []byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
}

// headFrame is that of a request with these names and values.
func headFrame(t *testing.T, fields ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	e := qpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		testenv.Must(t, e.WriteField(qpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return frame(1, b.Bytes())
}

// TestHTTP3Attacks: what could be understood as another request is refused, and clients can't keep more than their share busy.
func TestHTTP3Attacks(t *testing.T) {
	ln := testenv.Listen(t)
	waiting, goOn := make(chan bool, 1000), make(chan bool)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			waiting <- true
			<-goOn
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, r.RequestURI, n, err)
	}))
	addr := freePort(t)
	p := quicRun(t, configFile(t, quicSite(t, addr)+"[[site]]\n[[site.proxy]]\nto = ['http://%s']\n", "", ln.Addr()))
	dial := func() *quic.Conn {
		conn := testenv.Need(quic.DialAddr(t.Context(), addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, nil))(t)
		t.Cleanup(func() { conn.CloseWithError(0, "") })
		control := testenv.Need(conn.OpenUniStream())(t)
		control.Write([]byte{0, 4, 0}) // with empty SETTINGS
		return conn
	}
	conn := dial()
	plain := []string{":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/"}
	with := func(more ...string) []string { return append(plain[:len(plain):len(plain)], more...) }
	const malformed = uint64(http3.ErrCodeMessageError)
	for name, c := range map[string]struct {
		fields []string
		status string
		code   uint64
	}{
		"plain":                  {plain, "200", 0},
		"a space in the path":    {[]string{":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/a HTTP/1.1"}, "400", 0},
		"a space in the host":    {[]string{":method", "GET", ":scheme", "https", ":authority", "a b", ":path", "/"}, "400", 0},
		"a whole URL":            {[]string{":method", "GET", ":scheme", "https", ":authority", "a", ":path", "http://b/"}, "", malformed},
		"lines in the path":      {[]string{":method", "GET", ":scheme", "https", ":authority", "a", ":path", "/ HTTP/1.1\r\nX: y"}, "", malformed},
		"lines in the method":    {[]string{":method", "GET / HTTP/1.1\r\n", ":scheme", "https", ":authority", "a", ":path", "/"}, "", malformed},
		"two paths":              {append([]string{":path", "/b"}, plain...), "", malformed},
		"a path behind lines":    {[]string{":method", "GET", ":scheme", "https", ":authority", "a", "x", "y", ":path", "/"}, "", malformed},
		"a status":               {append([]string{":status", "200"}, plain...), "", malformed},
		"another host":           {with("host", "b.example"), "", malformed},
		"the same host":          {with("host", "a.example"), "200", 0},
		"no path":                {plain[:6], "", malformed},
		"an upper case name":     {with("X-A", "b"), "", malformed},
		"a line in a value":      {with("x-a", "b\r\nX-C: d"), "", malformed},
		"of a connection":        {with("connection", "close"), "", malformed},
		"chunked":                {with("transfer-encoding", "chunked"), "", malformed},
		"two lengths":            {with("content-length", "1", "content-length", "2"), "", malformed},
		"a length that is no":    {with("content-length", "+1"), "", malformed},
		"a tunnel":               {[]string{":method", "CONNECT", ":authority", "a:1"}, "501", 0},
		"a socket":               {[]string{":method", "CONNECT", ":protocol", "websocket", ":scheme", "https", ":authority", "a", ":path", "/"}, "501", 0},
		"a head that is large":   {with("x-a", strings.Repeat("b", 34_000)), "431", 0},
		"one that is far larger": {with("x-a", strings.Repeat("b", 200_000)), "431", 0},
	} {
		status, code := rawRequest(t, conn, true, headFrame(t, c.fields...))
		testenv.Equal(t, status, c.status, name)
		testenv.Equal(t, code, c.code, name)
	}
	post := []string{":method", "POST", ":scheme", "https", ":authority", "a.example", ":path", "/", "content-length", "2"}
	status, code := rawRequest(t, conn, true, headFrame(t, post...), frame(0, []byte("abGET /b HTTP/1.1")))
	testenv.True(t, status != "200" || code != 0, "a body beyond its length is not taken: %q, %d", status, code)
	status, _ = rawRequest(t, conn, true, headFrame(t, post...), frame(0, []byte("a")))
	testenv.True(t, status != "200", "a body that is too short: %q", status)
	_, code = rawRequest(t, dial(), false, frame(0, []byte("a")))
	testenv.Equal(t, code, uint64(http3.ErrCodeFrameUnexpected), "a body without a head")

	// Requests that the client resets end, and others can begin in their place.
	conn = dial()
	for range 200 { // twice as many as there may be at a time
		str := testenv.Need(conn.OpenStreamSync(t.Context()))(t)
		str.Write(headFrame(t, ":method", "GET", ":scheme", "https", ":authority", "a.example", ":path", "/wait"))
		str.Close()
		<-waiting
		str.CancelRead(0)
	}
	status, _ = rawRequest(t, conn, true, headFrame(t, plain...))
	testenv.Equal(t, status, "200", "after them")
	close(goOn)
	p.end()
}

// TestHTTP3Stops: a stop lets requests under way come to their end, and does not wait for idle clients.
func TestHTTP3Stops(t *testing.T) {
	ln := testenv.Listen(t)
	began, goOn := make(chan bool), make(chan bool)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- true
			<-goOn
		}
		w.Write(make([]byte, 1<<20))
	}))
	addr := freePort(t)
	p := quicRun(t, configFile(t, quicSite(t, addr)+"[[site]]\n[[site.proxy]]\nto = ['http://%s']\n", "", ln.Addr()))
	idle, busy := over3(t), over3(t)
	send(t, idle, "GET", "https://"+addr+"/", nil)
	got := make(chan int, 1)
	go func() {
		_, body := send(t, busy, "GET", "https://"+addr+"/slow", nil)
		got <- len(body)
	}()
	<-began
	p.stop()
	testenv.Until(t, "the stop has begun", func() bool { return refused("tcp", addr) })
	testenv.Until(t, "new clients are told", func() bool {
		_, err := quic.DialAddr(t.Context(), addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, nil)
		return err != nil && strings.Contains(err.Error(), "CONNECTION_REFUSED")
	})
	close(goOn)
	testenv.Equal(t, <-got, 1<<20, "bytes of the response")
	p.end()
}

// TestHTTP3Waits: idle-timeout does not end a connection whose request waits for its response.
func TestHTTP3Waits(t *testing.T) {
	testenv.NeedsFull(t, "it waits for three seconds, by the clock of quic-go")
	ln := testenv.Listen(t)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-time.After(3 * time.Second)
		io.WriteString(w, "late")
	}))
	addr := freePort(t)
	p := quicRun(t, configFile(t, quicSite(t, addr)+"[[site]]\n[[site.proxy]]\nto = ['http://%s']\n", "idle-timeout = '1s'\n", ln.Addr()))
	_, body := send(t, over3(t), "GET", "https://"+addr+"/", nil)
	testenv.Equal(t, body, "late")
	p.stop()
	p.end()
}

// TestHTTP3Reloads: SIGHUP begins and ends HTTP/3 at an address, whose socket of TCP stays. It begins with the limits of that time.
func TestHTTP3Reloads(t *testing.T) {
	addr := freePort(t)
	on := fmt.Sprintf(quicSite(t, addr), "") + fmt.Sprintf("[[site]]\nroot = %q\n", sampleSite)
	off := strings.Replace(on, "http3 = true", "http3 = false", 1)
	file := configFile(t, "%s", off)
	p := quicRun(t, file)
	url := "https://" + addr + "/notes.txt"
	over2 := clientOf(t, "")
	resp, _ := send(t, over2, "GET", url, nil)
	testenv.Equal(t, resp.Header.Get("Alt-Svc"), "")
	p.reads(file, "max-head = 1000\nhttp3-conns = 20\n"+on, "started anew", "keys=http3-conns")
	resp, _ = send(t, over3(t), "GET", url, nil)
	testenv.Equal(t, resp.StatusCode, 200)
	resp, _ = send(t, over3(t), "GET", url, nil, "X-A", strings.Repeat("b", 20_000))
	testenv.Equal(t, resp.StatusCode, 431, "a head above the new limit")
	p.reads(file, on+"\n[[site.header]]\nmatch = '/**'\nset = { X-Site = 'a' }\n", "was read again")
	c := over3(t)
	resp, _ = send(t, c, "GET", url, nil)
	testenv.Equal(t, resp.Header.Get("X-Site"), "a")
	p.reads(file, off, "was read again")
	testenv.Until(t, "HTTP/3 ends", func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := quic.DialAddr(ctx, addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h3"}}, &quic.Config{HandshakeIdleTimeout: 1})
		return err != nil
	})
	resp, _ = send(t, over2, "GET", url, nil)
	testenv.Equal(t, resp.StatusCode, 200)
	testenv.Equal(t, resp.Header.Get("Alt-Svc"), "", "HTTP/3 has ended")
	p.end()
}

// TestHTTP3HandOver: a successor has the socket of UDP, and reads from it when its predecessor has ended.
func TestHTTP3HandOver(t *testing.T) {
	ln := testenv.Listen(t)
	began, goOn := make(chan bool), make(chan bool)
	go http.Serve(ln, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			began <- true
			<-goOn
		}
		io.WriteString(w, "done")
	}))
	addr := freePort(t)
	file := configFile(t, quicSite(t, addr)+"[[site]]\n[[site.proxy]]\nto = ['http://%s']\n", "", ln.Addr())
	p := startProcess(t, knotCommand(t, "-config", file, "-loops", "1", "-quiet")).serves(t)
	old := p.Cmd
	got := make(chan string, 1)
	c := over3(t)
	go func() {
		_, body := send(t, c, "GET", "https://"+addr+"/slow", nil)
		got <- body
	}()
	<-began
	p.handOver(t)
	resp, _ := send(t, clientOf(t, ""), "GET", "https://"+addr+"/", nil)
	testenv.Equal(t, resp.StatusCode, 200, "over TCP meanwhile")
	close(goOn)
	testenv.Equal(t, <-got, "done", "under way at the old process")
	testenv.Check(t, old.Wait())
	_, body := send(t, over3(t), "GET", "https://"+addr+"/", nil)
	testenv.Equal(t, body, "done")
	p.signal(t, syscall.SIGTERM)
	io.Copy(io.Discard, p.log)
}

// TestHTTP3PredecessorIsGone: nothing is waited for when the predecessor has ended before its successor looks, whose parent is
// another process then.
func TestHTTP3PredecessorIsGone(t *testing.T) {
	predecessor, answer, err := os.Pipe()
	testenv.Must(t, err)
	defer answer.Close()
	predecessor.Close()
	testenv.True(t, predecessorEnd(&inheritance{answer: answer}) == nil, "it waits for the end of its parent")
}

// TestHTTP3Refused: an address that can't have HTTP/3 is a mistake.
func TestHTTP3Refused(t *testing.T) {
	crt, key := pair(t, t.TempDir(), "a.example", 1)
	secure := fmt.Sprintf("tls-cert = %q\ntls-key = %q\n", crt, key)
	site := fmt.Sprintf("[[site]]\nroot = %q\n", sampleSite)
	for want, text := range map[string]string{
		"listen 1: http3: HTTP/3 needs TLS":            secure + "[[listen]]\naddr = ':0'\ntls = false\nhttp3 = true\n",
		"http3: a Unix socket has no port":             secure + "[[listen]]\naddr = 'unix:/tmp/x'\nhttp3 = true\n",
		"http3: clients come through proxies":          secure + "[[listen]]\naddr = ':0'\nproxy-protocol = ['10.0.0.0/8']\nhttp3 = true\n",
		"this is of type integer; want true or false":  secure + "[[listen]]\naddr = ':0'\nhttp3 = 1\n",
		"did you mean http3?":                          secure + "[[listen]]\naddr = ':0'\nhttp = true\n",
		"-http3-conns 0; want at least 1":              "http3-conns = 0\n",
		"-http3: HTTP/3 needs TLS; want -tls-cert":     "http3 = true\n",
		"-http3: a Unix socket has no port of UDP; wa": secure + "http3 = true\naddr = 'unix:/tmp/x'\n",
	} {
		fails(t, exitUsage, want, "-config", configFile(t, "%s", text+site))
	}
}
