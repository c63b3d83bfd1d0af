package store

import (
	"errors"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

const (
	// WideSize is the size of the buffers that large files pass through.
	WideSize = 64 << 10

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
func (f *Store) probe() {
	here := []byte(".\x00")
	fd, err := openat2(f.Root.FD, here, &toLook.plain.quick)
	if err == unix.EINVAL || err == unix.EAGAIN {
		f.Cached = err == unix.EAGAIN
		fd, err = openat2(f.Root.FD, here, &toLook.plain.full)
	} else {
		f.Cached = err == nil
	}
	if err != nil {
		f.Walks = true
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

// openWanted opens what is wanted under the path of q, if need be with a descriptor that is kept for something
// else. The file is nil if it did not have to wait for a disk; it may park to do so.
func (f *Store) openWanted(q *Request, how *openWays, w *want) (fd int, file *aio.File, err error) {
	fd, file, err = f.openOnce(q, how, w)
	if Scarce(err) && f.Caches != nil {
		f.Caches.CloseIdle(f.Now() + 1)
		fd, file, err = f.openOnce(q, how, w)
	}
	return fd, file, err
}

func (f *Store) openOnce(q *Request, how *openWays, w *want) (fd int, file *aio.File, err error) {
	if w.beside {
		return f.openBeside(q, how, w.plain.name, w.coding.Suffix)
	}
	return f.open(q, how)
}

// open is openOnce for what the path of q names, and leaves the name in q.name, with a NUL. A path
// that ends with a slash names the first index that is there.
func (f *Store) open(q *Request, how *openWays) (fd int, file *aio.File, err error) {
	if q.Path[len(q.Path)-1] != '/' {
		return f.openName(q, how, "")
	}
	for _, index := range f.index {
		if fd, file, err = f.openName(q, how, index); !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	return fd, file, err
}

func (f *Store) openName(q *Request, how *openWays, index string) (fd int, file *aio.File, err error) {
	q.name = append(append(append(q.name[:0], q.Path[1:]...), index...), 0)
	return f.openPlain(q, how)
}

// openBeside is openOnce for what stands, with that suffix, beside the file called name, an
// Entry.name. It goes by that and not by the path of q: a folder may have several that an index could be.
func (f *Store) openBeside(q *Request, how *openWays, name, suffix string) (fd int, file *aio.File, err error) {
	q.name = append(append(append(q.name[:0], name[1:]...), suffix...), 0)
	return f.openPlain(q, how)
}

// openPlain opens q.name.
func (f *Store) openPlain(q *Request, how *openWays) (fd int, file *aio.File, err error) {
	if f.Walks {
		name := string(q.name[:len(q.name)-1])
		task.Offload(func() { fd, err = f.walk(name) })
		return fd, nil, err
	}
	fd, file, err = f.openThere(q, &how.plain)
	if !errors.Is(err, unix.ELOOP) {
		return fd, file, err
	}
	// There is a link on the way. It may lead to what its own name does not show.
	if fd, file, err = f.openThere(q, &how.linked); err != nil {
		return -1, nil, err
	}
	if !f.Root.shows(fd) {
		closeEither(fd, file)
		return -1, nil, ErrHidden
	}
	return fd, file, nil
}

// openThere opens q.name in one way.
func (f *Store) openThere(q *Request, how *openWay) (fd int, file *aio.File, err error) {
	if f.Cached {
		fd, err = openat2(f.Root.FD, q.name, &how.quick)
		if err != unix.EAGAIN {
			return fd, nil, err
		}
	}
	if file, err = aio.OpenAt(f.Root.FD, string(q.name[:len(q.name)-1]), &how.full); err != nil {
		return -1, nil, err
	}
	return DescriptorOf(file), file, nil
}

// closeEither closes file, or, if that is nil, fd.
func closeEither(fd int, file *aio.File) {
	if file != nil {
		file.Close()
		return
	}
	unix.Close(fd)
}

// DescriptorOf returns a number that is good until file is closed.
func DescriptorOf(file *aio.File) int {
	number := -1
	if raw, err := file.SyscallConn(); err == nil {
		raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number
}

// walk opens name one component at a time and follows no link, for kernels
// without openat2. name is clean: it has no "." and no "..".
func (f *Store) walk(name string) (int, error) {
	dir, mine := f.Root.FD, false
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

// ReadFault, if set by a test, can make reads fail.
var ReadFault func(e *Entry) error

// ReadAt reads up to len(p) bytes; 0 and no error at the end of the file. It parks if
// they are not in memory.
func (e *Entry) ReadAt(p []byte, at int64) (n int, err error) {
	if ReadFault != nil {
		if err := ReadFault(e); err != nil {
			return 0, err
		}
	}
	if e.File.Load() == nil { // nothing of it has had to be waited for
		for {
			if n, err = preadNoWait(e.FD, p, at); err != unix.EINTR {
				break
			}
		}
		if err == nil {
			return n, nil
		}
	}
	if n, err = e.Slow().ReadAt(p, at); err == io.EOF {
		err = nil
	}
	return n, err
}

// Slow returns the file for what may have to be waited for.
func (e *Entry) Slow() *aio.File {
	if file := e.File.Load(); file != nil {
		return file
	}
	file, err := aio.NewFile(e.FD, e.Key)
	if err != nil {
		panic(err) // fcntl(2) of a descriptor that we hold
	}
	ressched.Descriptors.Release(1) // it is counted twice now
	if !e.File.CompareAndSwap(nil, file) {
		return e.File.Load()
	}
	return file
}

// close closes the descriptor. The last close of a deleted file frees its blocks, which
// takes long if there are many: not on a loop.
func (e *Entry) close() {
	const many = 4 << 20
	if e.id.size > many {
		var st unix.Stat_t
		if unix.Fstat(e.FD, &st) == nil && st.Nlink == 0 {
			go e.closeNow()
			return
		}
	}
	e.closeNow()
}

func (e *Entry) closeNow() {
	if file := e.File.Load(); file != nil {
		file.Close()
		return
	}
	ressched.Descriptors.Release(1)
	unix.Close(e.FD)
}

// preadNoWait is preadv2 with RWF_NOWAIT: EAGAIN instead of waiting.
func preadNoWait(fd int, p []byte, at int64) (int, error) {
	vector := [1][]byte{p}
	return unix.Preadv2(fd, vector[:], at, unix.RWF_NOWAIT)
}
