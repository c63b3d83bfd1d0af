//go:build linux

package aio

import (
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ReadFile returns the content of a file. It parks unless memory has it.
func ReadFile(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size := 0
	if info, err := f.Stat(); err == nil && info.Size() < 1<<40 {
		size = int(info.Size())
	}
	// One byte more finds the end without making the buffer grow. Files of /proc have
	// size 0.
	b := make([]byte, 0, max(size+1, 512))
	for {
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if err == io.EOF {
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
	}
}

// Remove removes a file or an empty folder. It parks.
func Remove(name string) error {
	err := onPath(opUnlink, name, 0, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return wrapPath("remove", name, err)
	}
	// unlink(2) says one or the other about a folder, depending on the file system.
	if dirErr := onPath(opUnlink, name, unix.AT_REMOVEDIR, 0); dirErr != unix.ENOTDIR {
		err = dirErr
	}
	return wrapPath("remove", name, err)
}

// Mkdir makes a folder with mode perm before umask. It parks.
func Mkdir(name string, perm fs.FileMode) error {
	return wrapPath("mkdir", name, onPath(opMkdir, name, 0, uint32(modeBits(perm))))
}

// MkdirAll makes a folder and the missing folders above it, with mode perm before umask. It is no error if the folder
// is there; if something else is, that is ENOTDIR (os.MkdirAll). It parks.
func MkdirAll(name string, perm fs.FileMode) error {
	return aside("mkdir", name, func() error { return os.MkdirAll(name, perm) })
}

// is reports whether the error of a path is e.
func is(err error, e error) bool {
	p, ok := err.(*fs.PathError)
	return ok && p.Err == e
}

// Rename moves a file or folder within a file system; what is at the new path is replaced
// in one step (rename(2)), unless it is a folder: that is EEXIST, even if it is empty. Errors
// are *os.LinkError (os.Rename). It parks.
func Rename(from, to string) error {
	return asideLink("rename", from, to, func() error { return os.Rename(from, to) })
}

func wrapPath(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return pathError(op, name, err)
}

// onPath performs an operation that takes one path.
func onPath(op opcode, name string, flags, mode uint32) error {
	r := newRequest(op, unix.AT_FDCWD)
	defer r.free()
	if !r.setPath(name) {
		return unix.EINVAL
	}
	r.flags, r.mode = flags, mode
	_, err := r.keep().perform()
	return err
}

// onPaths performs an operation that takes two paths, the first below fd.
func onPaths(op opcode, fd int32, from, to string, flags uint32) error {
	r := newRequest(op, fd)
	defer r.free()
	if !r.setPath(from) || !r.setSecondPath(to) {
		return unix.EINVAL
	}
	r.fd2, r.flags = unix.AT_FDCWD, flags
	_, err := r.keep().perform()
	return err
}

// cleanUp removes a file, whatever has become of the task. Failures are not reported.
func cleanUp(name string) {
	r := newRequest(opUnlink, unix.AT_FDCWD)
	r.setPath(name)
	r.firm = true
	r.perform()
}
