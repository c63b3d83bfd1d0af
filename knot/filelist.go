package knot

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/ressched"
)

// A Listed is a name in a folder, and what it leads to if it is a link.
type Listed struct {
	Name     string
	Dir      bool
	Size     int64 // in bytes; 0 for a folder
	Modified time.Time
}

// listBatch is how many names are read from a folder at a time.
const listBatch = 256

// toList is how to open a folder.
var toList = waysTo(unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC | unix.O_NOCTTY)

// List returns the files and folders in the folder that the path of x names, as far as Serve would
// serve them, in no order, and no more than most; more reports that there are more. The path must
// end with a slash. Errors are those of Serve: match them with errors.As against Status. It parks.
func (f *Files) List(x *Ctx, most int) (all []Listed, more bool, err error) {
	if len(x.path) == 0 || x.path[0] != '/' || x.path[len(x.path)-1] != '/' || hiddenPath(x.path) {
		return nil, false, Status(404)
	}
	f.follow(x, f.now())
	if len(x.path) > 1 {
		x.name = append(append(x.name[:0], x.path[1:len(x.path)-1]...), 0)
	} else {
		x.name = append(x.name[:0], ".\x00"...)
	}
	fd, file, err := f.openPlain(x, &toList)
	if err != nil {
		return nil, false, openStatus(err)
	}
	if file != nil { // package aio reads no folders
		fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		file.Close()
		if err != nil {
			return nil, false, openStatus(err)
		}
	}
	ressched.Descriptors.Acquire(1)
	defer ressched.Descriptors.Release(1)
	path := string(x.path)
	offload(func() { all, more, err = f.readFolder(fd, path, most) })
	if err != nil {
		return nil, false, openStatus(err)
	}
	return all, more, nil
}

// readFolder takes fd over.
func (f *Files) readFolder(fd int, path string, most int) (all []Listed, more bool, err error) {
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
			if len(all) == most {
				return all, true, nil
			}
			all = append(all, one)
		}
		if errors.Is(err, io.EOF) {
			return all, false, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// listed reports whether to show what is called name in the folder dir, and how.
func (f *Files) listed(dir int, path, name string) (one Listed, ok bool) {
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
func (f *Files) throughLink(name string, st *unix.Stat_t) bool {
	if f.walks {
		return false
	}
	fd, err := openat2(f.root.fd, append([]byte(name), 0), &toLook.linked.full)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return f.root.shows(fd) && unix.Fstat(fd, st) == nil
}
