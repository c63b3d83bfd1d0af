package knot

import (
	"errors"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// wideSize is the size of the buffers that large files pass through.
	wideSize = 64 << 10

	resolveCached = 0x20 // RESOLVE_CACHED, Linux 5.12
	resolveSafe   = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

	openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
)

var (
	howCached = unix.OpenHow{Flags: openFlags, Resolve: resolveSafe | resolveCached}
	howFull   = unix.OpenHow{Flags: openFlags, Resolve: resolveSafe}
	howProbe  = unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolveSafe | resolveCached}
)

// probe finds out what the kernel, or a seccomp filter, allows.
func (f *Files) probe() {
	here := []byte(".\x00")
	how := howProbe
	fd, err := openat2(f.root, here, &how)
	if err == unix.EINVAL || err == unix.EAGAIN {
		f.cache = err == unix.EAGAIN
		how.Resolve = resolveSafe
		fd, err = openat2(f.root, here, &how)
	} else {
		f.cache = err == nil
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

// open opens x.name below the root. It waits for the disk only through
// offload.
func (f *Files) open(x *Ctx) (fd int, err error) {
	if f.cache && !f.walks {
		fd, err = openat2(f.root, x.name, &howCached)
		if err != unix.EAGAIN {
			return fd, err
		}
	}
	return f.openSlowly(x.name)
}

func (f *Files) openSlowly(name []byte) (fd int, err error) {
	offload(func() {
		if f.walks {
			fd, err = f.walk(string(name[:len(name)-1]))
			return
		}
		// EAGAIN: something below the root was renamed at this moment.
		for range 8 {
			if fd, err = openat2(f.root, name, &howFull); err != unix.EAGAIN {
				return
			}
		}
	})
	return fd, err
}

// walk opens name one component at a time and follows no link, for kernels
// without openat2. name is clean: it has no "." and no "..".
func (f *Files) walk(name string) (int, error) {
	dir, mine := f.root, false
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

// fileSource reads one file, on the loop while its pages are cached.
type fileSource struct {
	fd int
	// slow: this file system can't say whether a read would wait.
	slow bool
}

// readAt reads up to len(p) bytes; 0 and no error at the end of the file.
func (s *fileSource) readAt(p []byte, at int64) (n int, err error) {
	for !s.slow {
		n, err = preadNoWait(s.fd, p, at)
		switch err {
		case unix.EINTR:
			continue
		case unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL:
			s.slow = true
		case unix.EAGAIN:
			return s.readSlowly(p, at)
		default:
			return n, err
		}
	}
	return s.readSlowly(p, at)
}

func (s *fileSource) readSlowly(p []byte, at int64) (n int, err error) {
	fd := s.fd
	offload(func() {
		for {
			if n, err = unix.Pread(fd, p, at); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	return n, err
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
	x.narrowOut = x.out[:0]
	x.out = append(x.wide[:0], x.out...)
}

// narrow undoes widen, after sending what is in the large buffer.
func (x *Ctx) narrow() {
	x.flush()
	x.out = x.narrowOut
	wideBuffers.Put(x.wide)
	x.wide, x.narrowOut = nil, nil
}
