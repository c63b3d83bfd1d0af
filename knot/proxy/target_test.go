package proxy

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// wires are the configurations of proxies of h, over HTTP/1.1, HTTP/2 and FastCGI.
func wires(t *testing.T, h http.HandlerFunc) map[string]Config {
	return map[string]Config{
		"HTTP/1.1": to(behind(t, h)),
		"HTTP/2":   {Backends: []string{behind(t, h)}, HTTP2: true},
		"FastCGI":  {Backends: []string{fastCGIServer(t, h)}, FastCGI: nowhere},
	}
}

// uri answers with the target that a backend was asked for.
func uri(w http.ResponseWriter, r *http.Request) {
	if r.RequestURI == "" { // package fcgi
		r.RequestURI = r.URL.RequestURI()
	}
	io.WriteString(w, r.RequestURI)
}

// targets are paths, and the target that a backend gets: "" for the same, as nginx (proxy_pass without a path) sends them too.
var targets = []struct{ path, target string }{
	{"/", ""}, {"/a%2Fb", ""}, {"/api/queues/%2F/name", ""}, {"/api/vhosts/%2F", ""}, {"/fetch/http%3A%2F%2Fe.org%2Fx", ""},
	{"/%2F", ""}, {"/%2Fa", ""}, {"/a%2F", ""}, {"/a/%2f%2f/b", ""}, {"/a//b", ""}, {"//a", ""}, {"//e.org/x", ""}, {"/a//", ""},
	{"/a%3Fb?c", ""}, {"/a%3fb", ""}, {"/a%23b", ""}, {"/a%25b", ""}, {"/a%252e%252e/b", ""}, {"/a%20b", ""}, {"/%C3%BC", ""}, {"/a%5Cb", ""},
	{"/a;x=1/b", ""}, {"/a/;b", ""}, {"/a%2eb", ""}, {"/..a/b", ""}, {"/a../b", ""}, {"/...", ""}, {"/%7Ea", ""}, {"/?a=/../b", ""}, {"/a?b//c", ""},
	// nginx sends these as they came. A backend that takes ".." for a name would serve /a where the rules were those for /b.
	{"/a/../b", "/b"}, {"/a/./b", "/a/b"}, {"/a/../b/./c//d", "/b/c/d"}, {"/a/.", "/a/"}, {"/a/%2e", "/a/"}, {"/a/%2e%2E/b", "/b"}, {"/a%2F..%2Fb", "/b"}, {"/a/%2F../b", "/b"},
	{"/a%3F/../b%3F?c", "/b%3F?c"}, {"/a%2F.%2Fb%20c", "/a/b%20c"},
	// Servlets and Windows take these for dots.
	{"/a/..;/b", "400"}, {"/a/%2e%2e;x/b", "400"}, {"/a/..%3Bx/b", "400"}, {"/a/.;/b", "400"}, {"/a/..%5Cb", "400"}, {"/a%5c..", "400"}, {"/a%5C..;x%5Cb", "400"},
	{"/..", "400"}, {"/a/../..", "400"}, {"/%2e%2e/a", "400"},
}

func TestTargets(t *testing.T) {
	for wire, c := range wires(t, uri) {
		f := serve(t, c, 1)
		c.Strip = "/s t"
		stripping := serve(t, c, 1)
		for _, test := range targets {
			if test.target == "" {
				test.target = test.path
			}
			testenv.Equal(t, f.target(test.path), test.target, "%s: %s", wire, test.path)
			climbs := test.path == "/.." || test.path == "/a/../.." || test.path == "/%2e%2e/a"
			if climbs || wire == "FastCGI" { // REQUEST_URI is the client's
				continue
			}
			testenv.Equal(t, stripping.target("/s%20t"+test.path), test.target, "%s: %s stripped", wire, test.path)
		}
	}
}

// TestStrip: the beginning of a path is found however it is written.
func TestStrip(t *testing.T) {
	f := serve(t, Config{Backends: []string{behind(t, uri)}, Strip: "/api/v1"}, 1)
	for path, want := range map[string]string{
		"/api/v1": "/", "/api/v1/": "/", "/api/v1/x": "/x", "//api//v1/x": "/x", "/%61pi%2Fv1/x%2Fy": "/x%2Fy", "/api/%2Fv1//x": "//x",
		"/api/v1%2Fx": "/x", "/api/v1%2F%2Fx": "/%2Fx", "/api/v1/../v1/x": "/x", "/api/v1?q": "/?q", "/api/v12": "/api/v12", "/x/api/v1": "/x/api/v1",
	} {
		testenv.Equal(t, f.target(path), want, path)
	}
}

// TestOddBytes: net/http's client of HTTP/2 must not encode a path anew whose escapes matter.
func TestOddBytes(t *testing.T) {
	for http2, want := range map[bool]string{false: `/a"%2F|b`, true: "/a%22%2F%7Cb"} {
		f := serve(t, Config{Backends: []string{behind(t, uri)}, HTTP2: http2}, 1)
		testenv.Equal(t, f.target(`/a"%2F|b`), want, "HTTP/2: %v", http2)
	}
}

// target is the target that the backend gets for one, or the status if that is not 200.
func (f *front) target(target string) string {
	f.t.Helper()
	status, body := f.ask("GET " + target + " HTTP/1.0\r\nHost: h\r\n\r\n")
	if status != "200" {
		return status
	}
	return body
}

// TestClientLines: the words of a client about itself reach no backend, in whatever form, and those of a trusted proxy do.
func TestClientLines(t *testing.T) {
	about := []string{
		"X-Forwarded-For", "X-Forwarded-Ssl", "X-Forwarded-Scheme", "X-Forwarded-Server", "X-Forwarded-Prefix", "X-Forwarded-Port", "X-Forwarded", "Forwarded",
		"X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip",
		"X-Original-Url", "X-Rewrite-Url", "X-Original-For", "X-Original-Host", "X-Original-Proto", "X-Scheme", "X-Url-Scheme", "Front-End-Https",
	}
	never := []string{"X_Forwarded_For", "X-Forwarded_For", "x_real_ip", "X.Forwarded.For", "X_Forwarded-Proto", "X_Any", "Content_Length", "Proxy", "a~b"}
	var sent strings.Builder
	for _, name := range append(append([]string{"X-Kept"}, about...), never...) {
		value := "6.6.6.6"
		if name == "Forwarded" {
			value = "for=6.6.6.6"
		}
		fmt.Fprintf(&sent, "%s: %s\r\n", name, value)
	}
	for wire, c := range wires(t, func(w http.ResponseWriter, r *http.Request) {
		var forged []string
		for name, values := range r.Header {
			if strings.Contains(strings.Join(values, ","), "6.6.6.6") {
				forged = append(forged, name)
			}
		}
		fmt.Fprintf(w, "%d %s %s", len(forged), r.Header.Get("X-Kept"), strings.SplitN(r.RemoteAddr, ":", 2)[0])
	}) {
		ask := func() string {
			_, body := serve(t, c, 1).ask("GET / HTTP/1.0\r\n" + sent.String() + "\r\n")
			return body
		}
		testenv.Equal(t, ask(), "1 6.6.6.6 127.0.0.1", wire)
		c.Trust = testenv.Need(knot.ParseTrust("127.0.0.1"))(t)
		want := fmt.Sprintf("%d 6.6.6.6 127.0.0.1", len(about)) // without Forwarded: X-Forwarded-For takes its place
		if wire == "FastCGI" {
			want = fmt.Sprintf("%d 6.6.6.6 6.6.6.6", len(about)+1) // REMOTE_ADDR is the client's
		}
		testenv.Equal(t, ask(), want, "%s, from a proxy", wire)
	}
}

// TestClientOnUnixSocket: a peer without an address has none that could be passed on, and can be trusted.
func TestClientOnUnixSocket(t *testing.T) {
	for wire, c := range wires(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s|%s|%s|%s", r.Header["X-Forwarded-For"], r.Header["X-Real-Ip"], r.Header.Get("Forwarded"), r.RemoteAddr)
	}) {
		c.Forwarded = ForwardedBoth
		for trust, want := range map[string][2]string{ // by HTTP, and FastCGI
			"127.0.0.1": {"[]|[]|for=unknown;proto=http|", "[]|[]||:0"},
			"unix:":     {"[192.0.2.7]|[192.0.2.7]|for=192.0.2.7, for=unknown;proto=http|", "[192.0.2.7]|[]|for=192.0.2.7|192.0.2.7:0"},
		} {
			c.Trust = testenv.Need(knot.ParseTrust(trust))(t)
			f := serve(t, c, 1, func(s *knot.Server) { s.Addr = "unix:" + filepath.Join(t.TempDir(), "s") })
			_, body := f.ask("GET / HTTP/1.0\r\nX-Forwarded-For: 192.0.2.7\r\nForwarded: for=192.0.2.7\r\n\r\n")
			if wire == "FastCGI" {
				testenv.Equal(t, body, want[1], "%s, trust %s", wire, trust)
			} else if !strings.HasPrefix(body, want[0]) {
				t.Errorf("%s, trust %s: %s", wire, trust, body)
			}
		}
	}
}
