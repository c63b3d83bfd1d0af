package knot

import (
	"errors"
	"io"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/ressched"
)

const (
	// wideSize is the size of the buffers that large files pass through.
	wideSize = 64 << 10

	resolveCached = 0x20 // RESOLVE_CACHED, Linux 5.12
	resolveSafe   = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

	openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
)

// openWay is a way to open: first with what the kernel has in memory, then at any cost.
type openWay struct{ quick, full unix.OpenHow }

// openWays are those to open a path without links on it, and one that may have some.
type openWays struct{ plain, linked openWay }

var (
	toRead = waysTo(openFlags)
	// toLook needs no right to read and finds only out what is there.
	toLook = waysTo(unix.O_PATH | unix.O_CLOEXEC)
)

func waysTo(flags uint64) openWays {
	way := func(resolve uint64) openWay {
		return openWay{
			unix.OpenHow{Flags: flags, Resolve: resolve | resolveCached},
			unix.OpenHow{Flags: flags, Resolve: resolve},
		}
	}
	return openWays{way(resolveSafe | unix.RESOLVE_NO_SYMLINKS), way(resolveSafe)}
}

// probe finds out what the kernel, or a seccomp filter, allows.
func (f *Files) probe() {
	here := []byte(".\x00")
	fd, err := openat2(f.root.fd, here, &toLook.plain.quick)
	if err == unix.EINVAL || err == unix.EAGAIN {
		f.cached = err == unix.EAGAIN
		fd, err = openat2(f.root.fd, here, &toLook.plain.full)
	} else {
		f.cached = err == nil
	}
	if err != nil {
		f.walks = true
		return
	}
	unix.Close(fd)
}

// openat2 wants name to end with NUL, and makes no copy of it.
func openat2(dir int, name []byte, how *unix.OpenHow) (int, error) {
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(dir), uintptr(unsafe.Pointer(&name[0])),
			uintptr(unsafe.Pointer(how)), unsafe.Sizeof(*how), 0, 0)
		switch errno {
		case 0:
			return int(fd), nil
		case unix.EINTR:
		default:
			return -1, errno
		}
	}
}

// openWanted opens what is wanted under the path of x, if need be with a descriptor that is kept for something
// else. The file is nil if it did not have to wait for a disk; it may park to do so.
func (f *Files) openWanted(x *Ctx, how *openWays, w *want) (fd int, file *aio.File, err error) {
	fd, file, err = f.openOnce(x, how, w)
	if scarce(err) && f.caches != nil {
		f.caches.closeIdle(f.now() + 1)
		fd, file, err = f.openOnce(x, how, w)
	}
	return fd, file, err
}

func (f *Files) openOnce(x *Ctx, how *openWays, w *want) (fd int, file *aio.File, err error) {
	if w.beside {
		return f.openBeside(x, how, w.plain.name, w.coding.Suffix)
	}
	return f.open(x, how)
}

// open is openOnce for what the path of x names, and leaves the name in x.name, with a NUL. A path
// that ends with a slash names the first index that is there.
func (f *Files) open(x *Ctx, how *openWays) (fd int, file *aio.File, err error) {
	if x.path[len(x.path)-1] != '/' {
		return f.openName(x, how, "")
	}
	for _, index := range f.index {
		if fd, file, err = f.openName(x, how, index); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return fd, file, err
}

func (f *Files) openName(x *Ctx, how *openWays, index string) (fd int, file *aio.File, err error) {
	x.name = append(append(append(x.name[:0], x.path[1:]...), index...), 0)
	return f.openPlain(x, how)
}

// openBeside is openOnce for what stands, with that suffix, beside the file called name, an
// entry.name. It goes by that and not by the path of x: a folder may have several that an index could be.
func (f *Files) openBeside(x *Ctx, how *openWays, name, suffix string) (fd int, file *aio.File, err error) {
	x.name = append(append(append(x.name[:0], name[1:]...), suffix...), 0)
	return f.openPlain(x, how)
}

// openPlain opens x.name.
func (f *Files) openPlain(x *Ctx, how *openWays) (fd int, file *aio.File, err error) {
	if f.walks {
		name := string(x.name[:len(x.name)-1])
		offload(func() { fd, err = f.walk(name) })
		return fd, nil, err
	}
	fd, file, err = f.openThere(x, &how.plain)
	if !errors.Is(err, unix.ELOOP) {
		return fd, file, err
	}
	// There is a link on the way. It may lead to what its own name does not show.
	if fd, file, err = f.openThere(x, &how.linked); err != nil {
		return -1, nil, err
	}
	if !f.root.shows(fd) {
		closeEither(fd, file)
		return -1, nil, Status(404)
	}
	return fd, file, nil
}

// openThere opens x.name in one way.
func (f *Files) openThere(x *Ctx, how *openWay) (fd int, file *aio.File, err error) {
	if f.cached {
		fd, err = openat2(f.root.fd, x.name, &how.quick)
		if err != unix.EAGAIN {
			return fd, nil, err
		}
	}
	if file, err = aio.OpenAt(f.root.fd, string(x.name[:len(x.name)-1]), &how.full); err != nil {
		return -1, nil, err
	}
	return descriptorOf(file), file, nil
}

// closeEither closes file, or, if that is nil, fd.
func closeEither(fd int, file *aio.File) {
	if file != nil {
		file.Close()
		return
	}
	unix.Close(fd)
}

// descriptorOf returns a number that is good until file is closed.
func descriptorOf(file *aio.File) int {
	number := -1
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number
}

// walk opens name one component at a time and follows no link, for kernels
// without openat2. name is clean: it has no "." and no "..".
func (f *Files) walk(name string) (int, error) {
	dir, mine := f.root.fd, false
	for {
		i := 0
		for i < len(name) && name[i] != '/' {
			i++
		}
		flags := openFlags | unix.O_NOFOLLOW
		if i < len(name) {
			flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
		}
		fd, err := openat(dir, name[:i], flags)
		if mine {
			unix.Close(dir)
		}
		if err != nil || i == len(name) {
			return fd, err
		}
		dir, mine, name = fd, true, name[i+1:]
	}
}

func openat(dir int, name string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// readFault, if set by a test, can make reads fail.
var readFault func(e *entry) error

// readAt reads up to len(p) bytes; 0 and no error at the end of the file. It parks if
// they are not in memory.
func (e *entry) readAt(p []byte, at int64) (n int, err error) {
	if readFault != nil {
		if err := readFault(e); err != nil {
			return 0, err
		}
	}
	if e.file.Load() == nil { // nothing of it has had to be waited for
		for {
			if n, err = preadNoWait(e.fd, p, at); err != unix.EINTR {
				break
			}
		}
		if err == nil {
			return n, nil
		}
	}
	if n, err = e.slow().ReadAt(p, at); err == io.EOF {
		err = nil
	}
	return n, err
}

// slow returns the file for what may have to be waited for.
func (e *entry) slow() *aio.File {
	if file := e.file.Load(); file != nil {
		return file
	}
	file, err := aio.NewFile(e.fd, e.key)
	if err != nil {
		panic(err) // fcntl(2) of a descriptor that we hold
	}
	ressched.Descriptors.Release(1) // it is counted twice now
	if !e.file.CompareAndSwap(nil, file) {
		return e.file.Load()
	}
	return file
}

// close closes the descriptor. The last close of a deleted file frees its blocks, which
// takes long if there are many: not on a loop.
func (e *entry) close() {
	const many = 4 << 20
	if e.id.size > many {
		var st unix.Stat_t
		if unix.Fstat(e.fd, &st) == nil && st.Nlink == 0 {
			go e.closeNow()
			return
		}
	}
	e.closeNow()
}

func (e *entry) closeNow() {
	if file := e.file.Load(); file != nil {
		file.Close()
		return
	}
	ressched.Descriptors.Release(1)
	unix.Close(e.fd)
}

// preadNoWait is preadv2 with RWF_NOWAIT: EAGAIN instead of waiting.
func preadNoWait(fd int, p []byte, at int64) (int, error) {
	vector := [1][]byte{p}
	return unix.Preadv2(fd, vector[:], at, unix.RWF_NOWAIT)
}

var wideBuffers = sync.Pool{New: func() any { return new([wideSize]byte) }}

// widen puts a large buffer in place of the output buffer, with its content.
func (x *Ctx) widen() {
	x.wide = wideBuffers.Get().(*[wideSize]byte)
	tasks.Buffers.Acquire(wideSize)
	x.narrowOut = x.out[:0]
	x.out = append(x.wide[:0], x.out...)
}

// narrow undoes widen, after sending what is in the large buffer.
func (x *Ctx) narrow() error {
	err := x.flush()
	x.out = x.narrowOut
	wideBuffers.Put(x.wide)
	tasks.Buffers.Release(wideSize)
	x.wide, x.narrowOut = nil, nil
	return err
}
