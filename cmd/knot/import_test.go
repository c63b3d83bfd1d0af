package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// imported is what knot import says of a configuration of nginx's, and its exit code.
func imported(t *testing.T, file string) (toml, left string, code int) {
	t.Helper()
	var out, errs testenv.Buffer
	code = importCommand([]string{file}, nil, &out, &errs)
	return out.String(), errs.String(), code
}

var inFolder = regexp.MustCompile(`"(/srv|/etc|/run)/`)

// settle writes a configuration whose files lie below dir, with what it needs there.
func settle(t *testing.T, dir, toml string) (file string) {
	t.Helper()
	toml = inFolder.ReplaceAllString(toml, `"`+dir+"$1/")
	read := testenv.Need(config.Read("f", []byte(toml), []string{"addr", "max-body", "idle-timeout", "redirect-http", "tls-cert", "tls-key", "trust", "log-format"}, nil))(t)
	need := func(path, text string) {
		testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if _, err := os.Stat(path); err != nil {
			testenv.Must(t, os.WriteFile(path, []byte(text), 0o644))
		}
	}
	for _, s := range read.Sites {
		if s.Root != "" {
			testenv.Must(t, os.MkdirAll(s.Root, 0o755))
		}
		for _, page := range s.ErrorPages {
			need(s.Root+page, "error page")
		}
		if s.Maintenance != nil {
			need(s.Maintenance.File, "")
		}
		if s.ClientCerts != nil {
			authority, _ := selfSigned(t, "authority", 2)
			need(s.ClientCerts.CA, authority)
		}
		for _, p := range s.Passwords {
			need(p.Users, "ann:$2a$04$HSAxvRkgzYxJKLkjHWe8buktNG9LmIo3c3gpSDpvpn9V3vnEPMc3a\n")
		}
	}
	values := map[string][]string{}
	for _, v := range read.Values {
		values[v.Name] = strings.Split(v.Text, ",")
	}
	cert, key := "", ""
	for i, path := range values["tls-cert"] {
		if cert == "" {
			cert, key = selfSigned(t, "example.org", 1)
		}
		need(path, cert)
		need(values["tls-key"][i], key)
	}
	return configFile(t, "%s", toml)
}

const nginxConfigurations = "internal/nginxconf/testdata/"

// TestImportedConfigurationsAreRight: knot check finds nothing wrong with what knot import writes.
func TestImportedConfigurationsAreRight(t *testing.T) {
	files := append(testenv.Need(filepath.Glob(nginxConfigurations+"*.conf"))(t), nginxConfigurations+"several/nginx.conf")
	testenv.AtLeast(t, len(files), 12, "configurations")
	for _, file := range files {
		toml, left, code := imported(t, file)
		testenv.Equal(t, code == exitUsage, left != "", "%s: exit code %d", file, code)
		var out, errs testenv.Buffer
		if code := checkCommand([]string{settle(t, t.TempDir(), toml)}, nil, &out, &errs); code != exitOK {
			t.Errorf("%s: %s\n%s", file, errs.String(), toml)
		}
	}
}

func TestImportTellsWhatIsWrong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nginx.conf")
	write(t, file, "server {\n  listen 80\n}\n")
	if _, said, code := imported(t, file); code != exitFailed || said != "knot: "+file+":2: \"listen\" has no end; want ; before }\n" {
		t.Errorf("code %d, %s", code, said)
	}
	write(t, file, "server {\n  root /srv;\n  ssi on;\n}\n")
	if _, said, code := imported(t, file); code != exitUsage || said != file+":3: ssi on\n" {
		t.Errorf("code %d, %s", code, said)
	}
	var errs bytes.Buffer
	testenv.Equal(t, importCommand(nil, nil, io.Discard, &errs), exitUsage)
}

// TestImportedSitesProtectBackendsAndSources: a path that nginx redirects does not reach the backend without the password, and
// one that nginx passes on by a protocol that Knot does not speak is no file.
func TestImportedSitesProtectBackendsAndSources(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "backend") }))
	defer backend.Close()
	dir := shortDir(t)
	file := filepath.Join(dir, "nginx.conf")
	pass := "proxy_pass " + backend.URL + ";"
	write(t, file, "server { listen unix:"+dir+"/knot; root /srv/app; location / { "+pass+" } location /admin/ { auth_basic a; auth_basic_user_file /etc/users; "+pass+" } location /app/ { uwsgi_pass unix:/run/app.sock; } }")
	toml, _, _ := imported(t, file)
	file = settle(t, dir, toml)
	testenv.Must(t, os.MkdirAll(dir+"/srv/app/app", 0o755))
	write(t, dir+"/srv/app/app/settings.py", "secret")
	p := startRun(t, "-config", file)
	go io.Copy(&p.rest, p.out)
	ours := overUnix(t, "knot", dir+"/knot")
	for path, want := range map[string]string{"/": "200  backend", "/admin": "301 /admin/ ", "/admin?a=b": "301 /admin/?a=b ", "/admin/": "401  ", "/app": "301 /app/ ", "/app/settings.py": "404  "} {
		testenv.Equal(t, ours.answer(t, comparedRequest{"x.test", path, nil}), want, "%s", path)
	}
	ours.client.CloseIdleConnections()
	p.end()
}

// A rival answers requests beside knot.
type rival struct {
	name   string
	client *http.Client
}

// overUnix is a client of a server on a Unix socket.
func overUnix(t *testing.T, name, socket string) rival {
	transport := &http.Transport{DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }}
	t.Cleanup(transport.CloseIdleConnections)
	return rival{name, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// answer is what is compared: status, chosen headers, and the body of responses that are no errors.
func (r rival) answer(t *testing.T, c comparedRequest) string {
	t.Helper()
	req := testenv.Need(http.NewRequest("GET", "http://"+c.host+c.path, nil))(t)
	resp := testenv.Need(r.client.Do(req))(t)
	defer resp.Body.Close()
	body := string(testenv.Need(io.ReadAll(resp.Body))(t))
	if resp.StatusCode >= 300 && !strings.HasPrefix(body, "page ") {
		body = ""
	}
	location := strings.TrimPrefix(resp.Header.Get("Location"), "http://"+c.host) // nginx names its host
	text := fmt.Sprint(resp.StatusCode, " ", location, " ", body)
	for _, name := range c.headers {
		text += fmt.Sprintf(" %s=%q", name, resp.Header[name])
	}
	return text
}

type comparedRequest struct {
	host, path string
	headers    []string
}

// TestImportedConfigurationsAnswerAsNginxDoes: the same requests to nginx, and to knot with what is made of its configuration.
func TestImportedConfigurationsAnswerAsNginxDoes(t *testing.T) {
	program := testenv.Program(t, "nginx")
	backend := filepath.Join(shortDir(t), "backend")
	ln := testenv.Need(net.Listen("unix", backend))(t)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Powered-By", "backend")
		fmt.Fprint(w, "backend ", r.Host, " ", r.RequestURI, " ", r.Header.Get("X-Tenant"), r.Header["Cookie"])
	})}
	go server.Serve(ln)
	t.Cleanup(func() { server.Close() })
	cached := []string{"Cache-Control"}
	for _, c := range []struct {
		file     string
		files    []string // below the root
		requests []comparedRequest
	}{
		{"static", []string{"index.html", "a.css", "404.html", "50x.html", "assets/x.js", "sub/index.htm", "robots.txt", "sub/a.txt"}, []comparedRequest{
			{"example.org", "/", []string{"X-Frame-Options", "X-Content-Type-Options"}}, {"example.org", "/a.css", cached}, {"example.org", "/none", []string{"X-Content-Type-Options"}},
			{"other.test", "/sub/", nil}, {"example.org", "/sub", nil}, {"example.org", "/robots.txt", cached}, {"example.org", "/sub/a.txt?x", cached}, {"example.org", "/sub/../a.css", cached}, {"example.org", "/sub/%2e%2e/none", nil},
		}},
		{"spa", []string{"index.html", "app.js", "dir/index.html"}, []comparedRequest{
			{"x.test", "/", cached}, {"x.test", "/some/where", cached}, {"x.test", "/app.js", cached}, {"x.test", "/dir/", cached}, {"x.test", "/api/users?a=b%20c", cached}, {"x.test", "/api/", nil}, {"x.test", "/api", nil}, {"x.test", "/apix", nil},
		}},
		{"redirects", []string{"index.html", "shop.html", "about.html"}, []comparedRequest{
			{"old.example.org", "/gone", nil}, {"old.example.org", "/gone?x=1", nil}, {"old.example.org", "/away?x", nil}, {"old.example.org", "/blog/a?b=c", nil}, {"old.example.org", "/find?q=1", nil}, {"old.example.org", "/user/17", nil},
			{"old.example.org", "/user/x", nil}, {"old.example.org", "/item/5", nil}, {"old.example.org", "/news/a.htm?b", nil}, {"old.example.org", "/y2024/x?y", nil}, {"old.example.org", "/pages/about.html", nil},
		}},
		{"django", []string{"static/a.css", "uploads/m.png", "robots.txt"}, []comparedRequest{
			{"django.example.org", "/static/a.css", cached}, {"django.example.org", "/static/none", nil}, {"django.example.org", "/media/m.png", nil}, {"django.example.org", "/media/none", nil},
			{"django.example.org", "/robots.txt", nil}, {"django.example.org", "/app/page?x=1", nil}, {"django.example.org", "/", nil},
		}},
		{"nested", []string{"a.do", "app/a.do", "app/a.txt", "app/open/a.txt", "app/open/a.do", "up/a.sh", "up/a.DO", "up/a.txt", "a.sh", "files/a.do", "files/a.txt", "files/a.key", "files/public.key", "files/sub/a.txt", "files/sub/a.key", "a.key", "up/a.key"}, []comparedRequest{
			{"x.test", "/a.do", nil}, {"x.test", "/app/a.do", nil}, {"x.test", "/app/a.txt", nil}, {"x.test", "/app/open/a.txt", cached}, {"x.test", "/app/open/a.do", nil}, {"x.test", "/up/a.sh", nil}, {"x.test", "/up/a.DO", nil},
			{"x.test", "/up/a.txt", nil}, {"x.test", "/up/.svn/a", nil}, {"x.test", "/up/b/.svn", nil}, {"x.test", "/up.sh", nil}, {"x.test", "/a.sh", nil}, {"x.test", "/files/a.do", nil}, {"x.test", "/files/a.txt", nil}, {"x.test", "/files/a.key", nil},
			{"x.test", "/files/public.key", cached}, {"x.test", "/files/sub/a.txt", cached}, {"x.test", "/files/sub/a.key", nil}, {"x.test", "/a.key", nil}, {"x.test", "/up/a.key", nil},
		}},
		{"tenants", nil, []comparedRequest{
			{"x.test", "/", nil}, {"x.test", "/api/a", nil}, {"x.test", "/api/v1/a", nil}, {"x.test", "/api/a.do", nil}, {"x.test", "/a.do", nil},
		}},
		{"closed", []string{"elsewhere/a.txt", "open/a.txt", "open/a.do", "a.txt", "api/a.txt"}, []comparedRequest{
			{"x.test", "/", nil}, {"x.test", "/a.txt", nil}, {"x.test", "/api/a.txt", nil}, {"x.test", "/api/a.key", nil}, {"x.test", "/api", nil}, {"x.test", "/open/a.txt", nil},
			{"x.test", "/open/a.do", nil}, {"x.test", "/status", nil}, {"x.test", "/status/", nil}, {"x.test", "/x/a.do", nil}, {"x.test", "/elsewhere/a.txt", nil},
		}},
		{"inner", []string{"in/open/not/a.png", "in/open/not/c/a.htm", "in/open/files/a.png", "in/open/files/a.htm", "in/a.htm", "in/open/a.htm", "in/open/not/a.htm", "in/open/not/this/a.htm", "in/open/not/this/b/a.htm", "a.htm", "b.htm"}, []comparedRequest{
			{"x.test", "/in/a.htm", nil}, {"x.test", "/in/open/a.htm", nil}, {"x.test", "/in/open/not/a.htm", nil}, {"x.test", "/in/open/not/this/a.htm", nil}, {"x.test", "/in/open/not/this/b/a.htm", nil}, {"x.test", "/a.htm", nil}, {"x.test", "/b.htm", nil},
			{"x.test", "/in/open/not/a.png", nil}, {"x.test", "/in/open/not/c/a.htm", nil}, {"x.test", "/in/open/files/a.png", nil}, {"x.test", "/in/open/files/a.htm", nil},
		}},
		{"partly", []string{"a.txt", "a.js", "a.PNG", "pub/a.txt", "priv/a.txt", "priv/a.png"}, []comparedRequest{
			{"x.test", "/a.txt", nil}, {"x.test", "/a.js", nil}, {"x.test", "/a.PNG", nil}, {"x.test", "/pub/a.txt", nil}, {"x.test", "/priv/a.txt", nil}, {"x.test", "/priv/a.png", nil},
			{"x.test", "/a.do", nil}, {"x.test", "/pub/a.do", nil}, {"x.test", "/priv/a.do", nil},
		}},
		{"dots", []string{"a.txt", ".well-known/a.txt"}, []comparedRequest{
			{"x.test", "/a.txt", nil}, {"x.test", "/.well-known/a.txt", nil}, {"x.test", "/.git/a", nil},
		}},
		{"api", nil, []comparedRequest{
			{"api.example.org", "/v1/users?x", []string{"X-Api", "X-Powered-By"}}, {"api.example.org", "/uploads", []string{"X-Powered-By"}}, {"api.example.org", "/health", nil},
		}},
	} {
		t.Run(c.file, func(t *testing.T) { compareToNginx(t, program, backend, c.file, c.files, c.requests) })
	}
}

// shortDir is a folder whose name leaves room for that of a Unix socket.
func shortDir(t *testing.T) string {
	dir := testenv.Need(os.MkdirTemp("", "knot"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

var (
	listens  = regexp.MustCompile(`listen [^;]*;`)
	backends = regexp.MustCompile(`127\.0\.0\.1:3000|unix:/run/\w+\.sock|10\.0\.0\.\d(:\d+)?`)
)

func compareToNginx(t *testing.T, program, backend, name string, files []string, requests []comparedRequest) {
	dir := shortDir(t)
	conf := string(testenv.Need(os.ReadFile(nginxConfigurations + name + ".conf"))(t))
	names := make(map[string]string) // a name for each backend, all of the same server
	conf = backends.ReplaceAllStringFunc(conf, func(addr string) string {
		if names[addr] == "" {
			names[addr] = fmt.Sprintf("%s/b%d", dir, len(names))
			testenv.Must(t, os.Symlink(backend, names[addr]))
		}
		return "unix:" + names[addr]
	})
	if i := strings.Index(conf, "listen "); i > 0 { // the first of the addresses stands for all
		head, tail := conf[:i], listens.ReplaceAllString(conf[i:], "")
		conf = head + "listen unix:" + dir + "/nginx;" + tail
	}
	conf = strings.NewReplacer("/srv/", dir+"/srv/").Replace(conf)
	file := filepath.Join(dir, "site.conf")
	write(t, file, conf)
	toml, _, _ := imported(t, file)
	read := testenv.Need(config.Read("f", []byte(toml), []string{"addr", "max-body"}, nil))(t)
	for _, f := range files {
		path := filepath.Join(read.Sites[0].Root, f)
		testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testenv.Must(t, os.WriteFile(path, []byte("page "+f), 0o644))
	}
	startNginx(t, program, dir, "include site.conf;")
	p := startRun(t, "-config", configFile(t, "%s", strings.Replace(toml, dir+"/nginx", dir+"/knot", 1)))
	go io.Copy(&p.rest, p.out)
	theirs, ours := overUnix(t, "nginx", dir+"/nginx"), overUnix(t, "knot", dir+"/knot")
	for _, r := range requests {
		testenv.Equal(t, ours.answer(t, r), theirs.answer(t, r), "%s%s: knot, and nginx", r.host, r.path)
	}
	ours.client.CloseIdleConnections()
	p.end()
}
