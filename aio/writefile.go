//go:build linux

package aio

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// WriteFile replaces the content of a file, or makes it, in one step: any reader that opens name,
// even after a crash of the process or of the machine, finds either what was there before
// or all of data, and when WriteFile has returned without an error it is all of data. It
// writes a file without a name in the same folder (O_TMPFILE), waits until the disk has it
// (fsync), gives it the name, and waits until the disk has the folder.
//
// A file that exists keeps its mode, a new one gets perm before umask; the owner is the caller. A symbolic link is
// replaced, not followed. A file that is no regular one, a device or a FIFO say, or is below /proc, /sys or the like,
// is written in place, as by os.WriteFile: then nothing of the above holds, and a FIFO without a reader is waited for
// even if the task is cancelled. If the process is killed between the last steps, or at any time on a file system
// without O_TMPFILE, a file .NAME.tmp-NUMBER may be left in the folder. It parks.
func WriteFile(name string, data []byte, perm fs.FileMode) error {
	folder, base := filepath.Split(name) // does not clean folder, which would change what ".." means behind a link
	w := fileWriter{name: name, folder: cmp.Or(folder, "."), base: base, perm: perm}
	if info, err := Lstat(name); err == nil {
		if info.IsDir() {
			return pathError("open", name, unix.EISDIR)
		}
		w.exists = true
		switch info.Mode().Type() {
		case 0:
			w.perm, w.keep = info.Mode(), true
		case fs.ModeSymlink:
		default:
			return aside("open", name, func() error { return overwrite(name, data) })
		}
	}
	err := w.replace(data)
	if err != nil && w.file == nil && w.keep {
		return aside("open", name, func() error {
			if unreal(w.folder) {
				return overwrite(name, data)
			}
			return err
		})
	}
	if err == nil {
		err = syncFolder(w.folder)
	}
	return err
}

// replace writes data to a new file and renames it to w.name. It has two deferred functions because each waits: if the
// runtime ends the task in the first, the second still runs.
func (w *fileWriter) replace(data []byte) (err error) {
	defer func() {
		if w.temp != "" {
			cleanUp(w.temp)
		}
	}()
	if err := w.create(); err != nil {
		return err
	}
	defer func() {
		if closed := w.file.Close(); err == nil {
			err = closed
		}
	}()
	if err := w.fill(data); err != nil {
		return err
	}
	return w.publish()
}

// unreal reports whether a folder is in a file system that stores nothing, and makes no new files: that of /proc, /sys
// or control groups. It is for a plain goroutine.
func unreal(folder string) bool {
	var st unix.Statfs_t
	return unix.Statfs(folder, &st) == nil && st.Blocks == 0
}

// overwrite writes to what is there. It is for a plain goroutine.
func overwrite(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// A fileWriter is one WriteFile.
type fileWriter struct {
	name, folder, base string
	perm               fs.FileMode
	keep               bool // perm is that of the file that is there: umask does not matter
	exists             bool
	file               *File
	temp               string // the name that file has, or is given just now; empty: it has none
}

// underTempName calls try with names next to the file's until one is not taken, which becomes w.temp.
func (w *fileWriter) underTempName(try func(name string) error) error {
	base := w.base[:min(len(w.base), 200)]
	for range tempTries {
		name := join(w.folder, "."+base+".tmp-"+randomName())
		w.temp = name // before try, which may end the task
		err := try(name)
		if err != nil {
			w.temp = ""
		}
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return pathError("open", w.name, unix.EEXIST)
}

// create opens the new file, without a name if that is possible.
func (w *fileWriter) create() error {
	f, err := OpenFile(w.folder, os.O_WRONLY|unix.O_TMPFILE, w.perm)
	if is(err, unix.EOPNOTSUPP) || is(err, unix.EISDIR) || is(err, unix.ENOENT) || is(err, unix.EINVAL) {
		err = w.underTempName(func(name string) (err error) {
			f, err = OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, w.perm)
			return err
		})
	}
	if err != nil {
		return pathError("open", w.name, err.(*fs.PathError).Err)
	}
	f.name = w.name // for errors
	w.file = f
	return nil
}

// fill writes data to the disk.
func (w *fileWriter) fill(data []byte) error {
	if _, err := w.file.Write(data); err != nil {
		return err
	}
	if w.keep { // last, as a write by another user than root takes setuid and setgid away
		if err := w.file.chmod(w.perm); err != nil {
			return err
		}
	}
	return w.file.Sync()
}

// chmod sets the mode, on a thread, as the file system's journal may be full.
func (f *File) chmod(m fs.FileMode) error {
	var err error
	r := newRequest(opFunc, f.fd)
	r.fn = func() { err = unix.Fchmod(int(f.fd), uint32(modeBits(m))) }
	if e := f.change("chmod", r); e != nil || err == nil {
		return e
	}
	return f.fail("chmod", err)
}

// publish gives the file its name.
func (w *fileWriter) publish() error {
	err := w.link()
	if err == nil && w.temp != "" {
		if err = wrapPath("rename", w.name, onPaths(opRename, unix.AT_FDCWD, w.temp, w.name, 0)); err == nil {
			w.temp = ""
		}
	}
	return err
}

// link makes a file without a name appear: under its final name if that is free, else
// under a temporary one.
func (w *fileWriter) link() error {
	if w.temp != "" {
		return nil
	}
	self := "/proc/self/fd/" + strconv.Itoa(int(w.file.fd))
	link := func(name string) error { return onPaths(opLink, unix.AT_FDCWD, self, name, unix.AT_SYMLINK_FOLLOW) }
	err := error(unix.EEXIST)
	if !w.exists {
		err = link(w.name)
	}
	if err == unix.EEXIST {
		err = w.underTempName(link)
	}
	return wrapPath("link", w.name, err)
}

// syncFolder waits until the disk has the folder's entries. Some file systems can't.
func syncFolder(name string) error {
	f, err := OpenFile(name, unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !is(err, unix.EINVAL) {
		return err
	}
	return nil
}
