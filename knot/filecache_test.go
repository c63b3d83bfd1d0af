package knot

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

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
	f := testenv.Need(OpenFiles(root, FilesConfig{CacheFileMax: 1000, OpenFiles: 8}))(t)
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
	asking := testenv.Rounds(500, 10_000)
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
			server := &Server{Handler: f.Handle}
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
	answer := answerTo(&Server{Handler: f.Handle, ErrorLog: quietLog()}, req("GET /f18"))
	testenv.Equal(t, statusOf(answer), "503", "status without any descriptor")
}

// TestReadErrorIsNotKept: EIO is an answer once, not for ever.
func TestReadErrorIsNotKept(t *testing.T) {
	for _, config := range []FilesConfig{{}, {CacheBytes: -1}, {CacheBytes: -1, OpenFiles: -1}} {
		f := openWith(t, layFiles(t, 1, sized(40_000)), config)
		store.ReadFault = func(*store.Entry) error { return unix.EIO }
		answer := answerTo(&Server{Handler: f.Handle, ErrorLog: quietLog()}, req("GET /f0"))
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
		sv := start(&Server{Handler: f.Handle})
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

// inMemory is how many bytes of m the process holds.
func inMemory(t *testing.T, m *store.Memory) (n int64) {
	pages := make([]byte, len(m.Mem)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(m.Mem))), uintptr(len(m.Mem)), uintptr(unsafe.Pointer(&pages[0])))
	testenv.MustEqual(t, errno, 0, "mincore")
	for _, p := range pages {
		n += int64(p&1) * int64(os.Getpagesize())
	}
	return n
}

// TestMemoryOfTheCacheStaysWithinTheBudget: first contents, then many small files, whose
// entries take most of the budget on the Go heap, so that memory has to go back.
func TestMemoryOfTheCacheStaysWithinTheBudget(t *testing.T) {
	const budget = 2 << 20
	root := layFiles(t, 2000, func(i int) int {
		if i < 20 {
			return 100_000
		}
		return 10
	})
	f := openWith(t, root, FilesConfig{CacheBytes: budget, CacheFileMax: 100_000})
	testenv.MustEqual(t, len(f.store.Caches.Shards), 1, "the budget is that of several shards")
	s := &f.store.Caches.Shards[0]
	s.Seen = nil
	heap := func() (n int64) {
		for e := s.Held.First; e != nil; e = e.Next {
			n += e.Overhead()
		}
		return n
	}
	for i := range 2000 {
		askFile(f, fmt.Sprint("/f", i))
		if i == 19 {
			if n := inMemory(t, &s.Memory); n < budget*3/4 || n > budget {
				t.Errorf("with long files %d bytes are mapped", n)
			}
		}
	}
	checkCache(t, f)
	if n, h := inMemory(t, &s.Memory), heap(); n+h > budget+store.BlockBytes || h < budget/3 {
		t.Errorf("with short files %d bytes are mapped, beside %d on the heap; the budget is %d", n, h, budget)
	}
}

// TestMemoryGoesWithItsLastUser: closing the cache does not take the memory from a response that is
// being sent out of it.
func TestMemoryGoesWithItsLastUser(t *testing.T) {
	f := testenv.Need(OpenFiles(layFiles(t, 1, sized(30_000)), FilesConfig{}))(t)
	e := inUse(t, f, "/f0")
	testenv.Must(t, f.Close())
	testenv.Equal(t, string(bytes.Join(e.Parts, nil)), string(contentOf(0, 30_000)), "the content has changed")
	m := &e.Shard.Memory
	if m.Mem == nil {
		t.Error("unmapped while in use")
	}
	e.Release()
	for i := range f.store.Caches.Shards {
		if f.store.Caches.Shards[i].Memory.Mem != nil {
			t.Errorf("shard %d is still mapped", i)
		}
	}
}

// TestNoAddressSpace: an error says so, and nothing is left open.
func TestNoAddressSpace(t *testing.T) {
	before := countFDs()
	_, err := OpenFiles(t.TempDir(), FilesConfig{CacheBytes: 1 << 60})
	testenv.ErrorSays(t, err, "no address space")
	testenv.AtMost(t, countFDs(), before, "descriptors, before %d", before)
}

// slowReader takes one response to each of the requests for files[i], with a pause in which
// the server's socket is full.
func slowReader(addr string, names []int, size func(int) int, meanwhile func()) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	c.(*net.TCPConn).SetReadBuffer(256 << 10)
	for _, i := range names {
		if _, err := io.WriteString(c, req(fmt.Sprint("GET /f", i))); err != nil {
			return err
		}
	}
	in := bufio.NewReaderSize(c, 4<<10)
	for _, i := range names {
		meanwhile()
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return fmt.Errorf("file %d: %w", i, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Equal(body, contentOf(i, size(i))) {
			return fmt.Errorf("file %d: a body of other bytes, %d of %d, error %v", i, len(body), size(i), err)
		}
	}
	return nil
}

// TestContentIsNotReusedWhileItIsSent: clients that read slowly get the right bytes although
// their files are evicted, replaced or dropped meanwhile, and what becomes free is overwritten.
func TestContentIsNotReusedWhileItIsSent(t *testing.T) {
	store.FreePoison = func(p []byte) {
		for i := range p {
			p[i] = 0xdd
		}
	}
	defer func() { store.FreePoison = nil }()
	const files = 40
	size := func(i int) int { return 1 + i*i*150%250_000 }
	root := layFiles(t, files, size)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		f := openWith(t, root, FilesConfig{CacheBytes: 1 << 20, CacheFileMax: 256 << 10, Revalidate: -1})
		for i := range f.store.Caches.Shards {
			f.store.Caches.Shards[i].Seen = nil
		}
		sv := start(&Server{Handler: f.Handle})
		var clients sync.WaitGroup
		for k := range 6 {
			clients.Go(func() {
				r := rand.New(rand.NewPCG(5, uint64(k)))
				names := make([]int, 100)
				for j := range names {
					names[j] = r.IntN(files)
				}
				err := slowReader(sv.addr, names, size, func() {
					name := filepath.Join(root, fmt.Sprint("f", r.IntN(files)))
					if data, err := os.ReadFile(name); err == nil && r.IntN(4) == 0 {
						os.WriteFile(name+".new"+fmt.Sprint(k), data, 0o644) // same bytes, another file
						os.Rename(name+".new"+fmt.Sprint(k), name)
					}
				})
				testenv.Check(t, err)
			})
		}
		clients.Wait()
		checkCache(t, f)
		if s := f.Stats(); s.Evictions == 0 || s.Stale == 0 {
			t.Errorf("nothing happened meanwhile: %+v", s)
		}
	})
}
