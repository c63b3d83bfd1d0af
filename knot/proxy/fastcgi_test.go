package proxy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/netutil"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// fastCGIServer runs h on net/http's FastCGI server.
func fastCGIServer(t *testing.T, h http.HandlerFunc) string {
	ln := testenv.Listen(t)
	go fcgi.Serve(ln, h)
	return ln.Addr().String()
}

// TestFastCGI: requests of all sizes go to a program on connections that are kept, and its responses come back.
func TestFastCGI(t *testing.T) {
	backend := fastCGIServer(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", fmt.Sprintf("%s %s %x %v", r.Method, r.URL.RequestURI(), sha256.Sum256(body), err))
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		switch r.URL.Path {
		case "/404.php":
			w.WriteHeader(404)
		case "/204.php":
			w.WriteHeader(204)
			return
		}
		w.Write(body)
	})
	f := serve(t, Config{Backends: []string{backend}, FastCGI: nowhere, KeepConns: 4}, 2)
	large := strings.Repeat("0123456789", 30_000)
	for _, test := range []struct {
		method, target, body string
		status               int
	}{
		{"GET", "/a/b.php?x=1&y=%20", "", 200}, {"HEAD", "/a.php", "", 200}, {"GET", "/404.php", "", 404}, {"GET", "/204.php", "", 204},
		{"POST", "/a.php", "form=1", 200}, {"POST", "/a.php", large, 200}, {"PUT", "/a.php", large + large, 200},
	} {
		resp, body := f.do(f.request(test.method, test.target, test.body))
		testenv.Equal(t, resp.StatusCode, test.status, "%s %s: status", test.method, test.target)
		testenv.Equal(t, body, test.body, "%s %s: body", test.method, test.target)
		want := fmt.Sprintf("%s %s %x <nil>", test.method, test.target, sha256.Sum256([]byte(test.body)))
		testenv.Equal(t, resp.Header.Get("X-Seen"), want, "what the program has seen")
		if h := resp.Header; len(h["Set-Cookie"]) != 2 || h.Get("Status") != "" {
			t.Errorf("%s %s: %v", test.method, test.target, h)
		}
	}
	s := f.stats()
	testenv.AtMost(t, s.Dials, 3, "connections")
	testenv.Equal(t, s.Outstanding, 0, "requests under way")
}

// TestFastCGIProgramWithFewProcesses: php-fpm's processes serve one connection each, for as long as it stands. More requests
// than there are processes wait for one another, and not for connections at rest.
func TestFastCGIProgramWithFewProcesses(t *testing.T) {
	ln := testenv.Need(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer ln.Close()
	go fcgi.Serve(netutil.LimitListener(ln, 2), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello") }))
	f := serve(t, Config{Backends: []string{ln.Addr().String()}, FastCGI: nowhere, ResponseTimeout: 20 * time.Second}, 2)
	var clients sync.WaitGroup
	for range 10 {
		clients.Go(func() {
			for range 5 {
				resp, err := http.Get("http://" + f.addr + "/")
				if err != nil {
					t.Error(err)
					return
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				testenv.Equal(t, string(body), "hello", resp.Status)
			}
		})
	}
	clients.Wait()
}

// TestFastCGIHeadFirst: the head of a response leaves before its program ends, that to a HEAD too.
func TestFastCGIHeadFirst(t *testing.T) {
	ends := map[string]chan bool{"GET": make(chan bool), "HEAD": make(chan bool)}
	backend := fastCGIServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(201)
		w.Write(nil) // which is what package fcgi sends the head at
		w.(http.Flusher).Flush()
		<-ends[r.Method]
	})
	f := serve(t, Config{Backends: []string{backend}, FastCGI: nowhere, IdleTimeout: 10 * time.Second}, 1)
	for method, end := range ends {
		resp, err := http.DefaultTransport.RoundTrip(f.request(method, "/", ""))
		under := f.stats().Outstanding
		close(end)
		testenv.Must(t, err)
		resp.Body.Close()
		if resp.StatusCode != 201 || under != 1 {
			t.Errorf("%s: %s, with %d requests under way; want 1", method, resp.Status, under)
		}
		testenv.Until(t, "the end", func() bool { return f.stats().Outstanding == 0 })
	}
}

// TestFastCGIBreaksOff: a request whose program ends after it has said something is not sent to another one.
func TestFastCGIBreaksOff(t *testing.T) {
	for name, said := range map[string][]byte{"a complaint": appendRecord(nil, fcgiStderr, []byte("x")), "half a head": appendRecord(nil, fcgiStdout, []byte("Status: 2"))} {
		var asked atomic.Int64
		breaksOff := func(c net.Conn) {
			var all []byte
			for part := make([]byte, 4<<10); !bytes.Contains(all, appendRecord(nil, fcgiStdin, nil)); {
				n, err := c.Read(part)
				if err != nil {
					return
				}
				all = append(all, part[:n]...)
			}
			asked.Add(1)
			c.Write(said)
		}
		f := serve(t, Config{Backends: []string{testenv.Serve(t, breaksOff), testenv.Serve(t, breaksOff)}, FastCGI: nowhere}, 1)
		status, _ := f.ask(aRequest)
		testenv.Equal(t, status, "502", "status after %s", name)
		testenv.Equal(t, asked.Load(), 1, "programs that were asked, the first with %s", name)
	}
}

// TestFastCGIIndex: a path that ends in a slash is for the script of its folder, if that has one, else for that of the root.
func TestFastCGIIndex(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"/index.php", "/admin/index.php", "/empty/other", "/file"} {
		testenv.Must(t, os.MkdirAll(filepath.Dir(root+name), 0o755))
		testenv.Must(t, os.WriteFile(root+name, nil, 0o644))
	}
	backend := fastCGIServer(t, func(w http.ResponseWriter, r *http.Request) {
		env := fcgi.ProcessEnv(r)
		fmt.Fprint(w, strings.TrimPrefix(env["SCRIPT_FILENAME"], env["DOCUMENT_ROOT"]), strings.TrimPrefix(env["PATH_TRANSLATED"], env["DOCUMENT_ROOT"]))
	})
	const index = "/index.php"
	for dir, want := range map[string]map[string]string{
		root:           {"/": index, "/admin/": "/admin" + index, "/2026/11/a-post/": index, "/empty/": index, "/file/": index, "/index.php/x/": index + "/x/"},
		root + "/none": {"/": index, "/admin/": "/admin" + index}, // it is not seen from here
	} {
		f := serve(t, Config{Backends: []string{backend}, FastCGI: &FastCGI{Root: dir}}, 1)
		for path, script := range want {
			if _, got := f.get(path); got != script {
				t.Errorf("%s is for %s, want %s", path, got, script)
			}
		}
	}
}

// TestFastCGIHost: what a program is told that a request is for, when its target has a host in front, and when the settings
// name one.
func TestFastCGIHost(t *testing.T) {
	backend := fastCGIServer(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Host, " ", r.URL.RequestURI()) })
	for host, want := range map[string]string{"": "a.test:81 /x%2Fy?q", "app.internal": "app.internal /x%2Fy?q"} {
		f := serve(t, Config{Backends: []string{backend}, FastCGI: nowhere, Host: host}, 1)
		_, got := f.ask("GET http://a.test:81/x%2Fy?q HTTP/1.1\r\nHost: b.test\r\nConnection: close\r\n\r\n")
		testenv.Equal(t, got, want, "host %q", host)
	}
}

// TestFastCGILines: Config.Header goes before what the client says.
func TestFastCGILines(t *testing.T) {
	backend := fastCGIServer(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%v%v%v%v", r.Header["X-Tenant"], r.Header["Cookie"], r.Header["Content-Type"], r.Header["X-Kept"])
	})
	f := serve(t, Config{Backends: []string{backend}, FastCGI: nowhere, Header: func(*knot.Ctx) []knot.Header {
		return []knot.Header{{Name: "X-Tenant", Value: "a"}, {Name: "cookie"}, {Name: "content-type", Value: "a/b"}}
	}}, 1)
	_, got := f.ask("GET /a.php HTTP/1.1\r\nHost: b.test\r\nx-tenant: evil\r\nX-Tenant: evil\r\nCookie: c\r\nContent-Type: c/d\r\nX-Kept: k\r\nConnection: close, X-Tenant\r\n\r\n")
	testenv.Equal(t, got, "[a][][a/b][k]")
}

// TestFastCGIRecords: how a program's output is cut into records does not matter; what is wrong becomes 502, and what it
// complains about stands in the log.
func TestFastCGIRecords(t *testing.T) {
	record := func(kind byte, content string, pad int) string {
		return string([]byte{1, kind, 0, 1, byte(len(content) >> 8), byte(len(content)), byte(pad), 0}) + content + strings.Repeat("p", pad)
	}
	const end = "\x00\x00\x00\x00\x00\x00\x00\x00"
	out := func(content string) string { return record(fcgiStdout, content, 0) }
	over := record(fcgiEnd, end, 0)
	const ok = "Status: 201 Made\nContent-Type: a/b\n\n"
	for name, test := range map[string]struct{ out, status, body, log string }{
		"one record":        {out(ok+"body") + out("") + over, "201", "body", ""},
		"padded":            {record(fcgiStdout, ok+"body", 4) + record(fcgiEnd, end, 7), "201", "body", ""},
		"a length":          {record(fcgiStdout, "Content-Length: 4\r\n\r\nbody", 4) + over, "200", "body", ""},
		"less than that":    {record(fcgiStdout, "Content-Length: 9\r\n\r\nbody", 4) + over, "200", "!", "less body than its Content-Length"},
		"more than that":    {record(fcgiStdout, "Content-Length: 3\r\n\r\nbody", 4) + over, "200", "bod", "more than its Content-Length"},
		"more, and later":   {record(fcgiStdout, "Content-Length: 3\r\n\r\nb", 4) + record(fcgiStdout, "od", 4) + record(fcgiStdout, "y", 4) + over, "200", "bod", "more than its Content-Length"},
		"more than nothing": {record(fcgiStdout, "Content-Length: 0\r\n\r\nbody", 4) + over, "200", "", "more than its Content-Length"},
		"complaint":         {record(fcgiStderr, "PHP Warning: x\n", 1) + out(ok) + record(fcgiStderr, "y", 0) + over, "201", "", "PHP Warning: x"},
		"nothing":           {out("") + over, "502", "502", "without a response"},
		"overloaded":        {record(fcgiEnd, "\x00\x00\x00\x00\x02\x00\x00\x00", 0), "502", "502", "protocol status 2"},
		"breaks off":        {out(ok + "body"), "201", "!", "broken"},
		"another version":   {"\x02" + out(ok)[1:], "502", "502", "no record"},
		"another request":   {"\x01\x06\x00\x02" + out(ok)[4:], "502", "502", "no record"},
		"another kind":      {record(9, "", 0), "502", "502", "no record"},
		"no header":         {out("body\n\n") + over, "502", "502", "not a token"},
		"end of wrong size": {out(ok) + record(fcgiEnd, "1234", 0), "502", "502", "no record"},
	} {
		for _, step := range []int{1 << 20, 1} {
			if step == 1 && strings.HasPrefix(name, "another") {
				continue
			}
			backend := testenv.Serve(t, func(c net.Conn) {
				in := make([]byte, 64<<10)
				for all := []byte(nil); !bytes.Contains(all, []byte("\x01\x05\x00\x01\x00\x00\x00\x00")); {
					n, err := c.Read(in)
					if err != nil {
						return
					}
					all = append(all, in[:n]...)
				}
				for out := test.out; out != ""; {
					n := min(step, len(out))
					io.WriteString(c, out[:n])
					out = out[n:]
				}
			})
			f := serve(t, Config{Backends: []string{backend}, FastCGI: nowhere}, 1)
			status, body := f.ask(aRequest)
			ok := status == test.status && strings.Contains(body, test.body)
			if test.log != "" && test.body != "" {
				ok = ok || status == "502" || body == "!" || step == 1 // how much has left before depends on timing
			}
			if !ok {
				t.Errorf("%s in steps of %d: %s %q; want %s %q", name, step, status, body, test.status, test.body)
			}
			testenv.Until(t, name+": the log has "+test.log, func() bool { return strings.Contains(f.log.String(), test.log) })
		}
	}
}

// TestPHP: what PHP makes of requests.
func TestPHP(t *testing.T) {
	backend := testenv.PHP(t)
	root := t.TempDir()
	testenv.Must(t, os.MkdirAll(root+"/up", 0o755))
	for name, text := range map[string]string{
		"/index.php":    `<?php echo $_SERVER["REQUEST_METHOD"], " ", $_SERVER["PATH_INFO"] ?? "-", " ", $_COOKIE["a"] ?? "-", " ", $_SERVER["SERVER_NAME"], " ", strlen(file_get_contents("php://input"));`,
		"/form.php":     `<?php http_response_code(201); echo $_POST["x"], " ", $_SERVER["CONTENT_LENGTH"];`,
		"/more.php":     `<?php header("Content-Length: 3"); echo "hello";`,
		"/loud.php":     `<?php error_log("PHP complains"); echo "ok";`,
		"/moved.php":    `<?php header("Location: /x");`,
		"/up/evil.jpg":  `<?php echo "evil";`,
		"/up/hints.php": `<?php for ($i = 0; $i < 300; $i++) header("X-Line: $i", false); echo "many";`,
	} {
		testenv.Must(t, os.WriteFile(root+name, []byte(text), 0o644))
	}
	f := serve(t, Config{Backends: []string{backend}, FastCGI: &FastCGI{Root: root}}, 1)
	large := strings.Repeat("x", 300_000)
	const form = "Content-Type: application/x-www-form-urlencoded"
	for _, test := range []struct {
		method, target, body, line string
		chunked                    bool
		want                       string
	}{
		{"GET", "/", "", `Cookie: a=x, y`, false, "200 GET - x, y [::1] 0"},
		{"GET", "/any/thing", "", "", false, "200 GET - - [::1] 0"},
		{"GET", "/index.php/info", "", "", false, "200 GET /info - [::1] 0"},
		{"GET", "/index.php/a%20b%2Fc/%C3%A9", "", "", false, "200 GET /a b/c/é - [::1] 0"},
		{"POST", "/", large, "", false, "200 POST - - [::1] 300000"},
		{"POST", "/", large, "", true, "200 POST - - [::1] 300000"},
		{"POST", "/form.php", "x=1", form, true, "201 1 3"},
		{"GET", "/more.php", "", "", false, "200 hel"},
		{"GET", "/loud.php", "", "", false, "200 ok"},
		{"GET", "/moved.php", "", "", false, "302 "},
		{"GET", "/up/evil.jpg/x.php", "", "", false, "404 "},
		{"GET", "/up/hints.php", "", "", false, "200 many"},
	} {
		req := f.request(test.method, test.target, test.body, "Host: [::1]:8080")
		if name, value, ok := strings.Cut(test.line, ": "); ok {
			req.Header.Set(name, value)
		}
		if test.chunked {
			req.ContentLength = -1
		}
		resp := testenv.Need(http.DefaultTransport.RoundTrip(req))(t)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if got := fmt.Sprintf("%d %s", resp.StatusCode, body); err != nil || got != test.want && !(resp.StatusCode == 404 && strings.HasPrefix(got, test.want)) {
			t.Errorf("%s %s: %.100s, %v; want %s", test.method, test.target, got, err, test.want)
		}
	}
	testenv.Until(t, "the log", func() bool { return strings.Contains(f.log.String(), "PHP complains") })
	testenv.Contains(t, f.log.String(), "more than its Content-Length", "the log")
}
