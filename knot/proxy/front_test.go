package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
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

const (
	aRequest   = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	okResponse = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
)

// nowhere is FastCGI whose scripts are not on this machine.
var nowhere = &FastCGI{Root: "/nowhere"}

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
	if c.first == nil {
		c.first = func() uint32 { return 0 }
	}
	p := testenv.Need(New(c))(t)
	f.p = p
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(loops), capriccio.WithHoldLimit(-1), capriccio.WithoutRefusals()))(t)
	s := &knot.Server{ErrorLog: c.Log, H2C: true, Handler: func(x *knot.Ctx) error {
		if strings.HasPrefix(x.Path(), "/static/") {
			return x.SendString(200, "text/plain", "static")
		}
		return p.Handle(x)
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
		http.DefaultClient.CloseIdleConnections() // a connection that has had no request has a while
		s.Shutdown(ctx)
		<-ended
		p.Close()
		rt.Close()
	})
	return f
}

// to has requests go to these backends.
func to(backends ...string) Config { return Config{Backends: backends} }

// behind starts a server of net/http and returns it as a backend, for HTTP/1.1 and for HTTP/2 with prior knowledge.
func behind(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Config.ErrorLog, s.Config.DisableGeneralOptionsHandler = log.New(io.Discard, "", 0), true
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
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

// says is a backend that sends text for each request, and closes the connection.
func says(t *testing.T, text string) string {
	return script(t, func(_ int, c net.Conn, _ string) { io.WriteString(c, text) })
}

// silent is a backend that sends text and nothing more.
func silent(t *testing.T, text string) string {
	return script(t, func(_ int, c net.Conn, _ string) {
		io.WriteString(c, text)
		io.Copy(io.Discard, c)
	})
}

// refusing returns a backend that nobody listens for, and nobody else gets while the test runs.
func refusing(t *testing.T) string {
	fd := testenv.Need(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	testenv.Must(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name := testenv.Need(unix.Getsockname(fd))(t)
	return fmt.Sprint("http://127.0.0.1:", name.(*unix.SockaddrInet4).Port)
}

// stats are those of the first backend.
func (f *front) stats() BackendStats { return f.p.Stats()[0] }

// dial opens a connection and sends text.
func (f *front) dial(text string) (net.Conn, *bufio.Reader) {
	f.t.Helper()
	network := "tcp"
	if f.addr[0] == '/' {
		network = "unix"
	}
	c := testenv.Need(net.Dial(network, f.addr))(f.t)
	f.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, text)
	return c, bufio.NewReader(c)
}

// raw sends text and returns all that comes until the connection ends.
func (f *front) raw(text string) string {
	f.t.Helper()
	c, in := f.dial(text)
	defer c.Close()
	all, _ := io.ReadAll(in)
	return string(all)
}

// ask is raw for a request whose connection ends with its response. It returns the status and the body of that: "" if no
// response comes, and "!" if its body does not come to its end.
func (f *front) ask(text string) (status, body string) {
	f.t.Helper()
	in := bufio.NewReader(strings.NewReader(f.raw(text)))
	method, _, _ := strings.Cut(text, " ")
	for {
		resp, err := http.ReadResponse(in, &http.Request{Method: method})
		if err != nil {
			return "", "!"
		}
		if resp.StatusCode < 200 {
			continue
		}
		all, err := io.ReadAll(resp.Body)
		if err != nil {
			return fmt.Sprint(resp.StatusCode), "!"
		}
		return fmt.Sprint(resp.StatusCode), string(all)
	}
}

func (f *front) do(req *http.Request) (*http.Response, string) {
	f.t.Helper()
	return roundTrip(f.t, http.DefaultTransport, req)
}

// roundTrip returns a response and its body, which has to be whole.
func roundTrip(t *testing.T, client http.RoundTripper, req *http.Request) (*http.Response, string) {
	t.Helper()
	resp := testenv.Need(client.RoundTrip(req))(t)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testenv.Must(t, err, "%s %s", req.Method, req.URL)
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
