//go:build linux

package aio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A dirReader is the state of ReadDir on one File.
type dirReader struct {
	buf  [16 << 10]byte
	rest []byte // of buf: records not yet returned
	over bool   // the kernel has no more
}

var errBadRecord = errors.New("the kernel's list of folder entries makes no sense")

// A rawEntry is one record of getdents64(2).
type rawEntry struct {
	name string
	kind uint8 // DT_*
}

// parseEntry takes the first record off b, which is not empty. The name is empty for
// "." and "..". On Linux 0 is a number of an inode like any other: some file systems (FUSE) have it.
func parseEntry(b []byte) (e rawEntry, rest []byte, err error) {
	const header = 19 // inode 8, offset 8, length of the record 2, kind 1
	if len(b) < header {
		return e, nil, errBadRecord
	}
	size := int(binary.NativeEndian.Uint16(b[16:]))
	if size <= header || size > len(b) {
		return e, nil, errBadRecord
	}
	name := b[header:size]
	end := bytes.IndexByte(name, 0)
	if end < 0 || bytes.IndexByte(name[:end], '/') >= 0 {
		return e, nil, errBadRecord
	}
	if name = name[:end]; string(name) != "." && string(name) != ".." {
		e.name = string(name)
	}
	e.kind = b[18]
	return e, b[size:], nil
}

// A dirEntry is what ReadDir returns.
type dirEntry struct {
	folder string
	in     *File // the folder, if its name does not lead to it; else nil
	name   string
	mode   fs.FileMode // type bits
	info   fs.FileInfo // nil: not known yet
}

func (e *dirEntry) Name() string      { return e.name }
func (e *dirEntry) IsDir() bool       { return e.mode.IsDir() }
func (e *dirEntry) Type() fs.FileMode { return e.mode }
func (e *dirEntry) String() string    { return fs.FormatDirEntry(e) }

// Info is Lstat; it may park.
func (e *dirEntry) Info() (fs.FileInfo, error) {
	path := join(e.folder, e.name)
	switch {
	case e.info != nil:
		return e.info, nil
	case e.in == nil:
		return Lstat(path)
	}
	if _, ok := e.in.enter(); !ok {
		return nil, pathError("lstat", path, errClosed)
	}
	defer e.in.exit()
	return statPath("lstat", e.in.fd, e.name, path, unix.AT_SYMLINK_NOFOLLOW)
}

// join is filepath.Join without cleaning, which would change what a path with links and
// ".." means.
func join(folder, name string) string {
	if strings.HasSuffix(folder, "/") {
		return folder + name
	}
	return folder + "/" + name
}

// ReadDir returns the next n entries of a folder, in no order; fewer, with io.EOF, at
// its end. With n ≤ 0 it returns all that are left, and no io.EOF. It parks, as the
// kernel reads folders only on a thread.
func (f *File) ReadDir(n int) ([]fs.DirEntry, error) {
	if _, err := f.enterAtPosition("readdir"); err != nil {
		return nil, err
	}
	defer f.exitPosition()
	if f.entries == nil {
		f.entries = new(dirReader)
	}
	var list []fs.DirEntry
	for n <= 0 || len(list) < n {
		e, err := f.nextEntry(f.entries)
		if err == io.EOF {
			if n > 0 && len(list) == 0 {
				return nil, io.EOF
			}
			break
		}
		if err != nil {
			return list, f.fail("readdirent", err)
		}
		if e != nil {
			list = append(list, e)
		}
	}
	return list, nil
}

// nextEntry returns nil for an entry that is gone already.
func (f *File) nextEntry(d *dirReader) (fs.DirEntry, error) {
	for {
		if len(d.rest) == 0 {
			if d.over {
				return nil, io.EOF
			}
			if err := f.fillEntries(d); err != nil {
				return nil, err
			}
			continue
		}
		raw, rest, err := parseEntry(d.rest)
		if err != nil {
			return nil, err
		}
		d.rest = rest
		if raw.name == "" {
			continue
		}
		e := &dirEntry{folder: f.name, name: raw.name}
		if f.below {
			e.in = f
		}
		if raw.kind != unix.DT_UNKNOWN {
			e.mode = goMode(uint32(raw.kind) << 12).Type()
			return e, nil
		}
		if e.info, err = e.Info(); errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		e.mode = e.info.Mode().Type()
		return e, nil
	}
}

// fillEntries reads the next records, on a thread.
func (f *File) fillEntries(d *dirReader) error {
	var n uintptr
	var e syscall.Errno
	r := newRequest(opFunc, f.fd).on(f)
	r.fn = func() {
		for {
			n, _, e = syscall.Syscall(unix.SYS_GETDENTS64, uintptr(f.fd), uintptr(unsafe.Pointer(&d.buf[0])), uintptr(len(d.buf)))
			if e != unix.EINTR {
				return
			}
		}
	}
	if _, err := r.perform(); err != nil {
		return err
	}
	if e != 0 {
		return e
	}
	d.rest, d.over = d.buf[:n], n == 0
	return nil
}

// ReadDir returns the entries of a folder, in the order of their names. It parks.
func ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := OpenFile(name, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}
