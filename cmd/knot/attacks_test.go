package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/httpcases"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestConformanceOfSites runs the table of raw requests against sites whose requests pass through more than a proxy: a cache,
// rewrites, another server that is asked, the PROXY protocol, and all of these. What reaches a backend is clean, and is no more than
// what was answered.
func TestConformanceOfSites(t *testing.T) {
	var backends, auths httpcases.Backend
	backends.Path = func(came string) string { return strings.TrimPrefix(came, "/in") }
	backend := testenv.Serve(t, func(c net.Conn) { testenv.Check(t, backends.Serve(c)) })
	auth := testenv.Serve(t, func(c net.Conn) { testenv.Check(t, auths.Serve(c)) })
	const (
		cache     = "[[site.cache]]\nlifetimes = { 200 = '1m', 204 = '1m' }\nstale-while-revalidate = '1m'\n"
		rewrite   = "[[site.rewrite]]\npattern = '(?s)^(/.*)$'\nto = '/in$1'\n"
		forwarded = "copy = ['Remote-User']\npath = '/auth'\n"
	)
	asked := fmt.Sprintf("[[site.forward-auth]]\nto = ['http://%s']\n%s", auth, forwarded)
	for name, features := range map[string]string{"cache": cache, "rewrite": rewrite, "forward-auth": asked, "PROXY protocol": "", "all": cache + rewrite + asked} {
		t.Run(name, func(t *testing.T) {
			head := ""
			listen := "addr = '127.0.0.1:0'\n"
			if name == "PROXY protocol" || name == "all" {
				head = "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"
				listen += "proxy-protocol = ['127.0.0.1']\n"
			}
			p := startRun(t, "-config", configFile(t, "[[listen]]\n%s[[site]]\n%s[[site.proxy]]\nto = ['http://%s']\n", listen, features, backend))
			go io.Copy(&p.rest, p.out)
			addr := tcpAddr.FindString(p.printed[0])
			c := &httpcases.Client{Patience: time.Minute, Dial: func() (net.Conn, error) {
				nc, err := net.Dial("tcp", addr)
				if err == nil {
					_, err = io.WriteString(nc, head)
				}
				return nc, err
			}}
			for _, k := range httpcases.Cases {
				if strings.HasPrefix(k.Send, "OPTIONS * ") {
					continue // Knot answers these itself, with 204
				}
				before := backends.Requests.Load()
				got, fault := c.Run(&k)
				if !httpcases.Allowed(got, k.Want) || fault != "" && !strings.Contains(features, "rewrite") {
					t.Errorf("%s (RFC %s): %s, want %s; %s\n%.300q", k.Name, k.Section, got, k.Want, fault, k.Send)
				}
				answered := int64(strings.Count(got, "200") + strings.Count(got, "204") + strings.Count(got, "keep"))
				if n := backends.Requests.Load() - before; n > answered || n < answered && !strings.Contains(features, "cache") {
					t.Errorf("%s: %s, but %d requests reached the backend\n%.300q", k.Name, got, n, k.Send)
				}
			}
			p.end()
		})
	}
}

// A spy is a backend that keeps the head of the last request.
type spy struct {
	mu   sync.Mutex
	head string // guarded by mu
}

func (s *spy) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, req.Body)
		var text strings.Builder
		fmt.Fprintf(&text, "%s %s\nHost: %s\n", req.Method, req.RequestURI, req.Host)
		req.Header.Write(&text)
		req.Trailer.Write(&text)
		s.mu.Lock()
		s.head = strings.ReplaceAll(text.String(), "\r\n", "\n")
		s.mu.Unlock()
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
	}
}

func (s *spy) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := s.head
	s.head = ""
	return head
}

// TestSpoofedLines: what clients write of themselves reaches no backend, whatever way it takes to them.
func TestSpoofedLines(t *testing.T) {
	var s spy
	backend := testenv.Serve(t, s.serve)
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Remote-User", "alice") }))
	defer auth.Close()
	const format = `[[site]]
request-id = "X-Request-Id"
[[site.header]]
match = "/**"
backend-set = { X-Tenant = "right" }
[[site.rewrite]]
prefix = "/rewritten"
to = "/auth"
[[site.cache]]
match = "/cached/**"
[[site.forward-auth]]
match = "/auth/**"
to = [%q]
copy = ["Remote-User"]
[[site.proxy]]
to = ["http://%s"]
`
	p := start(t, "-config", configFile(t, format, auth.URL, backend))
	lines := []string{
		"X-Forwarded-For: evil", "X-Forwarded-Host: evil", "X-Forwarded-Proto: evil", "X-Forwarded-Port: evil", "X-Forwarded-Prefix: evil", "X-Forwarded-User: evil",
		"Forwarded: for=evil", "X-Real-IP: evil", "True-Client-IP: evil", "CF-Connecting-IP: evil", "Remote-User: evil", "remote-USER: evil", "Remote_User: evil",
		"X-Tenant: evil", "x-tenant: evil", "X_Tenant: evil", "X-Request-Id: evil", "Via: ", "Proxy: evil", "traceparent: evil", "Proxy-Connection: evil", "Keep-Alive: evil",
	}
	for _, path := range []string{"/plain", "/cached/x", "/auth/x", "/rewritten/x"} {
		for _, more := range []string{"", "Connection: x-forwarded-for, x-forwarded-host, x-forwarded-proto, remote-user, x-tenant, x-request-id, via, host, content-length\r\n"} {
			for _, method := range []string{"GET", "POST"} {
				body := ""
				if method == "POST" {
					more += "Transfer-Encoding: chunked\r\nTrailer: Remote-User, X-Tenant\r\n"
					body = "2\r\nok\r\n0\r\nRemote-User: evil\r\nX-Tenant: evil\r\nX-Forwarded-For: evil\r\n\r\n"
				}
				nc := testenv.Dial(t, strings.TrimPrefix(p.url, "http://"))
				fmt.Fprintf(nc, "%s %s HTTP/1.1\r\nHost: site.test\r\n%s\r\n%s\r\n%s", method, path, strings.Join(lines, "\r\n"), more, body)
				resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
				nc.Close()
				testenv.Equal(t, resp.StatusCode, 200, "%s %s, %s", method, path, more)
				got := s.take()
				testenv.Equal(t, strings.Contains(strings.ToLower(got), "evil"), false, "%s %s, %s: the backend has %s", method, path, more, got)
				for _, want := range []string{"\nX-Forwarded-For: 127.0.0.1\n", "\nX-Real-Ip: 127.0.0.1\n", "\nX-Forwarded-Host: site.test\n", "\nX-Forwarded-Proto: http\n", "\nX-Tenant: right\n", "\nX-Request-Id: "} {
					testenv.Contains(t, got, want, "%s %s, %s", method, path, more)
				}
				testenv.Equal(t, strings.Contains(got, "\nRemote-User: alice\n"), path == "/auth/x" || path == "/rewritten/x", "%s: %s", path, got)
			}
		}
	}
	p.end()
}

// TestPathsOfAttackers: no way of writing a path gets past a rule for another one, through a proxy, a rewrite, a cache and a list of
// files.
func TestPathsOfAttackers(t *testing.T) {
	var s spy
	backend := testenv.Serve(t, s.serve)
	root := t.TempDir()
	testenv.Must(t, os.MkdirAll(filepath.Join(root, "site", "admin"), 0o755))
	write(t, filepath.Join(root, "site", "admin", "x"), "secret")
	write(t, filepath.Join(root, "outside"), "secret")
	const rules = "[[site.access]]\nmatch = '/admin/**'\naction = 'deny'\n"
	text := fmt.Sprintf(`[[site]]
hosts = ["proxied"]
%[1]s[[site.proxy]]
to = ["http://%[2]s"]
[[site]]
hosts = ["cached"]
%[1]s[[site.cache]]
lifetimes = { 200 = "1m" }
[[site.proxy]]
to = ["http://%[2]s"]
[[site]]
hosts = ["rewritten"]
%[1]s[[site.rewrite]]
pattern = '(?s)^/(?:go/)?(.*)$'
to = '/$1'
[[site.proxy]]
to = ["http://%[2]s"]
[[site]]
hosts = ["tried"]
root = %[3]q
try = ["$path", "/$path", "$path/x", "=404"]
%[1]s`, rules, backend, filepath.Join(root, "site"))
	p := start(t, "-config", configFile(t, "%s", text))
	paths := []string{
		"/admin/x", "/%61dmin/x", "//admin/x", "///admin//x", "/./admin/x", "/x/../admin/x", "/x/%2e%2e/admin/x", "/x/.%2e/admin/x", "/x/..%2fadmin/x", "/x%2f..%2fadmin/x", "/%2fadmin/x",
		"/%2Fadmin%2Fx", "/admin%2fx", "/admin/./x", "/admin/y/../x", "/admin//x", "/x/..//admin/x", "/admin/%2e/x", "/go/../admin/x", "/go/%2e%2e/admin/x", "/go//admin/x", "/go/./admin/x",
		"/x/..;/admin/x", "/x/..%5cadmin/x", "/..%2foutside", "/../outside", "/%2e%2e/outside", "/admin%00/x", "/admin/x%00.txt", "/%00/../admin/x", "/x/..%c0%afadmin/x",
		"/go/admin/x", "http://proxied/admin/x", "http://evil/admin/x", "/admin/x?", "/admin/x?a=/../..", "/admin/x#y",
	}
	for _, host := range []string{"proxied", "cached", "rewritten", "tried"} {
		for _, path := range paths {
			nc := testenv.Dial(t, strings.TrimPrefix(p.url, "http://"))
			fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", path, host)
			resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
			body := string(testenv.Need(io.ReadAll(resp.Body))(t))
			nc.Close()
			head, _, _ := strings.Cut(s.take(), "\n")
			leads := strings.Contains(strings.ToLower(decoded(head)), "/admin/x") && !strings.HasPrefix(head, "GET /go/") && !strings.Contains(head, "..%c0")
			testenv.Equal(t, leads, false, "%s %s: the backend gets %s", host, path, head)
			testenv.Equal(t, strings.Contains(body, "secret"), false, "%s %s: %d %q", host, path, resp.StatusCode, body)
			testenv.Equal(t, strings.Contains(head, "/../") || strings.Contains(head, "/..;"), false, "%s %s: the backend gets %s", host, path, head)
		}
	}
	p.end()
}

// decoded is a text with its escapes decoded, as often as there are any.
func decoded(text string) string {
	for range 3 {
		for from, to := range map[string]string{"%2f": "/", "%2F": "/", "%61": "a", "%2e": ".", "%5c": "/"} {
			text = strings.ReplaceAll(text, from, to)
		}
	}
	for strings.Contains(text, "//") {
		text = strings.ReplaceAll(text, "//", "/")
	}
	return text
}

// TestCacheDeception: a page for one user is not kept under a name that looks like a file's, and users who ask at the same time
// don't get each other's.
func TestCacheDeception(t *testing.T) {
	to := testBackend(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("says") {
		case "private":
			w.Header().Set("Cache-Control", "private")
		case "cookie":
			w.Header().Set("Set-Cookie", "session="+r.Header.Get("Cookie"))
		case "tag":
			w.Header().Set("ETag", `"`+r.Header.Get("Cookie")+r.Header.Get("Authorization")+`"`)
		}
		fmt.Fprint(w, "account of ", r.Header.Get("Cookie"), r.Header.Get("Authorization"))
	})
	p := start(t, "-config", configFile(t, "[[site]]\n[[site.cache]]\nlifetimes = { 200 = '10m' }\nheuristic = '1h'\nstale-while-revalidate = '1m'\nstale-if-error = '1h'\n[[site.proxy]]\nto = [%q]\n", to))
	for _, says := range []string{"nothing", "private", "cookie", "tag"} {
		for i, line := range []string{"Cookie: alice=%d", "Authorization: Basic %d"} {
			path := fmt.Sprintf("/account/%d/x.css?says=%s", i, says)
			var users sync.WaitGroup
			for n := range 20 {
				users.Go(func() {
					own := fmt.Sprintf(line, n)
					_, value, _ := strings.Cut(own, ": ")
					if _, body := p.ask("h", path, own); body != "account of "+value {
						t.Errorf("%s: %s gets %q", path, own, body)
					}
				})
			}
			users.Wait()
			if _, body := p.ask("h", path); body != "account of " {
				t.Errorf("%s: a client without an account gets %q", path, body)
			}
		}
	}
	p.end()
}
