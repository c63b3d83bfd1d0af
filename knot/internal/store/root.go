package store

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/task"
)

// A root is the directory below which files are served. Its name is looked up anew now and
// then, as it may be a symbolic link that is switched from one release to the next. Then
// the descriptor becomes that of the new directory by dup3(2), under the same number: an open
// that is under way meets the one or the other.
type root struct {
	FD   int    // O_PATH; fixed
	name string // absolute; "": can't be told, and is not looked up again; fixed

	Checked  atomic.Int64 // reading of the clock when name was last looked up; atomic
	switched atomic.Int64 // reading of the clock after the last switch; atomic
	failing  atomic.Bool  // the last look-up failed; atomic

	looking  task.Mutex // held while name is looked up
	dev, ino uint64     // of fd; guarded by looking
}

// open opens the root for the first time.
func (r *root) open(name string) error {
	fd, err := openDirectory(name)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	r.FD = fd
	if r.name, err = filepath.Abs(name); err != nil {
		r.name = "" // the working directory has been removed
	}
	r.dev, r.ino, err = searchable(fd)
	if err != nil {
		unix.Close(fd)
		return &os.PathError{Op: "search", Path: name, Err: err}
	}
	return nil
}

func openDirectory(name string) (int, error) {
	return openat(unix.AT_FDCWD, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
}

// searchable reports which directory fd is. It is an error if nothing in it can be opened.
func searchable(fd int) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, ".", &st, 0); err != nil {
		return 0, 0, err
	}
	return uint64(st.Dev), st.Ino, nil
}

// toLookUp is how to find a directory with what the kernel has in memory.
var toLookUp = unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolveCached}

// follow looks the root's name up, if it is time to. If that fails, the directory that was
// there goes on being served. It may park.
func (f *Store) follow(q *Request, now int64) {
	r := &f.Root
	last := r.Checked.Load()
	if r.name == "" || f.revalidate > 0 && (now-last < f.revalidate && now >= last || !r.Checked.CompareAndSwap(last, now)) {
		return
	}
	if r.looking.LockContext(context.Background()) != nil {
		return
	}
	defer r.looking.Unlock()
	err := f.lookUp()
	if Scarce(err) { // nothing is wrong with the name
		return
	}
	if failed := err != nil; r.failing.Swap(failed) != failed {
		if failed {
			q.Log.Logger().Error("knot: the root can't be looked up any more; the folder that it was is still served", "root", r.name, "error", err)
		} else {
			q.Log.Logger().Info("knot: the root can be looked up again", "root", r.name)
		}
	}
}

// lookUp compares the root with what its name leads to, and switches to that. The caller holds
// looking.
func (f *Store) lookUp() error {
	r := &f.Root
	fd, err := -1, error(unix.EAGAIN)
	if f.Cached && !f.Walks {
		fd, err = openat2(unix.AT_FDCWD, append([]byte(r.name), 0), &toLookUp)
	}
	if err == unix.EAGAIN {
		task.Offload(func() { fd, err = openDirectory(r.name) })
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	dev, ino, err := searchable(fd)
	if err != nil || dev == r.dev && ino == r.ino {
		return err
	}
	for {
		if err = unix.Dup3(fd, r.FD, unix.O_CLOEXEC); err != unix.EINTR && err != unix.EBUSY {
			break
		}
	}
	if err == nil {
		r.dev, r.ino = dev, ino
		r.switched.Store(f.Now())
	}
	return err
}

// shows reports whether fd, to which a link has led, may be served: no name on its own path
// below the root is hidden. It needs proc(5); without that nothing may.
func (r *root) shows(fd int) bool {
	buf := make([]byte, 2*unix.PathMax)
	root := ownPath(r.FD, buf[:unix.PathMax])
	file := ownPath(fd, buf[unix.PathMax:])
	if root == nil || file == nil {
		return false
	}
	below, ok := bytes.CutPrefix(file, bytes.TrimSuffix(root, []byte("/")))
	return ok && (len(below) == 0 || below[0] == '/') && !hiddenPath(below)
}

// ownPath is the path of what fd stands for, nil if it can't be told.
func ownPath(fd int, buf []byte) []byte {
	n, err := unix.Readlink("/proc/self/fd/"+strconv.Itoa(fd), buf)
	if err != nil || n == len(buf) {
		return nil
	}
	return buf[:n]
}
