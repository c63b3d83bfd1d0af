package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A recipe is how one of the documents is tried.
type recipe struct {
	// requests are METHOD path and further lines, and a part of the response that they get.
	requests [][2]string
	// compared are names of header lines that nginx sends too; with ? at the end the values differ.
	compared string
	tls      bool
}

var recipes = map[string]recipe{
	"A folder of files": {requests: [][2]string{
		{"GET /assets/a.css", "200 public, max-age=31536000, immutable page"}, {"GET /none", "404  error page"}, {"GET /", "200  page"}, {"HEAD /a.css", "200 "}, {"GET /assets", "301"},
		{"GET /a.css\nRange: bytes=1-2", "206  ag"}, {"GET /../a.css", "400"},
	}, compared: "Cache-Control Content-Range"},
	"An application of one page": {requests: [][2]string{{"GET /any/where", "200 no-cache page"}, {"GET /none.js", "404"}, {"GET /", "200 no-cache page"}, {"GET /a.css", "200  page"}}, compared: "Cache-Control"},
	"WordPress and other PHP": {requests: [][2]string{
		{"GET /a.css", "200  page"}, {"GET /none.php", "404"}, {"GET /", "200  page of PHP /index.php / "}, {"GET /2026/a-post/?p=1", "200  page of PHP /index.php /2026/a-post/?p=1 p=1"},
		{"GET /wp-admin/", "200  page of PHP /wp-admin/index.php /wp-admin/ "}, {"GET /wp-admin", "301"}, {"POST /x", "200  page of PHP /index.php /x "}, {"GET /a.css/x.php", "404"},
	}, compared: "X-Powered-By"},
	"Node with WebSocket":                   {requests: [][2]string{{"GET /a.css", "200  page"}, {"GET /api?x", "200  backend /api?x"}, {"GET /ws\nUpgrade: websocket\nConnection: Upgrade", "101"}, {"POST /none", "200  backend /none"}}, compared: "Upgrade"},
	"An API that pages of another host use": {requests: [][2]string{{"OPTIONS /x\nOrigin: https://app.example.org\nAccess-Control-Request-Method: DELETE", "204"}, {"OPTIONS /x\nOrigin: https://evil.test\nAccess-Control-Request-Method: GET", "403"}, {"GET /x", "200  backend /x"}, {"GET /x\nOrigin: https://app.example.org", "200  backend /x"}, {"GET /x\nOrigin: https://evil.test", "200  backend /x"}}, compared: "Access-Control-Allow-Origin Access-Control-Allow-Methods Access-Control-Allow-Headers Access-Control-Max-Age"},
	"A new version for some":                {requests: [][2]string{{"GET /x\nX-Canary: yes", "200  canary /x"}}},
	"A cache for a storm":                   {requests: [][2]string{{"GET /x", "200  backend /x"}, {"GET /x", "knot; hit"}, {"HEAD /x", "200"}, {"GET /missing", "404"}, {"GET /missing", "404"}, {"GET /x?1", "200  backend /x?1"}, {"POST /x", "200"}}},
	"Several hosts with HTTPS": {requests: [][2]string{
		{"GET /a.css", "200  page"}, {"GET /x?y\nHost: www.example.org", "301"}, {"GET /x\nHost: shop.example.org", "200  backend /x"},
	}, compared: "Strict-Transport-Security", tls: true},
	"Files for a network alone":          {requests: [][2]string{{"GET /assets/", "200"}, {"GET /intern/x", "403"}, {"GET /assets/a.css", "200  page"}, {"GET /x/../intern/x", "403"}}},
	"Out of service while a file exists": {requests: [][2]string{{"GET /", "503 no-store error page"}, {"GET /\nX-Forwarded-For: 10.1.2.3", "200  page"}, {"GET /a.css\nX-Forwarded-For: 192.0.2.1", "503 no-store error page"}, {"GET /a.css\nX-Forwarded-For: 10.1.2.3, 192.0.2.1", "503"}}, compared: "Cache-Control Retry-After"},
	"Another server knows the users":     {requests: [][2]string{{"GET /a.css", "200  page"}, {"GET /app/x", "401"}, {"GET /app/x\nCookie: a=b\nRemote-User: root", "200  backend /app/x"}}},
	"Server-Sent Events":                 {requests: [][2]string{{"GET /events", "200  data: backend /events"}, {"GET /x", "200  backend /x"}}, compared: "Content-Type"},
	"An id for each request":             {requests: [][2]string{{"GET /x", "200  backend /x"}, {"POST /x", "200  backend /x"}}, compared: "X-Request-Id?"},
	"Machines with certificates":         {requests: [][2]string{{"GET /x\nX-Client: root", "200  backend /x"}}, tls: true},
	"Few tries to log in": {requests: [][2]string{
		{"POST /login\nX-Forwarded-For: 192.0.2.1", "200"}, {"POST /login\nX-Forwarded-For: 192.0.2.1", "200"}, {"POST /login\nX-Forwarded-For: 192.0.2.1", "429"}, {"POST /login\nX-Forwarded-For: 192.0.2.2", "200"},
		{"GET /login\nX-Forwarded-For: 192.0.2.1", "200"}, {"POST /other\nX-Forwarded-For: 192.0.2.1", "200"},
	}},
}

// recipeBackend is a backend of the recipes; the header line Seen of its responses says what it was told.
func recipeBackend(name string, asked *atomic.Int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		id := "none"
		if r.Header.Get("X-Request-Id") != "" {
			id = "some"
		}
		w.Header().Set("Seen", fmt.Sprint("host ", r.Host, ", by ", r.Header["X-Forwarded-Proto"], ", user ", r.Header["Remote-User"], ", client ", r.Header["X-Client"], ", id ", id))
		switch {
		case r.Header.Get("Upgrade") != "":
			w.Header().Set("Upgrade", "websocket")
			w.Header().Set("Connection", "Upgrade")
			w.WriteHeader(101)
		case r.URL.Path == "/verify":
			if r.Header.Get("Cookie") == "" {
				w.WriteHeader(401)
			}
			w.Header().Set("Remote-User", "ann")
		case r.URL.Path == "/missing":
			w.WriteHeader(404)
		case r.URL.Path == "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: ", name, " ", r.RequestURI, "\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			fmt.Fprint(w, name, " ", r.RequestURI)
		}
	})
}

// TestRecipes: every recipe of the documents is right, answers as it says, and as nginx does with what testdata/recipes has for it.
func TestRecipes(t *testing.T) {
	text := string(testenv.Need(os.ReadFile("../../docs/knot-recipes.md"))(t)) + string(testenv.Need(os.ReadFile("../../docs/knot-recipes-more.md"))(t))
	backends := shortDir(t)
	var asked atomic.Int64
	for _, name := range []string{"backend", "canary"} {
		server := &http.Server{Handler: recipeBackend(name, &asked)}
		ln := testenv.Need(net.Listen("unix", filepath.Join(backends, name)))(t)
		go server.Serve(ln)
		defer server.Close()
	}
	found := 0
	for _, part := range strings.Split(text, "\n## ")[1:] {
		name, _, _ := strings.Cut(part, "\n")
		r, known := recipes[name]
		testenv.True(t, known, "recipe %q has no requests", name)
		_, toml, _ := strings.Cut(part, "```toml\n")
		toml, _, _ = strings.Cut(toml, "```")
		found++
		t.Run(name, func(t *testing.T) {
			k := &kitchen{recipe: r, dir: shortDir(t), backends: backends, asked: &asked, ca: testenv.NewCA(t)}
			k.try(t, name, toml)
		})
	}
	testenv.Equal(t, found, len(recipes), "recipes")
}

// A kitchen is where a recipe is tried.
type kitchen struct {
	recipe
	dir, backends string
	asked         *atomic.Int64 // requests to the backends
	ca            *testenv.CA
	host          string // of requests that name none
}

func (k *kitchen) try(t *testing.T, name, toml string) {
	toml = strings.NewReplacer("http://127.0.0.1:3000", "unix:"+k.backends+"/backend", "http://127.0.0.1:3001", "unix:"+k.backends+"/canary", `":80"`, `"unix:`+k.dir+`/plain"`,
		`":443"`, `"unix:`+k.dir+`/knot"`, `":8443"`, `"unix:`+k.dir+`/knot"`, `"unix:/run/`, `"unix:`+k.dir+`/run/`, `["127.0.0.1"]`, `["unix:"]`).Replace(toml)
	if !strings.Contains(toml, "addr = ") {
		toml = `addr = "unix:` + k.dir + `/knot"` + "\n" + toml
	}
	if !strings.Contains(toml, "trust = ") { // clients have the addresses that requests name
		toml = `trust = ["unix:"]` + "\n" + toml
	}
	certs := filepath.Join(k.dir, "etc/ssl")
	testenv.Must(t, os.MkdirAll(certs, 0o755))
	for file, host := range map[string]string{"example": "example.org", "shop": "shop.example.org", "api": "api.example.org"} {
		cert, key := k.ca.PEM(t, host, "www."+host)
		write(t, filepath.Join(certs, file+".pem"), string(cert))
		write(t, filepath.Join(certs, file+".key"), string(key))
	}
	write(t, filepath.Join(certs, "clients.pem"), string(k.ca.Authority()))
	file := settle(t, k.dir, toml)
	var errs testenv.Buffer
	testenv.Equal(t, checkCommand([]string{file}, nil, io.Discard, &errs), exitOK, "%s", &errs)
	set := testenv.Need(config.Read("f", testenv.Need(os.ReadFile(file))(t), []string{"addr", "max-body", "redirect-http", "tls-cert", "tls-key", "trust", "log-format"}, nil))(t)
	for _, s := range set.Sites {
		if s.Root != "" {
			k.fill(t, s.Root)
		}
	}
	if k.host = "any.test"; len(set.Sites[0].Hosts) > 0 {
		k.host = set.Sites[0].Hosts[0]
	}
	if strings.Contains(toml, "php-fpm") {
		testenv.Must(t, os.MkdirAll(filepath.Join(k.dir, "run/php"), 0o755))
		testenv.Must(t, os.Symlink(strings.TrimPrefix(testenv.PHP(t), "unix:"), filepath.Join(k.dir, "run/php/php-fpm.sock")))
	}
	p := startRun(t, "-config", file)
	go io.Copy(&p.rest, p.out)
	ours := k.answers(t, "knot")
	for i, r := range k.requests {
		testenv.Contains(t, ours[i].text, r[1], "%s", r[0])
	}
	p.end()
	t.Run("as nginx", func(t *testing.T) { k.compare(t, name, ours) })
}

// fill writes the files of a site.
func (k *kitchen) fill(t *testing.T, root string) {
	const script = `<?php header("X-Powered-By: PHP"); echo "page of PHP ", $_SERVER["SCRIPT_NAME"], " ", $_SERVER["REQUEST_URI"], " ", $_SERVER["QUERY_STRING"];`
	for name, text := range map[string]string{"index.html": "page", "assets/a.css": "page", "a.css": "page", "index.php": script, "wp-admin/index.php": script} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		testenv.Must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
}

var listen = regexp.MustCompile(`listen (\d+)( ssl)?;`)

// compare has nginx answer the same requests.
func (k *kitchen) compare(t *testing.T, name string, ours []answer) {
	program := testenv.Program(t, "nginx")
	file := "testdata/recipes/" + strings.ReplaceAll(strings.ToLower(name), " ", "-") + ".conf"
	conf := string(testenv.Need(os.ReadFile(file))(t))
	secure := strings.Contains(conf, " ssl;")
	conf = listen.ReplaceAllStringFunc(conf, func(l string) string {
		ssl := listen.FindStringSubmatch(l)[2]
		if secure && ssl == "" {
			return "listen unix:" + k.dir + "/nginx-plain;"
		}
		return "listen unix:" + k.dir + "/nginx" + ssl + ";"
	})
	conf = strings.NewReplacer("/srv/", k.dir+"/srv/", "/etc/", k.dir+"/etc/", "/run/", k.dir+"/run/", "/var/cache/", k.dir+"/", "server 127.0.0.1:3000", "server unix:"+k.backends+"/backend",
		"server 127.0.0.1:3001", "server unix:"+k.backends+"/canary", "set_real_ip_from 127.0.0.1", "set_real_ip_from unix:").Replace(conf)
	startNginx(t, program, k.dir, conf)
	theirs := k.answers(t, "nginx")
	for i, r := range k.requests {
		testenv.Equal(t, ours[i].compared, theirs[i].compared, "%s: knot, and nginx", r[0])
	}
}

// An answer is what a request has got.
type answer struct{ text, compared string }

// answers are those of the server on a socket of the kitchen's folder.
func (k *kitchen) answers(t *testing.T, socket string) (all []answer) {
	client := overUnix(t, socket, filepath.Join(k.dir, socket)).client
	scheme := "http"
	if k.tls {
		scheme = "https"
		tlsConfig := k.ca.Client()
		tlsConfig.ServerName = ""
		tlsConfig.Certificates = []tls.Certificate{testenv.Need(tls.X509KeyPair(k.ca.PEM(t, "machine")))(t)}
		client.Transport.(*http.Transport).TLSClientConfig = tlsConfig
	}
	for _, r := range k.requests {
		lines := strings.Split(r[0], "\n")
		method, path, _ := strings.Cut(lines[0], " ")
		header, host := make(http.Header), k.host
		for _, line := range lines[1:] {
			if key, value, _ := strings.Cut(line, ": "); key == "Host" {
				host = value
			} else {
				header.Set(key, value)
			}
		}
		req := testenv.Need(http.NewRequest(method, scheme+"://"+host+path, nil))(t)
		req.Header = header
		before := k.asked.Load()
		resp := testenv.Need(client.Do(req))(t)
		all = append(all, k.answer(t, resp, host, before))
	}
	client.CloseIdleConnections()
	return all
}

// answer reads a response.
func (k *kitchen) answer(t *testing.T, resp *http.Response, host string, before int64) answer {
	defer resp.Body.Close()
	var body string
	switch {
	case resp.StatusCode == 101:
	case strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream"):
		body = testenv.Need(bufio.NewReader(resp.Body).ReadString('\n'))(t)
	default:
		body = string(testenv.Need(io.ReadAll(resp.Body))(t))
	}
	text := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Cache-Control"), " ", body, " ", resp.Header.Get("Cache-Status"))
	first, _, _ := strings.Cut(body, " ")
	if resp.StatusCode >= 300 && !strings.HasPrefix(body, "error page") || strings.HasPrefix(first, "<") {
		body = "" // a page of the server's own
	}
	seen := resp.Header.Get("Seen")
	if resp.StatusCode >= 400 {
		seen = "" // Knot passes on what forward-auth says to those that it refuses
	}
	location := strings.TrimPrefix(resp.Header.Get("Location"), "http://"+host)
	compared := fmt.Sprint(resp.StatusCode, " ", location, " ", body, "; backends asked ", k.asked.Load()-before, ", ", seen)
	for _, name := range strings.Fields(k.compared) {
		name, presence := strings.CutSuffix(name, "?")
		values := fmt.Sprint(resp.Header[name])
		if presence {
			values = fmt.Sprint(len(resp.Header[name]))
		}
		compared += fmt.Sprint("; ", name, " ", values)
	}
	return answer{text, compared}
}
