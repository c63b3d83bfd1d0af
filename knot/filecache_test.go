package knot

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

func TestCacheBudgetIsNeverExceeded(t *testing.T) {
	const files, budget = 200, 1 << 20
	size := func(i int) int { return i * i * 3 % 60_000 }
	root := layFiles(t, files, size)
	f := openWith(t, root, FilesConfig{CacheBytes: budget, CacheFileMax: 50_000})
	var workers sync.WaitGroup
	for w := range 4 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range testenv.Rounds(500, 2000) {
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
	f := openWith(t, layFiles(t, 10, sized(10_000)), FilesConfig{CacheBytes: 25_000, CacheFileMax: 10_000})
	f.store.Caches.Shards[0].Seen = nil
	expect := func(what string, files int, least, most int64, evictions uint64) {
		t.Helper()
		if s := f.Stats(); s.Files != files || s.Bytes < least || s.Bytes > most || s.Evictions != evictions {
			t.Errorf("%s: %+v", what, s)
		}
	}
	first, second := inUse(t, f, "/f0"), inUse(t, f, "/f1")
	askFile(f, "/f2")
	expect("with all in use", 2, 0, 25_000, 0)
	first.Drop()
	expect("one dropped while in use", 1, 20_000, 25_000, 0)
	first.Release()
	second.Release()
	expect("one released", 1, 0, 12_000, 0)
	askFile(f, "/f3")
	askFile(f, "/f4")
	checkCache(t, f)
	expect("at last", 2, 0, 25_000, 1)
}

// inUse asks for a file and returns its entry, in memory and in use as if it was being sent.
func inUse(t *testing.T, f *Files, name string) *store.Entry {
	t.Helper()
	askFile(f, name)
	e, _, _ := f.store.Caches.Get([]byte(name), 1, true)
	if e == nil || !e.Full {
		t.Fatalf("%s is not in memory", name)
	}
	return e
}

// TestCacheForgetsTheLeastRecentlyUsed compares one shard with a naive list.
func TestCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	const files, room = 12, 5
	f := openWith(t, layFiles(t, files, sized(1000)), FilesConfig{CacheBytes: room * 2500, CacheFileMax: 1000})
	shard := &f.store.Caches.Shards[0]
	shard.Seen = nil
	askFile(f, "/f0")
	shard.Most = room*f.Stats().Bytes + 100
	f.store.Caches.Empty()
	var model []string // most recent last
	r := rand.New(rand.NewPCG(7, 7))
	for range testenv.Rounds(400, 2000) {
		name := fmt.Sprint("/f", r.IntN(files))
		askBody(t, f, name)
		model = append(slices.DeleteFunc(model, func(m string) bool { return m == name }), name)
		if len(model) > room {
			model = model[1:]
		}
		var got []string
		for e := shard.Held.Last; e != nil; e = e.Prev {
			got = append(got, e.Key)
		}
		if testenv.EqualSlices(t, got, model, "kept"); t.Failed() {
			return
		}
	}
}

func TestOpenFilesAreBounded(t *testing.T) {
	const files = 60
	root := layFiles(t, files, sized(70_000))
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
			root := layFiles(t, 1, sized(size))
			f := openWith(t, root, FilesConfig{CacheFileMax: kept})
			rt := startRuntime(t, 3)
			s, _ := f.store.Caches.Shard([]byte("/f0"))
			var reads atomic.Int32
			store.OpenHook = func() {
				reads.Add(1)
				task.Offload(func() { // until all are there
					for joined := int32(0); int(joined) < asking-1; {
						<-time.After(time.Millisecond)
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
					nc := script(req("GET /f0"))
					if server.ServeConn(nc); bodyOf(string(nc.output)) != want {
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
	f := openWith(t, layFiles(t, 20, sized(50_000)), FilesConfig{CacheBytes: -1, OpenFiles: 16})
	for i := range 16 {
		askBody(t, f, fmt.Sprint("/f", i))
	}
	giveBack := exhaust(t, f.store.Root.FD)
	defer func() { giveBack() }()
	testenv.Equal(t, askBody(t, f, "/f17"), string(contentOf(17, 50_000)))
	giveBack()
	f.store.Caches.Empty()
	giveBack = exhaust(t, f.store.Root.FD)
	answer := answerTo(&Server{Handler: f.Serve, ErrorLog: quietLog()}, req("GET /f18"))
	testenv.Equal(t, statusOf(answer), "503", "status without any descriptor")
}

// TestReadErrorIsNotKept: EIO is an answer once, not for ever.
func TestReadErrorIsNotKept(t *testing.T) {
	for _, config := range []FilesConfig{{}, {CacheBytes: -1}, {CacheBytes: -1, OpenFiles: -1}} {
		f := openWith(t, layFiles(t, 1, sized(40_000)), config)
		store.ReadFault = func(*store.Entry) error { return unix.EIO }
		answer := answerTo(&Server{Handler: f.Serve, ErrorLog: quietLog()}, req("GET /f0"))
		store.ReadFault = nil
		testenv.AtMost(t, len(answer), 10_000, "%+v: N bytes in spite of EIO", config)
		if s := f.Stats(); s.Files+s.Open != 0 || s.Bytes != 0 {
			t.Errorf("%+v: kept after EIO: %+v", config, s)
		}
		testenv.Equal(t, askBody(t, f, "/f0"), string(contentOf(0, 40_000)), "%+v", config)
	}
}

// TestColdFile streams a file that is on disk only.
func TestColdFile(t *testing.T) {
	const size = 9 << 20
	root := layFiles(t, 1, sized(size))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		f := openWith(t, root, FilesConfig{})
		sv := start(&Server{Handler: f.Serve})
		file := testenv.Need(os.Open(filepath.Join(root, "f0")))(t)
		defer file.Close()
		for range 2 {
			file.Sync()
			unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED)
			p := sv.dial()
			p.send(req("GET /f0") + req("GET /f0", "Range: bytes=4000000-"))
			p.want("200", string(contentOf(0, size)))
			p.want("206", string(contentOf(0, size)[4000000:]))
		}
	})
}
