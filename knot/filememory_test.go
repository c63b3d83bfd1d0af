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
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

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
	f := testenv.Need(OpenFiles(layFiles(t, 1, sized(30_000))))(t)
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
	_, err := OpenFilesWith(t.TempDir(), FilesConfig{CacheBytes: 1 << 60})
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
		sv := start(&Server{Handler: f.Serve})
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
