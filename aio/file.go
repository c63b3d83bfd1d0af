//go:build linux

package aio

import (
	"io/fs"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/task"
)

// A File is an open file. It implements io.Reader, Writer, ReaderAt, WriterAt, Seeker,
// Closer, ReaderFrom, WriterTo, StringWriter, fs.File, fs.ReadDirFile and syscall.Conn.
// Its methods may be called from any task and goroutine, several at a time. Methods that
// use the file's position (Read, Write, Seek, ReadDir) take turns. Methods that may have
// to wait for the disk park. Errors are *fs.PathError, except io.EOF. Made by Open and
// its relatives; the zero value is of no use. It is not closed by the garbage collector.
type File struct {
	life    atomic.Uint64 // see life.go
	fd      int32         // constant until closed
	writes  bool          // constant: open for writing
	direct  bool          // constant: O_DIRECT
	appends bool          // constant: O_APPEND
	synced  bool          // constant: O_DSYNC or O_SYNC, and not O_DIRECT
	adopted bool          // constant: made by NewFile, others may use the descriptor too
	below   bool          // constant: name is no path from the working directory, see OpenAt
	traits  atomic.Uint32 // the bits below; they are only ever set
	device  atomic.Uint64 // of the file system; 0: not known
	name    string        // constant

	pos     task.Mutex // its holder uses the kernel's position
	entries *dirReader // guarded by pos

	mu     sync.Mutex                    // held for a few instructions, never while parked
	busy   *request                      // guarded by mu: the first of the requests under way, linked by beside
	closer atomic.Pointer[engine.Waiter] // waits in Close for the last user
}

// Bits of File.traits.
const (
	traitSettled      = 1 << iota // settle has been here
	traitRefusesRead              // reads can't be tried without waiting
	traitRefusesWrite             // nor can writes
	traitRegular                  // a regular file; known once settled
	traitMemory                   // the file system has no disk
	traitDisk                     // it has, as far as is known
	traitStream                   // it has no position, though lseek(2) may say 0
	traitPolled                   // the kernel does not wait for what it has not: O_NONBLOCK, not a file
)

// Open opens a file, or a folder, for reading. It parks unless its path is in memory.
func Open(name string) (*File, error) { return OpenFile(name, os.O_RDONLY, 0) }

// Create makes a file, or empties it, for reading and writing, with mode 0666 before
// umask. It parks.
func Create(name string) (*File, error) {
	return OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

// OpenFile opens a file with the flags of package os, or of open(2) (O_DIRECT, O_TMPFILE),
// and, if it makes one, with mode perm before umask. It parks unless the path is in
// memory and nothing is made or emptied.
func OpenFile(name string, flag int, perm fs.FileMode) (*File, error) {
	how := unix.OpenHow{Flags: uint64(flag)}
	if flag&(unix.O_CREAT|unix.O_TMPFILE&^unix.O_DIRECTORY) != 0 {
		how.Mode = modeBits(perm)
	}
	return openAt(unix.AT_FDCWD, name, how)
}

// OpenAt is openat2(2): it opens a path below the folder with descriptor dir, or
// unix.AT_FDCWD, as how says. O_CLOEXEC is added to the flags, and, without O_PATH, O_NONBLOCK.
// It parks unless the path is in memory (RESOLVE_CACHED is tried first, on the loop) and
// nothing is made or emptied. If it opens a folder, Info of what its ReadDir returns works until
// it is closed.
func OpenAt(dir int, name string, how *unix.OpenHow) (*File, error) {
	return openAt(int32(dir), name, *how)
}

// NewFile adopts an open descriptor, which Close will close; name is for error messages. Its
// flags, which it has in common with its duplicates, stay as they are: also one that is
// non-blocking (O_NONBLOCK) is waited for. It never parks.
func NewFile(fd int, name string) (*File, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return nil, pathError("adopt", name, err)
	}
	f := newFile(int32(fd), name, uint64(flags))
	f.adopted = true
	return f, nil
}

func newFile(fd int32, name string, flags uint64) *File {
	engine.Acquire(engine.Descriptors, 1)
	f := &File{
		fd: fd, name: name,
		writes:  flags&unix.O_ACCMODE != unix.O_RDONLY,
		appends: flags&unix.O_APPEND != 0,
		synced:  flags&(unix.O_DSYNC|unix.O_DIRECT) == unix.O_DSYNC, // which is a bit of O_SYNC
		direct:  flags&unix.O_DIRECT != 0,
	}
	if f.synced {
		// RWF_NOWAIT is about the page cache only: what it has taken the kernel then writes to the
		// disk, and waits (generic_write_sync).
		f.traits.Store(traitRefusesWrite)
	}
	return f
}

// newFileAt is newFile for a file that was opened below the folder dir.
func newFileAt(fd, dir int32, name string, how *unix.OpenHow) *File {
	f := newFile(fd, name, how.Flags)
	absolute := name != "" && name[0] == '/'
	f.below = how.Resolve&unix.RESOLVE_IN_ROOT != 0 || dir != unix.AT_FDCWD && !absolute
	return f
}

// noCached is set once the kernel turns out to know no RESOLVE_CACHED (before 5.12).
var noCached atomic.Bool

const resolveCached = 0x20

// openAt opens name. On a loop, which must not wait, it first tries to open it from memory alone.
func openAt(dir int32, name string, how unix.OpenHow) (*File, error) {
	r := newRequest(opOpen, dir)
	if !r.setPath(name) {
		r.free()
		return nil, pathError("open", name, unix.EINVAL)
	}
	waits := how.Flags&(unix.O_PATH|unix.O_NONBLOCK) == 0
	how.Flags |= unix.O_CLOEXEC
	if how.Flags&unix.O_PATH == 0 { // O_PATH never waits, and openat2 takes few other flags with it
		how.Flags |= unix.O_NONBLOCK
	}
	r.how = how
	r.q = unsafe.Pointer(&r.how)
	refused := false
	if how.Flags&(unix.O_CREAT|unix.O_TRUNC|unix.O_TMPFILE&^unix.O_DIRECTORY) == 0 && !noCached.Load() && engine.CurrentLoop() != nil {
		fd, e := r.openCached()
		switch e {
		case 0:
			r.free()
			return newFileAt(int32(fd), dir, name, &how), nil
		case unix.EAGAIN, unix.EINTR, unix.ENOSYS, unix.EPERM, unix.EOPNOTSUPP:
		case unix.EINVAL:
			refused = true
		default:
			r.free()
			return nil, pathError("open", name, e)
		}
	}
	for tries := 0; ; tries++ {
		fd, err := r.keep().perform()
		if err == nil {
			r.free()
			if refused {
				noCached.Store(true)
			}
			return newFileAt(int32(fd), dir, name, &how), nil
		}
		// EAGAIN with RESOLVE_BENEATH or RESOLVE_IN_ROOT: something was renamed meanwhile.
		if err != unix.EAGAIN || tries == 8 {
			r.free()
			return nil, pathError("open", name, err)
		}
		if tries == 0 && waits {
			if leased := r.awaitLease(dir, name); leased != nil {
				defer leased.Close()
			}
		}
	}
}

// awaitLease makes r, to which the kernel has said EAGAIN, wait if that was because another process has a lease on the file
// (fcntl(2), F_SETLEASE): until that gives it up, at most the time that the kernel allows it. Without O_NONBLOCK only a
// regular file is opened, by the descriptor of the File that awaitLease returns; nil: r is as it was.
func (r *request) awaitLease(dir int32, name string) *File {
	f, err := openAt(dir, name, unix.OpenHow{Flags: unix.O_PATH | r.how.Flags&unix.O_NOFOLLOW, Resolve: r.how.Resolve})
	if err != nil {
		return nil
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil
	}
	r.fd = unix.AT_FDCWD
	r.setPath("/proc/self/fd/" + strconv.Itoa(int(f.fd)))
	r.how = unix.OpenHow{Flags: r.how.Flags &^ (unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CREAT | unix.O_EXCL)}
	return f
}

// openCached opens what r says if that needs nothing from a disk.
func (r *request) openCached() (uintptr, syscall.Errno) {
	if _, e := inject(opOpen, viaLoop, r.fd, 0); e != 0 {
		return 0, e
	}
	r.how.Resolve |= resolveCached
	fd, _, e := syscall.Syscall6(unix.SYS_OPENAT2, uintptr(r.fd), uintptr(r.p), uintptr(r.q), unsafe.Sizeof(r.how), 0, 0)
	r.how.Resolve &^= resolveCached
	return fd, e
}

// modeBits is what open(2) takes for m.
func modeBits(m fs.FileMode) uint64 {
	o := uint64(m.Perm())
	if m&fs.ModeSetuid != 0 {
		o |= unix.S_ISUID
	}
	if m&fs.ModeSetgid != 0 {
		o |= unix.S_ISGID
	}
	if m&fs.ModeSticky != 0 {
		o |= unix.S_ISVTX
	}
	return o
}

// Name returns the name that the file was opened with.
func (f *File) Name() string { return f.name }

func (f *File) describe() string { return "file " + f.name }

// settle finds out, before the first wait for f, what the wait needs to know, and clears O_NONBLOCK, with which f was
// opened so that opening it did not wait. An adopted descriptor, which others share, is left as it is. It asks only for
// what the kernel has in memory, so it does not wait.
func (f *File) settle() {
	if f.traits.Load()&traitSettled == 0 {
		f.settleNow()
	}
}

//go:noinline
func (f *File) settleNow() {
	st := statBuffers.Get().(*unix.Statx_t)
	defer statBuffers.Put(st)
	traits := uint32(traitSettled)
	waits := true // for others than a disk
	if statxCached(f.fd, unix.STATX_TYPE, st) == 0 {
		f.device.Store(unix.Mkdev(st.Dev_major, st.Dev_minor))
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			traits |= traitRegular
			waits = false
		case unix.S_IFDIR:
			waits = false
		case unix.S_IFBLK:
		default:
			traits |= traitStream
		}
	}
	flags, _, e := syscall.RawSyscall(unix.SYS_FCNTL, uintptr(f.fd), unix.F_GETFL, 0)
	switch {
	case e != 0 || flags&unix.O_NONBLOCK == 0:
	case !f.adopted:
		syscall.RawSyscall(unix.SYS_FCNTL, uintptr(f.fd), unix.F_SETFL, flags&^unix.O_NONBLOCK)
	case waits:
		traits |= traitPolled
	}
	f.traits.Or(traits)
}

// statxCached is statx(2) by what the kernel has in memory.
func statxCached(fd int32, mask uint32, st *unix.Statx_t) syscall.Errno {
	_, _, e := syscall.RawSyscall6(unix.SYS_STATX, uintptr(fd), uintptr(unsafe.Pointer(&noPath)),
		unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, uintptr(mask), uintptr(unsafe.Pointer(st)), 0)
	return e
}

// noPath is the empty path of the calls that take one next to a descriptor.
var noPath byte

var statBuffers = sync.Pool{New: func() any { return new(unix.Statx_t) }}

// Close closes the file. Calls of other tasks that use it at this moment end with fs.ErrClosed,
// or, if the kernel can't give it up any more, as usual; Close parks until then, unless
// the calling task's context has ended. It parks too if f was open for writing, because
// some file systems write at that moment.
func (f *File) Close() error {
	if !f.shut() {
		return f.fail("close", errClosed)
	}
	if !f.awaitUsers() {
		return nil
	}
	engine.Release(engine.Descriptors, 1)
	if !f.writes || engine.CurrentLoop() != nil && engine.Current() == nil {
		sysClose(f.fd)
		return nil
	}
	r := newRequest(opClose, f.fd)
	r.firm, r.off = true, int64(f.device.Load())
	if _, err := r.perform(); err != nil {
		return f.fail("close", err)
	}
	return nil
}
