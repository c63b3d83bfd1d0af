package knot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// changes are what can happen to a file between two requests; want is the answer to the
// second, a status or a body.
var changes = []struct {
	name, want string
	do         func(t testing.TB, path string)
}{
	{"nothing", strings.Repeat("old ", 100), func(testing.TB, string) {}},
	{"replaced", "new", func(t testing.TB, path string) { rename(t, path, "new") }},
	{"replaced by one of the same size and time", strings.Repeat("NEW ", 100), func(t testing.TB, path string) {
		rename(t, path, strings.Repeat("NEW ", 100))
		aged(t, path)
	}},
	{"rewritten in place", strings.Repeat("NEW ", 100), func(t testing.TB, path string) {
		testenv.Must(t, os.WriteFile(path, []byte(strings.Repeat("NEW ", 100)), 0o644))
	}},
	{"truncated", "old ", func(t testing.TB, path string) { testenv.Must(t, os.Truncate(path, 4)) }},
	{"deleted", "404", func(t testing.TB, path string) { testenv.Must(t, os.Remove(path)) }},
	{"replaced by a folder", "301", func(t testing.TB, path string) { testenv.Must(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o755))) }},
	{"replaced by a link that leads out", "403", func(t testing.TB, path string) {
		testenv.Must(t, errors.Join(os.Remove(path), os.Symlink("/etc/passwd", path)))
	}},
	{"forbidden", "403", func(t testing.TB, path string) { testenv.Must(t, os.Chmod(path, 0)) }},
	{"in a folder that is forbidden", "403", func(t testing.TB, path string) { testenv.Must(t, os.Chmod(filepath.Dir(path), 0)) }},
}

// changing makes a folder for all users with one file in a folder below it.
func changing(t *testing.T) (root, path string) {
	root = publicDir(t)
	path = filepath.Join(root, "d", "f")
	writeFile(t, path, strings.Repeat("old ", 100))
	return root, path
}

// TestChangesAreSeen: after a change the old file is served for as long as Revalidate
// says and not longer, however it is kept.
func TestChangesAreSeen(t *testing.T) {
	for _, kept := range keepings {
		for _, change := range changes {
			for _, always := range []bool{false, true} {
				t.Run(fmt.Sprint(kept.name, "/", change.name, "/always=", always), func(t *testing.T) {
					root, path := changing(t)
					config := kept.config
					if always {
						config.Revalidate = -1
					}
					f := openWith(t, root, config)
					now := int64(1)
					setClock(f, &now)
					old := askBody(t, f, "/d/f")
					change.do(t, path)
					asNobody(func() {
						if !always && f.store.Caches != nil {
							now += int64(time.Second) - 1
							if got := askBody(t, f, "/d/f"); kept.name == "in memory" && got != old {
								t.Errorf("before it was compared again: %.20q", got)
							}
							now++
						}
						if answer := askFile(f, "/d/f"); bodyOf(answer) != change.want && statusOf(answer) != change.want {
							t.Errorf("got %.200q, want %.20q", answer, change.want)
						}
					})
				})
			}
		}
	}
}

// TestYoungFileIsReadAgain: a file that is changed within the same tick of the file
// system's clock looks the same before and after.
func TestYoungFileIsReadAgain(t *testing.T) {
	filesTickLike(t, time.Minute)
	root, path := changing(t)
	f := openWith(t, root, FilesConfig{Revalidate: -1})
	rename(t, path, "young 1")
	for range 3 {
		askBody(t, f, "/d/f")
	}
	if s := f.Stats(); s.Hits != 0 && s.Stale == 0 {
		t.Errorf("a file just written is trusted: %+v", s)
	}
	aged(t, path) // changes ctime, but not the times that are compared for age
	e := testenv.Need(loadOnce(f))(t)
	if !e.Young {
		t.Error("its time of change is not looked at")
	}
}

func loadOnce(f *Files) (*store.Entry, error) {
	x := newCtx()
	x.srv = new(Server)
	x.path = []byte("/d/f")
	f.store.Caches.Empty()
	e, err := f.store.Find(x.storeRequest())
	if err == nil {
		e.Release()
	}
	return e, err
}

// TestFileThatChangesWhileItIsServed: a client that reads slowly gets the file as it was
// when its response began, or, if somebody truncates it, is cut off.
func TestFileThatChangesWhileItIsServed(t *testing.T) {
	const size = 16 << 20 // more than the buffers of a connection take
	old := bytes.Repeat([]byte("old\n"), size/4)
	for _, kept := range keepings {
		for _, change := range []string{"replaced", "deleted", "truncated"} {
			t.Run(kept.name+"/"+change, func(t *testing.T) {
				everyMode(t, func(t *testing.T, start func(*Server) *served) {
					path := filepath.Join(t.TempDir(), "f")
					testenv.Must(t, os.WriteFile(path, old, 0o644))
					f := openWith(t, filepath.Dir(path), kept.config)
					sv := start(&Server{Handler: f.Handle})
					p := sv.dial()
					p.send(req("GET /f"))
					resp := p.head()
					// The server is stuck in the middle: nobody has read the body.
					switch change {
					case "replaced":
						rename(t, path, "new")
					case "deleted":
						os.Remove(path)
					case "truncated":
						os.Truncate(path, 100)
					}
					got, err := io.ReadAll(resp.Body)
					cut := change == "truncated" && kept.name != "in memory"
					if cut && err != io.ErrUnexpectedEOF || !cut && (err != nil || len(got) != size) {
						t.Errorf("%d bytes, %v", len(got), err)
					}
					// What is cut off while it is in a socket's buffer becomes zeros there.
					if !cut && !bytes.Equal(got, old[:len(got)]) {
						t.Error("not what the file was")
					}
					sv.stop()
					testenv.Equal(t, strings.Contains(sv.log.String(), "shrank"), cut, "the log says why it was cut off")
				})
			})
		}
	}
}

// TestRandomRequestsAgainstFileServer asks Knot and net/http's FileServer the same, while
// the files change between requests.
func TestRandomRequestsAgainstFileServer(t *testing.T) {
	const files = 12
	for _, kept := range keepings {
		t.Run(kept.name, func(t *testing.T) {
			everyMode(t, func(t *testing.T, start func(*Server) *served) {
				root := t.TempDir()
				oracle := http.FileServer(http.Dir(root))
				config := kept.config
				config.Revalidate = -1
				if kept.name == "in memory" {
					config.CacheBytes, config.CacheFileMax = 400_000, 60_000 // some of each
				}
				sv := start(&Server{Handler: openWith(t, root, config).Handle})
				r := testenv.Rand(t, *seed)
				p := sv.dial()
				for range testenv.Rounds(150, 400) {
					name := fmt.Sprintf("/f%d.txt", r.IntN(files))
					if r.IntN(4) == 0 {
						mutate(t, r, root+name)
					}
					compareAnswers(t, p, oracle, r, name)
				}
			})
		})
	}
}

// mutate leaves no empty file: on a range of one FileServer and Knot differ, rightly both.
func mutate(t *testing.T, r *rand.Rand, path string) {
	content := string(contentOf(r.IntN(1000), 1+r.IntN(3)*r.IntN(100_000)))
	switch r.IntN(5) {
	case 0:
		os.Remove(path)
	case 1:
		if _, err := os.Stat(path); err == nil {
			os.Truncate(path, int64(1+r.IntN(50_000)))
		}
	case 2:
		os.WriteFile(path, []byte(content), 0o644)
	default:
		rename(t, path, content)
	}
}

func compareAnswers(t *testing.T, p *peer, oracle http.Handler, r *rand.Rand, name string) {
	t.Helper()
	method := []string{"GET", "GET", "GET", "HEAD"}[r.IntN(4)]
	asked := httptest.NewRequest(method, name, nil)
	var fields []string
	add := func(field, value string) {
		asked.Header.Set(field, value)
		fields = append(fields, field+": "+value)
	}
	if method == "GET" {
		switch r.IntN(6) {
		case 0:
			add("Range", fmt.Sprintf("bytes=%d-%d", r.IntN(1000), 1000+r.IntN(60_000)))
		case 1:
			add("Range", fmt.Sprintf("bytes=%d-", r.IntN(90_000)))
		case 2:
			add("Range", fmt.Sprintf("bytes=-%d", 1+r.IntN(90_000)))
		}
	}
	switch r.IntN(8) {
	case 0:
		add("If-Modified-Since", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
	case 1:
		add("If-Modified-Since", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	case 2:
		add("If-None-Match", `"x", "y"`)
	case 3:
		add("If-None-Match", "*")
	}
	want := httptest.NewRecorder()
	oracle.ServeHTTP(want, asked)
	request := req(method+" "+name, fields...)
	got, body := p.ask(request)
	testenv.MustEqual(t, got.StatusCode, want.Code, "%q: status", request)
	if want.Code >= 400 {
		return
	}
	for _, field := range []string{"Content-Range", "Content-Length", "Last-Modified"} {
		// FileServer's recorder has no length for what it did not write.
		if w, g := want.Header().Get(field), got.Header.Get(field); w != g && (w != "" || field != "Content-Length") {
			t.Fatalf("%q: %s is %q, want %q", request, field, g, w)
		}
	}
	if method == "GET" && body != want.Body.String() {
		t.Fatalf("%q: %d bytes that differ from the %d of FileServer", request, len(body), want.Body.Len())
	}
}

// TestLargeFileAfterAPause: the time that a client has for a response begins with the
// response.
func TestLargeFileAfterAPause(t *testing.T) {
	root := layFiles(t, 1, sized(500_000))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		patiently(t, 40*time.Millisecond, func(limit time.Duration) error {
			sv := start(&Server{Handler: openWith(t, root, FilesConfig{CacheBytes: -1}).Handle, WriteTimeout: limit})
			p := sv.dial()
			for range 2 {
				<-time.After(3 * limit)
				p.send(req("GET /f0"))
				resp, err := http.ReadResponse(p.r, nil)
				if err != nil {
					return err
				}
				if n, err := io.Copy(io.Discard, resp.Body); n != 500_000 {
					return fmt.Errorf("%d bytes, %v", n, err)
				}
			}
			return nil
		})
	})
}

// TestModifiedInTheFuture: the file of a machine whose clock is ahead is not said to be younger than the response, and a copy of
// it is as good as any.
func TestModifiedInTheFuture(t *testing.T) {
	root := t.TempDir()
	path, future := filepath.Join(root, "f"), time.Now().Add(time.Hour)
	rename(t, path, "one")
	testenv.Must(t, os.Chtimes(path, future, future))
	f := openWith(t, root, FilesConfig{})
	first := askFile(f, "/f")
	date, _ := http.ParseTime(headerOf(first, "Date"))
	if modified, err := http.ParseTime(headerOf(first, "Last-Modified")); err != nil || modified.After(date) {
		t.Errorf("%q", first)
	}
	for _, header := range []string{"If-None-Match: " + headerOf(first, "ETag"), "If-Modified-Since: " + headerOf(first, "Last-Modified")} {
		testenv.Equal(t, statusOf(askFile(f, "/f", header)), "304", header)
	}
}

// TestTagsWithoutATime: where all files are given the same time, as reproducible builds do, two of the same size have
// different validators. Where the time says something, copies of a file on two machines have the same.
func TestTagsWithoutATime(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "f")
	f := openWith(t, root, FilesConfig{Revalidate: -1})
	// put makes content the file's, at another moment than what was there.
	put := func(content string, mtime time.Time) {
		var before, after unix.Stat_t
		unix.Stat(path, &before)
		for after.Ctim == before.Ctim || after.Ctim == (unix.Timespec{}) {
			rename(t, path, content)
			testenv.Must(t, os.Chtimes(path, mtime, mtime))
			testenv.Must(t, unix.Stat(path, &after))
		}
	}
	for name, test := range map[string]struct {
		mtime  time.Time
		status string
	}{
		"the first second":  {time.Unix(1, 0), "200"},
		"zip":               {time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC), "200"},
		"before there were": {time.Unix(-1000, 0), "200"},
		"one that counts":   {time.Date(2001, 2, 3, 4, 5, 6, 7, time.UTC), "304"},
	} {
		put("one", test.mtime)
		first := askFile(f, "/f")
		put("two", test.mtime)
		for _, header := range []string{"If-None-Match: " + headerOf(first, "ETag"), "If-Modified-Since: " + test.mtime.UTC().Format(http.TimeFormat)} {
			answer := askFile(f, "/f", header)
			if statusOf(answer) != test.status || test.status == "200" && bodyOf(answer) != "two" {
				t.Errorf("%s: %q: %q, want %s", name, header, answer, test.status)
			}
		}
	}
}

// TestContentWithoutDescriptors: while none is left what is in memory can't be compared with the file, and is served
// and kept nevertheless, unless it is to be compared at every request. Then the change shows.
func TestContentWithoutDescriptors(t *testing.T) {
	for revalidate, want := range map[time.Duration]string{0: "200", -1: "503"} {
		settleFiles(t)
		root, path := changing(t)
		f := openWith(t, root, FilesConfig{Revalidate: revalidate})
		now := int64(1)
		setClock(f, &now)
		old := askBody(t, f, "/d/f")
		rename(t, path, "new")
		now += int64(time.Hour)
		giveBack := exhaust(t, f.store.Root.FD)
		answer := askFile(f, "/d/f")
		giveBack()
		if statusOf(answer) != want || want == "200" && bodyOf(answer) != old {
			t.Errorf("revalidate %v: without a descriptor: %.300q", revalidate, answer)
		}
		now += int64(time.Hour)
		testenv.Equal(t, askBody(t, f, "/d/f"), "new", "revalidate %v: with descriptors again", revalidate)
	}
}

// TestFolderThatMayOnlyBeSearched: that it may not be read matters to listings, not to the slash behind its name, nor to
// what is in it.
func TestFolderThatMayOnlyBeSearched(t *testing.T) {
	root, path := changing(t)
	folder := filepath.Dir(path)
	writeFile(t, filepath.Join(folder, "index.html"), "index")
	testenv.Must(t, os.Chmod(folder, 0o111))
	t.Cleanup(func() { os.Chmod(folder, 0o755) })
	for _, kept := range keepings {
		f := openWith(t, root, kept.config)
		if f.store.Walks {
			t.Skip("without openat2 folders are opened to be read")
		}
		asNobody(func() {
			for target, want := range map[string]string{"/d": "301", "/d/": "200", "/d/f": "200", "/d/none": "404"} {
				testenv.Equal(t, statusOf(askFile(f, target)), want, "%s: %s", kept.name, target)
			}
		})
	}
}
