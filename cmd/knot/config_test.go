package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/cmd/knot/internal/forwardauth"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/knot/proxy"
)

// twoSites lays two roots and returns their folders.
func twoSites(t *testing.T) (a, b string) {
	t.Helper()
	a, b = t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		a + "/index.html": "site a", a + "/404.html": "a has none", a + "/app.js": "js", a + "/private/x.txt": "secret",
		b + "/index.html": "site b", b + "/list/one.txt": "1",
	} {
		os.MkdirAll(filepath.Dir(name), 0o755)
		write(t, name, text)
	}
	return a, b
}

func (p *program) ask(host, path string, headers ...string) (*http.Response, string) {
	p.t.Helper()
	return askAs(p.t, http.DefaultClient, p.url+path, host, headers...)
}

// askAs asks for a URL under the name of a host, with further lines, and returns the response and its body.
func askAs(t *testing.T, client *http.Client, url, host string, headers ...string) (*http.Response, string) {
	t.Helper()
	req := testenv.Need(http.NewRequest("GET", url, nil))(t)
	req.Host = host
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		req.Header.Set(name, value)
	}
	resp := testenv.Need(client.Do(req))(t)
	defer resp.Body.Close()
	body := testenv.Need(io.ReadAll(resp.Body))(t)
	return resp, string(body)
}

// TestConfiguration: what a file says of sites is what is served, and SIGHUP brings a change.
func TestConfiguration(t *testing.T) {
	a, b := twoSites(t)
	var users bytes.Buffer
	if code := hashCommand([]string{"alice"}, strings.NewReader("secret\n"), &users, io.Discard); code != exitOK {
		t.Fatal(code)
	}
	htpasswd := filepath.Join(t.TempDir(), "users")
	write(t, htpasswd, users.String())
	text := fmt.Sprintf(`
idle-timeout = "20s"
cache = "8MB"
[[site]]
hosts = ["a.example"]
root = %q
fallback = "/index.html"
error-pages = { 404 = "/404.html" }
rate = "1GB"
requests-per-second = 1000
[[site.header]]
match = "*.js"
set = { Cache-Control = "max-age=60", Content-Type = "text/x-js" }
[[site.header]]
match = "/**"
set = { X-Frame-Options = "DENY" }
always = true
[[site.password]]
match = "/private/**"
users = %q
[[site]]
root = %q
listing = true
`, a, htpasswd, b)
	file := configFile(t, "%s", text)
	p := start(t, "-config", file)
	expect := func(host, path string, status int, want string, headers ...string) *http.Response {
		t.Helper()
		resp, body := p.ask(host, path, headers...)
		if resp.StatusCode != status || !strings.Contains(body, want) {
			t.Errorf("%s%s: %d %.200q", host, path, resp.StatusCode, body)
		}
		return resp
	}
	expect("a.example", "/", 200, "site a")
	expect("a.example:80", "/some/where", 200, "site a")
	expect("a.example", "/none.css", 404, "a has none")
	expect("a.example", "/private/x.txt", 401, "401")
	expect("a.example", "/private/x.txt", 200, "secret", "Authorization: Basic YWxpY2U6c2VjcmV0")
	expect("b.example", "/", 200, "site b")
	expect("b.example", "/list/", 200, "one.txt")
	if h := expect("a.example", "/app.js", 200, "js").Header; h.Get("Cache-Control") != "max-age=60" || h.Get("X-Frame-Options") != "DENY" || h.Get("Content-Type") != "text/x-js" {
		t.Errorf("%v", h)
	}
	// Something is wrong with the file: the old one counts.
	write(t, file, strings.Replace(text, "fallback", "falback", 1))
	hangUp()
	p.stderr.await(t, "can't be used", "did you mean fallback")
	expect("a.example", "/some/where", 200, "site a")
	// It is right, and other.
	text = strings.Replace(strings.Replace(text, "a.example", "c.example", 1), `"20s"`, `"30s"`, 1)
	write(t, file, text)
	hangUp()
	p.stderr.await(t, "was read again")

	expect("a.example", "/", 200, "site b")
	expect("c.example", "/", 200, "site a")
	p.end()
}

// TestProxyConfiguration: requests are passed on as the file says, checks run, a reload brings other backends, and
// metrics tell of them.
func TestProxyConfiguration(t *testing.T) {
	backend := func(name string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/well" && name == "ill" {
				w.WriteHeader(500)
			}
			fmt.Fprintf(w, "%s %s %s", name, r.Method, r.URL.Path)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	a, _ := twoSites(t)
	text := fmt.Sprintf(`
admin = "127.0.0.1:0"
max-body = "1KB"
[[site]]
root = %q
[[site.proxy]]
match = "/api/**"
to = [%q, %q]
strip = "/api"
check = { path = "/well", every = "5ms", fall = 1 }
[[site.proxy]]
match = "/**"
missing = true
to = [%q]
`, a, backend("one"), backend("ill"), backend("app"))
	file := configFile(t, "%s", text)
	p := start(t, "-config", file)
	expect := func(path string, want string) {
		t.Helper()
		_, body := p.ask("h", path)
		testenv.Equal(t, body, want, path)
	}
	p.stderr.await(t, "a backend is not well")
	for range 4 {
		expect("/api/x", "one GET /x")
	}
	expect("/", "site a")
	expect("/login", "app GET /login")
	post := func(path string, size int) (*http.Response, string) {
		resp := testenv.Need(http.Post(p.url+path, "text/plain", strings.NewReader(strings.Repeat("x", size))))(t)
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	_, body := post("/index.html", 1)
	testenv.Equal(t, body, "app POST /index.html")
	resp, _ := post("/login", 1025)
	testenv.Equal(t, resp.StatusCode, 413, "status of a body that is too large")
	write(t, file, strings.Replace(text, "/api", "/v2", 2))
	hangUp()
	// The first check may come before the reload is told of.
	lines := <-p.stderr.each + <-p.stderr.each
	for _, want := range []string{"was read again", "a backend is not well"} {
		testenv.Contains(t, lines, want)
	}
	expect("/v2/x", "one GET /x")
	p.end()
}

// TestProxySpeaksHTTP2 to backends of which the file says so, and to no others.
func TestProxySpeaksHTTP2(t *testing.T) {
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		fmt.Fprintf(w, "%s %s", r.Proto, r.URL.Path)
		w.Header().Set("Grpc-Status", "0")
	}))
	backend.Config.Protocols = new(http.Protocols)
	backend.Config.Protocols.SetHTTP1(true)
	backend.Config.Protocols.SetUnencryptedHTTP2(true)
	backend.Start()
	defer backend.Close()
	p := start(t, "-config", configFile(t, "[[site]]\n[[site.proxy]]\nmatch = '/two/**'\nto = [%q]\nhttp2 = true\n[[site.proxy]]\nto = [%[1]q]\n", backend.URL))
	for path, want := range map[string]string{"/two/x": "HTTP/2.0 /two/x", "/one/x": "HTTP/1.1 /one/x"} {
		resp, body := p.ask("h", path)
		if body != want || resp.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("%s: %q with trailers %v, want %q", path, body, resp.Trailer, want)
		}
	}
	p.end()
}

func TestFlagsGoBeforeTheFile(t *testing.T) {
	file := configFile(t, "%s", "max-head = 1000\nlog-format = 'json'\nroot = '"+sampleSite+"'\nlisting = true\nidle-timeout = '5s'\n")
	set := testenv.Need(parse([]string{"-max-head", "2000", "-config", file}, io.Discard))(t)
	if set.server.MaxHead != 2000 || set.server.IdleTimeout.Seconds() != 5 || len(set.sites) != 1 || set.sites[0].Root != sampleSite || !set.sites[0].Listing {
		t.Errorf("%+v, %+v", set.server, set.sites)
	}
}

func TestCheckCommand(t *testing.T) {
	file := configFile(t, "")
	site := "[[site]]\nroot = '" + sampleSite + "'\n"
	fifo := filepath.Join(t.TempDir(), "fifo") // nobody writes to it, and nobody may wait for that
	testenv.Must(t, syscall.Mkfifo(fifo, 0o600))
	for _, test := range []struct {
		text, want string // what is said, in lines
		code       int
	}{
		{site, "is all right; sites: 1", exitOK},
		{site + "hosts = ['a']\n" + site, "is all right; sites: 2", exitOK},
		{"root = '" + sampleSite + "'", "is all right; sites: 1", exitOK},
		{"", "knot.toml: site 1: root: say which folder to serve", exitFailed},
		{"[[site]]", "site 1: root: say which folder to serve, or by [[site.proxy]] which servers requests go to", exitFailed},
		{"[[site]]\nroot = '/none/x'", "site 1: there is no folder /none/x (root)", exitFailed},
		{"[[site]]\nroot = '/none/x'\nburst = 5", "knot.toml:2: site 1: there is no folder /none/x (root)", exitFailed}, // beside another error
		{"\nroot = '/none/x'", "knot.toml:2: site 1: there is no folder /none/x (-root)", exitFailed},
		{"root = 'x'\n" + site, "-root is for a server of one site", exitFailed},
		{"idle-timeout = '-1s'\n" + site, "-idle-timeout -1s is negative", exitFailed},
		{"idle-timeout = 5\nquiet = 'x'\nloops = 'y'\n" + site, ":1: idle-timeout = \"5\": want a time like 30s or 1m30s\n:2: quiet = \"x\": want true or false\n:3: loops = \"y\": want a whole number", exitFailed},
		{"addr = 80\n" + site, "Did you mean -addr :80?", exitFailed},
		{"addr = 'localhost'\n" + site, "Did you mean -addr localhost:8080?", exitFailed},
		{"addr = 'localhost:http'\n" + site, "is all right", exitOK},
		{"addr = 'unix:/x'\nadmin = ':9090'\nlog = 'x'\n" + site, "is all right", exitOK},
		{"addr = 'localhost:78000'\n" + site, "addr: ", exitFailed},
		{"admin = '9090'\nuser = 'no such user'\nlog = '/none/log'\n" + site, "Did you mean -admin :9090?\nuser: there is no user \"no such user\"\nlog: stat /none: no such file", exitFailed},
		{"dump = '/none/x'\n" + site, "-dump: stat /none: no such file", exitFailed},
		{"poller = 'kqueue'\n" + site, `-poller "kqueue"; want epoll or uring`, exitFailed},
		{"config = 'x'\n" + site, `there is no key "config" here`, exitFailed},
		{"[[listen]]\naddr = ':80'\n[[listen]]\naddr = '0.0.0.0:80'\n" + site, ":4: listen 2: addr: 0.0.0.0:80 is listened on already: listen.1.addr = \":80\"", exitFailed},
		{"[[listen]]\naddr = '127.0.0.1:80'\n[[listen]]\naddr = ':80'\n" + site, ":4: listen 2: addr: :80 can't be listened on beside listen.1.addr = \"127.0.0.1:80\": one of them is every address", exitFailed},
		{"[[listen]]\naddr = ':80'\n[[listen]]\naddr = '[::1]:http'\n" + site, ":4: listen 2: addr: [::1]:http can't be listened on beside listen.1.addr = \":80\"", exitFailed},
		{"[[listen]]\naddr = '127.0.0.1:80'\n[[listen]]\naddr = '[::1]:80'\n[[listen]]\naddr = ':81'\n" + site, "is all right", exitOK},
		{"[[listen]]\n" + site, "listen 1: addr: say where to listen", exitFailed},
		{"[[listen]]\naddr = '80'\ntls = true\n" + site, ":3: listen 1: tls: there is no certificate\nDid you mean listen.1.addr :80?", exitFailed},
		{"[[listen]]\naddr = 'systemd:a b'\n" + site, "listen 1: addr: \"a b\" is not the name of a socket of systemd", exitFailed},
		{"[[listen]]\naddr = 'systemd:web'\n" + site, "is all right; sites: 1; systemd has to pass sockets named web", exitOK},
		{"[[listen]]\naddr = ':80'\nsites = ['b.tset', 'a']\n" + site + "hosts = ['b.test']\nname = 'a'", ":3: listen 1: sites: no [[site]] has the name \"b.tset\", nor such a host; did you mean b.test?", exitFailed},
		{"[[listen]]\naddr = ':80'\nsites = []\n" + site, "listen 1: sites: the list is empty", exitFailed},
		{"[[listen]]\naddr = ':80'\nsites = ['a']\n" + site + "hosts = ['a']\n" + site, "site 2: hosts: no [[listen]] serves this site", exitFailed},
		{"[[listen]]\naddr = ':80'\nsites = ['a']\n[[listen]]\naddr = ':81'\nsites = ['b']\n" + site + "name = 'a'\n" + site + "name = 'b'", "is all right; sites: 2", exitOK},
		{site + "name = 'a'\n" + site + "name = 'a'", "site 2: name: site 1 is called \"a\" too", exitFailed},
		{"addr = ':80'\n[[listen]]\naddr = ':81'\n" + site, "-addr is for a server of one address", exitFailed},
		{"redirect-http = ':80'\n" + site, "redirect-http: there is no HTTPS to send clients to", exitFailed},
		{"addr = ':443'\nacme = 'a.test'\nacme-cache = '/none/x'\nredirect-http = [':443', '81']\n" + site, ":4: -redirect-http: :443 is listened on already: -addr = \":443\"\nDid you mean -redirect-http :81?", exitFailed},
		{"addr = ':80'\nadmin = ':80'\n" + site, "-admin: 127.0.0.1:80 can't be listened on beside -addr = \":80\"", exitFailed},
		{"admin = '[::1]:9'\n[[listen]]\naddr = '[::1]:9'\n" + site, "-admin: [::1]:9 is listened on already: listen.1.addr", exitFailed},
		{"acme = 'a.test'\nacme-cache = '/none/x'\nredirect-http = ':80'\n[[listen]]\naddr = ':443'\n[[listen]]\naddr = '127.0.0.1:80'\ntls = false\n" + site, ":3: -redirect-http: :80 can't be listened on beside listen.2.addr = \"127.0.0.1:80\"", exitFailed},
		{site + "[[site.redirect]]\npath = '/a'\nto = '//evil.test'\n[[site.redirect]]\npath = '/b'\nto = '/b'\nstatus = 200", "redirect.1.to: \"//evil.test\" is the name of another host\nredirect.2.status: 200; want 301 or 308", exitFailed},
		{site + "[[site.rewrite]]\npath = '/a'\nto = 'https://x.test/'", ":5: site 1: rewrite.1.to: \"https://x.test/\"; want a path of this site", exitFailed},
		{site + "try = ['$path', '=200']", ":3: site 1: try: \"=200\"; want a status of 400 to 599", exitFailed},
		{site + "try = ['$path', '/x']\nfallback = '/y.html'", ":4: site 1: fallback: there is a list try too", exitFailed},
		{"[[listen]]\naddr = ':80'\nproxy-protocol = ['x']\n" + site, ":3: listen 1: proxy-protocol: \"x\" is neither unix: nor an address", exitFailed},
		{"[[listen]]\naddr = ':80'\nproxy-protocol = []\n" + site, ":3: listen 1: proxy-protocol: say which proxies", exitFailed},
		{site + "[[site.redirect]]\npath = '/b'\nto = '/b'", ":5: site 1: redirect.1.to: clients would be sent in a circle", exitFailed},
		{site + "[[site.proxy]]\nto = ['http://h:1']\n[[site.cache]]\nmemory = 'x'\n[[site.cache]]\nfolder = '/x'\nlifetimes = { 206 = '1m' }\n[[site.cache]]\nfolder = '/x/'\n[[site.cache]]\nfolder = '/x/y'\n[[site.cache]]\nfolder = '/xy'", "cache.1.memory: want a size\ncache.2.lifetimes.206: \"206\" is not a status\ncache.3.folder: another cache has /x; want one\ncache.4.folder: another cache has /x; want one\ncache.4.folder: another cache has /x/; want one", exitFailed},
		{site + "[[site.cache]]", ":3: site 1: cache.1.match: the site has no proxy", exitFailed},
		{site + "hsts = 'preload'\ncsp = 'scirpt-src'\n[[site.cors]]\norigins = ['*']\ncredentials = true\n[[site.header]]\nmatch = '/**'\nbackend-set = { Host = 'a' }",
			":3: site 1: hsts: \"preload\" has no max-age; want seconds, as \"max-age=63072000\"\n", exitFailed},
		{site + "csp = 'scirpt-src'\n[[site.cors]]\norigins = ['*']\ncredentials = true\n[[site.header]]\nmatch = '/**'\nbackend-set = { Host = 'a' }",
			":6: site 1: cors.1.credentials: with origins = [\"*\"]", exitFailed},
		{site + "[[site.header]]\nmatch = '/**'\nbackend-set = { Host = 'a' }", ":5: site 1: header.1.backend-set.Host: header Host is what Config.Host says", exitFailed},
		{"[[site]]\n[[site.proxy]]\nto = ['http://a:1']\ncompress = { codings = ['lzma'], min = 'x', types = ['json'] }", ":4: site 1: proxy.1.compress.types: type \"json\"; want one like application/json or text/*", exitFailed},
		{"[[site]]\n[[site.proxy]]\nto = ['http://a:1']\ncompress = {}\n[[site.header]]\nmatch = '/**'\nremove = ['Server']", "is all right", exitOK},
		{site + "[[site.redirect]]\npth = '/b'", `there is no key "pth" in site.redirect; did you mean path?`, exitFailed},
		{"[[listen]]\naddr = ':80'\ntls = false\n[[site]]\nhosts = ['a.test', 'www.a.test']\n[[site.redirect]]\nprefix = '/'\nto = 'https://a.test'", "is all right", exitOK},
		{"[[site]]\n[[site.redirect]]\nhost = 'www.a.test'\nto = 'https://a.test'", "is all right", exitOK},
		{site + "rate = 'fast'", "site 1: rate: want a size like", exitFailed},
		{site + "fallback = 'index.html'", "site 1: fallback: ", exitFailed},
		{site + "fallback = '/../x'", "site 1: fallback: ", exitFailed},
		{site + "requests-per-second = -1", "requests-per-second: ", exitFailed},
		{site + "burst = 5", "requests-per-second: it is missing, and burst", exitFailed},
		{site + "max-clients = 5", "site 1: requests-per-second: it is missing, and burst and max-clients are about it; want one", exitFailed},
		{site + "requests-per-second = 5\nmax-clients = -5", "requests-per-second: -5 clients can't be", exitFailed},
		{site + "requests-per-second = 5\n[[site.limit]]\nrate = '20/s'\n[[site.limit]]\nrate = '5'\nkey = ['path', 'x']", ":8: site 1: limit.2.key: \"x\" is no part of a key; want client, path,", exitFailed},
		{site + "satisfy = 'some'\n[[site.access]]\naction = 'deny'\nfrom = ['x']", ":6: site 1: access.1.from: \"x\" is neither unix:", exitFailed},
		{site + "satisfy = 'any'\n[[site.access]]\naction = 'deny'", "satisfy: \"any\" is for sites with two kinds", exitFailed},
		{site + "satisfy = 'some'", "satisfy: \"some\"; want all or any", exitFailed},
		{site + "[[site.forward-auth]]\nto = ['http://127.0.0.1:1']\nca = '/none/x'\n[[site.forward-auth]]\n", "forward-auth.1.ca: open /none/x: no such file", exitFailed},
		{site + "[[site.forward-auth]]\nto = ['x']\ncopy = ['Host']", "forward-auth.1.copy: header Host is what Config.Host says: the key host of the proxy\nforward-auth.1.to: backend \"x\": want http://host:port", exitFailed},
		{site + "[site.client-certificate]\nmode = 'x'", "client-certificate.ca: say which file\nclient-certificate.mode: \"x\"; want require or ask\nclient-certificate.ca: 127.0.0.1:8080 serves the site without TLS", exitFailed},
		{site + "rate-after = '1MB'", "site 1: rate-after: there is no rate that it puts off; want one too", exitFailed},
		{site + "rate = '1MB'\nrate-after = '1MB'", "is all right", exitOK},
		{site + "listing-max = -1", "listing-max: -1 is negative", exitFailed},
		{site + "listing-max = 5", "listing-max: there are no listings; want listing = true too", exitFailed},
		{"acme = 'a.test'\nacme-cache = '" + sampleSite + "/notes.txt'\n" + site, "acme-cache: open " + sampleSite + "/notes.txt: not a directory", exitFailed},
		{"acme = 'a.test'\nacme-cache = '/none/x'\n" + site, "is all right", exitOK},
		{"acme = 'a.test'\nacme-storage = 'redis://:secret@h:b:c'\n" + site, ":2: -acme-storage: want the URL of a Redis", exitFailed},
		{"acme = 'a.test'\nacme-storage = 'redis://:secret@h?prefix=x'\n" + site, "is all right", exitOK},
		{"acme = 'localhost'\nacme-cache = '/none/x'\n" + site, `-acme "localhost" is not the full name of a host`, exitFailed},
		{"acme = 'a.test:443'\nacme-cache = '/none/x'\n" + site, `-acme "a.test:443" is not the full name of a host`, exitFailed},
		{"acme = '192.0.2.1'\nacme-cache = '/none/x'\n" + site, `-acme "192.0.2.1" is not the full name of a host`, exitFailed},
		{site + "error-pages = { 404 = '/none.html' }", "error-pages: error page for 404: ", exitFailed},
		{site + site, "site 2: hosts: two sites are for all hosts", exitFailed},
		{site + "[[site.header]]\nmatch = '*'\nset = {A-b = '1', a-B = '2'}", "header.1.set.a-B: the header is set twice", exitFailed},
		{"[[site]]\n[[site.proxy]]\nto = ['http://127.0.0.1:1']", "is all right; sites: 1", exitOK},
		{"[[site]]\nlisting = true\n[[site.proxy]]\nto = ['http://127.0.0.1:1']", "site 1: root: say which folder to serve\n", exitFailed},
		{"[[site]]\n[[site.header]]\nmatch = '*'\nset = {A = 'b'}\n[[site.proxy]]\nto = ['http://127.0.0.1:1']", "header: there is no root", exitFailed},
		{"[[site]]\n[[site.header]]\nmatch = '*'\nset = {A = 'b'}\nalways = true\n[[site.proxy]]\nto = ['http://127.0.0.1:1']", "is all right", exitOK},
		{site + "[[site.proxy]]\nmatch = 'a/b'\nto = ['http://127.0.0.1']", "proxy.1.match: ", exitFailed},
		{site + "[[site.proxy]]\nto = ['http://127.0.0.1']\n[[site.proxy]]\nto = []", `backend "http://127.0.0.1": want http://host:port`, exitFailed},
		{site + "[[site.proxy]]\n[[site.proxy]]\nto = []", "proxy.2: say which backends", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nidle-timeout = 'x'\ntrust = ['y']\nforwarded = 'z'", "idle-timeout: \"x\" is not a time\ntrust: \"y\" is neither unix: nor an address nor\nforwarded: \"z\" is unknown", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\ntls = { insecure = true }", "no backend begins with https://", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\ntls = { insecure = true }\nmirror = { to = ['https://127.0.0.1:1'] }", "is all right", exitOK},
		{site + "[[site.proxy]]\nto = ['unix:/s']\ncheck = { pat = '/' }", `there is no key "pat" in site.proxy.check; did you mean path?`, exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nweights = [1, 2]", "knot.toml:5: site 1: proxy.1.weights: there are 2; want one for each of 1", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nweights = ['a']", "want a list of whole numbers", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nbalance = 'hash ip'", `:5: site 1: proxy.1.balance: "hash ip" is unknown; want least, prequal, hash client`, exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\npanic-threshold = 1.5", ":5: site 1: proxy.1.panic-threshold: ", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nzone = 'a'", ":5: site 1: proxy.1.zone", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nzone = 'a'\nzones = ['a', 'b']", ":6: site 1: proxy.1.zones: ", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s', 'unix:/t']\nzone = 'a'\nzones = ['a', 'b']\npanic-threshold = 0.5", "is all right", exitOK},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nslow-start = 'x'", `proxy.1.slow-start: "x" is not a time`, exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nretry-share = 2.0", "proxy.1.retry-share: 2 is not from 0 to 1", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nretry-shar = 2.0", `there is no key "retry-shar" in site.proxy; did you mean retry-share?`, exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\n[site.proxy.sticky]\ncookie = 'a'\nsecret = 'b'", ":7: site 1: proxy.1.sticky.secret: it has 1 bytes; want 16", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\n[site.proxy.canary]\nto = ['x']\nshare = 0.1", `:6: site 1: proxy.1.canary.to: backend "x": want http://host:port`, exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\ncanary = { t = 1 }", `there is no key "t" in site.proxy.canary; there are to, weights, share, header, cookie`, exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nmirror = { to = ['unix:/t'], in-flight = -1 }", ":5: site 1: proxy.1.mirror.in-flight: -1 is negative", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nmirror = { to = ['unix:/t'], max-body = 'x' }", "proxy.1.mirror.max-body: want a size", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nmirror = { to = [] }", "proxy.1.mirror: say which backends", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s', 'unix:/t']\nweights = [2, 1]\nbalance = 'hash client'\nbound = 1.25\nslow-start = '30s'\nretry-share = -1.0\nsticky = { cookie = 'a' }\ncanary = { to = ['unix:/u'], share = 0.05 }\nmirror = { to = ['unix:/v'], max-body = '0' }", "is all right", exitOK},
		{site + "[[site.proxy]]\nto = ['unix:/s']\ncheck = { every = '0s' }", "check: every and timeout must be above 0", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\ncheck = { timeout = '0' }", "check: every and timeout must be above 0", exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\ncheck = { every = 'often' }", `check.every: "often" is not a time`, exitFailed},
		{site + "[[site.proxy]]\nto = ['unix:/s']\nfastcgi = { root = 'x' }", "is not the absolute path", exitFailed},
		{site + "[[site.password]]\nmatch = '*'\nusers = '" + sampleSite + "/notes.txt'", "line 1: want a name, a colon and a bcrypt hash", exitFailed},
		{site + "[[site.password]]\nmatch = '*'\nusers = '" + fifo + "'", "password.1.users: " + fifo + " is not a regular file", exitFailed},
		{"[[site]]\nroot = '" + filepath.Dir(fifo) + "'\nerror-pages = { 404 = '/fifo' }", "error page for 404: fifo is not a regular file", exitFailed},
		{site + "[[site.proxy]]\nto = ['https://h:1']\ntls = { ca = '" + fifo + "' }", "tls.ca: " + fifo + " is not a regular file", exitFailed},
		{"tls-cert = '" + fifo + "'\ntls-key = 'x'\n" + site, fifo + " is not a regular file", exitFailed},
	} {
		write(t, file, test.text)
		var out, stderr bytes.Buffer
		testenv.Equal(t, checkCommand([]string{file}, nil, &out, &stderr), test.code, "%q: code", test.text)
		for want := range strings.SplitSeq(test.want, "\n") {
			testenv.Contains(t, out.String()+stderr.String(), want, "%q", test.text)
		}
	}
	var stderr bytes.Buffer
	if code := checkCommand(nil, nil, io.Discard, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "knot check FILE") {
		t.Error(code, &stderr)
	}
	if code := checkCommand([]string{file + ".none"}, nil, io.Discard, io.Discard); code != exitFailed {
		t.Error(code)
	}
	if code := run(context.Background(), []string{"-config", file + ".none"}, io.Discard, io.Discard); code != exitUsage {
		t.Error(code)
	}
}

// TestCheckTellsAllAtOnce: mistakes of every kind are told in one round.
func TestCheckTellsAllAtOnce(t *testing.T) {
	file := configFile(t, "%s", "adr = ':80'\nidle-timeout = 'long'\nlog-format = 'xml'\nmax-head = 5\nacme = '*.x.test'\nrevalidate = '-1s'\nuser = 'no such user'\n"+
		"[[site]]\nroot = '/none/x'\nrot = 1\n[[site]]\nhosts = ['a b', 'c d']\nroot = '/none/y'\nerror-pages = { 200 = '/x', 404 = '/y' }\nindex = ['a/b']\n[[site.header]]\nset = {A = 'b'}\n[[site.header]]\nset = { Content-Length = '1', 'a b' = 'c' }\n[[site.proxy]]\nto = ['x']\ntrust = ['y']\n[site.proxy.tls]\nca = '/none.pem'\n[[site.password]]\nusers = '/none/u'\n[[site.password]]\nmatch = '*'\n")
	var stderr bytes.Buffer
	testenv.Equal(t, checkCommand([]string{file}, nil, io.Discard, &stderr), exitFailed, "code")
	for _, want := range []string{
		`:1: there is no key "adr"`, `:2: idle-timeout = "long": `, `:10: there is no key "rot" in site; did you mean root?`, `:3: -log-format "xml"`, ":4: -max-head 5", `:5: -acme "*.x.test": authorities give certificates for a star only by DNS`, "-acme needs -acme-cache", ":6: -revalidate -1s", `:7: user: there is no user "no such user"`,
		":9: site 1: there is no folder /none/x", `:12: site 2: hosts: "a b" is not the name of a host`, `:12: site 2: hosts: "c d"`, ":13: site 2: there is no folder /none/y", `:14: site 2: error-pages: "200" is not the status of an error`, `:15: site 2: knot: "a/b" can't be the index`,
		":16: site 2: header.1.match: the pattern is empty", ":19: site 2: header.2.set.Content-Length: header Content-Length is set by the server", `:19: site 2: header.2.set.a b: header name "a b" is not a token`, `:22: site 2: proxy.1.trust: "y"`, ":20: site 2: proxy.1: backend", ":24: site 2: proxy.1.tls.ca: open /none.pem",
		":25: site 2: password.1.match: ", ":26: site 2: password.1.users: open /none/u", ":27: site 2: password.2.users: say which file",
	} {
		testenv.Contains(t, stderr.String(), want)
	}
	if text := stderr.String(); strings.Count(text, "/none/y") != 1 {
		t.Errorf("the missing root is told more than once:\n%s", text)
	}
}

func TestHashCommand(t *testing.T) {
	for _, test := range []struct {
		args  []string
		input string
		code  int
	}{{[]string{"bob"}, "x\r\n", exitOK}, {[]string{"bob"}, "x", exitOK}, {nil, "x\n", exitUsage}, {[]string{"bob"}, "\n", exitFailed}, {[]string{"b:b"}, "x\n", exitFailed}} {
		var out bytes.Buffer
		if code := hashCommand(test.args, strings.NewReader(test.input), &out, io.Discard); code != test.code || (code == exitOK) != strings.HasPrefix(out.String(), "bob:$2a$") {
			t.Errorf("%q: %d %s", test.args, code, &out)
		}
	}
}

// TestOneSiteFlags: the sample site with a listing, a fallback and without compression.
func TestOneSiteFlags(t *testing.T) {
	a, _ := twoSites(t)
	p := start(t, "-root", a, "-listing", "-fallback", "/index.html", "-compress=false", "-log-format", "json")
	if resp, body := p.ask("h", "/private/", "Accept-Encoding: gzip"); resp.StatusCode != 200 || !strings.Contains(body, "x.txt") {
		t.Errorf("%d %q", resp.StatusCode, body)
	}
	if resp, body := p.ask("h", "/no/page", "Accept-Encoding: gzip"); body != "site a" || resp.Header.Get("Vary") != "" {
		t.Errorf("%q %v", body, resp.Header)
	}
	p.end()
}

// TestExamplesOfTheDocuments: what the documents show has no key that there is not.
func TestExamplesOfTheDocuments(t *testing.T) {
	for name, cut := range map[string][2]string{
		"../../docs/knot-config.md":           {"```toml\n", "```"},
		"../../docs/knot-addresses.md":        {"```toml\n", "```"},
		"../../examples/knot/kubernetes.yaml": {"knot.toml: |\n", "---"},
	} {
		text := testenv.Need(os.ReadFile(name))(t)
		_, example, found := strings.Cut(string(text), cut[0])
		example, _, ended := strings.Cut(example, cut[1])
		if !found || !ended {
			t.Fatalf("%s has no example", name)
		}
		set := settingsOf(t, configFile(t, "%s", example))
		if len(set.sites) == 0 || set.admin == "" {
			t.Errorf("%s: %d sites, admin address %q", name, len(set.sites), set.admin)
		}
	}
}

// TestChangedValues: what a reload does not bring is told, and nothing else.
func TestChangedValues(t *testing.T) {
	values := func(texts ...string) (all []config.Value) {
		for i := 0; i < len(texts); i += 2 {
			all = append(all, config.Value{Name: texts[i], Text: texts[i+1]})
		}
		return all
	}
	before := values("addr", ":80", "user", "www", "cache", "8MB", "grace", "5s", "log", "x", "root", "a")
	after := values("addr", ":80", "loops", "2", "cache", "9MB", "grace", "6s", "listing", "true", "max-conns", "7", "open-files", "10", "root", "b", "http3-conns", "9")
	testenv.EqualSlices(t, changedValues(before, after), []string{"user", "loops", "http3-conns"})
}

// TestOpenFilesAreDivided among the sites, those of the default too.
func TestOpenFilesAreDivided(t *testing.T) {
	one := testenv.Need(knot.OpenFiles(sampleSite, knot.FilesConfig{}))(t)
	defer one.Close()
	text := ""
	for _, host := range []string{"a", "b", "c", "d"} {
		text += fmt.Sprintf("[[site]]\nhosts = ['%s']\nroot = '%s'\n", host, sampleSite)
	}
	for flags, want := range map[string]int{"": one.Stats().MaxOpen, "open-files = 64\n": 64, "open-files = 0\n": 0} {
		b := testenv.Need(build(settingsOf(t, configFile(t, "%s", flags+text)), discard))(t)
		sum := 0
		for _, f := range b.files {
			sum += f.Stats().MaxOpen
		}
		b.close()
		if sum > want+15 || sum < want/2 { // parts are rounded
			t.Errorf("%q: %d files of four sites are kept open, want about %d", flags, sum, want)
		}
	}
}

// TestOutgoing: how many connections to backends the configured proxies may have.
func TestOutgoing(t *testing.T) {
	site := func(proxies ...config.Proxy) config.Site { return config.Site{Proxies: proxies} }
	two := []string{"http://a:1", "http://b:1"}
	for _, c := range []struct {
		sites []config.Site
		want  int
	}{
		{[]config.Site{site()}, 0},
		{[]config.Site{site(config.Proxy{To: two})}, 2 * proxy.DefaultMaxConns},
		{[]config.Site{site(config.Proxy{To: two, MaxConns: 7}, config.Proxy{To: two[:1], HTTP2: true}), site(config.Proxy{To: two[:1], MaxConns: 1})}, 2*7 + connsHTTP2 + 1},
		{[]config.Site{site(config.Proxy{To: two, MaxConns: 7}), site(config.Proxy{To: two, MaxConns: -1})}, -1},
		{[]config.Site{site(config.Proxy{To: two, MaxConns: 7, Balancing: config.Balancing{Canary: &config.Canary{To: two[:1]}, Mirror: &config.Mirror{InFlight: 5}}})}, 3*7 + 5},
		{[]config.Site{site(config.Proxy{To: two[:1], MaxConns: 7, Balancing: config.Balancing{Mirror: &config.Mirror{}}})}, 7 + proxy.DefaultMirrorInFlight},
		{[]config.Site{site(config.Proxy{To: []string{"dns+http://a:1"}, MaxConns: 7, Balancing: config.Balancing{Canary: &config.Canary{To: two}}})}, proxy.MaxBackends * 7},
		{[]config.Site{{ForwardAuths: []forwardauth.Config{{To: two}, {To: []string{"dns+http://a:1"}}}}}, (2 + proxy.MaxBackends) * proxy.DefaultMaxConns},
	} {
		testenv.Equal(t, outgoing(c.sites), c.want, "%+v", c.sites)
	}
}
