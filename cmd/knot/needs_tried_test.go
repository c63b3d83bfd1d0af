package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// testBackend is a backend of h, and its URL.
func testBackend(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// TestBehindABalancer: the address that a trusted proxy tells of is that of the log, limits, networks and backends; what a client
// behind it adds in front does not count, and another peer is not believed.
func TestBehindABalancer(t *testing.T) {
	log := filepath.Join(t.TempDir(), "access.log")
	to := testBackend(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-Forwarded-For")) })
	p := start(t, "-config", configFile(t, `
trust = ["127.0.0.1"]
log = %q
log-format = "json"
[[site]]
[[site.limit]]
match = "/limited"
rate = "1/h"
[[site.access]]
match = "/inside"
not-from = ["10.0.0.0/8"]
action = "deny"
[[site.proxy]]
to = [%q]
`, log, to))
	for _, c := range []struct {
		path, line string
		status     int
	}{
		{"/limited", "X-Forwarded-For: 203.0.113.1", 200}, {"/limited", "X-Forwarded-For: 203.0.113.1", 429}, {"/limited", "X-Forwarded-For: 203.0.113.2", 200},
		{"/limited", "X-Forwarded-For: 10.9.9.9, 203.0.113.1", 429}, {"/limited", "Forwarded: for=203.0.113.3", 200}, {"/limited", "Forwarded: for=203.0.113.3", 429},
		{"/inside", "X-Forwarded-For: 10.1.2.3", 200}, {"/inside", "X-Forwarded-For: 203.0.113.1", 403}, {"/inside", "X-Forwarded-For: 10.1.2.3, 203.0.113.1", 403},
	} {
		resp, _ := p.ask("h", c.path, c.line)
		testenv.Equal(t, resp.StatusCode, c.status, "%s %s", c.path, c.line)
	}
	_, told := p.ask("h", "/x", "X-Forwarded-For: 203.0.113.7")
	testenv.Contains(t, told, "203.0.113.7")
	p.end()
	testenv.Contains(t, string(testenv.Need(os.ReadFile(log))(t)), `"203.0.113.7"`)
}

// TestTimeoutsByPath: each table of a proxy has its own time-outs.
func TestTimeoutsByPath(t *testing.T) {
	late := make(chan bool)
	to := testBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-late
		} else {
			<-r.Context().Done()
		}
	})
	p := start(t, "-config", configFile(t, `
[[site]]
[[site.proxy]]
match = "/quick/**"
to = [%q]
response-timeout = "50ms"
[[site.proxy]]
to = [%[1]q]
response-timeout = "10m"
`, to))
	slow := make(chan int)
	go func() {
		resp, _ := p.ask("h", "/slow")
		slow <- resp.StatusCode
	}()
	resp, _ := p.ask("h", "/quick/x")
	testenv.Equal(t, resp.StatusCode, 504)
	late <- true
	testenv.Equal(t, <-slow, 200)
	p.end()
}

// TestLargeUpload: the memory of the process does not grow with a body that is passed on; with CAPRICCIO_TEST=full it has 2 GB.
func TestLargeUpload(t *testing.T) {
	to := testBackend(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	c := knotCommand(t, "-config", configFile(t, "cache = '8MB'\n[[site]]\n[[site.body]]\nmatch = '/upload/**'\nmax = '3GB'\n[[site.proxy]]\nto = [%q]\n", to), "-addr", "127.0.0.1:0", "-quiet", "-loops", "1")
	p := startProcess(t, c).serves(t)
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	send := func(path string, size int64, want int) {
		t.Helper()
		req := testenv.Need(http.NewRequest("PUT", "http://"+p.addr+path, io.LimitReader(zeros{}, size)))(t)
		req.ContentLength = size
		resp, err := client.Do(req)
		if err != nil && want != 200 {
			return // it was cut off
		}
		testenv.Must(t, err)
		defer resp.Body.Close()
		text := string(testenv.Need(io.ReadAll(resp.Body))(t))
		testenv.Equal(t, resp.StatusCode, want)
		testenv.Equal(t, want == 200 && text != fmt.Sprint(size), false, "of %d bytes the backend has %s", size, text)
	}
	size := int64(128 << 20)
	if testenv.Full() {
		size = 2 << 30
	}
	send("/upload/small", 16<<20, 200)
	before := peakOf(t, p.pid)
	send("/upload/large", size, 200)
	testenv.AtMost(t, peakOf(t, p.pid), before+(32<<20), "bytes at most, and %d after 16 MB", before)
	send("/other", 16<<20, 413)
	p.signal(t, syscall.SIGTERM)
	testenv.Check(t, c.Wait())
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// peakOf is the most memory that a process has had, in bytes.
func peakOf(t *testing.T, pid int) (bytes int64) {
	t.Helper()
	_, text, ok := strings.Cut(string(testenv.Need(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))(t)), "VmHWM:")
	if !ok {
		t.Skip("the kernel does not tell the memory of processes")
	}
	fmt.Sscan(text, &bytes)
	return bytes << 10
}

// TestIPv6: an address of IPv6 is listened on, and a client's is in the log.
func TestIPv6(t *testing.T) {
	if ln, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("no IPv6 here:", err)
	} else {
		ln.Close()
	}
	log := filepath.Join(t.TempDir(), "access.log")
	p := startRun(t, "-config", configFile(t, "addr = '[::1]:0'\nlog = %q\n[[site]]\nroot = %q\n[[site.access]]\nmatch = '/notes.txt'\nfrom = ['::1/128']\naction = 'deny'\n", log, sampleSite))
	go io.Copy(&p.rest, p.out)
	_, at, _ := strings.Cut(strings.TrimSpace(p.printed[0]), " on http://")
	for path, want := range map[string]int{"/": 200, "/notes.txt": 403} {
		resp, _ := testenv.Get(t, http.DefaultClient, "http://"+at+path)
		testenv.Equal(t, resp.StatusCode, want, path)
	}
	p.end()
	testenv.Contains(t, string(testenv.Need(os.ReadFile(log))(t)), "::1 - ")
}

// TestNothingToWrite: knot serves as a user who may write nowhere, from folders that may only be read.
func TestNothingToWrite(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir := publicDir(t)
	write(t, filepath.Join(dir, "a.css"), strings.Repeat("a { color: red }\n", 1000))
	file := filepath.Join(dir, "knot.toml")
	to := testBackend(t, func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) })
	write(t, file, fmt.Sprintf("[[site]]\nroot = %q\n[[site.cache]]\n[[site.proxy]]\nmatch = '/api/**'\nto = [%q]\n", dir, to))
	testenv.Must(t, os.Chmod(dir, 0o555))
	c := knotCommand(t, "-config", file, "-addr", "127.0.0.1:0", "-quiet", "-loops", "1", "-user", "65534:65534")
	c.Dir, c.Env = dir, append(c.Env, "TMPDIR=/none", "HOME=/none")
	p := startProcess(t, c).serves(t)
	testenv.Until(t, "the file is compressed", func() bool { // a busy server sends it as it is
		resp, _ := askAs(t, http.DefaultClient, "http://"+p.addr+"/a.css", "h", "Accept-Encoding: br")
		testenv.Equal(t, resp.StatusCode, 200)
		return resp.Header.Get("Content-Encoding") == "br"
	})
	posted := testenv.Need(http.Post("http://"+p.addr+"/api/x", "text/plain", strings.NewReader(strings.Repeat("x", 1<<20))))(t)
	testenv.Equal(t, len(testenv.Need(io.ReadAll(posted.Body))(t)), 1<<20)
	posted.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	p.signal(t, syscall.SIGTERM)
	testenv.Check(t, c.Wait())
	log, _ := io.ReadAll(p.log)
	testenv.Equal(t, string(log), "", "the log")
}

// TestLargeDirectory: the listing of a folder with very many names has its first ones, and says that there are more.
func TestLargeDirectory(t *testing.T) {
	root := t.TempDir()
	for i := range 10_050 {
		testenv.Must(t, os.WriteFile(filepath.Join(root, fmt.Sprintf("%05d", i)), nil, 0o644))
	}
	p := start(t, "-config", configFile(t, "[[site]]\nroot = %q\nlisting = true\n", root))
	resp, body := p.ask("h", "/", "Accept: application/json")
	testenv.Equal(t, resp.StatusCode, 200)
	var names any
	testenv.Must(t, json.Unmarshal([]byte(body), &names))
	testenv.Equal(t, strings.Count(body, `"name"`), 10_000, "names")
	_, page := p.ask("h", "/")
	testenv.True(t, strings.Contains(page, "There are more than these 10000"), "the page does not say that there are more")
	p.end()
}

// TestHealthChecks: a backend whose check fails gets no request, until it succeeds again.
func TestHealthChecks(t *testing.T) {
	var well atomic.Bool
	sick := testBackend(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" && !well.Load() {
			w.WriteHeader(500)
		}
		io.WriteString(w, "sick")
	})
	good := testBackend(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "good") })
	p := start(t, "-admin", "127.0.0.1:0", "-config", configFile(t, "[[site]]\n[[site.proxy]]\nto = [%q, %q]\ncheck = { path = '/healthz', every = '20ms', fall = 1 }\n", sick, good))
	admin := httpURL.FindString(p.printed[1])
	up := func(want string) func() bool {
		return func() bool {
			_, text := testenv.Get(t, http.DefaultClient, admin+"/metrics")
			return strings.Contains(text, fmt.Sprintf(`knot_backend_up{backend=%q} %s`, sick, want)) || strings.Contains(text, fmt.Sprintf(`knot_backend_up{backend=%q} %s`, strings.TrimPrefix(sick, "http://"), want))
		}
	}
	testenv.Until(t, "it is out", up("0"))
	for range 10 {
		_, body := p.ask("h", "/x")
		testenv.Equal(t, body, "good")
	}
	well.Store(true)
	testenv.Until(t, "it is in again", up("1"))
	p.end()
}

// TestCacheOfStickyClients: sticky clients, compression and a cache in one site: the first response is kept for the next client,
// who gets no cookie of another, and is right after it was validated: the client that has caused that gets its own cookie.
func TestCacheOfStickyClients(t *testing.T) {
	var asked atomic.Int64
	to := testBackend(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("ETag", `"one"`)
		if strings.Contains(r.Header.Get("If-None-Match"), `"one"`) {
			w.WriteHeader(304)
			return
		}
		io.WriteString(w, strings.Repeat("json ", 1000))
	})
	p := start(t, "-config", configFile(t, "[[site]]\n[[site.cache]]\n[[site.proxy]]\nto = [%q]\ncompress = {}\nsticky = { cookie = 'to' }\n", to))
	for i, lines := range [][]string{nil, nil, {"Cache-Control: no-cache"}, nil} {
		client := &http.Client{Transport: new(http.Transport)}
		resp, body := askAs(t, client, p.url+"/x", "h", lines...)
		client.CloseIdleConnections()
		testenv.Equal(t, len(body), 5000, "request %d, %v", i, resp.Header)
		testenv.Equal(t, len(resp.Cookies()), []int{1, 0, 1, 0}[i], "cookies of client %d, %v", i, resp.Header)
		testenv.Equal(t, asked.Load(), []int64{1, 1, 2, 2}[i], "requests at the backend, %v", resp.Header["Cache-Status"])
		testenv.Equal(t, strings.Contains(resp.Header.Get("Cache-Status"), "hit"), i > 0)
	}
	p.end()
}
