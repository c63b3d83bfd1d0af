package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
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

// Backends over TLS: certificates are verified unless the settings say otherwise, connections are used again, checks go over
// TLS too.
func TestBackendTLS(t *testing.T) {
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(w, r.Body)
		io.WriteString(w, r.Proto+" over TLS: "+map[bool]string{true: "yes", false: "no"}[r.TLS != nil])
	}))
	backend.Config.ErrorLog = log.New(io.Discard, "", 0)
	backend.EnableHTTP2 = true // which is not to be taken
	backend.StartTLS()
	t.Cleanup(backend.Close)
	roots := x509.NewCertPool()
	roots.AddCert(backend.Certificate())
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
				status, body := f.ask(aRequest)
				testenv.Equal(t, status, c.status, "status")
				if status == "200" {
					testenv.Equal(t, body, "HTTP/1.1 over TLS: yes")
				}
			}
			testenv.Contains(t, f.log.String(), c.says, "in the log")
			if c.status == "200" {
				testenv.Equal(t, f.stats().Dials, 1, "connections for 3 requests")
			}
		})
	}
	f := serve(t, Config{Backends: []string{backend.URL}, TLS: &tls.Config{RootCAs: roots}, Check: &Check{Rise: 1}}, 1)
	testenv.Check(t, f.p.all()[0].check(t.Context()), "check")
	long := strings.Repeat("x", 300_000)
	_, got := f.ask("POST /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n" + long)
	testenv.Equal(t, got, long+"HTTP/1.1 over TLS: yes", "there and back")
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
	cert, _ := testenv.SelfSigned()
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
		got := f.raw(strings.Replace(aRequest, "GET", "HEAD", 1))
		if !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.HasSuffix(got, "\r\n\r\n") {
			t.Errorf("HEAD: %q", got)
		}
		_, body := f.ask(aRequest)
		testenv.Equal(t, body, "yes", "GET")
	}
	testenv.Equal(t, f.stats().Dials, 4, "connections: the first, and one behind each HEAD")
}

// Deadlines of a connection to a backend over TLS are those of the connection below.
func TestDeadlinesOfSecureBackends(t *testing.T) {
	cert, _ := testenv.SelfSigned()
	addr := testenv.Serve(t, func(nc net.Conn) {
		testenv.Echo(tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}}))
	})
	p := testenv.Need(New(Config{Backends: []string{"https://" + addr}, TLS: &tls.Config{InsecureSkipVerify: true}, Dial: net.DialTimeout}))(t)
	defer p.Close()
	b := p.all()[0]
	for what, late := range map[string]func(c net.Conn) error{
		"SetWriteDeadline": func(c net.Conn) error { return c.SetWriteDeadline(time.Unix(1, 0)) },
		"SetDeadline":      func(c net.Conn) error { return c.SetDeadline(time.Unix(1, 0)) },
	} {
		c := testenv.Need(b.dial(context.Background()))(t)
		testenv.Must(t, c.SetDeadline(time.Unix(1, 0)))
		testenv.Must(t, c.SetWriteDeadline(time.Now().Add(time.Hour)))
		testenv.Must(t, testenv.Err(c.Write([]byte("in time"))))
		testenv.Must(t, late(c))
		testenv.ErrorIs(t, testenv.Err(c.Write([]byte("late"))), os.ErrDeadlineExceeded, "after "+what)
		c.Close()
	}
}
