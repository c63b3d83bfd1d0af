package knot

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// unixConn is a scriptConn on a Unix socket.
type unixConn struct{ *scriptConn }

func (unixConn) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// TestClient: who a request is from, for handlers and the access log; package clientaddr has the rest. The peer of a
// scriptConn is 192.0.2.1.
func TestClient(t *testing.T) {
	for _, test := range []struct {
		name, trust, also string
		unix              bool
		client            string // "": none
		trusted           bool
	}{
		{"nobody is trusted", "", "", false, "192.0.2.1", false},
		{"a proxy", "192.0.2.1", "", false, "198.51.100.7", true},
		{"a handler trusts more", "10.0.0.1", "192.0.2.1", false, "198.51.100.7", true},
		{"unix", "", "", true, "", false},
		{"unix is trusted", "unix:", "", true, "198.51.100.7", true},
	} {
		var log strings.Builder
		s := &Server{Trust: testenv.Need(ParseTrust(strings.Fields(test.trust)...))(t), AccessLog: NewAccessLog(&log, LogCommon)}
		got, trusted := "", false
		s.Handler = func(x *Ctx) error {
			x.ClientAddr() // decided before a handler says more
			trusted = x.TrustPeers(testenv.Need(ParseTrust(strings.Fields(test.also)...))(t))
			if addr := x.ClientAddr(); addr.IsValid() {
				got = addr.String()
			}
			return nil
		}
		var nc net.Conn = newScriptConn(nil, []byte("GET / HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 6.6.6.6, 198.51.100.7\r\n\r\n"), 1<<10)
		if test.unix {
			nc = unixConn{nc.(*scriptConn)}
		}
		serveScript(s, nc)
		testenv.Equal(t, got, test.client, test.name)
		testenv.Equal(t, trusted, test.trusted, "%s: trusted", test.name)
		s.AccessLog.Close()
		logged, _, _ := strings.Cut(log.String(), " ")
		testenv.Equal(t, strings.TrimPrefix(logged, "-"), test.client, "%s: access log", test.name)
	}
}

// TestCountsForClient: in the admission of requests the connections of a trusted proxy count for the clients that it
// forwards for, and others for their peer.
func TestCountsForClient(t *testing.T) {
	for _, trust := range []string{"127.0.0.1", "10.0.0.1"} {
		trusts := trust == "127.0.0.1"
		sv := startServer(t, &Server{H2C: true, Trust: testenv.Need(ParseTrust(trust))(t), Handler: func(x *Ctx) error {
			return x.SendString(200, "", fmt.Sprint(x.c.client()))
		}}, 1)
		for _, http2 := range []bool{false, true} {
			transport := &http.Transport{}
			if http2 {
				transport = testenv.PlainHTTP2(t)
			}
			ask := func(client string) string {
				req := testenv.Need(http.NewRequest("GET", "http://"+sv.addr, nil))(t)
				req.Header.Set("X-Forwarded-For", client)
				resp := testenv.Need(transport.RoundTrip(req))(t)
				defer resp.Body.Close()
				return string(testenv.Need(io.ReadAll(resp.Body))(t))
			}
			one, other, again := ask("192.0.2.1"), ask("192.0.2.2"), ask("192.0.2.1")
			testenv.Equal(t, one == again, true, "HTTP/2 %v: one client is one", http2)
			testenv.Equal(t, one != other, trusts, "HTTP/2 %v, trust %s: two clients are two", http2, trust)
			transport.CloseIdleConnections()
		}
	}
}
