//go:build linux

package aio

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/poller"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

func TestErrorsOfTheDisk(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		f := scratchFile(t, content(100), os.O_RDWR)
		b := make([]byte, 10)
		for op, do := range map[opcode]func() error{
			opRead:     func() error { _, err := f.ReadAt(b, 0); return err },
			opWrite:    func() error { _, err := f.WriteAt(b, 0); return err },
			opSync:     f.Sync,
			opTruncate: func() error { return f.Truncate(3) },
		} {
			var calls atomic.Int32
			withFault(t, func(o opcode, where via, _ int32, n int) (int, syscall.Errno) {
				if o != op {
					return n, 0
				}
				if where == viaLoop {
					return 0, unix.EAGAIN
				}
				calls.Add(1)
				return 0, unix.EIO
			})
			err := do()
			testenv.ErrorIs(t, err, unix.EIO, op.String())
			testenv.ErrorSays(t, err, f.Name(), op.String())
			testenv.Equal(t, calls.Load(), 1, "%v was tried N times", op)
		}
		faults.Store(nil)
	})
}

// A write that fails in the middle says how much it has written.
func TestAWriteThatFailsInTheMiddle(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		f := scratchFile(t, nil, os.O_RDWR)
		var calls atomic.Int32
		withFault(t, func(op opcode, _ via, _ int32, n int) (int, syscall.Errno) {
			if op != opWrite {
				return n, 0
			}
			if calls.Add(1) <= 2 {
				return 30, 0
			}
			return 0, unix.ENOSPC
		})
		n, err := f.Write(make([]byte, 100))
		faults.Store(nil)
		// Where writing can't be tried without waiting, the first attempt moved nothing.
		testenv.True(t, (n == 60 || n == 30) && errors.Is(err, unix.ENOSPC), "Write returned %d, %v; want what was written, and ENOSPC", n, err)
		testenv.Equal(t, need(f.Stat())(t).Size(), int64(n), "bytes in the file")
	})
}

// inMemory mounts a tmpfs of 1 MiB for the length of the test.
func inMemory(t *testing.T) (dir string) {
	dir = t.TempDir()
	if err := unix.Mount("aio-test", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("can't mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestAFullFileSystem(t *testing.T) {
	const size = 1 << 20
	dir := inMemory(t)
	everywhere(t, func(t *testing.T) {
		name := filepath.Join(dir, "file")
		f := need(Create(name))(t)
		n, err := f.Write(make([]byte, 2*size))
		testenv.True(t, n <= size && errors.Is(err, unix.ENOSPC), "wrote %d bytes where there is room for %d: %v; want ENOSPC", n, size, err)
		must(t, f.Close())
		must(t, os.WriteFile(name, []byte("old"), 0o600))
		testenv.ErrorIs(t, WriteFile(name, make([]byte, 2*size), 0o600), unix.ENOSPC, "WriteFile")
		holds(t, name, []byte("old"))
		wantNames(t, dir, "file")
		must(t, Remove(name))
	})
}

// TestADeviceNumberIsUsedAgain: a file system may have the number that one in memory had.
func TestADeviceNumberIsUsedAgain(t *testing.T) {
	onDisk(t)
	f := scratchFile(t, nil, os.O_RDONLY)
	f.settle()
	st := new(unix.Statx_t)
	if statxCached(f.fd, unix.STATX_MNT_ID_UNIQUE, st); st.Mnt_id == 0 || st.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		t.Skip("the kernel has no numbers of mounts that it does not use again")
	}
	device := f.device.Load()
	memoryDevices.Store(device, fileSystem{st.Mnt_id - 1, true})
	defer memoryDevices.Delete(device)
	f.learnMemory()
	testenv.Equal(t, f.traits.Load()&(traitMemory|traitDisk), traitDisk)
}

// What is in memory only is read and written on the loop, although tmpfs refuses the flag
// that asks for that.
func TestAFileSystemInMemory(t *testing.T) {
	dir := inMemory(t)
	everywhere(t, func(t *testing.T) {
		want := content(100_000)
		name := filepath.Join(dir, "file")
		must(t, os.WriteFile(name, want, 0o600))
		f := closing(t, need(OpenFile(name, os.O_RDWR, 0))(t))
		var waits atomic.Int32
		withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
			if where != viaLoop && (op == opRead || op == opWrite) {
				waits.Add(1)
			}
			return n, 0
		})
		b := make([]byte, len(want))
		n, err := f.ReadAt(b, 0)
		reads(t, "ReadAt", b, n, err, want, nil)
		need(f.Write(want[:1000]))(t)
		n, err = f.Read(b)
		reads(t, "Read after Write", b, n, err, want[1000:], nil)
		n, err = f.Read(b)
		reads(t, "Read at the end", b, n, err, nil, io.EOF)
		testenv.Equal(t, f.Resident(10, 1<<20), int64(len(want))-10, "Resident")
		testenv.Equal(t, waits.Load(), 0, "requests waited")
	})
}

func TestAFileIsTruncatedOrReplacedWhileItIsRead(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		want := content(100_000)
		f := scratchFile(t, want, os.O_RDONLY)
		b := make([]byte, 50_000)
		need(io.ReadFull(f, b))(t)
		must(t, os.Truncate(f.Name(), 60_000))
		n, err := io.ReadFull(f, b)
		reads(t, "what is left of a file that was truncated", b, n, err, want[50_000:60_000], io.ErrUnexpectedEOF)
		n, err = f.ReadAt(b, 20_000)
		reads(t, "ReadAt over the end", b, n, err, want[20_000:60_000], io.EOF)
		must(t, WriteFile(f.Name(), []byte("new"), 0o600))
		n, err = f.ReadAt(b[:10], 0)
		reads(t, "a file that was replaced", b, n, err, want[:10], nil)
	})
}

// A read that can't be tried without waiting is asked for only once.
func TestAFileSystemThatRefusesNoWait(t *testing.T) {
	onDisk(t)
	everywhere(t, func(t *testing.T) {
		want := content(10_000)
		for what, read := range map[string]func(f *File, b []byte) (int, error){
			"ReadAt": func(f *File, b []byte) (int, error) { return f.ReadAt(b, 0) },
			"Read":   func(f *File, b []byte) (int, error) { f.lseek(0, io.SeekStart); return f.Read(b) },
		} {
			f := scratchFile(t, want, os.O_RDONLY)
			tries := 0
			withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
				if op == opRead && where == viaLoop {
					tries++
					return 0, unix.EOPNOTSUPP
				}
				return n, 0
			})
			b := make([]byte, len(want))
			for range 5 {
				n, err := read(f, b)
				reads(t, what, b, n, err, want, nil)
			}
			testenv.Equal(t, tries, 1, "%s: tried N times", what)
		}
	})
}

// Reads of neighbouring blocks that wait in one turn of the loop become one. If that fails, the parts are tried each by
// itself, and only the part that is to blame fails.
func TestNeighbouringReadsAreMerged(t *testing.T) {
	rt := setting{"uring", poller.Uring, 1}.start(t)
	const parts, size = 48, 4096
	want := content(parts*size + 100)
	f := scratchFile(t, want, os.O_RDONLY)
	for _, bad := range []int{-1, 10} { // the part that fails, and with it all requests that are not of one block
		var requests atomic.Int32
		withFault(t, func(op opcode, where via, _ int32, n int) (int, syscall.Errno) {
			switch {
			case op != opRead:
			case where == viaLoop:
				return 0, unix.EAGAIN
			case bad >= 0 && n != size:
				return 0, unix.EIO
			case where == viaRing:
				requests.Add(1)
			}
			return n, 0
		})
		flushes := int32(0) // loop-private
		inTask(t, rt, func() {
			q := ringOf(engine.CurrentLoop())
			send := q.flush
			q.flush = func() { flushes++; send() }
			defer func() { q.flush = send }()
			count := parts + 2 // beyond the end
			if bad >= 0 {
				count = parts
			}
			all(t, count, func(i int) {
				i = count - 1 - i // backwards
				b := make([]byte, size)
				if i == bad {
					b = b[:size-1]
				}
				n, err := f.ReadAt(b, int64(i*size))
				left := want[min(i*size, len(want)):]
				left = left[:min(len(left), len(b))]
				if i == bad {
					testenv.ErrorIs(t, err, unix.EIO, "part %d", i)
				} else if !bytes.Equal(b[:n], left) || (err == io.EOF) != (n < len(b)) {
					t.Errorf("part %d: %d, %v; want %d bytes", i, n, err, len(left))
				}
			})
		})
		// A busy machine makes the loop's turns short. The last two parts, one short and one empty, are tried again, each
		// by itself.
		n := requests.Load()
		testenv.True(t, bad >= 0 || n <= flushes+4,
			"%d reads of neighbouring blocks in %d turns became %d requests; want one for each turn, and 4 at most besides", parts+2, flushes, n)
	}
}

func TestDirect(t *testing.T) {
	onDisk(t)
	everywhere(t, func(t *testing.T) {
		want := content(10_000)
		name := scratch(t, want)
		f, err := OpenFile(name, os.O_RDWR|unix.O_DIRECT, 0)
		if errors.Is(err, unix.EINVAL) {
			t.Skip("no O_DIRECT on this file system")
		}
		must(t, err)
		closing(t, f)
		b := AlignedBuffer(16384)
		n, err := f.ReadAt(b, 0)
		reads(t, "ReadAt of all", b, n, err, want, io.EOF)
		n, err = f.ReadAt(b[:4096], 4096)
		reads(t, "ReadAt of the second block", b, n, err, want[4096:8192], nil)
		for _, bad := range []struct {
			b   []byte
			off int64
		}{{b[:100], 0}, {b[1:4097], 0}, {b[:4096], 7}} {
			for _, do := range []func([]byte, int64) (int, error){f.ReadAt, f.WriteAt} {
				err := testenv.Err(do(bad.b, bad.off))
				testenv.ErrorIs(t, err, unix.EINVAL, "unaligned")
				testenv.ErrorSays(t, err, "AlignedBuffer")
			}
		}
		var all []byte
		for err = nil; err == nil; all = append(all, b[:n]...) {
			n, err = f.Read(b[:4096])
		}
		reads(t, "in sequence", all, len(all), err, want, io.EOF)
		copy(b, want[5000:])
		need(f.WriteAt(b[:4096], 8192))(t)
		holds(t, name, append(want[:8192:8192], b[:4096]...))
	})
}

func TestResidentAndPrefetch(t *testing.T) {
	onDisk(t)
	everywhere(t, func(t *testing.T) {
		const size = 1 << 20
		name := scratch(t, content(size+100))
		f := closing(t, need(Open(name))(t))
		must(t, f.Sync())
		testenv.Equal(t, f.Resident(0, 2*size), size+100, "a file just written has N bytes in memory")
		testenv.Equal(t, f.Resident(50, math.MaxInt64), size+50, "of all from 50 on N bytes are in memory")
		must(t, unix.Fadvise(int(f.fd), 0, 0, unix.FADV_DONTNEED))
		if n := f.Resident(0, size); n >= size {
			t.Skip("the page cache keeps the file")
		}
		must(t, f.Prefetch(0, 300_000))
		testenv.Equal(t, f.Resident(0, 300_000), 300_000, "after Prefetch N bytes are in memory")
		testenv.Equal(t, f.Resident(10_000, 100), 100, "of 100 bytes in the middle N are in memory")
		must(t, unix.Fadvise(int(f.fd), 200<<10, 64<<10, unix.FADV_DONTNEED))
		testenv.Equal(t, f.Resident(5, 300_000), 200<<10-5, "before the gap N bytes are in memory")
		noCachestat.Store(true)
		defer noCachestat.Store(false)
		// Asking by reading may set off readahead, after which the gap is smaller, or gone.
		if n := f.Resident(5, 300_000); n > 300_000 || n < 200<<10-5-sampleStep {
			t.Errorf("without cachestat: %d, want %d, or little less, or more", n, 200<<10-5)
		}
		must(t, f.Prefetch(0, 300_000))
		testenv.Equal(t, f.Resident(5, 300_000), 300_000, "without cachestat, after Prefetch")
		must(t, f.Prefetch(size, 1<<20))
		testenv.Equal(t, f.Resident(size+10, size), 90, "without cachestat, at the end: N bytes")
	})
}

// TestResidentOfAnotherUsersFile: the kernel tells only the owner, and others whom the file lets
// write; others have to try.
func TestResidentOfAnotherUsersFile(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to be another user for a moment")
	}
	f := scratchFile(t, content(10_000), os.O_RDONLY)
	const nobody = 65534
	runtime.LockOSThread() // the user for files is a thread's
	defer runtime.UnlockOSThread()
	unix.Syscall(unix.SYS_SETFSUID, nobody, 0, 0)
	_, told := f.cachedPrefix(0, 10_000)
	n := f.Resident(0, 20_000)
	unix.Syscall(unix.SYS_SETFSUID, 0, 0, 0)
	testenv.True(t, !told && n == 10_000, "as nobody: %d, want all; told %t", n, told)
	_, told = f.cachedPrefix(0, 10_000)
	testenv.Equal(t, told, true, "the owner is told")
}

// A close that a signal interrupted is over: the number may be another file's by then.
func TestACloseIsNotRepeated(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		for _, e := range []syscall.Errno{unix.EINTR, unix.EIO, unix.ENOSPC, unix.EAGAIN, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL} {
			f, err := OpenFile(scratch(t, nil), os.O_RDWR, 0)
			must(t, err)
			var calls atomic.Int32
			withFault(t, func(op opcode, _ via, _ int32, n int) (int, syscall.Errno) {
				if op != opClose {
					return n, 0
				}
				calls.Add(1)
				return 0, e
			})
			err = f.Close()
			faults.Store(nil)
			sysClose(f.fd) // the fault has kept it open
			testenv.True(t, (e != unix.EINTR || err == nil) && (e == unix.EINTR || errors.Is(err, e)) && calls.Load() == 1,
				"a close that ended with %v was tried %d times and returned %v", e, calls.Load(), err)
		}
	})
}

// One that was cancelled, as when the thread that asked for it ends, was not begun.
func TestACancelledCloseIsRepeated(t *testing.T) {
	onLoops(t, func(t *testing.T, rt *engine.Runtime) {
		inTask(t, rt, func() {
			f := need(OpenFile(scratch(t, nil), os.O_RDWR, 0))(t)
			var calls atomic.Int32
			withFault(t, func(op opcode, _ via, _ int32, n int) (int, syscall.Errno) {
				if op == opClose && calls.Add(1) == 1 {
					return 0, unix.ECANCELED
				}
				return n, 0
			})
			must(t, f.Close())
			faults.Store(nil)
			e := sysClose(f.fd)
			testenv.True(t, e == unix.EBADF && calls.Load() == 2,
				"after a close that was cancelled once and tried %d times another says %v, want EBADF", calls.Load(), e)
		})
	})
}
