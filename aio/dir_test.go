//go:build linux

package aio

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	want := ""
	for i := range 900 {
		name := fmt.Sprintf("%03d-%s", i, strings.Repeat("x", i%200))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		want += name + "\n"
	}
	everywhere(t, func(t *testing.T) {
		list := need(ReadDir(dir))(t)
		got := ""
		for _, e := range list {
			got += e.Name() + "\n"
		}
		testenv.True(t, got == want, "read %d entries, want 900 in order", len(list))
		f := closing(t, need(Open(dir))(t))
		total, err := 0, error(nil)
		for err == nil {
			var part []fs.DirEntry
			part, err = f.ReadDir(7)
			total += len(part)
			testenv.True(t, len(part) == 7 || total == 900, "got %d entries before the end, want 7", len(part))
		}
		testenv.Equal(t, err, io.EOF, "at the end")
		testenv.Equal(t, total, 900, "entries in parts")
		need(f.Seek(0, io.SeekStart))(t)
		testenv.Equal(t, len(need(f.ReadDir(-1))(t)), 900, "entries after Seek")
	})
}

// OpenAt stays below a folder that was opened with O_PATH if it is told to, and what is opened with O_PATH can be looked
// at, but not read.
func TestOpenAt(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
		must(t, os.Symlink("/etc", filepath.Join(dir, "out")))
		folder := closing(t, need(OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0))(t))
		at := -1
		must(t, need(folder.SyscallConn())(t).Control(func(fd uintptr) { at = int(fd) }))
		how := unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH}
		f := closing(t, need(OpenAt(at, "file", &how))(t))
		testenv.Equal(t, need(f.Stat())(t).Size(), 7, "the size")
		testenv.ErrorIs(t, testenv.Err(f.Read(make([]byte, 1))), unix.EBADF, "Read")
		for _, name := range []string{"../x", "/etc/passwd", "out/passwd"} {
			testenv.ErrorIs(t, testenv.Err(OpenAt(at, name, &how)), unix.EXDEV, "OpenAt(%q)", name)
		}
	})
}

// The name of a folder that was opened from another does not lead to it: what is in it is found all the
// same, and nothing else.
func TestEntriesOfAFolderBelowAnother(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "sub", "file"), []byte("content"), 0o600))
		root := need(unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
		defer unix.Close(root)
		sub := need(OpenAt(root, "sub", &unix.OpenHow{Flags: unix.O_DIRECTORY}))(t)
		list := need(sub.ReadDir(-1))(t)
		testenv.MustEqual(t, len(list), 1, "entries")
		info := need(list[0].Info())(t)
		testenv.Equal(t, info.Name(), "file")
		testenv.Equal(t, info.Size(), 7, "the size")
		must(t, os.Remove(filepath.Join(dir, "sub", "file")))
		err := testenv.Err(list[0].Info())
		testenv.ErrorIs(t, err, fs.ErrNotExist, "Info of what is gone")
		testenv.ErrorSays(t, err, "sub/file")
		must(t, sub.Close())
		testenv.ErrorIs(t, testenv.Err(list[0].Info()), fs.ErrClosed, "Info when the folder is closed")
	})
}

// record is one entry as the kernel writes it.
func record(inode uint64, kind byte, name string) []byte {
	b := make([]byte, (19+len(name)+1+7)&^7)
	binary.NativeEndian.PutUint64(b, inode)
	binary.NativeEndian.PutUint16(b[16:], uint16(len(b)))
	b[18] = kind
	copy(b[19:], name)
	return b
}

func FuzzParseEntry(f *testing.F) {
	f.Add(record(1, unix.DT_REG, "name"))
	f.Add(append(record(1, unix.DT_DIR, "."), record(0, unix.DT_REG, "zero")...))
	f.Add(record(1, 77, strings.Repeat("n", 255)))
	f.Add([]byte{19: 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			e, rest, err := parseEntry(b)
			if err != nil {
				return
			}
			if len(rest) >= len(b) {
				t.Fatalf("no progress: %d bytes left of %d", len(rest), len(b))
			}
			if strings.ContainsAny(e.name, "/\x00") || e.name == "." || e.name == ".." {
				t.Fatalf("entry with name %q", e.name)
			}
			b = rest
		}
	})
}

func TestParseEntry(t *testing.T) {
	b := append(record(1, unix.DT_DIR, "."), record(7, unix.DT_LNK, "link")...)
	e, b, err := parseEntry(b)
	testenv.True(t, e.name == "" && err == nil, "got %+v, %v; want no name for the folder itself", e, err)
	e, b, err = parseEntry(b)
	testenv.True(t, e == (rawEntry{"link", unix.DT_LNK}) && err == nil && len(b) == 0, "got %+v, %v, %d bytes left; want link", e, err, len(b))
	if e, _, err := parseEntry(record(0, unix.DT_REG, "zero")); e.name != "zero" || err != nil {
		t.Errorf("with inode 0: %+v, %v; want a file like others", e, err)
	}
	for _, bad := range [][]byte{{1}, make([]byte, 24), record(1, 0, "a/b"), record(1, 0, "long name")[:24]} {
		e, _, err := parseEntry(bad)
		testenv.True(t, err != nil, "%v was read as %+v", bad, e)
	}
}

func TestReaderAndFS(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		short := content(5001) // which TestReader reads byte by byte
		testenv.Check(t, iotest.TestReader(scratchFile(t, short, os.O_RDONLY), short))
		want := content(70_001)
		var b bytes.Buffer
		testenv.Got(io.Copy(&b, scratchFile(t, want, os.O_RDONLY)))(t, int64(len(want)), "copied")
		testenv.True(t, bytes.Equal(b.Bytes(), want), "other bytes were copied")
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
			f := scratchFile(t, content(size), os.O_RDONLY)
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
			testenv.True(t, (read.Load() > 0) == (refused != 0), "%v: %d bytes were read", refused, read.Load())
		}
	})
}

// mallocs counts the allocations of f.
func mallocs(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}

func TestReadsDoNotAllocate(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	name := scratch(t, content(64<<10))
	everywhere(t, func(t *testing.T) {
		f := closing(t, need(OpenFile(name, os.O_RDONLY, 0))(t))
		p := make([]byte, 4096)
		read := func() {
			for i := range 1000 {
				need(f.ReadAt(p, int64(i%15)*4096))(t)
				if i%15 == 0 {
					need(f.Seek(0, 0))(t)
				}
				need(f.Read(p))(t)
			}
		}
		read()
		testenv.AtMost(t, mallocs(read), 100, "2,000 reads from memory allocated N times")
		withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
			if where == viaLoop && op == opRead {
				return 0, unix.EAGAIN
			}
			return n, 0
		})
		read()
		testenv.AtMost(t, mallocs(read), 200, "2,000 reads that wait allocated N times")
		faults.Store(nil)
	})
}
