//go:build linux

package aio

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// DirFS returns the files below a folder as an fs.FS. It implements fs.ReadFileFS,
// fs.ReadDirFS and fs.StatFS too. Like os.DirFS it follows symbolic links, also out of the
// folder. Its methods may park.
func DirFS(folder string) fs.FS { return dirFS(folder) }

type dirFS string

// within calls do with the path of the file that has that name, and makes its error carry the name.
func within[T any](d dirFS, op, name string, do func(path string) (T, error)) (v T, err error) {
	if !fs.ValidPath(name) {
		return v, pathError(op, name, fs.ErrInvalid)
	}
	path := string(d)
	if d == "" {
		return v, pathError(op, name, unix.ENOENT)
	}
	if name != "." {
		path = join(path, name)
	}
	v, err = do(path)
	if e, ok := err.(*fs.PathError); ok {
		e.Path = name
	}
	return v, err
}

// Open implements fs.FS.
func (d dirFS) Open(name string) (fs.File, error) {
	f, err := within(d, "open", name, Open)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ReadFile implements fs.ReadFileFS.
func (d dirFS) ReadFile(name string) ([]byte, error) { return within(d, "readfile", name, ReadFile) }

// ReadDir implements fs.ReadDirFS.
func (d dirFS) ReadDir(name string) ([]fs.DirEntry, error) {
	return within(d, "readdir", name, ReadDir)
}

// Stat implements fs.StatFS.
func (d dirFS) Stat(name string) (fs.FileInfo, error) { return within(d, "stat", name, Stat) }
