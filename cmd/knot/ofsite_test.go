package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestBodiesBySite: the limit of a path, of the site, and of the top level, which a reload changes.
func TestBodiesBySite(t *testing.T) {
	text := fmt.Sprintf("max-body = '30'\n[[site]]\nhosts = ['a']\nroot = %q\nmax-body = '10'\nbody = [{ match = '/up', max = '20' }]\n[[site]]\nroot = %[1]q\n", sampleSite)
	file := configFile(t, "%s", text)
	p := start(t, "-config", file)
	post := func(host, path string, size, want int) {
		t.Helper()
		r := testenv.Need(http.NewRequest("POST", p.url+path, strings.NewReader(strings.Repeat("x", size))))(t)
		r.Host = host
		resp := testenv.Need(http.DefaultClient.Do(r))(t)
		resp.Body.Close()
		testenv.Equal(t, resp.StatusCode, want, "%s%s: %d bytes", host, path, size)
	}
	for _, c := range []struct {
		host, path string
		max        int
	}{{"a", "/", 10}, {"a", "/up", 20}, {"b", "/up", 30}} {
		post(c.host, c.path, c.max, 405) // what files say to POST
		post(c.host, c.path, c.max+1, 413)
	}
	write(t, file, strings.Replace(text, "'30'", "'40'", 1))
	hangUp()
	p.stderr.await(t, "was read again")
	post("b", "/", 40, 405)
	post("b", "/", 41, 413)
	p.end()
}

// TestErrorPagesForBackends: pages of the site take the place of what a backend says with the statuses that are named, compressed
// or not, long or cut off; its header stays, but for what is about its content.
func TestErrorPagesForBackends(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status := testenv.Need(strconv.Atoi(r.URL.Query().Get("status")))(t)
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.Header().Set("Set-Cookie", "a=b")
		w.WriteHeader(status)
		switch r.URL.Query().Get("body") {
		case "long":
			io.WriteString(w, strings.Repeat("{}", 50_000))
		case "slow":
			w.(http.Flusher).Flush()
			io.WriteString(w, "{}")
		case "short":
			io.WriteString(w, "{}")
		}
	}))
	defer backend.Close()
	root := t.TempDir()
	write(t, filepath.Join(root, "sorry.html"), "sorry "+strings.Repeat("x", 2000))
	write(t, filepath.Join(root, "none.html"), "none")
	p := start(t, "-config", configFile(t, `
[[site]]
root = %q
error-pages = { 404 = "/none.html", 5xx = "/sorry.html" }
[[site.proxy]]
match = "/api/**"
to = [%q]
[[site.proxy]]
match = "/gone/**"
to = ["http://127.0.0.1:1"]
intercept = ["5xx"]
[[site.proxy]]
match = "/**"
to = [%[2]q]
intercept = ["404", "5xx"]
compress = { codings = ["gzip"] }
`, root, backend.URL))
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	for _, body := range []string{"", "short", "slow", "long"} {
		for _, c := range []struct {
			path   string
			status int
			want   string // beginning of the page; "": that of the backend
		}{
			{"/app", 404, "none"}, {"/app", 500, "sorry"}, {"/app", 503, "sorry"}, {"/app", 403, ""}, {"/app", 200, ""}, {"/api/x", 404, ""}, {"/api/x", 500, ""},
		} {
			for _, method := range []string{"GET", "HEAD"} {
				r := testenv.Need(http.NewRequest(method, fmt.Sprintf("%s%s?status=%d&body=%s", p.url, c.path, c.status, body), nil))(t)
				resp := testenv.Need(client.Do(r))(t)
				text := string(testenv.Need(io.ReadAll(resp.Body))(t))
				resp.Body.Close()
				what := fmt.Sprint(method, " ", r.URL)
				testenv.Equal(t, resp.StatusCode, c.status, what)
				testenv.Equal(t, resp.Header.Get("Retry-After")+resp.Header.Get("Set-Cookie"), "7a=b", what)
				ours := c.want != ""
				testenv.Equal(t, strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), ours, what)
				testenv.Equal(t, resp.Header.Get("ETag") == "", ours, what)
				switch {
				case method == "HEAD":
					testenv.Equal(t, text, "", what)
				case ours:
					testenv.Equal(t, text[:min(len(text), 5)], (c.want + "     ")[:min(len(text), 5)], what)
					testenv.AtMost(t, len(text), 2006, what)
				case body != "":
					testenv.Equal(t, text[:2], "{}", what)
				}
			}
		}
	}
	_, text := testenv.Get(t, client, p.url+"/gone/x")
	testenv.Equal(t, text[:5], "sorry", "a backend that is not there")
	p.end()
}

// TestMaintenanceOfSites: the page of the site for 503 while the file exists, before redirects and backends, and at this site only.
func TestMaintenanceOfSites(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "sorry.html"), "sorry")
	off := filepath.Join(root, "off")
	write(t, off, "")
	text := fmt.Sprintf("[[site]]\nhosts = ['a']\nroot = %q\nerror-pages = { 503 = '/sorry.html' }\nredirect = [{ path = '/r', to = '/' }]\n[site.maintenance]\nfile = %q\n[[site]]\nroot = %q\n", root, off, sampleSite)
	file := configFile(t, "%s", text)
	p := start(t, "-config", file)
	for _, path := range []string{"/", "/r", "/sorry.html"} {
		resp, body := p.ask("a", path)
		testenv.Equal(t, body, "sorry", path)
		testenv.Equal(t, fmt.Sprint(resp.StatusCode, resp.Header.Get("Retry-After")), "503300", path)
	}
	resp, _ := p.ask("b", "/")
	testenv.Equal(t, resp.StatusCode, 200, "another site")
	write(t, file, strings.Replace(text, "[site.maintenance]", "[site.maintenance]\nallow = ['127.0.0.1']", 1))
	hangUp()
	p.stderr.await(t, "was read again")
	resp, _ = p.ask("a", "/sorry.html")
	testenv.Equal(t, resp.StatusCode, 200, "for a client that is allowed")
	p.end()
}

// TestLogsOfSites: a site has a log of its own, which a reload opens anew, also for requests that no handler sees. Its form is that of
// the top level unless the site names one.
func TestLogsOfSites(t *testing.T) {
	dir := t.TempDir()
	all, own, plain := filepath.Join(dir, "all.log"), filepath.Join(dir, "own.log"), filepath.Join(dir, "plain.log")
	p := start(t, "-config", configFile(t, "log = %q\nlog-format = 'common'\n[[site]]\nhosts = ['a', 'b']\nroot = %q\nlog = %q\nlog-format = 'json'\nmax-body = '1'\n[[site]]\nroot = %[2]q\n[[site]]\nhosts = ['c']\nroot = %[2]q\nlog = %[4]q\n", all, sampleSite, own, plain))
	p.ask("a", "/")
	p.ask("other", "/style.css")
	p.ask("c", "/style.css")
	p.ask("b", "/../x") // is refused before
	testenv.Must(t, os.Rename(own, own+".1"))
	hangUp()
	p.stderr.await(t, "was read again")
	p.ask("a", "/notes.txt")
	p.ask("other", "/none")
	p.end()
	read := func(name string) string { return string(testenv.Need(os.ReadFile(name))(t)) }
	testenv.Contains(t, read(own), "/notes.txt", "the new file")
	for _, c := range []struct {
		file, text string
		want       []string // in its lines
	}{
		{own, read(own+".1") + read(own), []string{`"target":"/","proto":"HTTP/1.1","host":"a","status":200,`, `"host":"b","status":400,`, `"target":"/notes.txt","proto":"HTTP/1.1","host":"a","status":200,`}},
		{all, read(all), []string{`"GET /style.css HTTP/1.1" 200`, `"GET /none HTTP/1.1" 404`}},
		{plain, read(plain), []string{`"GET /style.css HTTP/1.1" 200`}},
	} {
		lines := strings.Split(strings.TrimSuffix(c.text, "\n"), "\n")
		testenv.MustEqual(t, len(lines), len(c.want), "%s: %q", c.file, lines)
		for i, want := range c.want {
			testenv.Contains(t, lines[i], want)
			testenv.Equal(t, strings.Contains(lines[i], `"duration_ms":`), c.file == own, lines[i])
			testenv.Equal(t, strings.HasSuffix(lines[i], `"`), false, "a line of combined ends with the client's program: %s", lines[i])
		}
	}
}

// TestLogOfASiteThatFails: lines that are lost count, and what knot exits with says so.
func TestLogOfASiteThatFails(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own.log")
	p := start(t, "-admin", "127.0.0.1:0", "-config", configFile(t, "[[site]]\nroot = %q\nlog = %q\n", sampleSite, own))
	testenv.Must(t, os.Remove(own))
	testenv.Must(t, os.Symlink("/dev/full", own))
	hangUp() // opens the log; as a setting its name is refused now
	p.stderr.await(t, "the configuration can't be used")
	for range 30 { // their lines are written at once
		longRequest(t, p.url)
	}
	p.stderr.await(t, "access log can't be written", "no space left")
	testenv.Until(t, "the lines count as lost", func() bool {
		_, metrics := testenv.Get(t, http.DefaultClient, "http://"+tcpAddr.FindString(p.printed[1])+"/metrics")
		return !strings.Contains(metrics, "knot_access_log_lost_lines_total 0")
	})
	http.DefaultClient.CloseIdleConnections()
	p.stop()
	testenv.Equal(t, p.code(), exitFailed)
	testenv.Contains(t, p.stderr.String(), "knot: write "+own+": no space left on device\n")
}

// TestLogsOfRemovedSites: a reload does not open the log of a site anew that is not there any more.
func TestLogsOfRemovedSites(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own.log")
	text := fmt.Sprintf("[[site]]\nroot = %q\n", sampleSite)
	file := configFile(t, "%slog = %q\n", text, own)
	p := start(t, "-config", file)
	p.ask("a", "/")
	write(t, file, text)
	hangUp()
	p.stderr.await(t, "was read again")
	testenv.Until(t, "the log is closed", func() bool {
		os.Remove(own)
		hangUp()
		p.stderr.await(t, "was read again")
		_, err := os.Stat(own)
		return err != nil
	})
	p.end()
}

// TestCheckOfSites: what knot check says of settings of sites.
func TestCheckOfSites(t *testing.T) {
	file := configFile(t, "")
	site := "[[site]]\nroot = '" + sampleSite + "'\n"
	for _, test := range []struct {
		text, want string // what is said, in lines; "": nothing
	}{
		{site + "max-body = '1GB'\nbody = [{ match = '/a', max = '0' }]", ""},
		{site + "max-body = 'x'\n[[site.body]]\nmax = '1MB'\n[[site.body]]\nmatch = '/a'", ":3: site 1: max-body: want a size like\n:4: site 1: body.1.match: the pattern is empty\n:6: site 1: body.2.max: say how large"},
		{site + "[[site.body]]\nmach = '/a'", `there is no key "mach" in site.body; did you mean match?`},
		{site + "PAGESintercept = ['404']", ""},
		{site + "PAGESintercept = ['405', '20x', '']", ":6: site 1: proxy.1.intercept: the site has no page for 405; want one in its error-pages\n:6: site 1: proxy.1.intercept: \"20x\" is not the status of an error; want 400 to 599, 4xx or 5xx\n\"\" is not the status"},
		{site + "log = '" + filepath.Join(t.TempDir(), "log") + "'\nlog-format = 'json'", ""},
		{site + "log = '/none/log'\nlog-format = 'xml'", ":4: site 1: log-format: \"xml\"; want combined, common or json\n:3: site 1: log: stat /none: no such file"},
		{site + "log-format = 'json'", ":3: site 1: log-format: the site has no log of its own; want log too"},
		{site + "log = '-'", "log: the standard output is for log at the top level; want a file"},
		{site + "log = '/dev/null'", "log: /dev/null is not a regular file"},
		{site + "maintenance = { file = '/tmp/knot-off', allow = ['10.0.0.0/8'] }", ""},
		{site + "[site.maintenance]\nallow = ['x']", ":3: site 1: maintenance.file: say which file\n:4: site 1: maintenance.allow: \"x\" is neither"},
	} {
		write(t, file, strings.ReplaceAll(test.text, "PAGES", "error-pages = { 404 = '/style.css' }\n[[site.proxy]]\nto = ['unix:/s']\n"))
		var stderr bytes.Buffer
		code := checkCommand([]string{file}, nil, io.Discard, &stderr)
		testenv.Equal(t, code == exitOK, test.want == "", "%q: %s", test.text, stderr.String())
		for want := range strings.SplitSeq(test.want, "\n") {
			testenv.Contains(t, stderr.String(), want, "%q", test.text)
		}
	}
}
