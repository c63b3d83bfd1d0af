package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestWhoMayCome: certificates, limits, networks, passwords and another server, as the configuration says, also after a reload.
func TestWhoMayCome(t *testing.T) {
	a, b := twoSites(t)
	dir := t.TempDir()
	ca := testenv.NewCA(t)
	crt, key := ca.Files(t, dir, "a.example", "open.example")
	clientCert := testenv.Need(tls.X509KeyPair(ca.PEM(t, "alice")))(t)
	authority, users := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "users")
	write(t, authority, string(ca.Authority()))
	write(t, users, "alice:$2a$04$3NIZ7z58ltdXyquueprG9eIW5j2qYhsdMpO6mb52h5f/XPFhBWgO2\n") // p
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Forwarded-Uri") != "/page.html" || !strings.Contains(r.Header.Get("Cookie"), "in=1") {
			w.WriteHeader(401)
			io.WriteString(w, "log in")
		}
		w.Header().Set("Remote-User", "alice")
	}))
	defer auth.Close()
	text := fmt.Sprintf(`
tls-cert = %q
tls-key = %q
[[listen]]
addr = "127.0.0.1:0"
sites = ["a.example", "open.example"]
[[listen]]
addr = "localhost:0"
tls = false
sites = ["b.example"]
[[site]]
hosts = ["a.example"]
root = %q
client-certificate = { ca = %q }
[[site]]
hosts = ["open.example"]
root = %q
[[site]]
hosts = ["b.example"]
root = %q
satisfy = "any"
[[site.limit]]
match = "/limited"
rate = "1/h"
[[site.access]]
from = ["192.0.2.0/24"]
action = "allow"
[[site.access]]
action = "deny"
[[site.password]]
match = "/**"
users = %q
[[site.forward-auth]]
to = [%q]
copy = ["Remote-User"]
`, crt, key, a, authority, a, b, users, auth.URL)
	file := configFile(t, "%s", text)
	p := startRun(t, "-config", file)
	urls := httpURL.FindAllString(p.printed[0], -1)
	testenv.MustEqual(t, len(urls), 2, p.printed)
	secure, plain := urls[0], urls[1]
	overTLS := func(name string, certs ...tls.Certificate) *http.Client {
		config := ca.Client()
		config.ServerName, config.Certificates = name, certs
		transport := &http.Transport{TLSClientConfig: config}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	resp, body := askAs(t, overTLS("a.example", clientCert), secure, "a.example")
	testenv.Equal(t, fmt.Sprint(resp.StatusCode, strings.Contains(body, "site a")), "200 true", "with a certificate")
	resp, _ = askAs(t, overTLS("open.example", clientCert), secure, "a.example")
	testenv.Equal(t, resp.StatusCode, 421, "by a connection for another site")
	_, err := overTLS("a.example").Get(secure)
	testenv.Fails(t, err, "a client without a certificate is let in")
	ask := func(path, line string) string {
		r := testenv.Need(http.NewRequest("GET", plain+path, nil))(t)
		r.Host = "b.example"
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Set(name, value)
		}
		resp, body := roundTrip(t, r)
		return fmt.Sprint(resp.StatusCode, " ", strings.TrimSpace(body), resp.Header["Retry-After"])
	}
	testenv.Contains(t, ask("/", "Authorization: Basic YWxpY2U6cA=="), "200 site b")
	testenv.Contains(t, ask("/", ""), "401")
	testenv.Contains(t, ask("/page.html", "Cookie: in=1"), "404")
	testenv.Contains(t, ask("/limited", "Cookie: in=1"), "401")
	testenv.Contains(t, ask("/limited", ""), "[3600]")
	write(t, file, strings.Replace(text, "192.0.2.0/24", "127.0.0.0/8\", \"::1", 1))
	hangUp()
	p.stderr.await(t, "was read again")
	testenv.Contains(t, ask("/", ""), "200 site b")
	go io.Copy(io.Discard, p.out)
	p.end()
}

// TestUsersAndCaches: what a backend sends to a user whom forward-auth has named is for that user, and a rewrite leads around no
// question.
func TestUsersAndCaches(t *testing.T) {
	auth := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := r.Header.Get("X-Name"); name {
		case "":
			w.WriteHeader(401)
		case "anyone":
		default:
			w.Header().Set("Remote-User", name)
		}
	}))
	defer auth.Close()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, r.URL.Path, " for ", r.Header.Values("Remote-User"))
	}))
	defer app.Close()
	p := startRun(t, "-config", configFile(t, `
addr = "127.0.0.1:0"
[[site]]
[[site.rewrite]]
path = "/open"
to = "/in/x"
[[site.forward-auth]]
match = "/in/**"
to = [%q]
pass = ["X-Name"]
copy = ["Remote-User"]
[[site.cache]]
[[site.proxy]]
to = [%q]
`, auth.URL, app.URL))
	url := httpURL.FindString(p.printed[0])
	ask := func(path, name string) string {
		r := testenv.Need(http.NewRequest("GET", url+path, nil))(t)
		r.Header["Remote-User"] = []string{"root"}
		if name != "" {
			r.Header.Set("X-Name", name)
		}
		resp, body := roundTrip(t, r)
		_, how, _ := strings.Cut(strings.Join(resp.Header["Cache-Status"], ""), "; ")
		how, _, _ = strings.Cut(how, "; ttl")
		return fmt.Sprint(resp.StatusCode, " ", body, " ", how)
	}
	for _, c := range []struct{ path, name, want string }{
		{"/in/x", "", "401  "},
		{"/in/x", "alice", "200 /in/x for [alice] "},
		{"/in/x", "bob", "200 /in/x for [bob] "},
		{"/in/x", "anyone", "200 /in/x for [] fwd=miss; stored"},
		{"/in/x", "anyone", "200 /in/x for [] hit"},
		{"/in/x", "alice", "200 /in/x for [alice] "},
		{"/in/x", "", "401  "},
		{"/open", "", "401  "},
		{"/open", "bob", "200 /in/x for [bob] "},
		{"/other", "", "200 /other for [] fwd=miss; stored"},
	} {
		testenv.Equal(t, ask(c.path, c.name), c.want, c.path+" "+c.name)
	}
	go io.Copy(io.Discard, p.out)
	p.end()
}

func roundTrip(t *testing.T, r *http.Request) (*http.Response, string) {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	resp := testenv.Need(transport.RoundTrip(r))(t)
	defer resp.Body.Close()
	return resp, string(testenv.Need(io.ReadAll(resp.Body))(t))
}
