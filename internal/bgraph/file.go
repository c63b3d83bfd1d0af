package bgraph

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteFile writes s as a dump (see Encode) to the file at path, which only its owner may
// read. A reader of path sees what was there before or the whole dump, never a part: it
// is written to a new file in the same folder, which then takes the name. If path is a
// symbolic link, the link is replaced, not what it leads to; so path may be in a folder
// where others may write. On an error nothing is left behind.
//
// It waits for the disk, so a task should call it through task.Offload.
func WriteFile(path string, s *Snapshot) error {
	dump, err := s.dump()
	if err != nil {
		return fmt.Errorf("bgraph: writing the dump %q: %w", path, err)
	}
	return replaceFile(path, dump, disk{
		create: func(dir, pattern string) (newFile, error) { return os.CreateTemp(dir, pattern) },
		rename: os.Rename,
		remove: os.Remove,
	})
}

// A disk holds files; tests have one that fails.
type disk struct {
	create func(dir, pattern string) (newFile, error) // opens a file that did not exist, mode 0600
	rename func(from, to string) error
	remove func(path string) error
}

// A newFile is a file that is being written.
type newFile interface {
	io.WriteCloser
	Sync() error
	Name() string
}

// replaceFile puts a file with the given content at path.
func replaceFile(path string, content []byte, on disk) error {
	fail := func(step string, err error) error {
		return fmt.Errorf("bgraph: writing the dump %q: %s: %w%s", path, step, reason(err), advice(path, err))
	}
	if path == "" || os.IsPathSeparator(path[len(path)-1]) {
		return fmt.Errorf("bgraph: writing the dump %q: want the path of a file", path)
	}
	f, err := on.create(filepath.Dir(path), ".bgraph-*.tmp")
	if err != nil {
		return fail("making a new file in the folder", err)
	}
	step := "writing"
	_, err = f.Write(content)
	if err == nil {
		step, err = "syncing to disk", f.Sync()
	}
	if closeErr := f.Close(); err == nil && closeErr != nil {
		step, err = "closing", closeErr
	}
	if err == nil {
		step, err = "renaming the new file", on.rename(f.Name(), path)
	}
	if err == nil {
		return nil
	}
	err = fail(step, err)
	if removeErr := on.remove(f.Name()); removeErr != nil {
		err = fmt.Errorf("%w (and the new file is left over: %w)", err, removeErr)
	}
	return err
}

// reason is the cause of err without the paths in it, which the message names already.
func reason(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// advice reports what can be done about err.
func advice(path string, err error) string {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Sprintf("; the disk of %q is full, make room or choose another path", dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("; the folder %q does not exist, make it or choose another path", dir)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Sprintf("; %q is not a folder", dir)
	case errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist):
		return fmt.Sprintf("; %q is a folder, choose the path of a file", path)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Sprintf("; this process may not write to %q, or a file of another user is in the way; choose another path", dir)
	}
	return ""
}

// ReadFile reads the dump in the file at path, see Decode. A pipe is read until its
// other end is closed; a pipe without a writer is empty.
//
// It waits for the disk, so a task should call it through task.Offload.
func ReadFile(path string) (*Snapshot, error) {
	// Without O_NONBLOCK, opening a pipe without a writer would block for ever.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("bgraph: opening the dump %q: %w", path, reason(err))
	}
	defer f.Close()
	s, err := decode(f)
	if err != nil {
		return nil, fmt.Errorf("bgraph: reading the dump %q: %w", path, reason(err))
	}
	return s, nil
}
