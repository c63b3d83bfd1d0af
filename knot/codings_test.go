package knot

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

func headerOf(answer, name string) string {
	head, _, _ := strings.Cut(answer, "\r\n\r\n")
	for _, line := range strings.Split(head, "\r\n") {
		if key, value, _ := strings.Cut(line, ": "); strings.EqualFold(key, name) {
			return value
		}
	}
	return ""
}

func bodyOf(answer string) string {
	_, body, _ := strings.Cut(answer, "\r\n\r\n")
	return body
}

// squeeze is a coding of tests: it counts how often it is used.
func squeeze(name string, count *atomic.Int32) Coding {
	return Coding{Name: name, Suffix: "." + name, Compress: func(src []byte) ([]byte, error) {
		count.Add(1)
		return []byte(fmt.Sprintf("%s of %d bytes", name, len(src))), nil
	}}
}

// writeFile makes a file that was last changed an hour ago, as far as can be told.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.Must(t, os.WriteFile(path, []byte(content), 0o644))
	then := time.Now().Add(-time.Hour)
	testenv.Must(t, os.Chtimes(path, then, then))
}

// TestPrecompressed files are sent under the name of the file that they stand beside.
func TestPrecompressed(t *testing.T) {
	root := t.TempDir()
	plain := strings.Repeat("plain ", 1000)
	writeFile(t, filepath.Join(root, "app.js"), plain)
	writeFile(t, filepath.Join(root, "app.js.br"), "brotli")
	writeFile(t, filepath.Join(root, "app.js.gz"), "gzipped")
	writeFile(t, filepath.Join(root, "index.html"), plain)
	writeFile(t, filepath.Join(root, "index.html.gz"), "index gzipped")
	writeFile(t, filepath.Join(root, "larger.css"), "short")
	writeFile(t, filepath.Join(root, "larger.css.gz"), "not shorter at all")
	writeFile(t, filepath.Join(root, "photo.png"), plain)
	writeFile(t, filepath.Join(root, "photo.png.gz"), "no")
	writeFile(t, filepath.Join(root, "dir.js"), plain)
	writeFile(t, filepath.Join(root, "dir.js.gz", "x"), "a folder")
	for name, config := range map[string]FilesConfig{"memory": {}, "open": {CacheFileMax: -1}, "none": {CacheBytes: -1, OpenFiles: -1}} {
		for _, walks := range []bool{false, true} {
			t.Run(fmt.Sprint(name, walks), func(t *testing.T) {
				config.Codings = Precompressed()
				f := openWith(t, root, config)
				f.store.Walks = f.store.Walks || walks
				tags := make(map[string]string)
				for _, test := range []struct{ path, accept, coding, body, ctype string }{
					{"/app.js", "", "", plain, "text/javascript; charset=utf-8"},
					{"/app.js", "gzip", "gzip", "gzipped", "text/javascript; charset=utf-8"},
					{"/app.js", "gzip, br", "br", "brotli", "text/javascript; charset=utf-8"},
					{"/app.js", "gzip, br;q=0.1", "gzip", "gzipped", "text/javascript; charset=utf-8"},
					{"/app.js", "zstd", "", plain, "text/javascript; charset=utf-8"},
					{"/app.js.gz", "gzip", "", "gzipped", "application/gzip"},
					{"/", "gzip", "gzip", "index gzipped", "text/html; charset=utf-8"},
					{"/larger.css", "gzip", "", "short", "text/css; charset=utf-8"},
					{"/photo.png", "gzip", "", plain, "image/png"},
					{"/dir.js", "gzip", "", plain, "text/javascript; charset=utf-8"},
				} {
					for range 2 {
						answer := askFile(f, test.path, "Accept-Encoding: "+test.accept+"\r\n")
						if statusOf(answer) != "200" || headerOf(answer, "Content-Encoding") != test.coding || bodyOf(answer) != test.body || headerOf(answer, "Content-Type") != test.ctype {
							t.Errorf("%s, %q: %.300q", test.path, test.accept, answer)
						}
						if varies := headerOf(answer, "Vary") == "Accept-Encoding"; varies == (strings.HasSuffix(test.path, ".png") || strings.HasSuffix(test.path, ".gz")) {
							t.Errorf("%s: Vary is %v", test.path, varies)
						}
						tags[headerOf(answer, "ETag")] = test.path + " " + test.coding
					}
				}
				testenv.Equal(t, len(tags), 8, "entity tags: %v", tags)
				for _, test := range []struct{ headers, status, body string }{
					{"Range: bytes=1-3\r\n", "206", "rot"},
					{"Range: bytes=100-\r\n", "416", "*"},
					{"If-None-Match: " + tagOf(f, "/app.js", "br") + "\r\n", "304", ""},
					{"If-None-Match: " + tagOf(f, "/app.js", "gzip") + "\r\n", "200", "brotli"},
				} {
					answer := askFile(f, "/app.js", "Accept-Encoding: br\r\n"+test.headers)
					if statusOf(answer) != test.status || test.body != "*" && bodyOf(answer) != test.body || test.status != "416" && headerOf(answer, "Vary") == "" {
						t.Errorf("%q: %q", test.headers, answer)
					}
					if coded := headerOf(answer, "Content-Encoding") == "br"; coded != (test.status[0] == '2') {
						t.Errorf("%q: coded %v in %q", test.headers, coded, answer)
					}
				}
			})
		}
	}
}

// TestPrecompressedIndex: what stands beside one that could be the index of a folder is not sent for
// another one that is.
func TestPrecompressedIndex(t *testing.T) {
	root := t.TempDir()
	html, text := strings.Repeat("html ", 1000), strings.Repeat("text ", 1000)
	writeFile(t, filepath.Join(root, "both/index.html"), html)
	writeFile(t, filepath.Join(root, "both/index.txt"), text)
	writeFile(t, filepath.Join(root, "both/index.txt.gz"), "text gzipped")
	writeFile(t, filepath.Join(root, "left/index.html.gz"), "html gzipped")
	writeFile(t, filepath.Join(root, "left/index.txt"), text)
	writeFile(t, filepath.Join(root, "second/index.txt"), text)
	writeFile(t, filepath.Join(root, "second/index.txt.gz"), "text gzipped")
	for name, config := range map[string]FilesConfig{"memory": {}, "open": {CacheFileMax: -1}, "always": {Revalidate: -1}, "none": {CacheBytes: -1, OpenFiles: -1}} {
		for _, walks := range []bool{false, true} {
			t.Run(fmt.Sprint(name, walks), func(t *testing.T) {
				config.Codings, config.Index = Precompressed(), []string{"index.html", "index.txt"}
				f := openWith(t, root, config)
				f.store.Walks = f.store.Walks || walks
				for _, test := range []struct{ path, coding, body string }{
					{"/both/", "", html},
					{"/both/index.txt", "gzip", "text gzipped"},
					{"/left/", "", text},
					{"/second/", "gzip", "text gzipped"},
				} {
					for range 2 {
						answer := askFile(f, test.path, "Accept-Encoding: gzip\r\n")
						if statusOf(answer) != "200" || headerOf(answer, "Content-Encoding") != test.coding || bodyOf(answer) != test.body {
							t.Errorf("%s: %.300q, want %.20q", test.path, answer, test.body)
						}
					}
				}
			})
		}
	}
}

func tagOf(f *Files, path, coding string) string {
	return headerOf(askFile(f, path, "Accept-Encoding: "+coding+"\r\n"), "ETag")
}

// TestPrecompressedChanges: one that is too old, comes, goes or changes is noticed.
func TestPrecompressedChanges(t *testing.T) {
	root := t.TempDir()
	plain, gz := filepath.Join(root, "a.css"), filepath.Join(root, "a.css.gz")
	writeFile(t, plain, strings.Repeat("plain ", 1000))
	f := openWith(t, root, FilesConfig{Codings: Precompressed(), Revalidate: -1})
	ask := func() string { return bodyOf(askFile(f, "/a.css", "Accept-Encoding: gzip\r\n"))[:5] }
	expect := func(what, want string) {
		t.Helper()
		testenv.Equal(t, ask(), want, what)
	}
	expect("none", "plain")
	writeFile(t, gz, "first")
	expect("it has come", "first")
	writeFile(t, gz, "other one")
	expect("it has changed", "other")
	then := time.Now().Add(-2 * time.Hour)
	os.Chtimes(gz, then, then)
	expect("it is older than the file", "plain")
	writeFile(t, gz, "again")
	expect("it is new", "again")
	os.Remove(gz)
	expect("it is gone", "plain")
	testenv.Must(t, os.Symlink("/etc/passwd", gz))
	expect("a link that leads out", "plain")
	checkCache(t, f)
}

// TestPrecompressedNotInMemory: one that the kernel has to ask the disk for is found as well.
func TestPrecompressedNotInMemory(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.css"), strings.Repeat("plain ", 1000))
	writeFile(t, filepath.Join(root, "a.css.gz"), "packed")
	f := openWith(t, root, FilesConfig{Codings: Precompressed(), Revalidate: -1})
	f.store.Cached = false // nothing is taken to be in memory
	for range 2 {          // the second time it is compared with what is there
		if got := bodyOf(askFile(f, "/a.css", "Accept-Encoding: gzip\r\n")); got != "packed" {
			t.Errorf("%.20q, want the file that was compressed beforehand", got)
		}
	}
	checkCache(t, f)
}

// settle makes files that were written just now pass for older ones.
func settleFiles(t *testing.T) {
	was := store.Coarse
	store.Coarse = -int64(time.Hour)
	t.Cleanup(func() { store.Coarse = was })
}

// TestCompressOnTheFly: made once, kept, made anew when the file changes.
func TestCompressOnTheFly(t *testing.T) {
	settleFiles(t)
	root := t.TempDir()
	path := filepath.Join(root, "a.css")
	writeFile(t, path, strings.Repeat("plain ", 1000))
	writeFile(t, filepath.Join(root, "small.css"), "tiny")
	writeFile(t, filepath.Join(root, "large.css"), strings.Repeat("x", 70_000))
	writeFile(t, filepath.Join(root, "over.css"), strings.Repeat("x", 90_000))
	writeFile(t, filepath.Join(root, "a.png"), strings.Repeat("plain ", 1000))
	var brs, gzips atomic.Int32
	config := FilesConfig{CacheBytes: 8 << 20, CacheFileMax: 64 << 10, CompressMax: 80_000, Codings: []Coding{squeeze("br", &brs), squeeze("gzip", &gzips)}, Revalidate: -1}
	f := openWith(t, root, config)
	ask := func(path, accept string) string { return askFile(f, path, "Accept-Encoding: "+accept+"\r\n") }
	for range 3 {
		answer := ask("/a.css", "gzip, br")
		if bodyOf(answer) != "br of 6000 bytes" || headerOf(answer, "Content-Encoding") != "br" || headerOf(answer, "Vary") == "" {
			t.Fatalf("%.300q", answer)
		}
		testenv.MustEqual(t, bodyOf(ask("/large.css", "gzip")), "gzip of 70000 bytes", "from an open file")
	}
	if brs.Load() != 1 || gzips.Load() != 1 {
		t.Errorf("compressed %d and %d times, want once each", brs.Load(), gzips.Load())
	}
	for _, path := range []string{"/small.css", "/over.css", "/a.png"} {
		if answer := ask(path, "br"); statusOf(answer) != "200" || headerOf(answer, "Content-Encoding") != "" {
			t.Errorf("%s: %.300q", path, answer)
		}
	}
	before := headerOf(ask("/a.css", "br"), "ETag")
	if plain := headerOf(ask("/a.css", ""), "ETag"); plain == before {
		t.Error("two forms have one entity tag", plain)
	}
	if answer := askFile(f, "/a.css", "Accept-Encoding: br\r\nIf-None-Match: "+before+"\r\n"); statusOf(answer) != "304" {
		t.Errorf("%.300q", answer)
	}
	writeFile(t, path, strings.Repeat("other ", 500))
	answer := ask("/a.css", "br")
	if bodyOf(answer) != "br of 3000 bytes" || headerOf(answer, "ETag") == before {
		t.Errorf("after a change: %.300q", answer)
	}
	writeFile(t, path+".br", "beside")
	testenv.Equal(t, bodyOf(ask("/a.css", "br")), "beside", "one beside it goes first")
	checkCache(t, f)
	if stats := f.Stats(); stats.Hits+stats.OpenHits+stats.Misses < 10 || stats.Misses > 12 {
		t.Errorf("a request counts more than once: %+v", stats)
	}
}

func TestFilesConfigErrors(t *testing.T) {
	root := t.TempDir()
	many := make([]Coding, store.MaxCodings+1)
	for i := range many {
		many[i].Name = fmt.Sprint("c", i)
	}
	for _, config := range []FilesConfig{
		{Codings: many},
		{Codings: []Coding{{Name: "GZIP"}}},
		{Codings: []Coding{{Name: ""}}},
		{Codings: []Coding{{Name: "identity"}}},
		{Codings: []Coding{{Name: "br"}, {Name: "br"}}},
		{Codings: []Coding{{Name: "br", Suffix: "br"}}},
		{Codings: []Coding{{Name: "br", Suffix: "./br"}}},
		{Index: []string{""}},
		{Index: []string{".hidden"}},
		{Index: []string{"../x"}},
		{Index: []string{"a/b"}},
	} {
		if f, err := OpenFilesWith(root, config); err == nil {
			f.Close()
			t.Errorf("%+v is taken", config)
		}
	}
}

// TestIndexNames: the first that is there.
func TestIndexNames(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "one/index.htm"), "htm")
	writeFile(t, filepath.Join(root, "both/index.htm"), "htm")
	writeFile(t, filepath.Join(root, "both/main.html"), "main")
	writeFile(t, filepath.Join(root, "none/index.html"), "not asked for")
	f := openWith(t, root, FilesConfig{Index: []string{"main.html", "index.htm"}})
	for path, want := range map[string]string{"/one/": "200 htm", "/both/": "200 main", "/none/": "404"} {
		answer := askFile(f, path)
		if got := statusOf(answer) + " " + bodyOf(answer); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %.100q, want %q", path, got, want)
		}
	}
}

// TestFileHeaders are on 200, 206 and 304, and not on errors.
func TestFileHeaders(t *testing.T) {
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "index.html"), "index")
	writeFile(t, filepath.Join(root, "b.bin"), "0123456789")
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
			{"/b.bin", "Range: bytes=0-1\r\n", "206", "max-age=60"},
			{"/b.bin", "If-None-Match: " + tag + "\r\n", "304", "max-age=60"},
			{"/b.bin", "If-Match: \"x\"\r\n", "412", ""},
			{"/b.bin", "Range: bytes=99-\r\n", "416", ""},
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
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.bin"), "0123456789")
	writeFile(t, filepath.Join(root, "b.bin"), "0123456789")
	for _, max := range []int64{0, -1} {
		f := openWith(t, root, FilesConfig{CacheFileMax: max, Header: func(name string) []Header {
			if name == "/a.bin" {
				return []Header{{"server", "file"}}
			}
			return nil
		}})
		nc, r := pipeServer(t, &Server{Name: "knot", Handler: f.Serve})
		for _, test := range []struct{ path, headers, want string }{
			{"/a.bin", "", "file"}, {"/a.bin", "Range: bytes=0-1\r\n", "file"}, {"/b.bin", "", "knot"}, {"/a.bin", "Range: bytes=99-\r\n", "knot"},
		} {
			go io.WriteString(nc, "GET "+test.path+" HTTP/1.1\r\nHost: h\r\n"+test.headers+"\r\n")
			resp := testenv.Need(http.ReadResponse(r, nil))(t)
			testenv.Need(io.Copy(io.Discard, resp.Body))(t)
			testenv.Equal(t, strings.Join(resp.Header["Server"], ", "), test.want, test.path+" "+test.headers)
		}
	}
}

// TestErrorPages of the program's own, for what a handler returns and for what never gets to one.
func TestErrorPages(t *testing.T) {
	s := &Server{
		Handler: func(x *Ctx) error {
			if x.Path() == "/kept" {
				x.AddHeader("X-Kept", "yes")
				return x.SendError(403)
			}
			x.AddHeader("X-Dropped", "yes")
			return Status(404)
		},
		ErrorPage: func(x *Ctx, status int) (string, []byte) {
			if status == 403 {
				return "", nil
			}
			return "text/plain", []byte(fmt.Sprint("own ", status, " of ", x.Host()))
		},
	}
	for request, want := range map[string]string{
		"GET /a HTTP/1.1\r\nHost: h\r\n\r\n":    "404 own 404 of h",
		"GET /kept HTTP/1.1\r\nHost: h\r\n\r\n": "403 <!doctype",
		"GET /a b HTTP/1.1\r\nHost: h\r\n\r\n":  "400 own 400 of ",
		"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n":   "404 ",
	} {
		nc := newScriptConn([]byte(request), nil, 1)
		serveScript(s, nc)
		answer := string(nc.output)
		if got := statusOf(answer) + " " + bodyOf(answer); !strings.HasPrefix(got, want) || strings.Contains(answer, "X-Dropped") || strings.HasPrefix(want, "403") && headerOf(answer, "X-Kept") != "yes" {
			t.Errorf("%q: %q, want %q", request, answer, want)
		}
	}
}

// TestYoungFilesAreNotCompressed: they may change without a sign of it.
func TestYoungFilesAreNotCompressed(t *testing.T) {
	was := store.Coarse
	store.Coarse = int64(time.Hour)
	t.Cleanup(func() { store.Coarse = was })
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "a.css"), strings.Repeat("plain ", 1000))
	for _, max := range []int64{0, -1} {
		var count atomic.Int32
		f := openWith(t, root, FilesConfig{CacheFileMax: max, Codings: []Coding{squeeze("gzip", &count)}})
		if answer := askFile(f, "/a.css", "Accept-Encoding: gzip\r\n"); len(bodyOf(answer)) != 6000 || count.Load() != 0 {
			t.Errorf("%.300q", answer)
		}
	}
}
