package knot

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h1"
)

// makeSite lays out a root with everything in it that must not be served, and
// a secret next to it.
func makeSite(t *testing.T) string {
	t.Helper()
	top := tree(t, map[string]string{
		"secret.txt":             "SECRET",
		"root/index.html":        "<p>home",
		"root/a.txt":             "0123456789",
		"root/empty.txt":         "",
		"root/UPPER.HTML":        "<p>upper",
		"root/sp ace+%41é.txt":   "odd name",
		"root/back\\slash.txt":   "SECRET",
		"root/..odd":             "SECRET",
		"root/.hidden":           "SECRET",
		"root/.git/config":       "SECRET",
		"root/.well-known/x.txt": "well known",
		"root/.well-known/.y":    "SECRET",
		"root/sub/index.html":    "<p>sub",
		"root/sub/b":             "no extension",
		"root/bare/c.txt":        "c",
		"root/linked/c.txt":      "c",
		"root/big.bin":           strings.Repeat("0123456789abcdef", 50_000),
	})
	root := filepath.Join(top, "root")
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
	f := testenv.Need(OpenFiles(root, FilesConfig{}))(t)
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
				fn(t, start(&Server{Handler: openTestFiles(t, root, walks).Handle}), walks)
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
			resp, body := p.ask(req("GET " + test.target))
			testenv.Equal(t, fmt.Sprint(resp.StatusCode), test.status, "%s: status", test.target)
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
			resp, body := p.ask(req("GET " + target))
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
			resp, _ := p.ask(req(method+" /a.txt", "Content-Length: 1") + "x")
			testenv.Equal(t, fmt.Sprint(resp.StatusCode, resp.Header["Allow"]), fmt.Sprint(405, []string{allowFiles}), method)
		}
		for _, target := range []string{"*", "/a.txt"} {
			resp, _ := p.ask(req("OPTIONS " + target))
			testenv.Equal(t, fmt.Sprint(resp.StatusCode, resp.Header["Allow"]), fmt.Sprint(204, []string{allowFiles}), "OPTIONS %s", target)
		}
		resp, _ := p.ask(req("HEAD /big.bin"))
		testenv.Equal(t, resp.ContentLength, 800_000, "HEAD: length")
		resp, _ = p.ask(req("GET //sub?a=b"))
		testenv.Equal(t, resp.Header.Get("Location"), "/sub/?a=b", "Location")
	})
}

// What the cases of package httpcases do not have, and one of each kind in every mode.
func TestConditionalRequests(t *testing.T) {
	everyFileMode(t, func(t *testing.T, sv *served, walks bool) {
		p := sv.dial()
		first, _ := p.ask(req("GET /a.txt"))
		etag, modified := first.Header.Get("ETag"), first.Header.Get("Last-Modified")
		at := testenv.Need(http.ParseTime(modified))(t)
		earlier := at.Add(-time.Hour).Format(http.TimeFormat)
		for _, test := range []struct {
			headers, body string
			status        int
		}{
			{"If-None-Match: " + etag + "", "", 304},
			{"If-Modified-Since: " + modified + "", "", 304},
			{"If-Modified-Since: " + at.UTC().Format(time.RFC850) + "", "", 304},
			{"If-Modified-Since: " + at.UTC().Format(time.ANSIC) + "", "", 304},
			{"If-None-Match: \"x\"\r\nIf-None-Match: " + etag + "", "", 304},
			{"If-Match: " + etag + "", "0123456789", 200},
			{"If-Match: \"x\"\r\nIf-Match: " + etag + "", "0123456789", 200},
			{"If-Match: \"x\"", "*", 412},
			{"If-Match: ", "*", 412},
			{"If-Match: \"x\"\r\nIf-None-Match: " + etag + "", "*", 412},
			{"If-Match: " + etag + "\r\nIf-None-Match: " + etag + "", "", 304},
			{"If-Match: \"x\"\r\nRange: bytes=0-1", "*", 412},
			{"If-Match: " + etag + "\r\nIf-Unmodified-Since: " + earlier + "", "0123456789", 200},
			{"If-Unmodified-Since: " + earlier + "", "*", 412},
			{"If-Unmodified-Since: " + modified + "\r\nIf-None-Match: " + etag + "", "", 304},
			{"If-Unmodified-Since: " + modified + "\r\nRange: bytes=0-1", "01", 206},
			{"Range: bytes=,0-1, ", "01", 206},
			{"Range: bytes=,", "0123456789", 200},
			{"Range: bytes=0-1,1-3", "0123", 206},
			{"Range: bytes=4-5,0-3", "012345", 206},
			{"Range: bytes=0-1,30-40", "01", 206},
			{"Range: bytes=20-,30-", "*", 416},
			{"Range: bytes=0-1,x", "0123456789", 200},
			{"If-Range: " + etag + "", "0123456789", 200},
			{"Range: bytes=0-3", "0123", 206},
			{"Range: bytes=10-", "*", 416},
			{"Range: bytes=0-0,2-2", "0123456789", 200}, // the framing is longer than the file
			{"Range: bytes=2-99999999999999999999", "23456789", 206},
			{"Range: bytes=-99999999999999999999", "0123456789", 206},
			{"Range: bytes=9223372036854775807-9223372036854775808", "*", 416},
			{"Range: bytes=0-1\r\nIf-Range: " + etag + "", "01", 206},
		} {
			resp, body := p.ask(req("GET /a.txt", test.headers))
			if resp.StatusCode != test.status || test.body != "*" && body != test.body {
				t.Errorf("%q: status %d, body %q; want %d, %q", test.headers, resp.StatusCode, body, test.status, test.body)
			}
		}
	})
}

func TestFilesKeepNoDescriptor(t *testing.T) {
	root := makeSite(t)
	before := countFDs()
	files := testenv.Need(OpenFiles(root, FilesConfig{}))(t)
	s := &Server{Handler: files.Handle}
	defer s.Close()
	for range 3 {
		for _, target := range []string{"/a.txt", "/sub", "/fifo", "/big.bin", "/none", "/bare"} {
			s.ServeConn(script(req("GET " + target)))
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
	f := openWith(t, tree(t, map[string]string{"a.js": strings.Repeat("plain ", 1000), "a.js.br": "coded"}), FilesConfig{Codings: Precompressed()})
	for path, status := range map[string]string{"/a.js": "200", "/a.js\x00.png": "404", "/a.js\x00br": "404"} {
		server := &Server{Handler: func(x *Ctx) error { return f.HandleAs(x, path) }}
		testenv.Equal(t, statusOf(answerTo(server, req("GET /", "Accept-Encoding: br"))), status, "%q", path)
	}
}

// TestList: List names what Handle would serve, and nothing else.
func TestList(t *testing.T) {
	root := makeSite(t)
	for _, walks := range []bool{false, true} {
		f := openTestFiles(t, root, walks)
		list := func(target string, most int) (names map[string]Listed, more bool, err error) {
			names = make(map[string]Listed)
			answerTo(&Server{Handler: func(x *Ctx) error {
				var all []Listed
				all, more, err = f.List(x, most)
				for _, one := range all {
					names[one.Name] = one
				}
				return nil
			}}, req("GET "+target))
			return names, more, err
		}
		top, more, err := list("/", 1000)
		if err != nil || more {
			t.Fatal(err, more)
		}
		want := []string{"UPPER.HTML", "a.txt", "bare", "big.bin", "empty.txt", "index.html", "linked", "sp ace+%41é.txt", "sub"}
		if !walks {
			want = append(want, "inside", "through-git", "to-wk")
		}
		slices.Sort(want)
		testenv.EqualSlices(t, slices.Sorted(maps.Keys(top)), want, "walks %v", walks)
		if a := top["a.txt"]; a.Dir || a.Size != 10 || a.Modified.IsZero() || !top["sub"].Dir || !walks && top["inside"].Size != 10 {
			t.Errorf("%+v, %+v, %+v", a, top["sub"], top["inside"])
		}
		for name, one := range top {
			target := "/" + name
			if one.Dir {
				target += "/"
			}
			if status := statusOf(askFile(f, string(h1.AppendEscaped(nil, []byte(target))))); status != "200" && !one.Dir {
				t.Errorf("%s is listed and gets %s", name, status)
			}
		}
		if some, more, err := list("/", 3); len(some) != 3 || !more || err != nil {
			t.Errorf("%d names, more %v, %v", len(some), more, err)
		}
		if sub, _, err := list("/sub/", 1000); err != nil || sub["b"].Size != 12 || sub["index.html"].Name == "" {
			t.Errorf("%v, %v", sub, err)
		}
		for target, want := range map[string]Status{"/none/": 404, "/.git/": 404, "/a.txt/": 404, "/sub": 404, "/etc/": 403, "/updir/": 403} {
			var status Status
			if _, _, err := list(target, 10); !errors.As(err, &status) || status != want {
				t.Errorf("%s: %v, want %d", target, err, want)
			}
		}
	}
}

func TestListClosesWhatItOpens(t *testing.T) {
	f := openTestFiles(t, layFiles(t, 600, sized(0)), false)
	before := countFDs()
	for range 3 {
		answerTo(&Server{Handler: func(x *Ctx) error {
			all, more, err := f.List(x, 599)
			if len(all) != 599 || !more || err != nil {
				t.Error(len(all), more, err)
			}
			return nil
		}}, req("GET /"))
	}
	testenv.AtMost(t, countFDs(), before, "descriptors, before %d", before)
}

// TestFileHeaders are on 200, 206 and 304, and not on errors.
func TestFileHeaders(t *testing.T) {
	root := tree(t, map[string]string{"index.html": "index", "b.bin": "0123456789"})
	var asked []string
	config := FilesConfig{Header: func(name string) []Header {
		asked = append(asked, name)
		if strings.HasSuffix(name, ".bin") {
			return []Header{{"Cache-Control", "max-age=60"}, {"Content-Type", "text/x-bin"}, {"Content-Length", "7"}, {"bad name", "x"}, {"X-A", "a\nb"}}
		}
		return []Header{{"Cache-Control", "no-cache"}}
	}}
	for _, max := range []int64{0, -1} {
		config.CacheFileMax = max
		f := openWith(t, root, config)
		tag := headerOf(askFile(f, "/b.bin"), "ETag")
		for _, test := range []struct{ path, headers, status, cache string }{
			{"/", "", "200", "no-cache"},
			{"/b.bin", "", "200", "max-age=60"},
			{"/b.bin", "Range: bytes=0-1", "206", "max-age=60"},
			{"/b.bin", "If-None-Match: " + tag + "", "304", "max-age=60"},
			{"/b.bin", "If-Match: \"x\"", "412", ""},
			{"/b.bin", "Range: bytes=99-", "416", ""},
			{"/none.bin", "", "404", ""},
		} {
			answer := askFile(f, test.path, test.headers)
			if statusOf(answer) != test.status || headerOf(answer, "Cache-Control") != test.cache || strings.Contains(answer, "bad name") || strings.Contains(answer, "X-A") {
				t.Errorf("%s %q: %q", test.path, test.headers, answer)
			}
			if test.path == "/b.bin" && test.status[0] == '2' && (headerOf(answer, "Content-Type") != "text/x-bin" || strings.Contains(answer, "Content-Length: 7\r\n")) {
				t.Errorf("%q", answer)
			}
		}
	}
	if !slices.Contains(asked, "/index.html") || !slices.Contains(asked, "/b.bin") {
		t.Errorf("asked about %q", asked)
	}
}

// TestFileServerLine: a Server line of a file takes the place of Server.Name, on a file in memory too.
func TestFileServerLine(t *testing.T) {
	root := tree(t, map[string]string{"a.bin": "0123456789", "b.bin": "0123456789"})
	for _, max := range []int64{0, -1} {
		f := openWith(t, root, FilesConfig{CacheFileMax: max, Header: func(name string) []Header {
			if name == "/a.bin" {
				return []Header{{"server", "file"}}
			}
			return nil
		}})
		p := pipePeer(t, &Server{Name: "knot", Handler: f.Handle})
		for _, test := range []struct{ path, headers, want string }{
			{"/a.bin", "", "file"}, {"/a.bin", "Range: bytes=0-1", "file"}, {"/b.bin", "", "knot"}, {"/a.bin", "Range: bytes=99-", "knot"},
		} {
			resp, _ := p.ask(req("GET "+test.path, test.headers))
			testenv.Equal(t, strings.Join(resp.Header["Server"], ", "), test.want, test.path+" "+test.headers)
		}
	}
}
