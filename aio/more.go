//go:build linux

package aio

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// The functions below are those of package os on another thread, while the task waits: they
// are seldom called, and io_uring has nothing for most of them. In a task that is cancelled they do
// nothing and fail with its context's error; one that has begun is not given up. On a
// plain goroutine they are those of package os.

// aside calls fn on another thread, as said above.
func aside(op, name string, fn func() error) error {
	begun := false
	err := engine.OffloadContext(context.Background(), func(context.Context) error {
		begun = true
		return fn()
	})
	if !begun {
		return pathError(op, name, &contextError{err})
	}
	return err
}

// RemoveAll removes a file, or a folder with all that is in it; it is no error if there is nothing
// (os.RemoveAll). It parks.
func RemoveAll(name string) error {
	return aside("RemoveAll", name, func() error { return os.RemoveAll(name) })
}

// Chmod changes the mode of a file, of what a symbolic link leads to (os.Chmod). It parks.
func Chmod(name string, mode fs.FileMode) error {
	return aside("chmod", name, func() error { return os.Chmod(name, mode) })
}

// Chtimes changes the times of the last access and of the last change of a file; a zero time
// leaves that as it is (os.Chtimes). It parks.
func Chtimes(name string, access, change time.Time) error {
	return aside("chtimes", name, func() error { return os.Chtimes(name, access, change) })
}

// Symlink makes a symbolic link at name that leads to target. Errors are *os.LinkError
// (os.Symlink). It parks.
func Symlink(target, name string) error {
	return asideLink("symlink", target, name, func() error { return os.Symlink(target, name) })
}

// asideLink is aside for a function whose errors are *os.LinkError.
func asideLink(op, from, to string, fn func() error) error {
	err := aside(op, to, fn)
	if cancelled, ok := err.(*fs.PathError); ok {
		return &os.LinkError{Op: op, Old: from, New: to, Err: cancelled.Err}
	}
	return err
}

// Readlink returns where a symbolic link leads to (os.Readlink). It parks.
func Readlink(name string) (target string, err error) {
	err = aside("readlink", name, func() (err error) {
		target, err = os.Readlink(name)
		return err
	})
	return target, err
}

// MkdirTemp makes a new folder in the folder dir, "" for that of temporary files, and returns its
// path. In its name a random text takes the place of the last "*" of pattern, or follows it (os.MkdirTemp). It
// is for the caller to remove. It parks.
func MkdirTemp(dir, pattern string) (name string, err error) {
	err = aside("mkdirtemp", dir, func() (err error) {
		name, err = os.MkdirTemp(dir, pattern)
		return err
	})
	return name, err
}

// tempTries is how many names CreateTemp and WriteFile try.
const tempTries = 10_000

// CreateTemp makes a new file in the folder dir, "" for that of temporary files, for reading and
// writing, with a name like that of MkdirTemp and mode 0600 before umask (os.CreateTemp). It
// is for the caller to remove. It parks.
func CreateTemp(dir, pattern string) (*File, error) {
	if dir == "" {
		dir = os.TempDir()
	}
	before, after, err := tempPattern(pattern)
	if err != nil {
		return nil, pathError("createtemp", pattern, err)
	}
	for try := 1; ; try++ {
		name := join(dir, before+randomName()+after)
		f, err := OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
		if try == tempTries {
			return nil, pathError("createtemp", join(dir, pattern), fs.ErrExist)
		}
	}
}

var errPatternSlash = errors.New("pattern contains path separator")

// tempPattern parts a pattern at its last "*".
func tempPattern(pattern string) (before, after string, err error) {
	if strings.Contains(pattern, "/") {
		return "", "", errPatternSlash
	}
	if i := strings.LastIndexByte(pattern, '*'); i >= 0 {
		return pattern[:i], pattern[i+1:], nil
	}
	return pattern, "", nil
}

func randomName() string { return strconv.FormatUint(uint64(rand.Uint32()), 10) }
