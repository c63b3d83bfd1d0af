package knot

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// proxiedServer serves at addresses whose connections begin with a header of the PROXY protocol if they are from trusted
// peers. It answers with the addresses that it sees.
type proxiedServer struct {
	plain, secure, unix string
	log                 testenv.Buffer
	accesses            testenv.Buffer
	hello               chan string // the clients that callbacks of TLS see
	server              *Server
	stop                func()
}

func serveProxied(t *testing.T, trust string, s *Server) *proxiedServer {
	t.Helper()
	checkLeaks(t)
	p := &proxiedServer{server: s, hello: make(chan string, 10), unix: filepath.Join(t.TempDir(), "s")}
	s.ErrorLog, s.AccessLog = textLog(&p.log), NewAccessLog(&p.accesses, LogCommon)
	s.Handler = func(x *Ctx) error {
		return x.SendString(200, "text/plain", fmt.Sprint(x.RemoteAddr(), " ", x.LocalAddr(), " ", x.ClientAddr(), " ", (*inner)(x).c.remoteHost()))
	}
	config := testenv.NewCA(t).Server(t)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		p.hello <- hello.Conn.RemoteAddr().String()
		return nil, nil
	}
	opened := make(chan struct{})
	s.Listeners = func() (all []net.Listener, err error) {
		from := testenv.Need(ParseTrust(trust, "unix:"))(t)
		for i, addr := range []string{"127.0.0.1:0", "127.0.0.1:0", p.unix} {
			network := "tcp"
			if i == 2 {
				network = "unix"
			}
			ln := testenv.Need(netpoll.Listen(network, addr))(t)
			e := &Endpoint{Listener: ln, ProxyProtocol: from}
			switch i {
			case 0:
				p.plain = ln.Addr().String()
			case 1:
				p.secure, e.TLS = ln.Addr().String(), config
			}
			all = append(all, e)
		}
		close(opened)
		return all, nil
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- capriccio.Run(ctx, s.Run, capriccio.WithoutSignals(), capriccio.WithoutRefusals(), capriccio.WithLoops(2))
	}()
	<-opened
	p.stop = func() { stop(); testenv.Check(t, <-ended, "Run") }
	t.Cleanup(func() { p.stop() })
	return p
}

// ask sends text in pieces of that size, and returns the status and the body of the response, or the error.
func ask(t *testing.T, network, addr, text string, piece int) string {
	t.Helper()
	nc := testenv.Need(net.Dial(network, addr))(t)
	defer nc.Close()
	for len(text) > 0 {
		n := min(piece, len(text))
		if _, err := nc.Write([]byte(text[:n])); err != nil {
			break // it is refused
		}
		text = text[n:]
	}
	resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
	if err != nil {
		return "closed"
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.StatusCode, " ", string(body))
}

const (
	getOnce = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	proxyV1 = "PROXY TCP4 192.0.2.7 198.51.100.1 4660 443\r\n"
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n\x21\x21\x00\x29" + "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" + "\x12\x34\x01\xbb" + "\x04\x00\x02ab"
	localV2 = "\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00"
	saidV1  = "200 192.0.2.7:4660 198.51.100.1:443 192.0.2.7 192.0.2.7"
	saidV2  = "200 [2001:db8::7]:4660 [2001:db8::1]:443 2001:db8::7 2001:db8::7"
	twoGets = "GET / HTTP/1.1\r\nHost: h\r\n\r\n" + getOnce
)

// TestProxyProtocol: what a trusted proxy says is the client for handlers, the log and callbacks of TLS, however it comes.
func TestProxyProtocol(t *testing.T) {
	p := serveProxied(t, "127.0.0.0/8", &Server{})
	for _, piece := range []int{1 << 20, 1, 7} {
		testenv.Equal(t, ask(t, "tcp", p.plain, proxyV1+getOnce, piece), saidV1, "version 1 in pieces of %d", piece)
		testenv.Equal(t, ask(t, "tcp", p.plain, proxyV2+getOnce, piece), saidV2, "version 2 in pieces of %d", piece)
		testenv.Equal(t, ask(t, "unix", p.unix, proxyV1+getOnce, piece), saidV1, "by a Unix socket in pieces of %d", piece)
	}
	testenv.Equal(t, ask(t, "tcp", p.plain, proxyV1+twoGets, 1<<20), saidV1, "the first of two requests")
	testenv.Equal(t, ask(t, "unix", p.unix, "PROXY UNKNOWN\r\n"+getOnce, 1<<20), "200 @ "+p.unix+" invalid IP -", "unknown by a Unix socket")
	own := ask(t, "tcp", p.plain, localV2+getOnce, 1<<20)
	testenv.True(t, strings.HasPrefix(own, "200 127.0.0.1:"), "the proxy's own connection: %s", own)

	nc := testenv.Dial(t, p.secure)
	testenv.Need(io.WriteString(nc, proxyV1))(t)
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DialContext: func(context.Context, string, string) (net.Conn, error) { return nc, nil }}
	resp, text := testenv.Get(t, &http.Client{Transport: transport}, "https://h/")
	testenv.Equal(t, fmt.Sprint(resp.StatusCode, " ", text), saidV1, "over TLS")
	testenv.Equal(t, resp.ProtoMajor, 2, "version of HTTP")
	testenv.Equal(t, <-p.hello, "192.0.2.7:4660", "the client that a callback of TLS sees")
	transport.CloseIdleConnections()
	p.stop()
	p.stop = func() {}
	testenv.Equal(t, p.log.String(), "", "the error log")
	testenv.Must(t, p.server.AccessLog.Flush())
	testenv.Equal(t, strings.Count(p.accesses.String(), "192.0.2.7 - - "), 9, "requests of one client in the access log:\n%s", &p.accesses)
}

// TestProxyProtocolRefused: a trusted proxy without a header is refused, and the log says so. A peer that only looks at the
// port is not worth a word.
func TestProxyProtocolRefused(t *testing.T) {
	for text, want := range map[string]string{
		getOnce:              "does not begin with a header of the PROXY protocol",
		"\r\n" + getOnce:     "does not begin",
		"PROXY TCP4 a b\r\n": "malformed",
		"PROXY TCP4 192.0.2.7 198.51.100.1 4660 443" + strings.Repeat(" ", 100): "107 bytes",
		strings.Replace(proxyV2, "\x00\x29", "\xff\xff", 1):                     "4096",
	} {
		p := serveProxied(t, "127.0.0.1", &Server{})
		testenv.Equal(t, ask(t, "tcp", p.plain, text, 1<<20), "closed", "%q", text)
		testenv.Must(t, testenv.Dial(t, p.plain).Close())
		p.stop()
		testenv.Contains(t, p.log.String(), want, "%q", text)
		testenv.Contains(t, p.log.String(), "proxy=127.0.0.1:", "%q", text)
		testenv.Equal(t, strings.Count(p.log.String(), "\n"), 1, "lines of %s", &p.log)
		p.stop = func() {}
	}
}

// TestProxyProtocolOfOthers: a peer that is not trusted is served as it is, and can't say that it is another.
func TestProxyProtocolOfOthers(t *testing.T) {
	p := serveProxied(t, "192.0.2.0/24", &Server{})
	got := ask(t, "tcp", p.plain, getOnce, 1<<20)
	testenv.True(t, strings.HasPrefix(got, "200 127.0.0.1:"), "without a header: %s", got)
	for _, header := range []string{proxyV1, proxyV2, localV2} {
		got := ask(t, "tcp", p.plain, header+getOnce, 1<<20)
		testenv.True(t, strings.HasPrefix(got, "400 "), "%q: %s", header, got)
		_, err := tls.Client(prefixed{testenv.Dial(t, p.secure), header}, &tls.Config{InsecureSkipVerify: true}).Write([]byte(getOnce))
		testenv.Fails(t, err, "%q over TLS", header)
	}
	testenv.Equal(t, strings.Contains(p.accesses.String(), "192.0.2.7 - - "), false, "the access log has %s", &p.accesses)
}

// prefixed sends a text before the first write.
type prefixed struct {
	net.Conn
	text string
}

func (p prefixed) Write(b []byte) (int, error) {
	if _, err := p.Conn.Write([]byte(p.text + string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// TestProxyProtocolInTime: the header has HeadTimeout from the beginning of the connection on.
func TestProxyProtocolInTime(t *testing.T) {
	p := serveProxied(t, "127.0.0.1", &Server{HeadTimeout: 30 * time.Millisecond})
	for _, text := range []string{"", "PROXY TC", proxyV2[:13]} {
		testenv.Equal(t, ask(t, "tcp", p.plain, text, 1<<20), "closed", "%q", text)
	}
	testenv.Contains(t, p.log.String(), "refused")
}

// TestProxyProtocolAboveMaxConns: what a client above MaxConns has sent is read, header and all, before its connection is
// closed, as the 503 could be lost otherwise.
func TestProxyProtocolAboveMaxConns(t *testing.T) {
	p := serveProxied(t, "127.0.0.1", &Server{MaxConns: 1})
	p.server.ready()
	patient := *p.server.settings()
	patient.rest, patient.linger = time.Hour, time.Hour
	p.server.set.Store(&patient)
	first := testenv.Dial(t, p.plain)
	testenv.Need(io.WriteString(first, proxyV1+"GET / HTTP/1.1\r\nHost: h\r\n\r\n"))(t)
	testenv.Equal(t, testenv.Need(http.ReadResponse(bufio.NewReader(first), nil))(t).StatusCode, 200)
	second := testenv.Dial(t, p.plain).(*net.TCPConn)
	testenv.Contains(t, string(testenv.Need(io.ReadAll(second))(t)), "HTTP/1.1 503")
	testenv.Need(io.WriteString(second, proxyV1+getOnce))(t)
	raw := testenv.Need(second.SyscallConn())(t)
	testenv.Until(t, "the server's system has all", func() (all bool) {
		testenv.Must(t, raw.Control(func(fd uintptr) {
			left, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
			all = err == nil && left == 0
		}))
		return all
	})
	testenv.Until(t, "the server has read all, and lingers", func() (lingers bool) {
		p.server.conns.each(func(c *conn) bool {
			lingers = c.state.Load() == connActive && !unread(c.nc)
			return !lingers
		})
		return lingers
	})
}

// TestProxyProtocolOfForeignListeners: it is an error.
func TestProxyProtocolOfForeignListeners(t *testing.T) {
	s := &Server{ErrorLog: quietLog()}
	testenv.ErrorIs(t, s.Serve(&Endpoint{Listener: testenv.Listen(t), ProxyProtocol: testenv.Need(ParseTrust("unix:"))(t)}), errForeignProxied)
}
