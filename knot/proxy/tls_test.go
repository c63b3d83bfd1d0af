package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// Backends over TLS: certificates are verified unless the settings say otherwise, connections are used again, checks and tunnels
// go over TLS too.
func TestBackendTLS(t *testing.T) {
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			io.Copy(c, rw)
			return
		}
		io.Copy(w, r.Body)
		io.WriteString(w, r.Proto+" over TLS: "+map[bool]string{true: "yes", false: "no"}[r.TLS != nil])
	}))
	backend.Config.ErrorLog = log.New(io.Discard, "", 0)
	backend.EnableHTTP2 = true // which is not to be taken
	backend.StartTLS()
	t.Cleanup(backend.Close)
	roots := x509.NewCertPool()
	roots.AddCert(backend.Certificate())
	get := "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
	for _, c := range []struct {
		name   string
		tls    *tls.Config
		status string
		says   string
	}{
		{"its authority", &tls.Config{RootCAs: roots}, "200", ""},
		{"another name that it has", &tls.Config{RootCAs: roots, ServerName: "example.com"}, "200", ""},
		{"no verification", &tls.Config{InsecureSkipVerify: true}, "200", ""},
		{"the system's authorities", nil, "502", "unknown authority"},
		{"another name", &tls.Config{RootCAs: roots, ServerName: "other.test"}, "502", "not other.test"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := serve(t, Config{Backends: []string{backend.URL}, TLS: c.tls}, 1)
			for range 3 {
				got := f.raw(get)
				if !strings.HasPrefix(got, "HTTP/1.1 "+c.status) || c.status == "200" && !strings.Contains(got, "HTTP/1.1 over TLS: yes") {
					t.Errorf("%q", got)
				}
			}
			testenv.Contains(t, f.log.String(), c.says, "in the log")
			if dials := f.p.Stats()[0].Dials; c.status == "200" && dials != 1 {
				t.Errorf("%d connections for 3 requests", dials)
			}
		})
	}
	f := serve(t, Config{Backends: []string{backend.URL}, TLS: &tls.Config{RootCAs: roots}, Check: &Check{Rise: 1}}, 1)
	if err := f.p.backends[0].check(t.Context()); err != nil {
		t.Error("check:", err)
	}
	const long = 300_000
	body := strings.Repeat("x", long)
	if got := f.raw("POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n" + body); strings.Count(got, "x") < long {
		t.Errorf("%d bytes back", len(got))
	}
	c := testenv.Dial(t, f.addr)
	in := bufio.NewReader(c)
	io.WriteString(c, "GET /x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	for line := ""; line != "\r\n"; {
		var err error
		line, err = in.ReadString('\n')
		testenv.Must(t, err)
	}
	for range 3 {
		io.WriteString(c, "there and back\n")
		if line, err := in.ReadString('\n'); line != "there and back\n" {
			t.Fatal(line, err)
		}
	}
	c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(in); len(rest) > 0 || err != nil {
		t.Errorf("%q %v at the end of the tunnel", rest, err)
	}
}

// A gathering gathers what is written between cork and uncork.
type gathering struct {
	net.Conn
	corked bool
	text   bytes.Buffer
}

func (g *gathering) Write(p []byte) (int, error) {
	if g.corked {
		return g.text.Write(p)
	}
	return g.Conn.Write(p)
}

func (g *gathering) uncork() error {
	g.corked = false
	_, err := g.text.WriteTo(g.Conn)
	return err
}

// TestBackendSaysMore: what a backend says behind its response is nobody's, in a record of its own too, which crypto/tls
// has read with that of the response.
func TestBackendSaysMore(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	cert := s.TLS.Certificates[0]
	s.Close()
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n"
	backend := testenv.Serve(t, func(raw net.Conn) {
		g := &gathering{Conn: raw}
		c := tls.Server(g, &tls.Config{Certificates: []tls.Certificate{cert}})
		in := bufio.NewReader(c)
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			g.corked = true
			io.WriteString(c, head)
			if r.Method == "HEAD" { // as some do
				io.WriteString(c, head+"bad")
			} else {
				io.WriteString(c, "yes")
			}
			if g.uncork() != nil {
				return
			}
		}
	})
	f := serve(t, Config{Backends: []string{"https://" + backend}, TLS: &tls.Config{InsecureSkipVerify: true}}, 1)
	for range 3 {
		for _, method := range []string{"HEAD", "GET"} {
			got := f.raw(method + " / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
			if want := map[string]string{"HEAD": "\r\n\r\n", "GET": "\r\n\r\nyes"}[method]; !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, want) {
				t.Errorf("%s: %q", method, got)
			}
		}
	}
	if n := f.p.Stats()[0].Dials; n != 4 { // the first, and one behind each HEAD
		t.Errorf("%d connections", n)
	}
}

// Deadlines of a connection to a backend over TLS are those of the connection below.
func TestDeadlinesOfSecureBackends(t *testing.T) {
	cert, _ := testenv.SelfSigned()
	addr := testenv.Serve(t, func(nc net.Conn) {
		testenv.Echo(tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}}))
	})
	p := testenv.Need(New(Config{Backends: []string{"https://" + addr}, TLS: &tls.Config{InsecureSkipVerify: true}, Dial: net.DialTimeout}))(t)
	defer p.Close()
	b := p.backends[0]
	for what, late := range map[string]func(c net.Conn) error{
		"SetWriteDeadline": func(c net.Conn) error { return c.SetWriteDeadline(time.Unix(1, 0)) },
		"SetDeadline":      func(c net.Conn) error { return c.SetDeadline(time.Unix(1, 0)) },
	} {
		c := testenv.Need(b.dial(context.Background()))(t)
		testenv.Must(t, c.SetDeadline(time.Unix(1, 0)))
		testenv.Must(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
		testenv.Must(t, testenv.Err(c.Write([]byte("in time"))))
		testenv.Must(t, late(c))
		if _, err := c.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %s: %v, want the deadline", what, err)
		}
		c.Close()
	}
}
