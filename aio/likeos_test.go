//go:build linux

package aio

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A library is package os or this one, for what both are to do alike.
type library struct {
	openFile        func(name string, flag int, perm fs.FileMode) (libraryFile, error)
	readFile        func(name string) ([]byte, error)
	writeFile       func(name string, data []byte, perm fs.FileMode) error
	stat, lstat     func(name string) (fs.FileInfo, error)
	mkdir, mkdirAll func(name string, perm fs.FileMode) error
	remove          func(name string) error
	rename          func(from, to string) error
	readDir         func(name string) ([]fs.DirEntry, error)
	dirFS           func(name string) fs.FS

	removeAll  func(name string) error
	chmod      func(name string, mode fs.FileMode) error
	chtimes    func(name string, access, change time.Time) error
	symlink    func(target, name string) error
	readlink   func(name string) (string, error)
	mkdirTemp  func(dir, pattern string) (string, error)
	createTemp func(dir, pattern string) (libraryFile, error)
}

type libraryFile interface {
	io.ReadWriteSeeker
	io.ReaderAt
	io.WriterAt
	io.Closer
	io.StringWriter
	fs.ReadDirFile
	Name() string
	Truncate(int64) error
	Sync() error
}

var (
	packageOS = library{
		func(name string, flag int, perm fs.FileMode) (libraryFile, error) {
			return os.OpenFile(name, flag, perm)
		},
		os.ReadFile, os.WriteFile, os.Stat, os.Lstat, os.Mkdir, os.MkdirAll, os.Remove, os.Rename, os.ReadDir, os.DirFS,
		os.RemoveAll, os.Chmod, os.Chtimes, os.Symlink, os.Readlink, os.MkdirTemp,
		func(dir, pattern string) (libraryFile, error) { return opened(os.CreateTemp(dir, pattern)) },
	}
	ours = library{
		func(name string, flag int, perm fs.FileMode) (libraryFile, error) { return OpenFile(name, flag, perm) },
		ReadFile, WriteFile, Stat, Lstat, Mkdir, MkdirAll, Remove, Rename, ReadDir, DirFS,
		RemoveAll, Chmod, Chtimes, Symlink, Readlink, MkdirTemp,
		func(dir, pattern string) (libraryFile, error) { return opened(CreateTemp(dir, pattern)) },
	}
)

// opened does not make an interface of a nil pointer.
func opened[F libraryFile](f F, err error) (libraryFile, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

// A scene is a folder in which a case is played with one of the libraries, and what is
// written down of it.
type scene struct {
	library
	t    *testing.T
	root string
	log  strings.Builder
}

func (s *scene) path(name string) string { return s.root + "/" + name }

// note writes an error down, with results.
func (s *scene) note(what string, err error, results ...any) {
	fmt.Fprintf(&s.log, "%s: %v", what, results)
	switch e := err.(type) {
	case nil:
	case *fs.PathError:
		fmt.Fprintf(&s.log, " PathError %q %q", e.Op, e.Path)
	case *os.LinkError:
		fmt.Fprintf(&s.log, " LinkError %q %q %q", e.Op, e.Old, e.New)
	}
	if err != nil {
		fmt.Fprintf(&s.log, " %q", err)
		for _, x := range []error{fs.ErrExist, fs.ErrNotExist, fs.ErrInvalid, fs.ErrPermission, fs.ErrClosed, io.EOF} {
			if errors.Is(err, x) {
				fmt.Fprintf(&s.log, " is %q", x)
			}
		}
		var e unix.Errno
		if errors.As(err, &e) {
			fmt.Fprintf(&s.log, " errno %d", e)
		}
	}
	s.log.WriteByte('\n')
}

// did is note for a call with one result.
func (s *scene) did(what string) func(result any, err error) {
	return func(result any, err error) { s.note(what, err, result) }
}

// each does something to the files with these names.
func (s *scene) each(what string, do func(path string) error, names ...string) {
	for _, name := range names {
		s.note(what+" "+name, do(s.path(name)))
	}
}

// read reads into b.
func (s *scene) read(f io.Reader, b []byte) {
	n, err := f.Read(b)
	s.note("Read", err, n, string(b[:n]))
}

// open opens a file of the scene, which is to work.
func (s *scene) open(name string, flag int) libraryFile {
	f := need(s.openFile(s.path(name), flag, 0o644))(s.t)
	return f
}

// tree writes down what there is.
func (s *scene) tree() {
	must(s.t, filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		fmt.Fprintf(&s.log, "%s %v", path, info.Mode())
		if info.Mode().IsRegular() {
			b, _ := os.ReadFile(path)
			fmt.Fprintf(&s.log, " %q", b)
		}
		s.log.WriteByte('\n')
		return err
	}))
}

var digits = regexp.MustCompile(`[0-9]{3,}`)

// wordless takes the random name out of an error.
func wordless(err error) error {
	if p, ok := err.(*fs.PathError); ok {
		return &fs.PathError{Op: p.Op, Path: digits.ReplaceAllString(p.Path, "N"), Err: p.Err}
	}
	return err
}

// likeOS is what is done alike. The folder has a file "file", a folder "folder" with "inner",
// an empty folder "empty", and symbolic links to a file, to a folder, to nothing, to itself.
var likeOS = map[string]func(s *scene){
	"RemoveAll": func(s *scene) {
		s.each("RemoveAll", s.removeAll, "none", "none/none", "file", "file/below", "folder", "toFolder", "empty/", ".", "folder/.")
		s.note("RemoveAll of nothing", s.removeAll(""))
		s.tree()
	},
	"Chmod": func(s *scene) {
		sticky := func(path string) error { return s.chmod(path, 0o500|fs.ModeSticky) }
		s.each("Chmod", sticky, "file", "folder", "none", "file/below")
		s.tree()
		s.note("Chmod back", s.chmod(s.path("folder"), 0o700))
	},
	"Chtimes": func(s *scene) {
		at := time.Unix(1e9, 123456789)
		for _, name := range []string{"file", "folder", "none"} {
			s.note("Chtimes "+name, s.chtimes(s.path(name), at, at.Add(time.Hour)))
			s.note("Chtimes "+name, s.chtimes(s.path(name), time.Time{}, at))
			if info, err := s.stat(s.path(name)); err == nil {
				s.note("time", nil, info.ModTime().UTC())
			}
		}
	},
	"Symlink": func(s *scene) {
		for _, name := range []string{"new", "file", "none/x", "folder/x", ""} {
			s.note("Symlink "+name, s.symlink("some/where", s.path(name)))
			to, err := s.readlink(s.path(name))
			s.note("Readlink "+name, err, to)
		}
		s.note("Symlink to nothing", s.symlink("", s.path("x")))
		s.note("NUL", s.symlink("a\x00", s.path("x")))
	},
	"Temp": func(s *scene) {
		shape := func(name string) string { return digits.ReplaceAllString(name, "N") }
		for _, pattern := range []string{"", "a", "a*", "*b", "a*b*c", "a/b*", "none/*"} {
			name, err := s.mkdirTemp(s.path("folder"), pattern)
			s.note("MkdirTemp "+pattern, err, shape(name))
			f, err := s.createTemp(s.path("folder"), pattern)
			s.note("CreateTemp "+pattern, err)
			if err == nil {
				info, err := s.stat(f.Name())
				s.note("it", err, shape(f.Name()), info.Mode())
				_, err = f.WriteString("x")
				s.note("write", err)
				s.note("close", f.Close())
			}
		}
		_, err := s.mkdirTemp(s.path("none"), "x")
		s.note("in none", wordless(err))
		_, err = s.createTemp(s.path("none"), "x")
		s.note("in none", wordless(err))
		f, err := s.createTemp("", "capriccio")
		s.note("anywhere", err)
		if err == nil {
			s.note("", f.Close(), filepath.Dir(f.Name()) == filepath.Clean(os.TempDir()))
			s.note("", s.remove(f.Name()))
		}
		s.note("remove all", s.removeAll(s.path("folder"))) // the names are random
	},
	"MkdirAll": func(s *scene) {
		make := func(path string) error { return s.mkdirAll(path, 0o751) }
		s.each("MkdirAll", make, "new", "new/a/b/c", "new/slash/", "new//double//slash", "folder", "folder/", "folder/.",
			"new/dot/.", "new/x/../y", "file", "file/", "file/below", "file/below/more", "toFile", "toFile/below", "toFolder",
			"toFolder/below", "toNothing", "toNothing/below", "toItself", "toItself/below", "nul\x00", "nul\x00/below",
			strings.Repeat("x", 300), strings.Repeat("x", 300)+"/below")
		s.note("MkdirAll of nothing", s.mkdirAll("", 0o755))
		s.note("MkdirAll /", s.mkdirAll("/", 0o755))
		s.note("MkdirAll .", s.mkdirAll(".", 0o755))
	},
	"Mkdir": func(s *scene) {
		make := func(path string) error { return s.mkdir(path, 0o750|fs.ModeSticky) }
		s.each("Mkdir", make, "new", "new", "a/b", "slash/", "folder", "file", "file/below", "toFolder", "toNothing", "toItself/x", "", "nul\x00")
		s.note("Mkdir of nothing", s.mkdir("", 0o755))
	},
	"Rename": func(s *scene) {
		for _, x := range [][2]string{
			{"file", "folder"}, {"file", "empty"}, {"file", "folder/"}, {"file", "toFolder"}, {"missing", "folder"}, {"missing", "file"},
			{"folder", "folder/within"}, {"folder", "folder"}, {"folder", "folder/"}, {"folder", "empty"}, {"folder", "file"},
			{"empty", "folder"}, {"empty", "folder/inner"}, {"file", "file"}, {"file", "file/below"}, {"file", "missing/below"},
			{"file", "toNothing"}, {"toItself", "renamed"}, {"renamed", "folder"}, {"toItself/x", "y"}, {"toFolder", "empty"},
			{"folder/inner", "toFile"}, {"empty", "moved"}, {"moved", "folder/moved"}, {"toFile", "other"}, {"other", "nul\x00"},
			{"nul\x00", "other"}, {"nul\x00", "folder"}, {"", "folder"}, {"folder", ""}, {"folder", "."}, {strings.Repeat("x", 300), "folder"},
		} {
			s.note("Rename "+x[0]+" "+x[1], s.rename(s.path(x[0]), s.path(x[1])))
		}
	},
	"Remove": func(s *scene) {
		s.each("Remove", s.remove, "missing", "folder", "toFolder", "toNothing", "toItself", "file/below", "file/", "file", "file",
			"empty/", "folder/.", "folder/inner", "folder", "nul\x00")
		s.note("Remove nothing", s.remove(""))
	},
	"Stat": func(s *scene) {
		for _, name := range []string{"file", "file/", "folder", "toFile", "toFolder", "toNothing", "toItself", "missing", "file/below", "nul\x00", ""} {
			for i, stat := range []func(string) (fs.FileInfo, error){s.stat, s.lstat} {
				info, err := stat(s.path(name))
				s.note(fmt.Sprint("stat ", i, " ", name), err)
				if err == nil {
					s.note("info", nil, info.Name(), info.Mode(), info.IsDir(), info.Mode().IsDir() || info.Size() >= 0)
				}
			}
		}
	},
	"Seek": func(s *scene) {
		f := s.open("file", os.O_RDWR)
		defer f.Close()
		for _, x := range []struct {
			offset int64
			whence int
		}{{2, io.SeekStart}, {1, io.SeekCurrent}, {-1, io.SeekEnd}, {-1, io.SeekStart}, {-100, io.SeekCurrent}, {100, io.SeekStart},
			{0, -1}, {0, 5}, {0, 99}, {1 << 62, io.SeekEnd}, {0, unix.SEEK_DATA}, {0, unix.SEEK_HOLE}, {100, unix.SEEK_DATA}, {0, io.SeekCurrent}} {
			s.did(fmt.Sprint("Seek ", x))(f.Seek(x.offset, x.whence))
		}
		dir := s.open("folder", os.O_RDONLY)
		defer dir.Close()
		for range 2 {
			list, err := dir.ReadDir(-1)
			s.note("ReadDir", err, len(list))
			s.did("Seek")(dir.Seek(0, io.SeekStart))
		}
		must(s.t, dir.Close())
		s.did("Seek after Close")(dir.Seek(0, io.SeekStart))
		s.did("Seek after Close with an unknown whence")(dir.Seek(0, 99))
	},
	"Open": func(s *scene) {
		for _, name := range []string{"file", "file/", "folder", "toFile", "toNothing", "toItself", "missing", "file/below", "nul\x00", "", "new", strings.Repeat("x", 300)} {
			for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_CREATE | os.O_EXCL, os.O_RDWR | os.O_CREATE} {
				f, err := s.openFile(s.path(name), flag, 0o640)
				s.note(fmt.Sprintf("open %s %#x", name, flag), err)
				if err == nil {
					s.note("name", nil, f.Name())
					must(s.t, f.Close())
				}
			}
		}
	},
	"reading and writing": func(s *scene) {
		f := s.open("file", os.O_RDWR)
		b := make([]byte, 4)
		for _, off := range []int64{0, 3, 7, 8, 100, -1} {
			n, err := f.ReadAt(b, off)
			s.note(fmt.Sprint("ReadAt ", off), err, n, string(b[:n]))
			s.did(fmt.Sprint("ReadAt nothing ", off))(f.ReadAt(nil, off))
		}
		for range 4 {
			s.read(f, b)
		}
		s.did("Read nothing")(f.Read(nil))
		s.did("WriteAt")(f.WriteAt([]byte("XY"), 1))
		s.did("WriteAt before the start")(f.WriteAt([]byte("XY"), -1))
		s.did("Write nothing")(f.Write(nil))
		s.did("WriteString")(f.WriteString("end"))
		s.note("Truncate", f.Truncate(9))
		s.note("Truncate to less than nothing", f.Truncate(-1))
		s.note("Sync", f.Sync())
		s.note("Close", f.Close())
		s.note("Close again", f.Close())
		for what, do := range []func() error{
			func() error { _, err := f.Read(b); return err },
			func() error { _, err := f.ReadAt(b, 0); return err },
			func() error { _, err := f.Write(b); return err },
			func() error { _, err := f.WriteAt(b, 0); return err },
			func() error { _, err := f.Stat(); return err },
			func() error { return f.Sync() },
			func() error { return f.Truncate(1) },
		} {
			s.note(fmt.Sprint("after Close ", what), do())
		}
	},
	"appending": func(s *scene) {
		f := s.open("file", os.O_RDWR|os.O_APPEND)
		defer f.Close()
		b := make([]byte, 3)
		for _, add := range []string{"", "more", ""} {
			s.read(f, b)
			s.did("WriteString")(f.WriteString(add))
		}
		s.did("Seek")(f.Seek(1, io.SeekStart))
		s.did("Write nothing")(f.Write(nil))
		s.read(f, b)
	},
	"what it was not opened for": func(s *scene) {
		r, w := s.open("file", os.O_RDONLY), s.open("file", os.O_WRONLY)
		dir, add := s.open("folder", os.O_RDONLY), s.open("file", os.O_WRONLY|os.O_APPEND)
		for _, f := range []libraryFile{r, w, dir, add} {
			s.did("Write")(f.Write([]byte("x")))
			s.did("Read")(f.Read(make([]byte, 2)))
			s.did("ReadAt")(f.ReadAt(make([]byte, 2), 0))
			n, err := f.WriteAt([]byte("z"), 0)
			if f == add { // package os says it is the program's fault, without the file's name
				s.note("WriteAt", nil, n, err != nil)
			} else {
				s.note("WriteAt", err, n)
			}
			s.note("Truncate", f.Truncate(5))
			if f != dir {
				list, err := f.ReadDir(-1)
				s.note("ReadDir", err, len(list))
			}
			must(s.t, f.Close())
		}
	},
	"ReadFile and WriteFile": func(s *scene) {
		for _, name := range []string{"file", "toFile", "folder", "missing", "file/below", "toItself", "nul\x00"} {
			b, err := s.readFile(s.path(name))
			s.note("ReadFile "+name, err, string(b))
		}
		for _, name := range []string{"file", "new", "missing/below", "file/below"} {
			err := s.writeFile(s.path(name), []byte("content"), 0o640)
			s.note("WriteFile "+name, nil, err == nil, errors.Is(err, fs.ErrNotExist)) // its steps are others
		}
	},
	"ReadDir": func(s *scene) {
		for _, name := range []string{"", "folder", "empty", "toFolder", "file", "missing", "toItself", "nul\x00"} {
			list, err := s.readDir(s.path(name))
			s.note("ReadDir "+name, err, len(list))
			for _, e := range list {
				s.note("entry", nil, e.Name(), e.Type(), e.IsDir())
			}
		}
		dir := s.open("folder", os.O_RDONLY)
		defer dir.Close()
		for _, n := range []int{1, 1, 1, 0, -1} {
			list, err := dir.ReadDir(n)
			s.note(fmt.Sprint("ReadDir ", n), err, len(list))
		}
	},
	"DirFS": func(s *scene) {
		d := s.dirFS(s.root)
		for _, name := range []string{"file", "folder/inner", ".", "", "/file", "../x", "missing", "file/below", "folder"} {
			b, err := fs.ReadFile(d, name)
			s.note("ReadFile "+name, err, string(b))
			_, err = fs.Stat(d, name)
			s.note("Stat "+name, err)
			list, err := fs.ReadDir(d, name)
			s.note("ReadDir "+name, err, len(list))
			if f, err := d.Open(name); err != nil {
				s.note("Open "+name, err)
			} else {
				must(s.t, f.Close())
			}
		}
	},
}

// Everything has the results and errors that it has with package os.
func TestLikeOS(t *testing.T) {
	everywhere(t, func(t *testing.T) {
		for name, play := range likeOS {
			var logs [2]string
			for i, l := range []library{packageOS, ours} {
				s := &scene{library: l, t: t, root: t.TempDir() + "/root"}
				must(t, os.Mkdir(s.root, 0o700))
				must(t, os.WriteFile(s.path("file"), []byte("contents"), 0o600))
				must(t, os.Mkdir(s.path("folder"), 0o700))
				must(t, os.WriteFile(s.path("folder/inner"), nil, 0o600))
				must(t, os.Mkdir(s.path("empty"), 0o700))
				for link, to := range map[string]string{"toFile": "file", "toFolder": "folder", "toNothing": "nothing", "toItself": "toItself"} {
					must(t, os.Symlink(to, s.path(link)))
				}
				play(s)
				s.tree()
				logs[i] = strings.ReplaceAll(s.log.String(), s.root, "ROOT")
			}
			want, got := strings.Split(logs[0], "\n"), strings.Split(logs[1], "\n")
			for i := range max(len(want), len(got)) {
				testenv.True(t, i < len(want) && i < len(got) && want[i] == got[i], "%s:\nos:  %s\naio: %s", name, line(want, i), line(got, i))
			}
		}
	})
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(nothing)"
}
