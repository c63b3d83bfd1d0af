package cache

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/cmd/knot/internal/cache/rfc"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// filesOf are the files below a folder.
func filesOf(t *testing.T, folder string) []string {
	t.Helper()
	return append(testenv.Need(filepath.Glob(filepath.Join(folder, "*", "*")))(t), testenv.Need(filepath.Glob(filepath.Join(folder, "*.new")))(t)...)
}

// onDisk waits until there are so many files, all of them whole.
func (r *rig) onDisk(want int) {
	r.t.Helper()
	testenv.Until(r.t, fmt.Sprint(want, " files"), func() bool {
		files := filesOf(r.t, r.cache.Folder())
		written := !slices.ContainsFunc(files, func(name string) bool { return strings.HasSuffix(name, unfinished) })
		return written && len(files) == want && r.inFiles() == want // what is in a file may be dropped from memory
	})
}

// inFiles is how many entries are known to be in a file.
func (r *rig) inFiles() (n int) {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	for at := r.cache.all.Front(); at != nil; at = at.Next() {
		if at.Value.(*entry).file != "" {
			n++
		}
	}
	return n
}

// TestRestart: what is on disk is there after a restart, with its age; what was changed there is dropped.
func TestRestart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "cache")
	before := newRig(t, Config{Folder: folder})
	before.sends(200, fresh, `ETag: "a"`, "Vary: Accept", "", strings.Repeat("body ", 1000))
	for _, path := range []string{"/", "/torn", "/changed", "/body", "/empty"} {
		before.get(path, "Accept: x")
	}
	before.get("/", "Accept: y")
	before.onDisk(6)
	change := func(path string, fn func(text []byte) []byte) {
		for _, name := range filesOf(t, folder) {
			text := testenv.Need(os.ReadFile(name))(t)
			e, _, err := decode(bytes.NewReader(text), int64(len(text)), &rfc.Rules{})
			if err == nil && e.key == "http://site.test"+path {
				testenv.Must(t, os.WriteFile(name, fn(text), 0o600))
			}
		}
	}
	change("/torn", func(text []byte) []byte { return text[:len(text)-1] })
	change("/changed", func(text []byte) []byte {
		return bytes.Replace(text, []byte(`"status":200`), []byte(`"status":404`), 1)
	})
	change("/body", func(text []byte) []byte { text[len(text)-9]++; return text })
	change("/empty", func([]byte) []byte { return nil })
	testenv.Must(t, os.WriteFile(filepath.Join(folder, "other.txt"), nil, 0o600))
	old := filepath.Join(folder, "x.new")
	testenv.Must(t, os.WriteFile(old, nil, 0o600))
	testenv.Must(t, os.Chtimes(old, epoch, epoch.Add(-2*time.Hour)))

	r := newRig(t, Config{Folder: folder})
	r.sends(200, fresh, "", "new")
	r.pass(10 * time.Second)
	r.cache.files.scan.Wait()
	testenv.Equal(t, r.cache.Stats().Entries, 3)
	testenv.Equal(t, r.cache.Stats().Corrupt, 3)
	for _, accept := range []string{"x", "y"} {
		a := r.want("hit", 0, "Accept: "+accept)
		testenv.Equal(t, len(a.body), 5000)
		testenv.Equal(t, a.header.Get("Age"), "10")
	}
	for i, path := range []string{"/torn", "/changed", "/body", "/empty"} {
		testenv.Equal(t, r.get(path, "Accept: x").body, "new", path)
		testenv.Equal(t, r.asked.Load(), int64(i+1), path)
	}
	testenv.Equal(t, r.cache.Stats().Corrupt, 4)
	testenv.Must(t, testenv.Err(os.Stat(filepath.Join(folder, "other.txt"))), "a file of others")
	if _, err := os.Stat(old); err == nil {
		t.Error("an unfinished file is left")
	}
}

// TestVanishedFiles: what a predecessor deletes after its successor has listed or adopted it is neither damaged nor worth a line.
func TestVanishedFiles(t *testing.T) {
	folder := t.TempDir()
	before := newRig(t, Config{Folder: folder})
	before.sends(200, fresh, "", "body")
	before.get("/")
	before.onDisk(1)
	listed := testenv.Need(os.ReadDir(filepath.Dir(filesOf(t, folder)[0])))(t)[0]

	var log testenv.Buffer
	after, _ := New(Config{Folder: folder}, "site", sizeOf, before.now, slog.New(slog.NewTextHandler(&log, nil)))
	testenv.Must(t, after.Start())
	defer after.Close()
	after.files.scan.Wait()
	e := after.find([]byte("http://site.test/"), func(string) string { return "" })
	before.cache.Purge("http://site.test/", false)
	testenv.Equal(t, len(filesOf(t, folder)), 0)
	testenv.Equal(t, after.bodyOf(e) == nil, true, "there is no body")
	testenv.Equal(t, after.Stats().Entries, 0)
	testenv.Must(t, after.files.take(after.files.path(listed.Name()), listed, nil))
	testenv.Must(t, after.files.take(folder+"/00", nil, &fs.PathError{Op: "lstat", Err: fs.ErrNotExist}))
	testenv.Equal(t, after.Stats().Corrupt, 0)
	testenv.Equal(t, log.String(), "")
}

// TestLateFiles: what a predecessor saves behind the scan of its successor counts for that later, too.
func TestLateFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		c, _ := New(Config{Folder: folder}, "site", sizeOf, time.Now, testenv.Quiet())
		testenv.Must(t, c.Start())
		defer c.Close()
		c.files.scan.Wait()
		stored, _ := rfc.Store(rfc.Request{Method: "GET"}, rfc.Response{Status: 200, Header: rfc.Header{{Name: "Cache-Control", Value: "max-age=60"}}, Requested: time.Now(), Received: time.Now()}, c.files.s.rules)
		testenv.Need(c.files.write(newEntry("http://h/", stored, []byte("body")), []byte("body")))(t)
		testenv.Equal(t, c.Stats().Entries, 0, "entries before the second scan")
		<-time.After(abandonedAfter)
		c.files.scans.Wait()
		testenv.Equal(t, c.Stats().Entries, 1)
		testenv.AtLeast(t, c.Stats().Disk, 1, "bytes of files")
		testenv.Equal(t, len(filesOf(t, folder)), 1, "files")
	})
}

// TestPurgeDuringTheScan: what was invalidated before the scan has come to its file does not come back. What was asked for later does.
func TestPurgeDuringTheScan(t *testing.T) {
	for about, invalidate := range map[string]func(c *Cache){
		"an URL":   func(c *Cache) { c.Purge("http://site.test/a", false) },
		"a prefix": func(c *Cache) { c.Purge("http://site.test/", true) },
		"POST":     func(c *Cache) { c.invalidate(urls{"http://site.test/a", false}, nil) },
		"too many to remember": func(c *Cache) {
			for i := range maxAlone + 1 {
				c.Purge(fmt.Sprint("http://site.test/", i), false)
			}
		},
	} {
		folder := t.TempDir()
		before := newRig(t, Config{Folder: folder})
		before.sends(200, fresh, "", "body")
		before.get("/a")
		before.onDisk(1)
		c, _ := New(Config{Folder: folder}, "site", sizeOf, before.now, testenv.Quiet())
		c.files.stop = make(chan struct{})
		c.Purge("http://site.test/ab", true)
		c.Purge("http://site.test/", false)
		invalidate(c)
		before.pass(time.Second)
		before.get("/b")
		before.onDisk(2)
		c.files.takeAll()
		testenv.Equal(t, c.Stats().Entries, 1, about)
		testenv.Equal(t, c.find([]byte("http://site.test/b"), nil) != nil, true, about)
		testenv.Equal(t, len(filesOf(t, folder)), 1, about)
	}
}

// TestUnreadableFiles: a file that the system does not open is not taken for a damaged one. Here its folder is a file.
func TestUnreadableFiles(t *testing.T) {
	folder := t.TempDir()
	before := newRig(t, Config{Folder: folder})
	before.sends(200, fresh, "", "body")
	before.get("/")
	before.onDisk(1)
	before.cache.files.scan.Wait()
	whole := filesOf(t, folder)[0]
	listed := testenv.Need(os.ReadDir(filepath.Dir(whole)))(t)[0]
	testenv.Must(t, before.cache.files.take(filepath.Join(whole, listed.Name()), listed, nil))
	testenv.Equal(t, before.cache.files.unread, 1, "files that can't be read")
	testenv.Equal(t, before.cache.Stats().Corrupt, 0, "damaged files")
}

// TestDiskLimits: memory may be smaller than what is kept, and files stay within their limit.
func TestDiskLimits(t *testing.T) {
	r := newRig(t, Config{Folder: t.TempDir(), Memory: "20000", MaxEntry: "10000", Disk: "100000"})
	r.sends(200, fresh, "", strings.Repeat("x", 8000))
	for i := range 10 {
		r.get(fmt.Sprint("/", i))
		r.onDisk(i + 1)
		testenv.AtMost(t, r.cache.Stats().Memory, 20000)
	}
	for i := range 10 {
		a := r.get(fmt.Sprint("/", i))
		testenv.Equal(t, a.how(), "hit")
		testenv.Equal(t, len(a.body), 8000)
	}
	for i := range 10 {
		r.get(fmt.Sprint("/more/", i))
		testenv.AtMost(t, r.cache.Stats().Disk, 100000)
	}
	testenv.Until(t, "files are deleted", func() bool { return len(filesOf(t, r.cache.Folder())) <= 11 })
	r.cache.Purge("http://site.test/", true)
	testenv.Until(t, "files are deleted, those too that were being written", func() bool {
		return len(filesOf(t, r.cache.Folder())) == 0 && r.cache.Stats().Disk == 0
	})
}

// TestLargerThanDisk: a response that files have no room for is kept in memory alone, and takes the place of no other.
func TestLargerThanDisk(t *testing.T) {
	r := newRig(t, Config{Folder: t.TempDir(), Disk: "20000"})
	r.sends(200, fresh, "", strings.Repeat("x", 5000))
	r.get("/a")
	r.get("/b")
	r.onDisk(2)
	r.sends(200, fresh, "", strings.Repeat("x", 50_000))
	r.get("/large")
	for _, path := range []string{"/large", "/a", "/b"} {
		testenv.Equal(t, r.get(path).how(), "hit", path)
	}
	r.onDisk(2)
	testenv.Equal(t, r.cache.Stats().Evicted, 0)
}

// TestLessRoom: a file that was written when there was more room goes, and no other file goes for it.
func TestLessRoom(t *testing.T) {
	for _, less := range []Config{{Memory: "10000"}, {Disk: "20000"}} {
		folder := t.TempDir()
		before := newRig(t, Config{Folder: folder})
		before.sends(200, fresh, "", strings.Repeat("x", 50_000))
		before.get("/whole")
		before.sends(200, fresh, "", "x")
		small := []string{"/a", "/b", "/c", "/d", "/e", "/f"} // the scan finds some of them before the large one
		for _, path := range small {
			before.get(path)
		}
		before.onDisk(1 + len(small))
		less.Folder = folder
		r := newRig(t, less)
		r.cache.files.scan.Wait()
		testenv.Equal(t, r.cache.Stats().Entries, int64(len(small)), "%+v", less)
		testenv.Equal(t, len(filesOf(t, folder)), len(small), "%+v", less)
	}
}

// TestScanFindsOwn: the scan may come to a file before its writer has noted it.
func TestScanFindsOwn(t *testing.T) {
	r := newRig(t, Config{Folder: t.TempDir()})
	r.cache.files.scan.Wait()
	stored, _ := rfc.Store(rfc.Request{Method: "GET"}, rfc.Response{Status: 200, Header: rfc.Header{{Name: "Cache-Control", Value: "max-age=60"}}, Requested: epoch, Received: epoch}, r.cache.files.s.rules)
	e := newEntry("http://h/", stored, []byte("body"))
	r.cache.keep(e, nil, nil)
	name := testenv.Need(r.cache.files.write(e, []byte("body")))(t)
	found, _, err := r.cache.files.read(r.cache.files.path(name), false)
	testenv.Must(t, err)
	r.cache.adopt(found, name)
	r.cache.attach(e, name)
	testenv.Equal(t, len(filesOf(t, r.cache.Folder())), 1)
	testenv.Equal(t, r.cache.Stats().Entries, 1)
	testenv.Equal(t, string(testenv.Need(r.cache.files.load(name, e))(t)), "body")
	found.Received = epoch.Add(-time.Hour) // of a run before
	older := testenv.Need(r.cache.files.write(found, []byte("body")))(t)
	r.cache.adopt(found, older)
	testenv.Equal(t, len(filesOf(t, r.cache.Folder())), 1)
}

// TestAdopt: with the same table a new reading of the configuration goes on with what is kept.
func TestAdopt(t *testing.T) {
	r := newRig(t, Config{Folder: t.TempDir()})
	r.sends(200, fresh, "", "x")
	r.get("/")
	made := func(c Config) *Cache {
		one, _ := New(c, "site", sizeOf, r.now, testenv.Quiet())
		return one
	}
	testenv.Equal(t, made(Config{}).Adopt(r.cache), false)
	next := made(r.cache.config)
	testenv.Equal(t, next.Adopt(r.cache), true)
	testenv.Must(t, next.Start())
	defer next.Close()
	testenv.Equal(t, next.Stats().Entries, 1)
}

// TestNoFolder: a folder that can't be used is an error at the start.
func TestNoFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	testenv.Must(t, os.WriteFile(file, nil, 0o600))
	c, _ := New(Config{Folder: filepath.Join(file, "below")}, "site", sizeOf, time.Now, testenv.Quiet())
	testenv.Fails(t, c.Start())
}

// TestLargeHeads: an entry whose header is too large for a file is refused with its size.
func TestLargeHeads(t *testing.T) {
	stored := rfc.Restore(rfc.Response{Status: 200, Header: rfc.Header{{Name: "A", Value: strings.Repeat("x", maxSaid)}}, Requested: epoch, Received: epoch}, nil, true, &rfc.Rules{})
	_, err := encode(newEntry("http://h/", stored, nil), nil)
	testenv.ErrorSays(t, err, "bytes in the file; want at most 262144")
	if strings.Contains(err.Error(), "%!") {
		t.Error(err)
	}
}

// TestBytesInFiles: texts that are not UTF-8 come back from a file as they were.
func TestBytesInFiles(t *testing.T) {
	header, vary := rfc.Header{{Name: "ETag", Value: "\"\xe9\""}}, []rfc.Field{{Name: "accept", Value: "\xff"}}
	stored := rfc.Restore(rfc.Response{Status: 200, Header: header, Requested: epoch, Received: epoch}, vary, false, &rfc.Rules{})
	text := testenv.Need(encode(newEntry("http://h/\xe9", stored, nil), nil))(t)
	e, _, err := decode(bytes.NewReader(text), int64(len(text)), &rfc.Rules{})
	testenv.Must(t, err)
	testenv.Equal(t, fmt.Sprintf("%q %q %q", e.key, e.Header, e.Key), fmt.Sprintf("%q %q %q", "http://h/\xe9", header, vary))
}

// FuzzEntry: whatever a file has, reading it fails or gives an entry that is written again as it was.
func FuzzEntry(f *testing.F) {
	stored := rfc.Restore(rfc.Response{Status: 200, Header: rfc.Header{{Name: "ETag", Value: `"a"`}}, Requested: epoch, Received: epoch}, []rfc.Field{{Name: "accept", Value: "x"}}, true, &rfc.Rules{})
	text, err := encode(newEntry("http://h/", stored, []byte("body")), []byte("body"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:fixedSize])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, text []byte) {
		e, _, err := decode(bytes.NewReader(text), int64(len(text)), &rfc.Rules{})
		if err != nil {
			return
		}
		body := text[int64(len(text))-e.size:]
		again, err := encode(e, body)
		if err != nil {
			return
		}
		twice, _, err := decode(bytes.NewReader(again), int64(len(again)), &rfc.Rules{})
		if err != nil || twice.key != e.key || twice.size != e.size || len(twice.lines) != len(e.lines) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
