package store

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/ressched"
	"github.com/capriccio-go/capriccio/task"
)

// listBatch is how many names are read from a folder at a time.
const listBatch = 256

// toList is how to open a folder.
var toList = waysTo(unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOCTTY)

// A Listed is a name in a folder, and what it leads to if it is a link.
type Listed struct {
	Name     string
	Dir      bool
	Size     int64 // in bytes; 0 for a folder
	Modified time.Time
}

// List calls add for the files and folders in the folder that the path of the request names, in no order, and for no more than
// most; more reports that there are more. The path must end with a slash. It parks.
func (f *Store) List(q *Request, most int, add func(Listed)) (more bool, err error) {
	if len(q.Path) == 0 || q.Path[0] != '/' || q.Path[len(q.Path)-1] != '/' || hiddenPath(q.Path) {
		return false, ErrHidden
	}
	f.follow(q, f.Now())
	if len(q.Path) > 1 {
		q.name = append(append(q.name[:0], q.Path[1:len(q.Path)-1]...), 0)
	} else {
		q.name = append(q.name[:0], ".\x00"...)
	}
	fd, file, err := f.openPlain(q, &toList)
	if err != nil {
		return false, err
	}
	if file != nil { // package aio reads no folders
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		file.Close()
		if err != nil {
			return false, err
		}
	}
	ressched.Descriptors.Acquire(1)
	defer ressched.Descriptors.Release(1)
	path := string(q.Path)
	task.Offload(func() { more, err = f.readFolder(fd, path, most, add) })
	return more, err
}

// readFolder takes fd over.
func (f *Store) readFolder(fd int, path string, most int, add func(Listed)) (more bool, err error) {
	shown := 0
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	for {
		// Not ReadDir: where the kernel tells no types, that of Go 1.25.0 looks for the files below path, the
		// URL's.
		names, err := dir.Readdirnames(listBatch)
		for _, name := range names {
			one, ok := f.listed(fd, path, name)
			if !ok {
				continue
			}
			if shown == most {
				return true, nil
			}
			shown++
			add(one)
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// listed reports whether to show what is called name in the folder dir, and how.
func (f *Store) listed(dir int, path, name string) (one Listed, ok bool) {
	if hiddenPath([]byte(path + name)) {
		return one, false
	}
	var st unix.Stat_t
	if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return one, false
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK && !f.throughLink(path[1:]+name, &st) {
		return one, false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return Listed{Name: name, Dir: true, Modified: time.Unix(0, st.Mtim.Nano())}, true
	case unix.S_IFREG:
		return Listed{Name: name, Size: st.Size, Modified: time.Unix(0, st.Mtim.Nano())}, true
	}
	return one, false
}

// throughLink finds out what the link called name leads to, if that may be served.
func (f *Store) throughLink(name string, st *unix.Stat_t) bool {
	if f.Walks {
		return false
	}
	fd, err := openat2(f.Root.FD, append([]byte(name), 0), &toLook.linked.full)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return f.Root.shows(fd) && unix.Fstat(fd, st) == nil
}
