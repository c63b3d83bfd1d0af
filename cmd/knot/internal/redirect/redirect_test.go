package redirect

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/rule"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// TestTargets: where requests are sent, "" if nowhere.
func TestTargets(t *testing.T) {
	no := false
	tables := []Config{
		{Path: "/old", To: "/new"},
		{Path: "/old", To: "/never"},
		{Path: "/drop", To: "/new", Query: &no},
		{Path: "/with", To: "/new?a=1#end"},
		{Prefix: "/blog/", To: "/news"},
		{Prefix: "/shop", To: "https://shop.test:8443"},
		{Pattern: `^/item/(\d+)-(?P<name>.*)$`, To: "/p/$1x/${name}?n=$2&v=$$"},
		{Pattern: `(?s)^/go(.*)$`, To: "/$1"},
		{Pattern: `^/from(/.*)$`, To: "/to$1"},
		{Path: "/late", To: "/pattern-goes-first-only-if-before"},
		{Pattern: "^/late$", To: "/second"},
		{Host: "www.site.test", To: "https://site.test"},
		{Host: "www.site.test", Path: "/x", To: "/not-reached"},
		{Host: "m.site.test", Prefix: "/a", To: "https://site.test/m/", Status: 301},
	}
	rs, wrong := New(tables, []string{"site.test", "www.site.test", "m.site.test"}, true)
	testenv.MustEqual(t, len(wrong), 0, "%v", wrong)
	for _, c := range []struct{ host, path, query, want string }{
		{"site.test", "/old", "", "/new"},
		{"site.test", "/old", "q=%2F", "/new?q=%2F"},
		{"site.test", "/old/", "", ""},
		{"site.test", "/drop", "q", "/new"},
		{"site.test", "/with", "q=1", "/new?a=1&q=1#end"},
		{"site.test", "/blog", "", "/news"},
		{"site.test", "/blog/", "", "/news/"},
		{"site.test", "/blog/a b/c?", "q", "/news/a%20b/c%3F?q"},
		{"site.test", "/blogger", "", ""},
		{"site.test", "/shop/1", "", "https://shop.test:8443/1"},
		{"site.test", "/shop", "", "https://shop.test:8443/"},
		{"site.test", "/item/12-a/b&c", "q", "/p/12x/a/b&c?n=a%2Fb%26c&v=$&q"},
		{"site.test", "/go/evil.test", "", "/evil.test"},
		{"site.test", "/from/a b", "", "/to/a%20b"},
		{"site.test", `/go\evil.test`, "", "/%5Cevil.test"},
		{"site.test", "/go\r\nX: y", "", "/%0D%0AX:%20y"},
		{"site.test", "/late", "", "/pattern-goes-first-only-if-before"},
		{"www.site.test", "/x/y/", "q=1", "https://site.test/x/y/?q=1"},
		{"www.site.test", "/", "", "https://site.test/"},
		{"www.site.test", "/x", "", "https://site.test/x"},
		{"m.site.test", "/a/b", "", "https://site.test/m/b"},
		{"m.site.test", "/b", "", ""},
	} {
		got := ""
		if i, groups := rs.Find(c.host, c.path); i >= 0 {
			got = rs.all[i].Target(c.path, "", groups, c.query)
		}
		testenv.Equal(t, got, c.want, "%s%q", c.host, c.path)
	}
}

// TestFaults: what is wrong with tables, "" if nothing.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		want   string
		tables []Config
	}{
		{"path: \"old\" does not begin with a slash; want /old", []Config{{Path: "old", To: "/x"}}},
		{"to: path, prefix and pattern exclude each other", []Config{{Path: "/a", Prefix: "/b", To: "/x"}}},
		{"to: say which requests it is for", []Config{{To: "/x"}}},
		{"to: say where clients are sent", []Config{{Path: "/a"}}},
		{"to: \"x\"; want a path, as /x, or a URL", []Config{{Path: "/a", To: "x"}}},
		{"to: \"//evil.test\" is the name of another host", []Config{{Path: "/a", To: "//evil.test"}}},
		{"want https://evil.test for that", []Config{{Path: "/a", To: "//evil.test"}}},
		{"to: \"https://$1/\": the host has to be there as it is", []Config{{Pattern: "^/(.*)", To: "https://$1/"}}},
		{"the host has to be there", []Config{{Pattern: "^/(.*)", To: "https://site.test$1"}}},
		{"the host has to be there", []Config{{Path: "/a", To: "https:///x"}}},
		{"only with escapes", []Config{{Path: "/a", To: "/a b"}}},
		{"only with escapes", []Config{{Path: "/a", To: `/\b`}}},
		{"pattern: error parsing regexp", []Config{{Pattern: "(", To: "/x"}}},
		{"pattern: it has 1001 bytes", []Config{{Pattern: strings.Repeat("a", 1001), To: "/x"}}},
		{"to: the pattern has no group $2; it has 1", []Config{{Pattern: "^/(.)", To: "/$2"}}},
		{"no group $name", []Config{{Pattern: "^/(.)", To: "/x?${name}"}}},
		{"no group $x", []Config{{Pattern: "^/(.)", To: "/$x"}}},
		{"host: \"*.site.test\" is not the name", []Config{{Host: "*.site.test", To: "/x"}}},
		{"status: 303; want 301 or 308", []Config{{Path: "/a", To: "/x", Status: 303}}},
		{"circle, by way of /a", []Config{{Path: "/a", To: "/a"}}},
		{"circle", []Config{{Path: "/a", To: "/b"}, {Path: "/b", To: "/a"}}},
		{"circle", []Config{{Prefix: "/a", To: "/a/b"}}},
		{"circle", []Config{{Pattern: "^/(.*)$", To: "/x/$1"}}},
		{"circle", []Config{{Path: "/a", To: "https://site.test/a"}}},
		{"circle", []Config{{Host: "site.test", To: "https://www.site.test"}, {Host: "www.site.test", To: "https://site.test"}}},
		{"", []Config{{Path: "/a", To: "https://other.test/a"}}},
		{"", []Config{{Host: "www.site.test", To: "https://site.test"}, {Path: "/a", To: "https://site.test/b"}}},
		{"", []Config{{Pattern: `^/item/(\d+)$`, To: "/item/p$1"}}},
		{"", []Config{{Pattern: `^/(.*)\.html$`, To: "/$1"}}},
		{"", []Config{{Prefix: "/a", To: "/ab"}}},
		{"a site may have 10000 redirects", make([]Config, rule.Most+1)},
	} {
		_, wrong := New(c.tables, []string{"site.test", "www.site.test"}, true)
		got := ""
		for _, faults := range wrong {
			for _, f := range faults {
				got += fmt.Sprintf("%s: %v\n", f.Key, f.Err)
			}
		}
		if !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%.200v: %q; want %q", c.tables, got, c.want)
		}
	}
}

// TestToHTTPSOfTheSameHost: a site that is served by HTTP alone may send clients to its own hosts by HTTPS.
func TestToHTTPSOfTheSameHost(t *testing.T) {
	for to, circles := range map[string]int{"https://site.test": 0, "http://site.test": 1} {
		_, wrong := New([]Config{{Prefix: "/", To: to}}, []string{"site.test", "www.site.test"}, false)
		testenv.Equal(t, len(wrong), circles, "%s: %v", to, wrong)
	}
}

// answers serves one handler and returns how it answers a request.
func answers(t *testing.T, h knot.Handler, raw string) string {
	t.Helper()
	s := &knot.Server{Handler: h}
	ln := testenv.Listen(t)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	defer func() {
		s.Close()
		<-ended
	}()
	nc := testenv.Dial(t, ln.Addr().String())
	defer nc.Close()
	fmt.Fprintf(nc, "%s\r\nConnection: close\r\n\r\n", raw)
	resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
	defer resp.Body.Close()
	return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Location"))
}

// TestHandle: the first rule answers, with its status; requests that none is for go on.
func TestHandle(t *testing.T) {
	rs, _ := New([]Config{{Path: "/a", To: "/b", Status: 308}, {Pattern: "^/(.*)long$", To: "/c?$1$1$1"}, {Prefix: "/thumb", To: "/img"},
		{Prefix: "/gone", To: "/"}, {Host: "www.x.test", To: "http://x.test"}}, nil, true)
	h := func(x *knot.Ctx) error {
		if answered, err := rs.Handle(x); answered {
			return err
		}
		return knot.Status(404)
	}
	for raw, want := range map[string]string{
		"GET /a?q=1 HTTP/1.1\r\nHost: h":             "308 /b?q=1",
		"GET //a HTTP/1.1\r\nHost: h":                "308 /b",
		"GET /x HTTP/1.1\r\nHost: h":                 "404 ",
		"GET //x/y HTTP/1.1\r\nHost: WWW.x.test.:80": "302 http://x.test/x/y",
		"OPTIONS * HTTP/1.1\r\nHost: www.x.test":     "404 ",
		// What follows a prefix stays as it came.
		"GET /thumb/https%3a%2F%2Fa.test%2Fx.png?w=1 HTTP/1.1\r\nHost: h": "302 /img/https%3a%2F%2Fa.test%2Fx.png?w=1",
		"GET /x/a%2fb//c%2F HTTP/1.1\r\nHost: www.x.test":                 "302 http://x.test/x/a%2fb//c%2F",
		"GET http://www.x.test/a%2Fb HTTP/1.1\r\nHost: www.x.test":        "302 http://x.test/a%2Fb",
		// Not with segments of dots, or an escape in the prefix.
		"GET /thumb/../thumb/a%2Fb HTTP/1.1\r\nHost: h":   "302 /img/a/b",
		"GET /thumb/%2e/a%2Fb HTTP/1.1\r\nHost: h":        "302 /img/a/b",
		"GET /thumb/..%2Fthumb/a%2Fb HTTP/1.1\r\nHost: h": "302 /img/a/b",
		"GET /th%75mb/a%2Fb HTTP/1.1\r\nHost: h":          "302 /img/a/b",
		"GET /thumb%2Fa%2Fb HTTP/1.1\r\nHost: h":          "302 /img/a/b",
		// There is no other host in it.
		"GET /gone//evil.test HTTP/1.1\r\nHost: h":                       "302 /evil.test",
		"GET /gone/%5Cevil.test HTTP/1.1\r\nHost: h":                     "302 /%5Cevil.test",
		"GET /gone/%2F%2Fevil.test HTTP/1.1\r\nHost: h":                  "302 /%2F%2Fevil.test",
		"GET /" + strings.Repeat("x", 5000) + "long HTTP/1.1\r\nHost: h": "414 ",
	} {
		testenv.Equal(t, answers(t, h, raw), want, "%.100q", raw)
	}
}

// TestToHTTPS: the same URL of a host that is known, on the port that clients can reach.
func TestToHTTPS(t *testing.T) {
	for _, c := range []struct {
		from, to  int
		raw, want string
	}{
		{80, 443, "GET /a%20b?q=%2F HTTP/1.1\r\nHost: x.test", "308 https://x.test/a%20b?q=%2F"},
		{80, 443, "POST / HTTP/1.1\r\nHost: x.test:80\r\nContent-Length: 0", "308 https://x.test/"},
		{80, 8443, "GET / HTTP/1.1\r\nHost: x.test", "308 https://x.test:8443/"},
		{8080, 8443, "GET / HTTP/1.1\r\nHost: x.test:8080", "308 https://x.test:8443/"},
		{8080, 8443, "GET / HTTP/1.1\r\nHost: x.test", "308 https://x.test/"},
		{80, 443, "GET / HTTP/1.1\r\nHost: [::1]:80", "308 https://[::1]/"},
		{80, 8443, "GET / HTTP/1.1\r\nHost: [::1]", "308 https://[::1]:8443/"},
		{80, 443, "GET //evil.test/x HTTP/1.1\r\nHost: x.test", "308 https://x.test//evil.test/x"},
		{80, 443, "GET http://x.test/a?b HTTP/1.1\r\nHost: evil.test", "308 https://x.test/a?b"},
		{80, 443, "OPTIONS * HTTP/1.1\r\nHost: x.test", "308 https://x.test/"},
		{80, 443, "GET / HTTP/1.1\r\nHost: evil.test", "421 "},
		{80, 443, "GET http://evil.test/ HTTP/1.1\r\nHost: x.test", "421 "},
		{80, 443, "GET / HTTP/1.0", "400 "},
		{80, 443, "GET /.well-known/acme-challenge/t HTTP/1.1\r\nHost: evil.test", "202 "},
	} {
		r := &ToHTTPS{From: c.from, To: func() int { return c.to }, Known: func(host []byte) bool {
			return strings.HasPrefix(string(host), "x.test") || host[0] == '['
		}, Prove: func() knot.Handler {
			return func(x *knot.Ctx) error { return x.SendString(202, "text/plain", "proof") }
		}}
		testenv.Equal(t, answers(t, r.Handle, c.raw), c.want, "%q", c.raw)
	}
}
