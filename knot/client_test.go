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

// TestClient: who a request is from, for handlers and the access log. The peer of a scriptConn is 192.0.2.1.
func TestClient(t *testing.T) {
	for _, test := range []struct {
		name, trust, also string
		unix              bool
		lines             string
		client            string // "": none
		trusted           bool
	}{
		{"nobody is trusted", "", "", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
		{"another is trusted", "10.0.0.0/8 unix:", "", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
		{"a proxy says nothing", "192.0.2.1", "", false, "", "192.0.2.1", true},
		{"a proxy", "192.0.2.0/24", "", false, "X-Forwarded-For: 6.6.6.6, 198.51.100.7", "198.51.100.7", true},
		{"a proxy, IPv4 as IPv6", "::ffff:192.0.2.1", "", false, "X-Forwarded-For: 198.51.100.7", "198.51.100.7", true},
		{"a network, IPv4 as IPv6", "::ffff:192.0.2.0/120", "", false, "X-Forwarded-For: 198.51.100.7", "198.51.100.7", true},
		{"a chain", "192.0.2.0/24 10.0.0.1", "", false, "X-Forwarded-For: 6.6.6.6, 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"in several lines", "192.0.2.1 10.0.0.1", "", false, "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 198.51.100.7\r\nX-Forwarded-For: 10.0.0.1", "198.51.100.7", true},
		{"all are trusted", "0.0.0.0/0", "", false, "X-Forwarded-For: 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"port", "192.0.2.1", "", false, "X-Forwarded-For: 198.51.100.7:4711", "198.51.100.7", true},
		{"IPv6", "192.0.2.1", "", false, "X-Forwarded-For: 2001:db8::7", "2001:db8::7", true},
		{"IPv6 and port", "192.0.2.1", "", false, "X-Forwarded-For: [2001:db8::7]:80", "2001:db8::7", true},
		{"IPv6 in brackets", "192.0.2.1", "", false, "X-Forwarded-For: [2001:db8::7]", "2001:db8::7", true},
		{"IPv4 as IPv6", "192.0.2.1", "", false, "X-Forwarded-For: ::ffff:198.51.100.7", "198.51.100.7", true},
		{"an entry is unknown", "192.0.2.1 10.0.0.1", "", false, "X-Forwarded-For: 6.6.6.6, unknown, 10.0.0.1", "10.0.0.1", true},
		{"no entry", "192.0.2.1", "", false, "X-Forwarded-For: ", "192.0.2.1", true},
		{"Forwarded", "192.0.2.1", "", false, `Forwarded: for=6.6.6.6;proto=http, Proto=https;FOR="[2001:db8::7]:80"`, "2001:db8::7", true},
		{"X-Forwarded-For goes before", "192.0.2.1", "", false, "Forwarded: for=6.6.6.6\r\nX-Forwarded-For: 198.51.100.7", "198.51.100.7", true},
		{"a host that looks like an element", "192.0.2.1", "", false, `Forwarded: for=198.51.100.7;host="a,for=6.6.6.6"`, "198.51.100.7", true},
		{"a quote that does not end", "192.0.2.1", "", false, "Forwarded: for=6.6.6.6\r\n" + `Forwarded: for="6.6.6.6, for=198.51.100.7`, "192.0.2.1", true},
		{"unix", "", "", true, "X-Forwarded-For: 6.6.6.6", "", false},
		{"unix is not an address", "0.0.0.0/0 ::/0", "", true, "X-Forwarded-For: 6.6.6.6", "", false},
		{"unix is trusted", "unix:", "", true, "X-Forwarded-For: 6.6.6.6, 198.51.100.7", "198.51.100.7", true},
		{"unix twice", "unix:", "", true, "X-Forwarded-For: 198.51.100.7, unix:", "198.51.100.7", true},
		{"an address is not unix", "unix:", "", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
		{"a handler trusts more", "10.0.0.1", "192.0.2.1", false, "X-Forwarded-For: 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"the server and a handler trust one each", "192.0.2.1", "10.0.0.1", false, "X-Forwarded-For: 198.51.100.7, 10.0.0.1", "198.51.100.7", true},
		{"a handler trusts another", "", "10.0.0.1", false, "X-Forwarded-For: 6.6.6.6", "192.0.2.1", false},
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
		lines := test.lines
		if lines != "" {
			lines += "\r\n"
		}
		script := newScriptConn(nil, []byte("GET / HTTP/1.1\r\nHost: h\r\n"+lines+"\r\n"), 1<<10)
		if test.unix {
			serveScript(s, unixConn{script})
		} else {
			serveScript(s, script)
		}
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
			transport := &http.Transport{Protocols: new(http.Protocols)}
			transport.Protocols.SetHTTP1(!http2)
			transport.Protocols.SetUnencryptedHTTP2(http2)
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

func TestParseTrust(t *testing.T) {
	for _, bad := range []string{"", "localhost", "10.0.0.0/33", "unix", "10.0.0.1:80"} {
		testenv.Fails(t, testenv.Err(ParseTrust("10.0.0.1", bad)), "%q is taken", bad)
	}
}
