package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/config"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// recipeRequests are requests to the recipes, as METHOD path and further lines, and a part of the response that they get.
var recipeRequests = map[string][][2]string{
	"A folder of files":                     {{"GET /assets/a.css", "200 public, max-age=31536000, immutable page"}, {"GET /none", "404  error page"}},
	"An application of one page":            {{"GET /any/where", "200 no-cache page"}, {"GET /none.js", "404"}},
	"WordPress and other PHP":               {{"GET /a.css", "200  page"}, {"GET /none.php", "404"}},
	"Node with WebSocket":                   {{"GET /a.css", "200  page"}, {"GET /api?x", "200  backend /api?x"}, {"GET /ws\nUpgrade: websocket\nConnection: Upgrade", "101"}},
	"An API that pages of another host use": {{"OPTIONS /x\nOrigin: https://app.example.org\nAccess-Control-Request-Method: DELETE", "204"}, {"OPTIONS /x\nOrigin: https://evil.test\nAccess-Control-Request-Method: GET", "403"}, {"GET /x", "200  backend /x"}},
	"A new version for some":                {{"GET /x\nX-Canary: yes", "200  canary /x"}},
	"A cache for a storm":                   {{"GET /x", "200  backend /x"}, {"GET /x", "knot; hit"}},
	"Several hosts with HTTPS":              nil,
	"Files for a network alone":             {{"GET /assets/", "200"}, {"GET /intern/x", "403"}},
	"Out of service while a file exists":    {{"GET /", "503 no-store error page"}, {"GET /\nX-Forwarded-For: 10.1.2.3", "503"}},
	"Another server knows the users":        {{"GET /a.css", "200  page"}, {"GET /app/x", "401"}, {"GET /app/x\nCookie: a=b", "200  backend /app/x"}},
	"Server-Sent Events":                    {{"GET /events", "200  backend /events"}, {"GET /x", "200  backend /x"}},
	"An id for each request":                {{"GET /x", "200  backend /x"}},
	"Machines with certificates":            nil,
	"Few tries to log in":                   {{"POST /login", "200"}, {"POST /login", "200"}, {"POST /login", "429"}, {"GET /login", "200"}},
}

// TestRecipes: every recipe of the documents is right, and answers as it says.
func TestRecipes(t *testing.T) {
	text := string(testenv.Need(os.ReadFile("../../docs/knot-recipes.md"))(t)) + string(testenv.Need(os.ReadFile("../../docs/knot-recipes-more.md"))(t))
	dir := shortDir(t)
	for _, name := range []string{"backend", "canary"} {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				w.Header().Set("Upgrade", "websocket")
				w.Header().Set("Connection", "Upgrade")
				w.WriteHeader(101)
				return
			}
			if r.URL.Path == "/verify" && r.Header.Get("Cookie") == "" {
				w.WriteHeader(401)
				return
			}
			fmt.Fprint(w, name, " ", r.RequestURI)
		})}
		ln := testenv.Need(net.Listen("unix", filepath.Join(dir, name)))(t)
		go server.Serve(ln)
		defer server.Close()
	}
	found := 0
	for _, part := range strings.Split(text, "\n## ")[1:] {
		name, _, _ := strings.Cut(part, "\n")
		requests, known := recipeRequests[name]
		testenv.True(t, known, "recipe %q has no requests", name)
		_, toml, _ := strings.Cut(part, "```toml\n")
		toml, _, _ = strings.Cut(toml, "```")
		found++
		t.Run(name, func(t *testing.T) { tryRecipe(t, dir, toml, requests) })
	}
	testenv.Equal(t, found, len(recipeRequests), "recipes")
}

func tryRecipe(t *testing.T, dir, toml string, requests [][2]string) {
	toml = strings.NewReplacer("http://127.0.0.1:3000", "unix:"+dir+"/backend", "http://127.0.0.1:3001", "unix:"+dir+"/canary").Replace(toml)
	if !strings.Contains(toml, "addr = ") {
		toml = `addr = "unix:` + dir + `/knot"` + "\n" + toml
	}
	file := settle(t, t.TempDir(), toml)
	set := testenv.Need(config.Read("f", testenv.Need(os.ReadFile(file))(t), []string{"addr", "max-body", "redirect-http", "tls-cert", "tls-key", "trust", "log-format"}, nil))(t)
	for _, s := range set.Sites {
		for _, name := range []string{"index.html", "assets/a.css", "a.css"} {
			if s.Root != "" {
				testenv.Must(t, os.MkdirAll(s.Root+"/assets", 0o755))
				testenv.Must(t, os.WriteFile(filepath.Join(s.Root, name), []byte("page"), 0o644))
			}
		}
	}
	var errs testenv.Buffer
	testenv.Equal(t, checkCommand([]string{file}, nil, io.Discard, &errs), exitOK, "%s", &errs)
	if len(requests) == 0 {
		return
	}
	p := startRun(t, "-config", file)
	go io.Copy(&p.rest, p.out)
	client := overUnix(t, "knot", dir+"/knot").client
	host := "any.test"
	if hosts := set.Sites[0].Hosts; len(hosts) > 0 {
		host = hosts[0]
	}
	for _, r := range requests {
		lines := strings.Split(r[0], "\n")
		method, path, _ := strings.Cut(lines[0], " ")
		req := testenv.Need(http.NewRequest(method, "http://"+host+path, nil))(t)
		for _, line := range lines[1:] {
			key, value, _ := strings.Cut(line, ": ")
			req.Header.Set(key, value)
		}
		resp := testenv.Need(client.Do(req))(t)
		got := fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Cache-Control"))
		if resp.StatusCode != 101 {
			got += " " + string(testenv.Need(io.ReadAll(resp.Body))(t)) + " " + resp.Header.Get("Cache-Status")
		}
		resp.Body.Close()
		testenv.Contains(t, got, r[1], "%s", r[0])
	}
	client.CloseIdleConnections()
	p.end()
}
