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

// path is where the file with that name is.
func (d dirFS) path(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", pathError(op, name, fs.ErrInvalid)
	}
	if d == "" {
		return "", pathError(op, name, unix.ENOENT)
	}
	if name == "." {
		return string(d), nil
	}
	return join(string(d), name), nil
}

// shown makes errors carry the name that was asked for.
func shown(err error, name string) error {
	if e, ok := err.(*fs.PathError); ok {
		e.Path = name
	}
	return err
}

// Open implements fs.FS.
func (d dirFS) Open(name string) (fs.File, error) {
	path, err := d.path("open", name)
	if err != nil {
		return nil, err
	}
	f, err := Open(path)
	if err != nil {
		return nil, shown(err, name)
	}
	return f, nil
}

// ReadFile implements fs.ReadFileFS.
func (d dirFS) ReadFile(name string) ([]byte, error) {
	path, err := d.path("readfile", name)
	if err != nil {
		return nil, err
	}
	b, err := ReadFile(path)
	return b, shown(err, name)
}

// ReadDir implements fs.ReadDirFS.
func (d dirFS) ReadDir(name string) ([]fs.DirEntry, error) {
	path, err := d.path("readdir", name)
	if err != nil {
		return nil, err
	}
	list, err := ReadDir(path)
	return list, shown(err, name)
}

// Stat implements fs.StatFS.
func (d dirFS) Stat(name string) (fs.FileInfo, error) {
	path, err := d.path("stat", name)
	if err != nil {
		return nil, err
	}
	info, err := Stat(path)
	if err != nil {
		return nil, shown(err, name)
	}
	return info, nil
}
