package knot

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/clock"
)

// makeSite lays out a root with everything in it that must not be served, and
// a secret next to it.
func makeSite(t *testing.T) string {
	t.Helper()
	top := t.TempDir()
	root := filepath.Join(top, "root")
	write := func(name, content string) {
		path := filepath.Join(top, name)
		testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testenv.Must(t, os.WriteFile(path, []byte(content), 0o644))
	}
	write("secret.txt", "SECRET")
	write("root/index.html", "<p>home")
	write("root/a.txt", "0123456789")
	write("root/empty.txt", "")
	write("root/UPPER.HTML", "<p>upper")
	write("root/sp ace+%41é.txt", "odd name")
	write("root/back\\slash.txt", "SECRET")
	write("root/..odd", "SECRET")
	write("root/.hidden", "SECRET")
	write("root/.git/config", "SECRET")
	write("root/.well-known/x.txt", "well known")
	write("root/.well-known/.y", "SECRET")
	write("root/sub/index.html", "<p>sub")
	write("root/sub/b", "no extension")
	write("root/bare/c.txt", "c")
	write("root/linked/c.txt", "c")
	for _, name := range []string{"root/a.txt"} {
		if then := time.Now().Add(-time.Hour); os.Chtimes(filepath.Join(top, name), then, then) != nil {
			t.Fatal("chtimes", name)
		}
	}
	write("root/big.bin", string(bytes.Repeat([]byte("0123456789abcdef"), 50_000)))
	for link, target := range map[string]string{
		"root/inside":      "a.txt",
		"root/sub/up":      "../a.txt",
		"root/outside":     "../secret.txt",
		"root/absolute":    filepath.Join(root, "a.txt"),
		"root/etc":         "/etc",
		"root/proc":        "/proc/self/root",
		"root/updir":       "..",
		"root/loop":        "loop",
		"root/sub/linkdir": "../bare",
		// What these lead to must not be served under its own name either.
		"root/to-hidden":         ".hidden",
		"root/to-git":            ".git",
		"root/sub/to-config":     "../.git/config",
		"root/twice":             "sub/to-config",
		"root/linked/index.html": "../.hidden",
		"root/to-backslash":      "back\\slash.txt",
		"root/to-wk":             ".well-known/x.txt",
		"root/to-wk-hidden":      ".well-known/.y",
		"root/through-git":       ".git/../a.txt",
	} {
		testenv.Must(t, os.Symlink(target, filepath.Join(top, link)))
	}
	testenv.Must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o644))
	return root
}

func openTestFiles(t *testing.T, root string, walks bool) *Files {
	t.Helper()
	f := testenv.Need(OpenFiles(root))(t)
	if f.store.Walks {
		t.Log("this kernel has no openat2")
	}
	f.store.Walks = f.store.Walks || walks
	t.Cleanup(func() { f.Close() })
	return f
}

// everyFileMode is everyMode over a site, with and without openat2.
func everyFileMode(t *testing.T, fn func(t *testing.T, sv *served, walks bool)) {
	root := makeSite(t)
	for _, walks := range []bool{false, true} {
		t.Run(fmt.Sprintf("walks=%v", walks), func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				fn(t, start(&Server{Handler: openTestFiles(t, root, walks).Serve}), walks)
			})
		})
	}
}

func TestFiles(t *testing.T) {
	everyFileMode(t, func(t *testing.T, sv *served, walks bool) {
		linked, hidden := "200", "404"
		if walks {
			linked, hidden = "403", "403"
		}
		p := sv.dial()
		for _, test := range []struct{ target, status, ctype, body string }{
			{"/", "200", "text/html; charset=utf-8", "<p>home"},
			{"/index.html", "200", "text/html; charset=utf-8", "<p>home"},
			{"/a.txt", "200", "text/plain; charset=utf-8", "0123456789"},
			{"/a.txt?q=/../..", "200", "text/plain; charset=utf-8", "0123456789"},
			{"/empty.txt", "200", "text/plain; charset=utf-8", ""},
			{"/UPPER.HTML", "200", "text/html; charset=utf-8", "<p>upper"},
			{"/sub/", "200", "text/html; charset=utf-8", "<p>sub"},
			{"/sub/b", "200", "application/octet-stream", "no extension"},
			{"//sub//b", "200", "application/octet-stream", "no extension"},
			{"/sub/../a.txt", "200", "text/plain; charset=utf-8", "0123456789"},
			{"/sub/%2e%2e/a.txt", "200", "text/plain; charset=utf-8", "0123456789"},
			{"/sub%2fb", "200", "application/octet-stream", "no extension"},
			{"/sp%20ace+%2541%C3%A9.txt", "200", "text/plain; charset=utf-8", "odd name"},
			{"/.well-known/x.txt", "200", "text/plain; charset=utf-8", "well known"},
			{"/sub", "301", "", ""},
			{"/bare/", "404", "", ""},
			{"/none", "404", "", ""},
			{"/a.txt/", "404", "", ""},
			{"/a.txt/b", "404", "", ""},
			{"/" + strings.Repeat("n", 300), "404", "", ""},
			{"/" + strings.Repeat("n/", 2100), "404", "", ""},
			{"/.hidden", "404", "", ""},
			{"/%2ehidden", "404", "", ""},
			{"/.git/config", "404", "", ""},
			{"/sub/.git/config", "404", "", ""},
			{"/.well-known/.y", "404", "", ""},
			{"/..odd", "404", "", ""},
			{"/back%5cslash.txt", "404", "", ""},
			{"/fifo", "403", "", ""},
			{"/inside", linked, "", ""},
			{"/sub/up", linked, "", ""},
			{"/outside", "403", "", ""},
			{"/absolute", "403", "", ""},
			{"/loop", "403", "", ""},
			{"/to-hidden", hidden, "", ""},
			{"/to-git/config", "404", "", ""},
			{"/to-git/", "404", "", ""},
			{"/to-git", hidden, "", ""},
			{"/sub/to-config", hidden, "", ""},
			{"/twice", hidden, "", ""},
			{"/linked/", hidden, "", ""},
			{"/to-backslash", hidden, "", ""},
			{"/to-wk", linked, "", ""},
			{"/to-wk-hidden", hidden, "", ""},
			{"/through-git", linked, "", ""},
		} {
			p.send("GET " + test.target + " HTTP/1.1\r\nHost: h\r\n\r\n")
			resp, body := p.response("GET")
			testenv.Equal(t, fmt.Sprint(resp.StatusCode), test.status, "%s: status %d", test.target, resp.StatusCode)
			if test.ctype != "" && (resp.Header.Get("Content-Type") != test.ctype || body != test.body) {
				t.Errorf("%s: %q of type %q", test.target, body, resp.Header.Get("Content-Type"))
			}
			if strings.Contains(body, "SECRET") {
				t.Errorf("%s: the secret got out", test.target)
			}
		}
	})
}

func TestTraversalIsImpossible(t *testing.T) {
	everyFileMode(t, func(t *testing.T, sv *served, walks bool) {
		for _, target := range []string{
			"/../secret.txt", "/..", "/../", "/sub/../../secret.txt", "/./../secret.txt",
			"/%2e%2e/secret.txt", "/%2e%2e%2fsecret.txt", "/..%2fsecret.txt", "/.%2e/secret.txt",
			"/%252e%252e/secret.txt", "/..%252fsecret.txt", "/..%c0%afsecret.txt", "/..%5csecret.txt",
			"/..\\secret.txt", "/sub\\..\\..\\secret.txt", "/%2e%2e%5csecret.txt", "//../secret.txt", "/sub//../../secret.txt",
			"/secret.txt%00.txt", "/%00", "/..%00/secret.txt", "/.../secret.txt", "/....//secret.txt",
			"/etc/passwd", "/etc/hostname", "/proc/etc/passwd", "/updir/secret.txt", "/outside",
			"/file:///etc/passwd", "/;/../secret.txt", "/..;/secret.txt", "/sub/up/../../secret.txt",
			"http://h/../secret.txt", "http://h/%2e%2e/secret.txt",
		} {
			p := sv.dial()
			p.send("GET " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")
			resp, body := p.response("GET")
			if c := resp.StatusCode; c != 400 && c != 403 && c != 404 {
				t.Errorf("%s: status %d, %q", target, c, body)
			}
			if strings.Contains(body, "SECRET") || strings.Contains(body, "root:") {
				t.Fatalf("%s: %q", target, body)
			}
			p.nc.Close()
		}
	})
}

func TestFileMethodsAndRedirect(t *testing.T) {
	everyFileMode(t, func(t *testing.T, sv *served, walks bool) {
		p := sv.dial()
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "TRACE"} {
			p.send(method + " /a.txt HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx")
			resp, _ := p.response(method)
			if resp.StatusCode != 405 || resp.Header.Get("Allow") != allowFiles {
				t.Errorf("%s: status %d, Allow %q", method, resp.StatusCode, resp.Header.Get("Allow"))
			}
		}
		for _, target := range []string{"*", "/a.txt"} {
			p.send("OPTIONS " + target + " HTTP/1.1\r\nHost: h\r\n\r\n")
			if resp, _ := p.response("OPTIONS"); resp.StatusCode != 204 || resp.Header.Get("Allow") != allowFiles {
				t.Errorf("OPTIONS %s: status %d", target, resp.StatusCode)
			}
		}
		p.send("HEAD /big.bin HTTP/1.1\r\nHost: h\r\n\r\n")
		if resp, _ := p.response("HEAD"); resp.ContentLength != 800_000 {
			t.Errorf("HEAD: length %d", resp.ContentLength)
		}
		p.send("GET //sub?a=b HTTP/1.1\r\nHost: h\r\n\r\n")
		if resp, _ := p.response("GET"); resp.Header.Get("Location") != "/sub/?a=b" {
			t.Errorf("Location %q", resp.Header.Get("Location"))
		}
	})
}

// What the cases of package httpcases do not have, and one of each kind in every mode.
func TestConditionalRequests(t *testing.T) {
	everyFileMode(t, func(t *testing.T, sv *served, walks bool) {
		p := sv.dial()
		get := func(headers string) *http.Response {
			t.Helper()
			p.send("GET /a.txt HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n")
			resp, body := p.response("GET")
			resp.Body = io.NopCloser(strings.NewReader(body))
			return resp
		}
		first := get("")
		etag, modified := first.Header.Get("ETag"), first.Header.Get("Last-Modified")
		at := testenv.Need(http.ParseTime(modified))(t)
		earlier := at.Add(-time.Hour).Format(clock.HTTPTime)
		for _, test := range []struct {
			headers, body string
			status        int
		}{
			{"If-None-Match: " + etag + "\r\n", "", 304},
			{"If-Modified-Since: " + modified + "\r\n", "", 304},
			{"If-Modified-Since: " + at.UTC().Format(time.RFC850) + "\r\n", "", 304},
			{"If-Modified-Since: " + at.UTC().Format(time.ANSIC) + "\r\n", "", 304},
			{"If-None-Match: \"x\"\r\nIf-None-Match: " + etag + "\r\n", "", 304},
			{"If-Match: " + etag + "\r\n", "0123456789", 200},
			{"If-Match: \"x\"\r\nIf-Match: " + etag + "\r\n", "0123456789", 200},
			{"If-Match: \"x\"\r\n", "*", 412},
			{"If-Match: \r\n", "*", 412},
			{"If-Match: \"x\"\r\nIf-None-Match: " + etag + "\r\n", "*", 412},
			{"If-Match: " + etag + "\r\nIf-None-Match: " + etag + "\r\n", "", 304},
			{"If-Match: \"x\"\r\nRange: bytes=0-1\r\n", "*", 412},
			{"If-Match: " + etag + "\r\nIf-Unmodified-Since: " + earlier + "\r\n", "0123456789", 200},
			{"If-Unmodified-Since: " + earlier + "\r\n", "*", 412},
			{"If-Unmodified-Since: " + modified + "\r\nIf-None-Match: " + etag + "\r\n", "", 304},
			{"If-Unmodified-Since: " + modified + "\r\nRange: bytes=0-1\r\n", "01", 206},
			{"Range: bytes=,0-1, \r\n", "01", 206},
			{"Range: bytes=,\r\n", "0123456789", 200},
			{"Range: bytes=0-1,1-3\r\n", "0123", 206},
			{"Range: bytes=4-5,0-3\r\n", "012345", 206},
			{"Range: bytes=0-1,30-40\r\n", "01", 206},
			{"Range: bytes=20-,30-\r\n", "*", 416},
			{"Range: bytes=0-1,x\r\n", "0123456789", 200},
			{"If-Range: " + etag + "\r\n", "0123456789", 200},
			{"Range: bytes=0-3\r\n", "0123", 206},
			{"Range: bytes=10-\r\n", "*", 416},
			{"Range: bytes=0-0,2-2\r\n", "0123456789", 200}, // the framing is longer than the file
			{"Range: bytes=2-99999999999999999999\r\n", "23456789", 206},
			{"Range: bytes=-99999999999999999999\r\n", "0123456789", 206},
			{"Range: bytes=9223372036854775807-9223372036854775808\r\n", "*", 416},
			{"Range: bytes=0-1\r\nIf-Range: " + etag + "\r\n", "01", 206},
		} {
			resp := get(test.headers)
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != test.status || test.body != "*" && string(body) != test.body {
				t.Errorf("%q: status %d, body %q; want %d, %q", test.headers, resp.StatusCode, body, test.status, test.body)
			}
		}
	})
}

func TestFilesKeepNoDescriptor(t *testing.T) {
	root := makeSite(t)
	before := countFDs()
	files := testenv.Need(OpenFiles(root))(t)
	s := &Server{Handler: files.Serve}
	defer s.Close()
	for range 3 {
		for _, target := range []string{"/a.txt", "/sub", "/fifo", "/big.bin", "/none", "/bare"} {
			s.ServeConn(newScriptConn([]byte("GET "+target+" HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1))
		}
	}
	if after := countFDs(); after > before+2 { // the root and the one that is too big for memory
		t.Errorf("%d descriptors, before %d", after, before)
	}
	files.Close()
	testenv.AtMost(t, countFDs(), before, "descriptors, before %d", before)
}

// TestServeAsWithNUL: the system takes a name to end there, and the cache what follows for a coding.
func TestServeAsWithNUL(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.js"), strings.Repeat("plain ", 1000))
	writeFile(t, filepath.Join(root, "a.js.br"), "coded")
	f := openWith(t, root, FilesConfig{Codings: Precompressed()})
	path := "/a.js"
	server := &Server{Handler: func(x *Ctx) error { return f.ServeAs(x, path) }}
	for _, test := range []struct{ path, status string }{{"/a.js", "200"}, {"/a.js\x00.png", "404"}, {"/a.js\x00br", "404"}} {
		path = test.path
		nc := newScriptConn([]byte("GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br\r\n\r\n"), nil, 1)
		serveScript(server, nc)
		testenv.Equal(t, statusOf(string(nc.output)), test.status, "%q", test.path)
	}
}
