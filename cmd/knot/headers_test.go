package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestHeadersAndCompression: what the file says of headers and compression is done, for files, errors and backends.
func TestHeadersAndCompression(t *testing.T) {
	text := strings.Repeat("text of a backend ", 5000)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("X-Tenant", r.Header.Get("X-Tenant"))
		if r.Header.Get("If-None-Match") == `"1"` { // letter by letter
			w.WriteHeader(304)
			return
		}
		io.WriteString(w, text[:100])
		w.(http.Flusher).Flush()
		io.WriteString(w, text[100:])
	}))
	defer backend.Close()
	p := start(t, "-config", configFile(t, `
[[site]]
root = %q
csp = "default-src 'self'"
cors = [{ match = "/plain/**", origins = ["https://app.test"] }]
[[site.header]]
match = "/**"
remove = ["Last-Modified"]
backend-set = { X-Tenant = "a" }
[[site.proxy]]
match = "/api/**"
to = [%q]
compress = { codings = ["gzip"] }
[[site.proxy]]
match = "/plain/**"
to = [%[2]q]
`, sampleSite, backend.URL))
	get := func(path string, lines ...string) (*http.Response, string) {
		t.Helper()
		r := testenv.Need(http.NewRequest("GET", p.url+path, nil))(t)
		r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
		r.Header.Set("X-Tenant", "evil")
		for i := 0; i < len(lines) && lines[i] != ""; i += 2 {
			r.Header.Set(lines[i], lines[i+1])
		}
		resp := testenv.Need(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		body := io.Reader(resp.Body)
		if resp.Header.Get("Content-Encoding") == "gzip" {
			body = testenv.Need(gzip.NewReader(body))(t)
		}
		return resp, string(testenv.Need(io.ReadAll(body))(t))
	}
	for _, c := range []struct {
		path, ask, of string
		status        int
		want          string // Content-Encoding, ETag, Vary, X-Tenant, Access-Control-Allow-Origin
	}{
		{"/api/x", "", "", 200, "gzip|W/\"1\"|Accept-Encoding|a|"},
		{"/api/x", "If-None-Match", "W/\"1\"", 304, "|W/\"1\"|Accept-Encoding|a|"},
		{"/api/x", "If-None-Match", "\"1\"", 304, "|\"1\"|Accept-Encoding|a|"},
		{"/api/x", "Accept-Encoding", "br", 200, "|\"1\"|Accept-Encoding|a|"},
		{"/plain/x", "Origin", "https://app.test", 200, "|\"1\"|Origin|a|https://app.test"},
		{"/none", "", "", 404, "||||"},
	} {
		resp, body := get(c.path, c.ask, c.of)
		what := fmt.Sprint(c.path, " ", c.ask, " ", c.of)
		testenv.Equal(t, resp.StatusCode, c.status, what)
		var got []string
		for _, name := range []string{"Content-Encoding", "ETag", "Vary", "X-Tenant", "Access-Control-Allow-Origin"} {
			got = append(got, strings.Join(resp.Header.Values(name), ","))
		}
		testenv.Equal(t, strings.Join(got, "|"), c.want, what)
		testenv.Equal(t, resp.Header.Get("Content-Security-Policy"), "default-src 'self'", what)
		if c.status == 200 {
			testenv.True(t, body == text, "%s: another text of %d bytes", what, len(body))
		}
	}
	resp, _ := get("/")
	testenv.Equal(t, resp.Header.Get("Last-Modified"), "", "of a file")
	testenv.Equal(t, resp.Header.Get("Content-Security-Policy"), "default-src 'self'", "of a file")
	p.end()
}
