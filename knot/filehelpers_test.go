package knot

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// keepings are the ways in which a file can be kept.
var keepings = []struct {
	name   string
	config FilesConfig
}{
	{"in memory", FilesConfig{CacheFileMax: 20 << 20, CacheBytes: 1 << 30}},
	{"open", FilesConfig{CacheBytes: -1, OpenFiles: 100}},
	{"not at all", FilesConfig{CacheBytes: -1, OpenFiles: -1}},
}

// layFiles makes n files f0, f1, ... of the given sizes and returns their folder.
func layFiles(t testing.TB, n int, size func(i int) int) string {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		testenv.Must(t, os.WriteFile(filepath.Join(root, fmt.Sprint("f", i)), contentOf(i, size(i)), 0o644))
	}
	return root
}

func sized(size int) func(int) int { return func(int) int { return size } }

// contentOf is different for each i.
func contentOf(i, size int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%09d\n", i)), size/10+1)[:size]
}

// tree makes a folder with files, given by their paths, that were last changed an hour ago.
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for path, content := range files {
		writeFile(t, filepath.Join(root, path), content)
	}
	return root
}

// writeFile makes a file that was last changed an hour ago, as far as can be told.
func writeFile(t *testing.T, path, content string) {
	t.Helper()
	testenv.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testenv.Must(t, os.WriteFile(path, []byte(content), 0o644))
	aged(t, path)
}

// aged sets a file's times back, so that the next change shows in them; without this
// the tests would have to wait for the clock of the file system.
func aged(t testing.TB, path string) {
	t.Helper()
	old := time.Now().Add(-time.Hour)
	testenv.Must(t, os.Chtimes(path, old, old))
}

// rename makes content the file's in one step.
func rename(t testing.TB, path, content string) {
	t.Helper()
	fresh := path + ".new"
	testenv.Must(t, errors.Join(os.WriteFile(fresh, []byte(content), 0o644), os.Rename(fresh, path)))
}

// publicDir makes a folder for all users, see asNobody.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := testenv.Need(os.MkdirTemp("", "knot"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	testenv.Must(t, os.Chmod(dir, 0o755))
	return dir
}

// asNobody runs fn without root's right to read everything.
func asNobody(fn func()) {
	if os.Getuid() != 0 {
		fn()
		return
	}
	const nobody = 65534
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.Syscall(unix.SYS_SETFSUID, nobody, 0, 0)
	defer unix.Syscall(unix.SYS_SETFSUID, 0, 0, 0)
	fn()
}

// settleFiles makes files that were written just now pass for older ones.
func settleFiles(t *testing.T) { filesTickLike(t, -time.Hour) }

// filesTickLike makes files pass for ones of a file system with so coarse a clock.
func filesTickLike(t *testing.T, coarse time.Duration) {
	was := store.Coarse
	store.Coarse = int64(coarse)
	t.Cleanup(func() { store.Coarse = was })
}

func openWith(t testing.TB, root string, c FilesConfig) *Files {
	t.Helper()
	f := testenv.Need(OpenFiles(root, c))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// setClock makes f take now for the time.
func setClock(f *Files, now *int64) {
	f.store.Now = func() int64 { return *now }
	f.store.Root.Checked.Store(*now)
}

// askFile serves one request on the calling goroutine and returns all that it writes.
func askFile(f *Files, target string, fields ...string) string {
	return answerTo(&Server{Handler: f.Handle}, req("GET "+target, fields...))
}

// askBody is the body of the answer, which must have status 200.
func askBody(t testing.TB, f *Files, target string) string {
	t.Helper()
	answer := askFile(f, target)
	if got := statusOf(answer); got != "200" {
		t.Fatalf("%s: status %s, want 200: %.200q", target, got, answer)
	}
	return bodyOf(answer)
}

// checkCache compares what the shards say with what is in them.
func checkCache(t testing.TB, f *Files) {
	t.Helper()
	for i := range f.store.Caches.Shards {
		s := &f.store.Caches.Shards[i]
		s.Mu.Lock()
		var takes, content int64
		n := 0
		for e := s.Held.First; e != nil; e = e.Next {
			if takes += int64(store.ChunksFor(e.Length))*store.ChunkBytes + e.Overhead(); s.Entries[e.Key] != e || !e.Full {
				t.Errorf("entry %q is in the list and not in the map", e.Key)
			}
			content += int64(store.ChunksFor(e.Length)) * store.ChunkBytes
			n++
		}
		for e := s.Opened.First; e != nil; e = e.Next {
			n++
		}
		if takes > s.Bytes || s.Bytes > s.Most {
			t.Errorf("shard %d: contents take %d bytes, %d are counted, %d allowed", i, takes, s.Bytes, s.Most)
		}
		if used := s.Memory.Used(); used < content || used > s.Bytes {
			t.Errorf("shard %d: %d bytes of memory used, by contents %d, by entries %d", i, used, content, s.Bytes)
		}
		if n != len(s.Entries) || s.Opened.Count > s.Files {
			t.Errorf("shard %d: %d entries in lists, %d in the map, %d of %d open", i, n, len(s.Entries), s.Opened.Count, s.Files)
		}
		s.Mu.Unlock()
	}
}

// exhaust takes every descriptor that is left, and returns what gives them back.
func exhaust(t *testing.T, fd int) (giveBack func()) {
	t.Helper()
	highest := 0
	for _, entry := range testenv.Need(os.ReadDir("/proc/self/fd"))(t) {
		var n int
		if _, err := fmt.Sscan(entry.Name(), &n); err == nil {
			highest = max(highest, n)
		}
	}
	restore := limitDescriptors(t, highest+1)
	var taken []int
	for { // below the limit every number must be taken
		one, err := unix.Dup(fd)
		if err != nil {
			break
		}
		taken = append(taken, one)
	}
	return func() {
		for _, one := range taken {
			unix.Close(one)
		}
		restore()
	}
}

// limitDescriptors sets RLIMIT_NOFILE until restore is called.
func limitDescriptors(t *testing.T, n int) (restore func()) {
	t.Helper()
	var limit unix.Rlimit
	testenv.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	lower := limit
	lower.Cur = uint64(n)
	testenv.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &lower))
	return func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) }
}

// squeeze is a coding of tests: it counts how often it is used.
func squeeze(name string, count *atomic.Int32) Coding {
	return Coding{Name: name, Suffix: "." + name, Compress: func(src []byte) ([]byte, error) {
		count.Add(1)
		return []byte(fmt.Sprintf("%s of %d bytes", name, len(src))), nil
	}}
}
