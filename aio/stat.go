//go:build linux

package aio

import (
	"io/fs"
	"path"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// A fileInfo is what Stat returns.
type fileInfo struct {
	name string
	sys  syscall.Stat_t
}

func (i *fileInfo) Name() string       { return i.name }
func (i *fileInfo) Size() int64        { return i.sys.Size }
func (i *fileInfo) Mode() fs.FileMode  { return goMode(i.sys.Mode) }
func (i *fileInfo) ModTime() time.Time { return time.Unix(i.sys.Mtim.Unix()) }
func (i *fileInfo) IsDir() bool        { return i.Mode().IsDir() }
func (i *fileInfo) Sys() any           { return &i.sys }
func (i *fileInfo) String() string     { return fs.FormatFileInfo(i) }

// newInfo translates what statx(2) says.
func newInfo(name string, st *unix.Statx_t) *fileInfo {
	i := &fileInfo{name: path.Base(name)}
	s := &i.sys
	s.Dev = unix.Mkdev(st.Dev_major, st.Dev_minor)
	s.Rdev = unix.Mkdev(st.Rdev_major, st.Rdev_minor)
	s.Ino, s.Size, s.Blocks = st.Ino, int64(st.Size), int64(st.Blocks)
	s.Mode, s.Uid, s.Gid = uint32(st.Mode), st.Uid, st.Gid
	setNumber(&s.Nlink, st.Nlink)
	setNumber(&s.Blksize, st.Blksize)
	s.Atim = syscall.Timespec{Sec: st.Atime.Sec, Nsec: int64(st.Atime.Nsec)}
	s.Mtim = syscall.Timespec{Sec: st.Mtime.Sec, Nsec: int64(st.Mtime.Nsec)}
	s.Ctim = syscall.Timespec{Sec: st.Ctime.Sec, Nsec: int64(st.Ctime.Nsec)}
	return i
}

// setNumber sets a field whose type depends on the architecture.
func setNumber[T uint64 | uint32 | int64 | int32](to *T, n uint32) { *to = T(n) }

// goMode is the mode of package fs for one of inode(7).
func goMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	}
	if mode&unix.S_ISGID != 0 {
		m |= fs.ModeSetgid
	}
	if mode&unix.S_ISUID != 0 {
		m |= fs.ModeSetuid
	}
	if mode&unix.S_ISVTX != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// Stat describes the file. Sys of the result is a *syscall.Stat_t. It parks if the file
// is on a file system without a disk of its own, a network's for example.
func (f *File) Stat() (fs.FileInfo, error) {
	if _, ok := f.enter(); !ok {
		return nil, f.fail("stat", errClosed)
	}
	defer f.exit()
	i, err := f.stat()
	if err != nil {
		return nil, f.fail("stat", err)
	}
	return i, nil
}

func (f *File) stat() (*fileInfo, error) {
	st := statBuffers.Get().(*unix.Statx_t)
	i, err := statAt(f.fd, "", f.name, unix.AT_EMPTY_PATH, f, st)
	statBuffers.Put(st)
	return i, err
}

// Stat describes the file with that name; of a symbolic link, what it leads to. It parks
// unless memory knows it.
func Stat(name string) (fs.FileInfo, error) {
	return statPath("stat", unix.AT_FDCWD, name, name, 0)
}

// Lstat is Stat that describes a symbolic link itself.
func Lstat(name string) (fs.FileInfo, error) {
	return statPath("lstat", unix.AT_FDCWD, name, name, unix.AT_SYMLINK_NOFOLLOW)
}

// statPath describes name below the folder dir; path is its name in errors.
func statPath(op string, dir int32, name, path string, flags uint32) (fs.FileInfo, error) {
	st := statBuffers.Get().(*unix.Statx_t)
	i, err := statAt(dir, name, name, flags, nil, st)
	statBuffers.Put(st)
	if err != nil {
		return nil, pathError(op, path, err)
	}
	return i, nil
}

// statAt describes path below fd; shown is its name in the result. st must not be on the
// stack. If the task is ended while it waits, st is lost.
func statAt(fd int32, path, shown string, flags uint32, f *File, st *unix.Statx_t) (*fileInfo, error) {
	r := newRequest(opStat, fd)
	defer r.free()
	if !r.setPath(path) {
		return nil, unix.EINVAL
	}
	r.file = f
	r.q, r.flags, r.mode = unsafe.Pointer(st), flags, unix.STATX_BASIC_STATS
	if engine.CurrentLoop() != nil && r.statCached() {
		if r.errno != 0 {
			return nil, r.errno
		}
		return newInfo(shown, st), nil
	}
	if _, err := r.keep().perform(); err != nil {
		return nil, err
	}
	return newInfo(shown, st), nil
}

// statCached does what r asks for, and returns true, if that needs nothing from a disk.
func (r *request) statCached() bool {
	fd := r.fd
	if r.file == nil {
		r.how = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC}
		if r.flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
			r.how.Flags |= unix.O_NOFOLLOW
		}
		st := r.q
		r.q = unsafe.Pointer(&r.how)
		n, e := r.openCached()
		r.q = st
		switch e {
		case 0:
			fd = int32(n)
			defer sysClose(fd)
		case unix.ENOENT, unix.ENOTDIR, unix.EACCES, unix.ELOOP, unix.ENAMETOOLONG:
			r.errno = e
			return true
		default:
			return false
		}
	}
	if _, e := inject(opStat, viaLoop, fd, 0); e != 0 {
		return false
	}
	// Without a disk of its own the file system may know better if it is asked to ask.
	st := (*unix.Statx_t)(r.q)
	if statxCached(fd, r.mode|unix.STATX_MNT_ID_UNIQUE, st) != 0 {
		return false
	}
	if st.Dev_major != 0 {
		return true
	}
	known, _ := memoryDevices.Load(unix.Mkdev(st.Dev_major, st.Dev_minor))
	return known == fileSystem{st.Mnt_id, true}
}
