//go:build linux

package aio

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestReaderAndFS(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		want := content(70_001)
		name := scratch(t, want)
		f := need(Open(name))(t)
		defer f.Close()
		testenv.Check(t, iotest.TestReader(f, want))
		need(f.Seek(0, io.SeekStart))(t)
		var b bytes.Buffer
		n, err := io.Copy(&b, f)
		if err != nil || n != int64(len(want)) || !bytes.Equal(b.Bytes(), want) {
			t.Errorf("copied %d bytes, %v; want %d", n, err, len(want))
		}
	})
}

func TestFS(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, MkdirAll(filepath.Join(dir, "a/b/c"), 0o755))
		var names []string
		for _, n := range []string{"one", "a/two", "a/b/three", "a/b/c/four"} {
			must(t, WriteFile(filepath.Join(dir, n), []byte(n), 0o644))
			names = append(names, n)
		}
		must(t, os.Symlink("one", filepath.Join(dir, "link")))
		testenv.Check(t, fstest.TestFS(DirFS(dir), names...))
	})
}

// What is sent once must not look used twice: it is fetched by advice, and read only if that has not brought it.
func TestPrefetchDoesNotRead(t *testing.T) {
	onDisk(t)
	everywhere(t, func(t *testing.T) {
		const size = 200_000
		for _, refused := range []syscall.Errno{0, unix.EIO} {
			f := need(Open(scratch(t, content(size))))(t)
			defer f.Close()
			must(t, f.Sync())
			must(t, unix.Fadvise(int(f.fd), 0, 0, unix.FADV_DONTNEED))
			if n := f.Resident(0, size); n >= size || noCachestat.Load() {
				t.Skip("the page cache keeps the file, or does not tell")
			}
			var read atomic.Int64
			withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
				if op == opFetch {
					return n, refused
				}
				if op == opRead && n > 1 { // not a probe of Resident
					read.Add(int64(n))
				}
				return n, 0
			})
			must(t, f.Prefetch(0, 1<<20))
			faults.Store(nil)
			testenv.Equal(t, f.Resident(0, size), size, "%v: after Prefetch N bytes are in memory", refused)
			if (read.Load() > 0) != (refused != 0) {
				t.Errorf("%v: %d bytes were read", refused, read.Load())
			}
		}
	})
}
