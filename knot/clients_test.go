package knot

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// req is a request of HTTP/1.1 without a body, such as req("GET /a", "Accept: text/plain").
func req(line string, fields ...string) string {
	var text strings.Builder
	text.WriteString(line + " HTTP/1.1\r\nHost: h\r\n")
	for _, field := range fields {
		if field != "" {
			text.WriteString(field + "\r\n")
		}
	}
	return text.String() + "\r\n"
}

// put is a request with a body of a known length.
func put(path, body string) string {
	return req("PUT "+path, fmt.Sprint("Content-Length: ", len(body))) + body
}

// peer is a client that writes what it likes.
type peer struct {
	t   *testing.T
	nc  net.Conn     // with TLS, if there is any
	tcp *net.TCPConn // below it
	r   *bufio.Reader
}

// dialPeer connects a client; it is closed at the end of the test.
func dialPeer(t *testing.T, addr string) *peer {
	t.Helper()
	nc := testenv.Dial(t, addr)
	return &peer{t, nc, nc.(*net.TCPConn), bufio.NewReader(nc)}
}

func (sv *served) dial() *peer {
	sv.t.Helper()
	return dialPeer(sv.t, sv.addr)
}

// dialTLS connects a client with its handshake done.
func (sv *served) dialTLS(config *tls.Config) *peer {
	sv.t.Helper()
	p := sv.dial()
	p.secure(config)
	testenv.Must(sv.t, p.nc.(*tls.Conn).Handshake())
	return p
}

// secure makes what follows go over TLS, beginning with the handshake.
func (p *peer) secure(config *tls.Config) {
	p.nc = tls.Client(p.nc, config)
	p.r = bufio.NewReader(p.nc)
}

// pipePeer is a client of s on the other end of a pipe.
func pipePeer(t *testing.T, s *Server) *peer {
	near, far := net.Pipe()
	go s.ServeConn(far)
	t.Cleanup(func() {
		near.Close()
		s.Close()
	})
	return &peer{t, near, nil, bufio.NewReader(near)}
}

// pipePeerTLS is pipePeer over TLS.
func pipePeerTLS(t *testing.T, s *Server) *peer {
	ca := testenv.NewCA(t)
	s.TLS = ca.Server(t)
	p := pipePeer(t, s)
	p.secure(ca.Client())
	return p
}

func (p *peer) send(text string) {
	p.t.Helper()
	testenv.Must(p.t, testenv.Err(io.WriteString(p.nc, text)), "sending")
}

// head reads the head of a response; the rest is read from its Body.
func (p *peer) head() *http.Response {
	p.t.Helper()
	return testenv.Need(http.ReadResponse(p.r, nil))(p.t)
}

// response reads one response with its body.
func (p *peer) response(method string) (*http.Response, string) {
	p.t.Helper()
	resp, err := http.ReadResponse(p.r, &http.Request{Method: method})
	testenv.Must(p.t, err, "reading the response")
	body, err := io.ReadAll(resp.Body)
	testenv.Must(p.t, err, "reading the body")
	return resp, string(body)
}

// ask sends a request and reads the response to it.
func (p *peer) ask(request string) (*http.Response, string) {
	p.t.Helper()
	p.send(request)
	method, _, _ := strings.Cut(request, " ")
	return p.response(method)
}

// want reads a response, which must have that status and body. The status has "close" behind it if it is to be the last
// response of the connection.
func (p *peer) want(status, body string, what ...any) {
	p.t.Helper()
	resp, got := p.response("GET")
	testenv.MustEqual(p.t, statusAndClose(resp), status, what...)
	testenv.MustEqual(p.t, got, body, what...)
}

// wantStatus is want for a response of any body.
func (p *peer) wantStatus(status string, what ...any) {
	p.t.Helper()
	resp, _ := p.response("GET")
	testenv.Equal(p.t, statusAndClose(resp), status, what...)
}

func statusAndClose(resp *http.Response) string {
	status := fmt.Sprint(resp.StatusCode)
	if resp.Close {
		status += " close"
	}
	return status
}

// wantClosed reads what is left, which must be nothing, and the end.
func (p *peer) wantClosed() {
	p.t.Helper()
	rest, err := io.ReadAll(p.r)
	if err != nil || len(rest) > 0 {
		p.t.Fatalf("got %q and error %v, want the end of the connection", rest, err)
	}
}

// reset closes the connection so that the server gets ECONNRESET.
func (p *peer) reset() {
	p.tcp.SetLinger(0)
	p.nc.Close()
}

// exchange sends a request on a connection of its own and returns all that
// comes back.
func (sv *served) exchange(request string) string {
	sv.t.Helper()
	p := sv.dial()
	p.send(request)
	p.tcp.CloseWrite()
	return string(testenv.Need(io.ReadAll(p.r))(sv.t))
}

// patiently tries with longer and longer times until one is enough: on a machine that has
// stalled, a short one passes before anything has happened.
func patiently(t *testing.T, first time.Duration, attempt func(time.Duration) error) {
	t.Helper()
	for d := first; ; d *= 4 {
		err := attempt(d)
		if err == nil {
			return
		}
		if d > 20*time.Second {
			t.Fatalf("with %v: %v", d, err)
		}
		t.Logf("with %v: %v", d, err)
	}
}

// statusOf is the code in the first line of a response.
func statusOf(response string) string {
	_, rest, _ := strings.Cut(response, " ")
	code, _, _ := strings.Cut(rest, " ")
	return code
}

func headerOf(answer, name string) string {
	head, _, _ := strings.Cut(answer, "\r\n\r\n")
	for _, line := range strings.Split(head, "\r\n") {
		if key, value, _ := strings.Cut(line, ": "); strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

func bodyOf(answer string) string {
	_, body, _ := strings.Cut(answer, "\r\n\r\n")
	return body
}

func statusAndBody(answer string) string { return statusOf(answer) + " " + bodyOf(answer) }

func textLog(to io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(to, nil)) }

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// scriptConn is a connection in memory: it hands out its input in reads of at
// most step bytes, and keeps what is written.
type scriptConn struct {
	input   []byte
	taken   int
	step    int
	first   int // size of the first read
	output  []byte
	reads   int
	writes  int
	discard bool
}

func newScriptConn(first, rest string, step int) *scriptConn {
	return &scriptConn{input: []byte(first + rest), first: len(first), step: step}
}

// script is a connection whose input comes at once.
func script(input string) *scriptConn { return newScriptConn(input, "", 1) }

func (c *scriptConn) Read(p []byte) (int, error) {
	if c.taken == len(c.input) {
		return 0, io.EOF
	}
	step := c.step
	if c.taken == 0 && c.first > 0 {
		step = c.first
	}
	n := copy(p[:min(len(p), step)], c.input[c.taken:])
	c.taken += n
	c.reads++
	return n, nil
}

func (c *scriptConn) Write(p []byte) (int, error) {
	c.writes++
	if !c.discard {
		c.output = append(c.output, p...)
	}
	return len(p), nil
}

func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) LocalAddr() net.Addr              { return scriptAddr{} }
func (c *scriptConn) RemoteAddr() net.Addr             { return scriptAddr{} }
func (c *scriptConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

type scriptAddr struct{}

func (scriptAddr) Network() string { return "script" }
func (scriptAddr) String() string  { return "192.0.2.1:4711" }

// serveScript runs one turn and returns the Ctx as it was left.
func serveScript(s *Server, nc net.Conn) *Ctx {
	x, _ := runScript(s, nc)
	return x
}

// runScript is serveScript, and returns what becomes of the connection too.
func runScript(s *Server, nc net.Conn) (*Ctx, verdict) {
	s.ready()
	defer s.clock.Close()
	c := &conn{nc: nc, srv: s}
	x := newCtx()
	x.c, x.srv = c, s
	return x, x.run()
}

// answerTo is what s writes for a request, or several.
func answerTo(s *Server, requests string) string {
	nc := script(requests)
	serveScript(s, nc)
	return string(nc.output)
}
