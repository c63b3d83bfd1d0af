package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestCache: a site with a cache asks its backend once, until an operator drops the response; what is kept survives a reading of
// the configuration.
func TestCache(t *testing.T) {
	var asked atomic.Int64
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Vary", "Accept-Encoding")
		fmt.Fprint(w, asked.Add(1), r.URL.Path, r.Header.Get("X-Forwarded-Host"), r.Host)
	}))
	defer backend.Close()
	text := fmt.Sprintf("[[site]]\n[[site.cache]]\nmatch = '/kept/**'\nfolder = '%s'\n[[site.cache]]\nmatch = '/memory/**'\n[[site.proxy]]\nto = ['%s']\n", t.TempDir(), backend.URL)
	config := configFile(t, "%s", text)
	p := start(t, "-config", config, "-admin", ":0")
	defer p.end()
	admin := "http://" + strings.TrimSuffix(strings.SplitAfter(p.printed[1], "http://")[1], "\n")
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	get := func(path string) string {
		t.Helper()
		resp, body := testenv.Get(t, client, p.url+path)
		testenv.Equal(t, resp.StatusCode, 200)
		return body
	}
	first := get("/kept/a")
	host := strings.TrimPrefix(p.url, "http://")
	testenv.Equal(t, first, "1/kept/a"+host+host)
	testenv.Equal(t, get("/kept/a"), first)
	testenv.Equal(t, get("/other")[:1], "2")
	testenv.Equal(t, get("/other")[:1], "3")
	drop := func(query string) (int, string) {
		t.Helper()
		resp := testenv.Need(client.Do(testenv.Need(http.NewRequest("DELETE", admin+"/cache?"+query, nil))(t)))(t)
		defer resp.Body.Close()
		text := new(strings.Builder)
		testenv.Must(t, resp.Write(text))
		return resp.StatusCode, text.String()
	}
	for _, query := range []string{"", "url=a&prefix=b", "url=/kept/a"} {
		status, text := drop(query)
		testenv.Equal(t, status, 400, query)
		testenv.Contains(t, text, "https://example.org/path", query)
	}
	_, metrics := testenv.Get(t, client, admin+"/metrics")
	for _, want := range []string{`knot_cache_requests_total{how="hit"} 1`, `knot_cache_requests_total{how="miss"} 1`, `knot_cache_entries 1`} {
		testenv.Contains(t, metrics, want)
	}
	status, dropped := drop("prefix=" + p.url)
	testenv.Equal(t, status, 200)
	testenv.Contains(t, dropped, "\n1\n")
	testenv.Equal(t, get("/kept/a")[:1], "4")
	resp := testenv.Need(client.Do(testenv.Need(http.NewRequest("DELETE", p.url+"/cache?prefix="+p.url, nil))(t)))(t)
	resp.Body.Close()
	testenv.Equal(t, get("/kept/a")[:1], "4", "after what a client of the site has asked for")
	inMemory := get("/memory/a")
	p.reads(config, "server-name = 'x'\n"+text, "was read again")
	testenv.Equal(t, get("/memory/a"), inMemory, "after SIGHUP")
}

// TestCacheWhileTheBackendIsFull: while requests are refused because the backend takes no more, what is kept is served, also what is
// stale if it may be.
func TestCacheWhileTheBackendIsFull(t *testing.T) {
	held, goOn := make(chan bool, 1), make(chan bool)
	to := testBackend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		switch r.URL.Path {
		case "/stale":
			w.Header().Set("Age", "100")
		case "/held":
			held <- true
			<-goOn
		}
		io.WriteString(w, r.URL.Path)
	})
	p := start(t, "-config", configFile(t, "[[site]]\n[[site.cache]]\nstale-if-error = '1h'\n[[site.proxy]]\nto = [%q]\nmax-conns = 1\nqueue = -1\n", to))
	for _, path := range []string{"/kept", "/stale"} {
		resp, _ := p.ask("h", path)
		testenv.Equal(t, resp.StatusCode, 200, path)
	}
	ended := make(chan int)
	go func() {
		resp, _ := p.ask("h", "/held")
		ended <- resp.StatusCode
	}()
	<-held
	for path, want := range map[string]string{"/other": "503 ", "/kept": "200 knot; hit; ttl=", "/stale": "200 knot; hit; detail=stale-if-error"} {
		resp, _ := p.ask("h", path)
		testenv.Contains(t, fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Cache-Status")), want, path)
	}
	goOn <- true
	testenv.Equal(t, <-ended, 200)
	p.end()
}

// TestCacheBeforeACanary: a request that a header line or a cookie sends to the canary is not answered by what is kept, and its
// response is not kept.
func TestCacheBeforeACanary(t *testing.T) {
	var to []any
	for _, name := range []string{"stable", "canary"} {
		to = append(to, testBackend(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=60")
			io.WriteString(w, name)
		}))
	}
	p := start(t, "-config", configFile(t, "[[site]]\n[[site.cache]]\n[[site.proxy]]\nto = [%q]\ncanary = { to = [%q], header = 'X-Canary: yes', cookie = 'canary=1' }\n", to...))
	for i, c := range []struct{ line, want string }{
		{"X-Canary: yes", "canary"}, {"Cookie: a=b; canary=1", "canary"}, {"X-Canary: no", "stable"}, {"Cookie: canary=0", "stable, kept"},
		{"X-Canary: yes", "canary"}, {"Cookie: canary=1", "canary"},
	} {
		resp, body := p.ask("h", "/", c.line)
		if strings.HasPrefix(resp.Header.Get("Cache-Status"), "knot; hit") {
			body += ", kept"
		}
		testenv.Equal(t, body, c.want, "%d: %s", i, c.line)
	}
	p.end()
}

// TestCachesOfLikeSites: two sites with the same hosts at different addresses, and with the same table, have their own responses,
// after a reload too.
func TestCachesOfLikeSites(t *testing.T) {
	text := ""
	for _, name := range []string{"public", "intranet"} {
		to := testBackend(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "max-age=600")
			io.WriteString(w, name+r.URL.Path)
		})
		text += fmt.Sprintf("[[listen]]\naddr = '%s'\nsites = ['%s']\n[[site]]\nname = '%s'\n[[site.cache]]\n[[site.proxy]]\nto = ['%s']\n", freePort(t), name, name, to)
	}
	config := configFile(t, "%s", text)
	p := startRun(t, "-config", config)
	defer p.end()
	go io.Copy(io.Discard, p.out)
	urls := httpURL.FindAllString(p.printed[0], -1)
	testenv.MustEqual(t, len(urls), 2, "%q", p.printed)
	check := func(path, when string) {
		t.Helper()
		for i, name := range []string{"public", "intranet"} {
			_, body := askAs(t, http.DefaultClient, urls[i]+path, "site.test")
			testenv.Equal(t, body, name+path, when)
		}
	}
	check("/before", "before the reload")
	p.reads(config, "server-name = 'x'\n"+text, "was read again")
	check("/before", "kept before the reload")
	check("/after", "asked for after the reload")
}
