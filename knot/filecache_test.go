package knot

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// layFiles makes n files f0, f1, ... of the given sizes and returns their folder.
func layFiles(t testing.TB, n int, size func(i int) int) string {
	t.Helper()
	root := t.TempDir()
	for i := range n {
		testenv.Must(t, os.WriteFile(filepath.Join(root, fmt.Sprint("f", i)), contentOf(i, size(i)), 0o644))
	}
	return root
}

// contentOf is different for each i.
func contentOf(i, size int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%09d\n", i)), size/10+1)[:size]
}

func openWith(t testing.TB, root string, c FilesConfig) *Files {
	t.Helper()
	f := testenv.Need(OpenFilesWith(root, c))(t)
	t.Cleanup(func() { f.Close() })
	return f
}

// askFile serves one request on the calling goroutine and returns all that it writes.
func askFile(f *Files, target string, headers ...string) string {
	nc := newScriptConn([]byte("GET "+target+" HTTP/1.1\r\nHost: h\r\n"+strings.Join(headers, "")+"\r\n"), nil, 1)
	serveScript(&Server{Handler: f.Serve}, nc)
	return string(nc.output)
}

// askBody is the body of the answer, which must have status 200.
func askBody(t testing.TB, f *Files, target string) string {
	t.Helper()
	answer := askFile(f, target)
	if got := statusOf(answer); got != "200" {
		t.Fatalf("%s: status %s, want 200: %.200q", target, got, answer)
	}
	_, body, _ := strings.Cut(answer, "\r\n\r\n")
	return body
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

func TestCacheBudgetIsNeverExceeded(t *testing.T) {
	const files, budget = 200, 1 << 20
	size := func(i int) int { return i * i * 3 % 60_000 }
	root := layFiles(t, files, size)
	f := openWith(t, root, FilesConfig{CacheBytes: budget, CacheFileMax: 50_000})
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 2000 {
				i := r.IntN(files)
				if got := askBody(t, f, fmt.Sprint("/f", i)); got != string(contentOf(i, size(i))) {
					t.Errorf("file %d: %d bytes that are not its content", i, len(got))
				}
				if r.IntN(20) == 0 {
					checkCache(t, f)
				}
			}
		})
	}
	workers.Wait()
	checkCache(t, f)
	s := f.Stats()
	if s.Bytes < budget*3/4 || s.Bytes > budget || s.Evictions == 0 || s.Hits == 0 || s.MaxBytes > budget {
		t.Errorf("after more than it can hold: %+v", s)
	}
	f.store.Caches.Empty()
	if s := f.Stats(); s.Bytes != 0 || s.Files != 0 {
		t.Errorf("emptied: %+v", s)
	}
}

// TestContentInUseIsCounted: what is still being sent when it is evicted counts until
// it has been sent, and what is in use makes no room.
func TestContentInUseIsCounted(t *testing.T) {
	root := layFiles(t, 10, func(int) int { return 10_000 })
	f := openWith(t, root, FilesConfig{CacheBytes: 25_000, CacheFileMax: 10_000})
	s := &f.store.Caches.Shards[0]
	s.Seen = nil
	var used []*store.Entry
	for _, name := range []string{"/f0", "/f1"} {
		askFile(f, name)
		e, _, _ := f.store.Caches.Get([]byte(name), 1, true)
		if e == nil || !e.Full {
			t.Fatalf("%s is not in memory", name)
		}
		used = append(used, e)
	}
	askFile(f, "/f2")
	if st := f.Stats(); st.Files != 2 || st.Evictions != 0 {
		t.Errorf("with all in use: %+v", st)
	}
	used[0].Drop()
	if st := f.Stats(); st.Files != 1 || st.Bytes < 20_000 {
		t.Errorf("one dropped while in use: %+v", st)
	}
	used[0].Release()
	used[1].Release()
	if st := f.Stats(); st.Files != 1 || st.Bytes > 12_000 {
		t.Errorf("one released: %+v", st)
	}
	askFile(f, "/f3")
	askFile(f, "/f4")
	checkCache(t, f)
	if st := f.Stats(); st.Files != 2 || st.Evictions != 1 {
		t.Errorf("at last: %+v", st)
	}
}

// TestCacheForgetsTheLeastRecentlyUsed compares one shard with a naive list.
func TestCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	const files, room = 12, 5
	root := layFiles(t, files, func(int) int { return 1000 })
	f := openWith(t, root, FilesConfig{CacheBytes: room * 2500, CacheFileMax: 1000})
	f.store.Caches.Shards[0].Seen = nil
	askFile(f, "/f0")
	f.store.Caches.Shards[0].Most = room*f.Stats().Bytes + 100
	f.store.Caches.Empty()
	var model []string // most recent last
	r := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		name := fmt.Sprint("/f", r.IntN(files))
		askBody(t, f, name)
		model = append(slices.DeleteFunc(model, func(m string) bool { return m == name }), name)
		if len(model) > room {
			model = model[1:]
		}
		var got []string
		for e := f.store.Caches.Shards[0].Held.Last; e != nil; e = e.Prev {
			got = append(got, e.Key)
		}
		if !slices.Equal(got, model) {
			t.Fatalf("kept %q, want %q", got, model)
		}
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	const files = 60
	root := layFiles(t, files, func(int) int { return 70_000 })
	before := countFDs()
	f := testenv.Need(OpenFilesWith(root, FilesConfig{CacheFileMax: 1000, OpenFiles: 8}))(t)
	open := ressched.Descriptors.InUse()
	for range 3 {
		for i := range files {
			testenv.MustEqual(t, askBody(t, f, fmt.Sprint("/f", i)), string(contentOf(i, 70_000)), "file %d is wrong", i)
			if n := countFDs(); n > before+1+8 {
				t.Fatalf("%d descriptors more than before", n-before)
			}
		}
	}
	if s := f.Stats(); s.Open != 8 || s.MaxOpen != 8 || s.OpenEvictions != 3*files-8 {
		t.Errorf("%+v", s)
	}
	testenv.Equal(t, ressched.Descriptors.InUse()-open, 8, "descriptors are counted as open")
	askBody(t, f, fmt.Sprint("/f", files-1))
	if s := f.Stats(); s.OpenHits != 1 {
		t.Errorf("the last one was opened again: %+v", s)
	}
	// Nobody asks for them any more.
	f.store.Caches.CloseIdle(f.store.Now() + 1)
	testenv.AtMost(t, countFDs(), before+1, "descriptors when idle, before %d", before)
	f.Close()
	if n := countFDs(); n > before || ressched.Descriptors.InUse() != open {
		t.Errorf("%d descriptors after Close, before %d", n, before)
	}
}

// TestOneReadForManyRequests: 10,000 ask at the same time for a file that nobody has
// opened yet.
func TestOneReadForManyRequests(t *testing.T) {
	asking := testenv.Rounds(2000, 10_000)
	const small, size = 1000, 3000
	for _, kept := range []int64{small, size} {
		t.Run(fmt.Sprint("up to ", kept), func(t *testing.T) {
			root := layFiles(t, 1, func(int) int { return size })
			f := openWith(t, root, FilesConfig{CacheFileMax: kept})
			rt := testenv.Need(capriccio.New(capriccio.WithLoops(3), capriccio.WithHoldLimit(-1), capriccio.WithoutRefusals()))(t)
			defer rt.Close()
			s, _ := f.store.Caches.Shard([]byte("/f0"))
			var reads atomic.Int32
			store.OpenHook = func() {
				reads.Add(1)
				task.Offload(func() { // until all are there
					for joined := int32(0); int(joined) < asking-1; {
						breathe()
						s.Mu.Lock()
						if fl := s.Flights["/f0"]; fl != nil {
							joined = fl.Joined
						}
						s.Mu.Unlock()
					}
				})
			}
			defer func() { store.OpenHook = nil }()
			server := &Server{Handler: f.Serve}
			defer server.Close()
			want := string(contentOf(0, size))
			tasks := make([]*task.Task, asking)
			var wrong atomic.Int32
			for i := range tasks {
				tasks[i] = rt.Go(func() {
					nc := newScriptConn([]byte("GET /f0 HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
					server.ServeConn(nc)
					if _, body, _ := strings.Cut(string(nc.output), "\r\n\r\n"); body != want {
						wrong.Add(1)
					}
				})
			}
			for _, one := range tasks {
				testenv.Must(t, one.Join())
			}
			if reads.Load() != 1 || wrong.Load() != 0 {
				t.Errorf("opened %d times, %d wrong answers", reads.Load(), wrong.Load())
			}
			if st := f.Stats(); st.Misses != uint64(asking) || st.Loads+uint64(st.Open) != 1 {
				t.Errorf("%+v", st)
			}
			checkCache(t, f)
		})
	}
}

// TestOutOfDescriptors: files that are only kept open are closed when others need their
// descriptors; without any the answer is 503.
func TestOutOfDescriptors(t *testing.T) {
	root := layFiles(t, 20, func(int) int { return 50_000 })
	f := openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 16})
	for i := range 16 {
		askBody(t, f, fmt.Sprint("/f", i))
	}
	giveBack := exhaust(t, f.store.Root.FD)
	defer func() { giveBack() }()
	if got := askBody(t, f, "/f17"); got != string(contentOf(17, 50_000)) {
		t.Errorf("%d bytes", len(got))
	}
	giveBack()
	f.store.Caches.Empty()
	giveBack = exhaust(t, f.store.Root.FD)
	server := &Server{Handler: f.Serve}
	server.ErrorLog = quietLog()
	nc := newScriptConn([]byte("GET /f18 HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
	serveScript(server, nc)
	testenv.Equal(t, statusOf(string(nc.output)), "503", "status without any descriptor")
}

func highestFD(t *testing.T) int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	high := 0
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscan(e.Name(), &n); err == nil {
			high = max(high, n)
		}
	}
	return high
}

// TestReadErrorIsNotKept: EIO is an answer once, not for ever.
func TestReadErrorIsNotKept(t *testing.T) {
	for _, config := range []FilesConfig{{}, {CacheBytes: -1}, {CacheBytes: -1, OpenFiles: -1}} {
		root := layFiles(t, 1, func(int) int { return 40_000 })
		f := openWith(t, root, config)
		store.ReadFault = func(*store.Entry) error { return unix.EIO }
		server := &Server{Handler: f.Serve, ErrorLog: quietLog()}
		nc := newScriptConn([]byte("GET /f0 HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
		serveScript(server, nc)
		store.ReadFault = nil
		testenv.AtMost(t, len(nc.output), 10_000, "%+v: N bytes in spite of EIO", config)
		if s := f.Stats(); s.Files+s.Open != 0 || s.Bytes != 0 {
			t.Errorf("%+v: kept after EIO: %+v", config, s)
		}
		if got := askBody(t, f, "/f0"); got != string(contentOf(0, 40_000)) {
			t.Errorf("%+v: %d bytes", config, len(got))
		}
	}
}

// TestColdFile streams a file that is on disk only.
func TestColdFile(t *testing.T) {
	const size = 9 << 20
	root := layFiles(t, 1, func(int) int { return size })
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		f := openWith(t, root, FilesConfig{})
		sv := start(&Server{Handler: f.Serve})
		file := testenv.Need(os.Open(filepath.Join(root, "f0")))(t)
		defer file.Close()
		for range 2 {
			file.Sync()
			unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
			p := sv.dial()
			p.send("GET /f0 HTTP/1.1\r\nHost: h\r\n\r\nGET /f0 HTTP/1.1\r\nHost: h\r\nRange: bytes=4000000-\r\n\r\n")
			if _, body := p.response("GET"); body != string(contentOf(0, size)) {
				t.Errorf("%d bytes that are not the content", len(body))
			}
			if _, body := p.response("GET"); body != string(contentOf(0, size)[4000000:]) {
				t.Errorf("%d bytes that are not the rest of the content", len(body))
			}
		}
	})
}

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// breathe lets others work while a test waits for a state that nothing announces.
func breathe() { <-time.After(time.Millisecond) }
