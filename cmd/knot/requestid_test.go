package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestRequestIDs: backends, a server that is asked about access, clients and the log get one id for a request, also where a cache
// fetches, where an error is answered, and whatever a client or a backend says.
func TestRequestIDs(t *testing.T) {
	seen := make(chan string, 10)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.URL.Path + " " + strings.Join(r.Header["X-Request-Id"], ",")
		w.Header().Set("X-Request-Id", "backend's")
		w.Header().Set("Cache-Control", "max-age=60")
	}))
	defer backend.Close()
	log := filepath.Join(t.TempDir(), "log")
	p := start(t, "-config", configFile(t, `
[[site]]
request-id = "X-Request-Id"
log = %q
[[site.cache]]
[[site.forward-auth]]
match = "/in/**"
to = [%q]
path = "/may"
[[site.redirect]]
path = "/old"
to = "/new"
[[site.proxy]]
match = "/down"
to = ["http://127.0.0.1:1"]
[[site.proxy]]
to = [%[2]q]
`, log, backend.URL))
	client := &http.Client{Transport: new(http.Transport), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	var ids []string
	for _, c := range []struct {
		path   string
		status int
		asked  []string
	}{
		{"/a", 200, []string{"/a"}}, {"/a", 200, nil}, {"/in/x", 200, []string{"/may", "/in/x"}}, {"/old", 302, nil}, {"/down", 502, nil},
	} {
		r := testenv.Need(http.NewRequest("GET", p.url+c.path, nil))(t)
		r.Header.Set("X-Request-Id", "client's")
		resp := testenv.Need(client.Do(r))(t)
		resp.Body.Close()
		testenv.Equal(t, resp.StatusCode, c.status, c.path)
		testenv.MustEqual(t, len(resp.Header["X-Request-Id"]), 1, "%s: %v", c.path, resp.Header)
		id := resp.Header.Get("X-Request-Id")
		testenv.Equal(t, len(id), 32, "%s: %q", c.path, id)
		for _, path := range c.asked {
			testenv.Equal(t, <-seen, path+" "+id)
		}
		ids = append(ids, id)
	}
	testenv.Equal(t, len(seen), 0, "further requests to the backend")
	p.end()
	lines := strings.Split(strings.TrimSpace(string(testenv.Need(os.ReadFile(log))(t))), "\n")
	testenv.MustEqual(t, len(lines), len(ids), "%q", lines)
	for i, id := range ids {
		testenv.True(t, strings.HasSuffix(lines[i], ` "`+id+`"`), "%s has no %s at its end", lines[i], id)
	}
	testenv.Contains(t, p.stderr.String(), "request_id="+ids[len(ids)-1])
}
