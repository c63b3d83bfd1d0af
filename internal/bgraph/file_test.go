package bgraph

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// leftOver returns the names in a folder apart from those expected.
func leftOver(t *testing.T, dir string, expected ...string) (names []string) {
	t.Helper()
	all := testenv.Need(os.ReadDir(dir))(t)
	want := map[string]bool{}
	for _, name := range expected {
		want[name] = true
	}
	for _, e := range all {
		if !want[e.Name()] {
			names = append(names, e.Name())
		}
	}
	return names
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "shop.4711.dump")
	for _, s := range []*Snapshot{new(Snapshot), smallSnapshot()} {
		testenv.Must(t, WriteFile(path, s))
		info := testenv.Need(os.Lstat(path))(t)
		testenv.Equal(t, info.Mode(), 0o600, "mode")
		if got, err := ReadFile(path); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("read %+v, error %v; want %+v", got, err, s)
		}
	}
	if names := leftOver(t, dir, "shop.4711.dump"); names != nil {
		t.Errorf("left over: %v", names)
	}
	t.Chdir(dir)
	testenv.Check(t, WriteFile("here.dump", smallSnapshot()))
}

// In a shared folder somebody else may have put something at the path before.
func TestWriteFileReplacesWhatLiesInWait(t *testing.T) {
	for name, prepare := range map[string]func(dir, path string) error{
		"link to a file":   func(dir, path string) error { return os.Symlink(filepath.Join(dir, "victim"), path) },
		"link to nothing":  func(dir, path string) error { return os.Symlink(filepath.Join(dir, "new"), path) },
		"link to a folder": func(dir, path string) error { return os.Symlink(dir, path) },
		"hard link":        func(dir, path string) error { return os.Link(filepath.Join(dir, "victim"), path) },
		"named pipe":       func(_, path string) error { return syscall.Mkfifo(path, 0o666) },
		"open file":        func(_, path string) error { return os.WriteFile(path, []byte("theirs"), 0o666) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			victim, path := filepath.Join(dir, "victim"), filepath.Join(dir, "dump")
			testenv.Must(t, os.WriteFile(victim, []byte("precious"), 0o644))
			testenv.Must(t, prepare(dir, path))
			testenv.Must(t, WriteFile(path, smallSnapshot()))
			info := testenv.Need(os.Lstat(path))(t)
			testenv.Equal(t, info.Mode(), 0o600, "what is at the path has mode")
			if got, err := os.ReadFile(victim); err != nil || string(got) != "precious" {
				t.Errorf("the victim holds %q, error %v", got, err)
			}
			if names := leftOver(t, dir, "victim", "dump"); names != nil {
				t.Errorf("left over: %v", names)
			}
		})
	}
}

func TestWriteFileSaysWhatIsWrong(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	testenv.Must(t, os.MkdirAll(filepath.Join(dir, "folder", "full"), 0o700))
	for _, c := range []struct {
		path string
		is   error
		want string
	}{
		{filepath.Join(dir, "missing", "dump"), fs.ErrNotExist, `making a new file in the folder: no such file or directory; the folder "` + filepath.Join(dir, "missing") + `" does not exist`},
		{filepath.Join(dir, "file", "dump"), syscall.ENOTDIR, `is not a folder`},
		{filepath.Join(dir, "folder"), nil, `renaming the new file: file exists; "` + filepath.Join(dir, "folder") + `" is a folder`},
		{"", nil, "want the path of a file"},
		{dir + "/", nil, "want the path of a file"},
		{"/proc/dump", nil, "making a new file in the folder"},
	} {
		err := WriteFile(c.path, smallSnapshot())
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%q: error %v; want %v and %q", c.path, err, c.is, c.want)
		}
	}
	testenv.ErrorSays(t, WriteFile(filepath.Join(dir, "dump"), &Snapshot{Span: -1}), "span_ns is -1", "error")
	if names := leftOver(t, dir, "file", "folder"); names != nil {
		t.Errorf("left over: %v", names)
	}
}

// A faultyFile fails at one step.
type faultyFile struct {
	*os.File
	step string
	err  error
}

func (f faultyFile) Write(p []byte) (int, error) {
	if f.step == "writing" {
		n, _ := f.File.Write(p[:len(p)/2])
		return n, f.err
	}
	return f.File.Write(p)
}

func (f faultyFile) Sync() error {
	if f.step == "syncing" {
		return f.err
	}
	return f.File.Sync()
}

func (f faultyFile) Close() error {
	if err := f.File.Close(); err != nil {
		return err
	}
	if f.step == "closing" {
		return f.err
	}
	return nil
}

func TestWriteFileLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct {
		step string
		err  error
		want string
	}{
		{"making", syscall.EACCES, "this process may not write to"},
		{"making", syscall.EROFS, "this process may not write to"},
		{"making", syscall.ENOSPC, "is full"},
		{"writing", syscall.ENOSPC, "is full"},
		{"writing", syscall.EDQUOT, "is full"},
		{"syncing", syscall.EIO, "input/output error"},
		{"closing", syscall.ENOSPC, "is full"},
		{"renaming", syscall.EPERM, "a file of another user is in the way"},
		{"", nil, ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "dump")
		testenv.Must(t, os.WriteFile(path, []byte("the last one"), 0o600))
		err := replaceFile(path, []byte("the new one"), disk{
			create: func(dir, pattern string) (newFile, error) {
				if c.step == "making" {
					return nil, &fs.PathError{Op: "open", Path: dir, Err: c.err}
				}
				f, err := os.CreateTemp(dir, pattern)
				return faultyFile{f, c.step, c.err}, err
			},
			rename: func(from, to string) error {
				if c.step == "renaming" {
					return &os.LinkError{Op: "rename", Old: from, New: to, Err: c.err}
				}
				return os.Rename(from, to)
			},
			remove: os.Remove,
		})
		want := "the last one"
		if c.step == "" {
			want = "the new one"
		}
		if got, readErr := os.ReadFile(path); readErr != nil || string(got) != want {
			t.Errorf("%s: the file holds %q, error %v", c.step, got, readErr)
		}
		if names := leftOver(t, dir, "dump"); names != nil {
			t.Errorf("%s: left over: %v", c.step, names)
		}
		if c.err == nil && err == nil {
			continue
		}
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), ": "+c.step) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v; want %v and %q", c.step, err, c.err, c.want)
		}
	}
}

func TestWriteFileSaysWhatIsLeftOver(t *testing.T) {
	stuck := errors.New("stuck")
	err := replaceFile(filepath.Join(t.TempDir(), "dump"), nil, disk{
		create: func(dir, pattern string) (newFile, error) { return os.CreateTemp(dir, pattern) },
		rename: func(_, _ string) error { return syscall.EPERM },
		remove: func(string) error { return stuck },
	})
	if !errors.Is(err, stuck) || !errors.Is(err, syscall.EPERM) {
		t.Errorf("error %v; want %v and %v", err, stuck, syscall.EPERM)
	}
}

func TestReadersNeverSeeAPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dump")
	testenv.Must(t, WriteFile(path, smallSnapshot()))
	big := randomSnapshot(seeded(t, 4), 50, 200)
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for {
				if _, err := ReadFile(path); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range 40 {
		testenv.Check(t, WriteFile(path, []*Snapshot{big, smallSnapshot()}[i%2]))
	}
	close(done)
	readers.Wait()
}

func TestReadFileOfWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	testenv.Must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	for _, c := range []struct{ path, want string }{
		{filepath.Join(dir, "missing"), "no such file"},
		{dir, "is a directory"},
		{filepath.Join(dir, "pipe"), "it is empty"}, // and does not wait for ever
		{"/dev/null", "it is empty"},
		{"/dev/zero", "not a dump"},
	} {
		_, err := ReadFile(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) || strings.Count(err.Error(), "bgraph") > 1 {
			t.Errorf("%s: error %v; want one with %q", c.path, err, c.want)
		}
	}
	testenv.ErrorIs(t, testenv.Err(ReadFile(filepath.Join(dir, "missing"))), fs.ErrNotExist, "error")
}

// As in: bgdump <(ssh web-1 cat dump)
func TestReadFileOfAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	testenv.Must(t, syscall.Mkfifo(path, 0o600))
	w := testenv.Need(os.OpenFile(path, os.O_RDWR, 0))(t)
	s := randomSnapshot(seeded(t, 5), 300, 900) // more than a pipe holds
	dump := encoded(t, s)
	go func() {
		defer w.Close()
		testenv.Check(t, testenv.Err(w.Write(dump)))
	}()
	if got, err := ReadFile(path); err != nil || !reflect.DeepEqual(got, s) {
		t.Errorf("read %+v, error %v", got, err)
	}
}
