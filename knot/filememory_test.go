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
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// poisoned fills what becomes free during the test.
func poisoned(t testing.TB) {
	freePoison = func(p []byte) {
		for i := range p {
			p[i] = 0xdd
		}
	}
	t.Cleanup(func() { freePoison = nil })
}

func mapped(t testing.TB, bytes int64) *fileMemory {
	m := new(fileMemory)
	testenv.Must(t, m.reserve(bytes))
	t.Cleanup(m.close)
	return m
}

// TestFileMemoryLosesNothing takes and frees contents of all sizes at random: as long as there
// is memory it is given out, no byte of it twice.
func TestFileMemoryLosesNothing(t *testing.T) {
	poisoned(t)
	m := mapped(t, 40*blockBytes)
	type content struct {
		parts [][]byte
		mark  byte
	}
	var held []content
	used := 0
	r := rand.New(rand.NewPCG(2, 2))
	for step := range 20_000 {
		size := int64(r.IntN(1 << r.IntN(20)))
		switch {
		case r.IntN(100) == 0:
			if s, ok := m.idle(1 + r.IntN(5)); ok {
				m.giveBack(s)
				m.rested(s)
			}
		case r.IntN(2) == 0 && len(held) > 0:
			i := r.IntN(len(held))
			c := held[i]
			n := 0
			for _, p := range c.parts {
				if n += len(p); bytes.Count(p, []byte{c.mark}) != len(p) {
					t.Fatalf("step %d: content was overwritten", step)
				}
			}
			used -= chunksFor(int64(n))
			m.put(c.parts)
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		default:
			parts, ok := m.take(size)
			if fits := used+chunksFor(size) <= 40*blockChunks; ok != fits {
				t.Fatalf("step %d: %d bytes with %d chunks in use: given is %t", step, size, used, ok)
			}
			if !ok {
				continue
			}
			used += chunksFor(size)
			n, mark := 0, byte(step%0xdd)
			for _, p := range parts {
				n += len(p)
				for i := range p {
					p[i] = mark
				}
			}
			if int64(n) != size || m.used() != int64(used)*chunkBytes {
				t.Fatalf("step %d: got %d bytes of %d; %d in use, want %d chunks", step, n, size, m.used(), used)
			}
			held = append(held, content{parts, mark})
		}
	}
}

// TestFileMemoryIsInOnePiece: what fits in a row is in one part, whatever its size.
func TestFileMemoryIsInOnePiece(t *testing.T) {
	m := mapped(t, 20*blockBytes)
	for _, size := range []int64{1, chunkBytes, blockBytes, 5*blockBytes + 1, 300_000} {
		parts, ok := m.take(size)
		if !ok || len(parts) != 1 || int64(len(parts[0])) != size {
			t.Errorf("%d bytes in %d parts, %t", size, len(parts), ok)
		}
	}
	if parts, ok := m.take(0); !ok || len(parts) != 0 {
		t.Errorf("nothing takes %d parts, %t", len(parts), ok)
	}
}

// inMemory is how many bytes of m the process holds.
func inMemory(t *testing.T, m *fileMemory) (n int64) {
	pages := make([]byte, len(m.mem)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(m.mem))), uintptr(len(m.mem)), uintptr(unsafe.Pointer(&pages[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
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
	testenv.MustEqual(t, len(f.caches.shards), 1, "the budget is that of several shards")
	s := &f.caches.shards[0]
	s.seen = nil
	heap := func() (n int64) {
		for e := s.held.first; e != nil; e = e.next {
			n += e.overhead()
		}
		return n
	}
	for i := range 2000 {
		askFile(f, fmt.Sprint("/f", i))
		if i == 19 {
			if n := inMemory(t, &s.memory); n < budget*3/4 || n > budget {
				t.Errorf("with long files %d bytes are mapped", n)
			}
		}
	}
	checkCache(t, f)
	if n, h := inMemory(t, &s.memory), heap(); n+h > budget+blockBytes || h < budget/3 {
		t.Errorf("with short files %d bytes are mapped, beside %d on the heap; the budget is %d", n, h, budget)
	}
}

// TestMemoryGoesWithItsLastUser: closing the cache does not take the memory from a response that is
// being sent out of it.
func TestMemoryGoesWithItsLastUser(t *testing.T) {
	root := layFiles(t, 1, func(int) int { return 30_000 })
	f := testenv.Need(OpenFiles(root))(t)
	askFile(f, "/f0")
	e, _, _ := f.caches.get([]byte("/f0"), 1, true)
	if e == nil || !e.full {
		t.Fatal("f0 is not in memory")
	}
	testenv.Must(t, f.Close())
	testenv.Equal(t, string(bytes.Join(e.parts, nil)), string(contentOf(0, 30_000)), "the content has changed")
	m := &e.shard.memory
	if m.mem == nil {
		t.Error("unmapped while in use")
	}
	e.release()
	for i := range f.caches.shards {
		if f.caches.shards[i].memory.mem != nil {
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
	var ask strings.Builder
	for _, i := range names {
		fmt.Fprintf(&ask, "GET /f%d HTTP/1.1\r\nHost: h\r\n\r\n", i)
	}
	if _, err := io.WriteString(c, ask.String()); err != nil {
		return err
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
// their files are evicted, replaced or dropped meanwhile, and memory that is free is filled.
func TestContentIsNotReusedWhileItIsSent(t *testing.T) {
	poisoned(t)
	const files = 40
	size := func(i int) int { return 1 + i*i*150%250_000 }
	root := layFiles(t, files, size)
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		f := openWith(t, root, FilesConfig{CacheBytes: 1 << 20, CacheFileMax: 256 << 10, Revalidate: -1})
		for i := range f.caches.shards {
			f.caches.shards[i].seen = nil
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

func BenchmarkFileMemory(b *testing.B) {
	m := mapped(b, 64<<20)
	var held [][][]byte
	for i := int64(0); ; i++ { // full, of files of all sizes
		parts, ok := m.take(500 + i*7919%30_000)
		if !ok {
			break
		}
		held = append(held, parts)
	}
	b.ReportAllocs()
	parts, i := 0, 0
	for b.Loop() {
		k := i * 7919 % len(held)
		i++
		size := int64(0)
		for _, p := range held[k] {
			size += int64(len(p))
		}
		m.put(held[k])
		held[k], _ = m.take(size)
		parts += len(held[k])
	}
	b.ReportMetric(float64(parts)/float64(b.N), "parts/op")
}
