package knot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// askCoded asks for a file in one of the accepted codings.
func askCoded(f *Files, path, accepted string, fields ...string) string {
	return askFile(f, path, append(fields, "Accept-Encoding: "+accepted)...)
}

// wantCoded wants an answer with that body in that coding.
func wantCoded(t *testing.T, answer, coding, body string, what ...any) {
	t.Helper()
	got := fmt.Sprintf("%s %q %s", statusOf(answer), headerOf(answer, "Content-Encoding"), bodyOf(answer))
	testenv.Equal(t, got, fmt.Sprintf("200 %q %s", coding, body), what...)
}

// everyKeeping runs a test with the files of root kept in each way, found with and without openat2.
func everyKeeping(t *testing.T, root string, index []string, fn func(t *testing.T, f *Files)) {
	for name, config := range map[string]FilesConfig{"memory": {}, "open": {CacheFileMax: -1}, "always": {Revalidate: -1}, "none": {CacheBytes: -1, OpenFiles: -1}} {
		for _, walks := range []bool{false, true} {
			t.Run(fmt.Sprint(name, walks), func(t *testing.T) {
				config.Codings, config.Index = Precompressed(), index
				f := openWith(t, root, config)
				f.store.Walks = f.store.Walks || walks
				fn(t, f)
			})
		}
	}
}

// TestPrecompressed files are sent under the name of the file that they stand beside.
func TestPrecompressed(t *testing.T) {
	plain := strings.Repeat("plain ", 1000)
	root := tree(t, map[string]string{
		"app.js": plain, "app.js.br": "brotli", "app.js.gz": "gzipped",
		"index.html": plain, "index.html.gz": "index gzipped",
		"larger.css": "short", "larger.css.gz": "not shorter at all",
		"photo.png": plain, "photo.png.gz": "no",
		"dir.js": plain, "dir.js.gz/x": "a folder",
	})
	everyKeeping(t, root, nil, func(t *testing.T, f *Files) {
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
				answer := askCoded(f, test.path, test.accept)
				wantCoded(t, answer, test.coding, test.body, "%s, %q", test.path, test.accept)
				testenv.Equal(t, headerOf(answer, "Content-Type"), test.ctype, test.path)
				varies := !strings.HasSuffix(test.path, ".png") && !strings.HasSuffix(test.path, ".gz")
				testenv.Equal(t, headerOf(answer, "Vary") == "Accept-Encoding", varies, "%s: it has Vary", test.path)
				tags[headerOf(answer, "ETag")] = test.path + " " + test.coding
			}
		}
		testenv.Equal(t, len(tags), 8, "entity tags: %v", tags)
		for _, test := range []struct{ field, status, body string }{
			{"Range: bytes=1-3", "206", "rot"},
			{"Range: bytes=100-", "416", "*"},
			{"If-None-Match: " + headerOf(askCoded(f, "/app.js", "br"), "ETag"), "304", ""},
			{"If-None-Match: " + headerOf(askCoded(f, "/app.js", "gzip"), "ETag"), "200", "brotli"},
		} {
			answer := askCoded(f, "/app.js", "br", test.field)
			if statusOf(answer) != test.status || test.body != "*" && bodyOf(answer) != test.body || test.status != "416" && headerOf(answer, "Vary") == "" {
				t.Errorf("%q: %q", test.field, answer)
			}
			testenv.Equal(t, headerOf(answer, "Content-Encoding") == "br", test.status[0] == '2', "%q: coded", test.field)
		}
	})
}

// TestPrecompressedIndex: what stands beside one that could be the index of a folder is not sent for
// another one that is.
func TestPrecompressedIndex(t *testing.T) {
	html, text := strings.Repeat("html ", 1000), strings.Repeat("text ", 1000)
	root := tree(t, map[string]string{
		"both/index.html": html, "both/index.txt": text, "both/index.txt.gz": "text gzipped",
		"left/index.html.gz": "html gzipped", "left/index.txt": text,
		"second/index.txt": text, "second/index.txt.gz": "text gzipped",
	})
	everyKeeping(t, root, []string{"index.html", "index.txt"}, func(t *testing.T, f *Files) {
		for _, test := range []struct{ path, coding, body string }{
			{"/both/", "", html},
			{"/both/index.txt", "gzip", "text gzipped"},
			{"/left/", "", text},
			{"/second/", "gzip", "text gzipped"},
		} {
			for range 2 {
				wantCoded(t, askCoded(f, test.path, "gzip"), test.coding, test.body, test.path)
			}
		}
	})
}

// TestPrecompressedChanges: one that is too old, comes, goes or changes is noticed.
func TestPrecompressedChanges(t *testing.T) {
	root := plainSite(t)
	gz := filepath.Join(root, "a.css.gz")
	f := openWith(t, root, FilesConfig{Codings: Precompressed(), Revalidate: -1})
	expect := func(what, want string) {
		t.Helper()
		testenv.Equal(t, bodyOf(askCoded(f, "/a.css", "gzip")), want, what)
	}
	expect("none", plainContent)
	writeFile(t, gz, "first")
	expect("it has come", "first")
	writeFile(t, gz, "other one")
	expect("it has changed", "other one")
	then := time.Now().Add(-2 * time.Hour)
	os.Chtimes(gz, then, then)
	expect("it is older than the file", plainContent)
	writeFile(t, gz, "again")
	expect("it is new", "again")
	os.Remove(gz)
	expect("it is gone", plainContent)
	testenv.Must(t, os.Symlink("/etc/passwd", gz))
	expect("a link that leads out", plainContent)
	checkCache(t, f)
}

var plainContent = strings.Repeat("plain ", 1000)

// plainSite has the file a.css with plainContent.
func plainSite(t *testing.T) (root string) {
	return tree(t, map[string]string{"a.css": plainContent})
}

// TestPrecompressedNotInMemory: one that the kernel has to ask the disk for is found as well.
func TestPrecompressedNotInMemory(t *testing.T) {
	root := plainSite(t)
	writeFile(t, filepath.Join(root, "a.css.gz"), "packed")
	f := openWith(t, root, FilesConfig{Codings: Precompressed(), Revalidate: -1})
	f.store.Cached = false // nothing is taken to be in memory
	for range 2 {          // the second time it is compared with what is there
		wantCoded(t, askCoded(f, "/a.css", "gzip"), "gzip", "packed")
	}
	checkCache(t, f)
}

// TestCompressOnTheFly: made once, kept, made anew when the file changes.
func TestCompressOnTheFly(t *testing.T) {
	settleFiles(t)
	root := plainSite(t)
	path := filepath.Join(root, "a.css")
	writeFile(t, filepath.Join(root, "small.css"), "tiny")
	writeFile(t, filepath.Join(root, "large.css"), strings.Repeat("x", 70_000))
	writeFile(t, filepath.Join(root, "over.css"), strings.Repeat("x", 90_000))
	writeFile(t, filepath.Join(root, "a.png"), plainContent)
	var brs, gzips atomic.Int32
	config := FilesConfig{CacheBytes: 8 << 20, CacheFileMax: 64 << 10, CompressMax: 80_000, Codings: []Coding{squeeze("br", &brs), squeeze("gzip", &gzips)}, Revalidate: -1}
	f := openWith(t, root, config)
	for range 3 {
		answer := askCoded(f, "/a.css", "gzip, br")
		wantCoded(t, answer, "br", "br of 6000 bytes")
		testenv.Equal(t, headerOf(answer, "Vary"), "Accept-Encoding", "Vary")
		testenv.MustEqual(t, bodyOf(askCoded(f, "/large.css", "gzip")), "gzip of 70000 bytes", "from an open file")
	}
	testenv.Equal(t, brs.Load(), 1, "compressed by br")
	testenv.Equal(t, gzips.Load(), 1, "compressed by gzip")
	for _, path := range []string{"/small.css", "/over.css", "/a.png"} {
		if answer := askCoded(f, path, "br"); statusOf(answer) != "200" || headerOf(answer, "Content-Encoding") != "" {
			t.Errorf("%s: %.300q", path, answer)
		}
	}
	before := headerOf(askCoded(f, "/a.css", "br"), "ETag")
	if plain := headerOf(askCoded(f, "/a.css", ""), "ETag"); plain == before {
		t.Error("two forms have one entity tag", plain)
	}
	testenv.Equal(t, statusOf(askCoded(f, "/a.css", "br", "If-None-Match: "+before)), "304", "status")
	writeFile(t, path, strings.Repeat("other ", 500))
	answer := askCoded(f, "/a.css", "br")
	if bodyOf(answer) != "br of 3000 bytes" || headerOf(answer, "ETag") == before {
		t.Errorf("after a change: %.300q", answer)
	}
	writeFile(t, path+".br", "beside")
	testenv.Equal(t, bodyOf(askCoded(f, "/a.css", "br")), "beside", "one beside it goes first")
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
		if f, err := OpenFiles(root, config); err == nil {
			f.Close()
			t.Errorf("%+v is taken", config)
		}
	}
}

// TestIndexNames: the first that is there.
func TestIndexNames(t *testing.T) {
	root := tree(t, map[string]string{"one/index.htm": "htm", "both/index.htm": "htm", "both/main.html": "main", "none/index.html": "not asked for"})
	f := openWith(t, root, FilesConfig{Index: []string{"main.html", "index.htm"}})
	for path, want := range map[string]string{"/one/": "200 htm", "/both/": "200 main", "/none/": "404 " + string(appendErrorPage(nil, 404))} {
		testenv.Equal(t, statusAndBody(askFile(f, path)), want, path)
	}
}

// TestYoungFilesAreNotCompressed: they may change without a sign of it.
func TestYoungFilesAreNotCompressed(t *testing.T) {
	root := plainSite(t)
	filesTickLike(t, time.Hour)
	for _, max := range []int64{0, -1} {
		var count atomic.Int32
		f := openWith(t, root, FilesConfig{CacheFileMax: max, Codings: []Coding{squeeze("gzip", &count)}})
		wantCoded(t, askCoded(f, "/a.css", "gzip"), "", plainContent)
		testenv.Equal(t, count.Load(), 0, "compressed N times")
	}
}

// TestCompressionThatDoesNotPay is not tried again, nor one that fails.
func TestCompressionThatDoesNotPay(t *testing.T) {
	settleFiles(t)
	root := plainSite(t)
	for name, compress := range map[string]func(src []byte) ([]byte, error){
		"dull":  func(src []byte) ([]byte, error) { return src[:len(src)-len(src)/32], nil },
		"fails": func(src []byte) ([]byte, error) { return nil, errors.New("no") },
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			f := openWith(t, root, FilesConfig{Codings: []Coding{{Name: "gzip", Compress: func(src []byte) ([]byte, error) { n++; return compress(src) }}}})
			for range 3 {
				wantCoded(t, askCoded(f, "/a.css", "gzip"), "", plainContent)
			}
			testenv.Equal(t, n, 1, "tried N times")
		})
	}
}

// TestCompressionIsBounded: while as many compress as may, others get the file as it is.
func TestCompressionIsBounded(t *testing.T) {
	settleFiles(t)
	root := plainSite(t)
	var count atomic.Int32
	f := openWith(t, root, FilesConfig{Codings: []Coding{squeeze("gzip", &count)}})
	store.Compressing.Acquire(store.MostCompressing)
	wantCoded(t, askCoded(f, "/a.css", "gzip"), "", plainContent)
	testenv.Equal(t, count.Load(), 0, "compressed N times")
	store.Compressing.Release(store.MostCompressing)
	wantCoded(t, askCoded(f, "/a.css", "gzip"), "gzip", "gzip of 6000 bytes")
}

// TestCompressionIsBoundedForAllSites: each has a Files of its own, and the processors are the same.
func TestCompressionIsBoundedForAllSites(t *testing.T) {
	settleFiles(t)
	root := plainSite(t)
	var sites []*Files
	made := 0
	ask := func() {
		if len(sites) > 0 {
			f := sites[0]
			sites = sites[1:]
			askCoded(f, "/a.css", "gzip")
		}
	}
	// Each site is asked while those before it compress.
	gzip := Coding{Name: "gzip", Compress: func([]byte) ([]byte, error) { made++; ask(); return []byte("coded"), nil }}
	for range store.MostCompressing + 3 {
		sites = append(sites, openWith(t, root, FilesConfig{CacheBytes: 1 << 20, Codings: []Coding{gzip}}))
	}
	ask()
	testenv.Equal(t, int64(made), store.MostCompressing, "%d compress at a time", made)
}

// TestCompressionThatDoesNotFit into the cache, though the welcome was for less, is not made again for every request.
func TestCompressionThatDoesNotFit(t *testing.T) {
	settleFiles(t)
	content := strings.Repeat("plain   ", 50_000)
	root := tree(t, map[string]string{"a.css": content})
	made := 0
	most := func(src []byte) ([]byte, error) { made++; return src[:3*len(src)/4], nil }
	codings := []Coding{{Name: "br", Compress: most}, {Name: "gzip", Compress: most}}
	f := openWith(t, root, FilesConfig{CacheBytes: 256 << 10, CacheFileMax: 8 << 10, OpenFiles: 16, Codings: codings})
	for range 3 {
		wantCoded(t, askCoded(f, "/a.css", "br, gzip"), "", content)
	}
	testenv.Equal(t, made, len(codings), "made N times, once with each coding")
	checkCache(t, f)
}
