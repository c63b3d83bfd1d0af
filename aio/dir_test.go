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

func TestStat(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		want, got := need(os.Stat(dir))(t), need(Stat(dir))(t)
		if got.Name() != want.Name() || got.Mode() != want.Mode() || !got.ModTime().Equal(want.ModTime()) {
			t.Errorf("Stat: %v, want %v", got, want)
		}
	})
}

// OpenAt stays below a folder that was opened with O_PATH if it is told to, and what is opened with O_PATH can be looked
// at, but not read.
func TestOpenAt(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, "file"), []byte("content"), 0o600))
		must(t, os.Symlink("/etc", filepath.Join(dir, "out")))
		folder := need(OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0))(t)
		defer folder.Close()
		raw := need(folder.SyscallConn())(t)
		at := -1
		must(t, raw.Control(func(fd uintptr) { at = int(fd) }))
		how := unix.OpenHow{Flags: unix.O_PATH, Resolve: unix.RESOLVE_BENEATH}
		f := need(OpenAt(at, "file", &how))(t)
		defer f.Close()
		if info, err := f.Stat(); err != nil || info.Size() != 7 {
			t.Errorf("Stat: %v, %v; want 7 bytes", info, err)
		}
		testenv.ErrorIs(t, testenv.Err(f.Read(make([]byte, 1))), unix.EBADF, "Read")
		for _, name := range []string{"../x", "/etc/passwd", "out/passwd"} {
			testenv.ErrorIs(t, testenv.Err(OpenAt(at, name, &how)), unix.EXDEV, "OpenAt(%q)", name)
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
