//go:build linux

package aio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"golang.org/x/sys/unix"
)

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	want := ""
	for i := range 900 {
		name := fmt.Sprintf("%03d-%s", i, strings.Repeat("x", i%200))
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
		want += name + "\n"
	}
	everywhere(t, func(t *testing.T) {
		list := need(ReadDir(dir))(t)
		got := ""
		for _, e := range list {
			got += e.Name() + "\n"
		}
		if got != want {
			t.Errorf("read %d entries, want 900 in order", len(list))
		}
		f, err := Open(dir)
		must(t, err)
		defer f.Close()
		total := 0
		for {
			part, err := f.ReadDir(7)
			total += len(part)
			if err == io.EOF {
				break
			}
			must(t, err)
			if len(part) != 7 && total != 900 {
				t.Errorf("got %d entries before the end, want 7", len(part))
			}
		}
		if _, err = f.Seek(0, io.SeekStart); err != nil || total != 900 {
			t.Errorf("read %d entries in parts, want 900; seek: %v", total, err)
		}
		if again, err := f.ReadDir(-1); err != nil || len(again) != 900 {
			t.Errorf("after Seek: %d entries, %v; want 900", len(again), err)
		}
	})
}

func TestPaths(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		at := func(name string) string { return filepath.Join(dir, name) }
		must(t, MkdirAll(at("a/b/c//d/"), 0o700))
		must(t, MkdirAll(at("a/b"), 0o700))
		must(t, WriteFile(at("a/file"), []byte("x"), 0o600))
		must(t, Rename(at("a/file"), at("a/b/moved")))
		for what, err := range map[string]error{
			"open":        second(Open(at("none"))),
			"open below":  second(Open(at("a/none/none"))),
			"stat":        second(Stat(at("none"))),
			"lstat":       second(Lstat(at("none"))),
			"read":        second(ReadFile(at("none"))),
			"list":        second(ReadDir(at("none"))),
			"remove":      Remove(at("none")),
			"rename":      Rename(at("none"), at("other")),
			"mkdir":       Mkdir(at("none/none"), 0o700),
			"of no name":  second(Open("")),
			"stat nobody": second(Stat("")),
		} {
			testenv.ErrorIs(t, err, fs.ErrNotExist, what)
		}
		testenv.ErrorIs(t, Mkdir(at("a"), 0o700), fs.ErrExist, "Mkdir of what is there")
		testenv.ErrorIs(t, MkdirAll(at("a/b/moved/x"), 0o700), unix.ENOTDIR, "MkdirAll below a file")
		testenv.ErrorIs(t, Remove(at("a")), unix.ENOTEMPTY, "Remove of a folder with something in it")
		testenv.ErrorIs(t, testenv.Err(Open("a\x00b")), unix.EINVAL, "a name with NUL")
		must(t, Remove(at("a/b/moved")))
		must(t, Remove(at("a/b/c/d")))
		must(t, os.Symlink("nowhere", at("link")))
		if i, err := Lstat(at("link")); err != nil || i.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("Lstat of a link: %v, %v", i, err)
		}
		want := need(os.Stat(dir))(t)
		got := need(Stat(dir))(t)
		if got.Name() != want.Name() || got.Mode() != want.Mode() || !got.ModTime().Equal(want.ModTime()) || fmt.Sprint(got.Sys()) == "" {
			t.Errorf("Stat: %v, want %v", got, want)
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestOpenAtStaysBeneath(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600))
		must(t, os.Symlink("/etc", filepath.Join(dir, "out")))
		root := need(unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
		defer unix.Close(root)
		how := unix.OpenHow{Resolve: unix.RESOLVE_BENEATH}
		f := need(OpenAt(root, "file", &how))(t)
		must(t, f.Close())
		for _, name := range []string{"../x", "/etc/passwd", "out/passwd"} {
			if f, err := OpenAt(root, name, &how); !errors.Is(err, unix.EXDEV) {
				t.Errorf("OpenAt(%q): %v, %v; want EXDEV", name, f, err)
			}
		}
	})
}

// What is opened with O_PATH stands for a path only: it can be looked at, and opened from.
func TestOpenPath(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
		folder := need(OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0))(t)
		defer folder.Close()
		raw := need(folder.SyscallConn())(t)
		at := -1
		must(t, raw.Control(func(fd uintptr) { at = int(fd) }))
		f := need(OpenAt(at, "file", &unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH}))(t)
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Size() != 7 {
			t.Errorf("Stat: %v, %v; want 7 bytes", info, err)
		}
		if n, err := f.Read(make([]byte, 1)); !errors.Is(err, unix.EBADF) {
			t.Errorf("Read: %d, %v; want EBADF", n, err)
		}
	})
}

// The name of a folder that was opened from another does not lead to it: what is in it is found all the
// same, and nothing else.
func TestEntriesOfAFolderBelowAnother(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, "sub", "file"), []byte("content"), 0o600))
		root := need(unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0))(t)
		defer unix.Close(root)
		sub := need(OpenAt(root, "sub", &unix.OpenHow{Flags: unix.O_DIRECTORY}))(t)
		list := need(sub.ReadDir(-1))(t)
		testenv.MustEqual(t, len(list), 1, "entries")
		if info, err := list[0].Info(); err != nil || info.Name() != "file" || info.Size() != 7 {
			t.Errorf("Info: %v, %v; want a file of 7 bytes", info, err)
		}
		must(t, os.Remove(filepath.Join(dir, "sub", "file")))
		if _, err := list[0].Info(); !errors.Is(err, fs.ErrNotExist) || !contains(err, "sub/file") {
			t.Errorf("Info of what is gone: %v, want ErrNotExist", err)
		}
		must(t, sub.Close())
		testenv.ErrorIs(t, testenv.Err(list[0].Info()), fs.ErrClosed, "Info when the folder is closed")
	})
}

// record is one entry as the kernel writes it.
func record(inode uint64, kind byte, name string) []byte {
	b := make([]byte, (19+len(name)+1+7)&^7)
	binary.NativeEndian.PutUint64(b, inode)
	binary.NativeEndian.PutUint16(b[16:], uint16(len(b)))
	b[18] = kind
	copy(b[19:], name)
	return b
}

func FuzzParseEntry(f *testing.F) {
	f.Add(record(1, unix.DT_REG, "name"))
	f.Add(append(record(1, unix.DT_DIR, "."), record(0, unix.DT_REG, "zero")...))
	f.Add(record(1, 77, strings.Repeat("n", 255)))
	f.Add([]byte{19: 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			e, rest, err := parseEntry(b)
			if err != nil {
				return
			}
			if len(rest) >= len(b) {
				t.Fatalf("no progress: %d bytes left of %d", len(rest), len(b))
			}
			if strings.ContainsAny(e.name, "/\x00") || e.name == "." || e.name == ".." {
				t.Fatalf("entry with name %q", e.name)
			}
			b = rest
		}
	})
}

func TestParseEntry(t *testing.T) {
	b := append(record(1, unix.DT_DIR, "."), record(7, unix.DT_LNK, "link")...)
	e, b, err := parseEntry(b)
	if e.name != "" || err != nil {
		t.Errorf("got %+v, %v; want no name for the folder itself", e, err)
	}
	if e, b, err = parseEntry(b); e != (rawEntry{"link", unix.DT_LNK}) || err != nil || len(b) != 0 {
		t.Errorf("got %+v, %v, %d bytes left; want link", e, err, len(b))
	}
	if e, _, err := parseEntry(record(0, unix.DT_REG, "zero")); e.name != "zero" || err != nil {
		t.Errorf("with inode 0: %+v, %v; want a file like others", e, err)
	}
	for _, bad := range [][]byte{{1}, make([]byte, 24), record(1, 0, "a/b"), record(1, 0, "long name")[:24]} {
		if e, _, err := parseEntry(bad); err == nil {
			t.Errorf("%v was read as %+v", bad, e)
		}
	}
}
