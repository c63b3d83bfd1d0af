package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"unicode"

	"github.com/capriccio-go/capriccio/internal/bgraph"
	"github.com/capriccio-go/capriccio/internal/gotrace"
)

// A source is where graphs come from. Snapshot may be called again and again, from one
// goroutine at a time; its errors say which source they are about.
type source interface {
	Name() string
	Snapshot(ctx context.Context) (*bgraph.Snapshot, error)
}

// live reports whether the graphs of src change: it is a running program.
func live(src source) bool {
	switch src.(type) {
	case *processSource, *urlSource:
		return true
	}
	return false
}

// An endedError means that a source will never answer again.
type endedError struct{ error }

func (e endedError) Unwrap() error { return e.error }

// openSource finds out what kind of source an argument of the command line names.
// step is how long a recorded snapshot stands for the present when a folder is
// replayed.
func openSource(ctx context.Context, arg string, sur *surroundings, set *settings) (source, error) {
	timeout, step := set.timeout, set.interval
	if arg == "" {
		return nil, errors.New("the name of a source is empty")
	}
	if arg == "-" {
		return &stdinSource{in: sur.stdin, o: set.tracing()}, nil
	}
	if allDigits(arg) {
		pid, err := strconv.ParseInt(arg, 10, 32)
		if err != nil || pid == 0 {
			return nil, fmt.Errorf("%s is not the id of a process; for a file of that name, write ./%s", arg, arg)
		}
		if set.probe {
			u, err := probe(ctx, int(pid), false, sur, timeout)
			if err != nil {
				return nil, err
			}
			return newProcessURL(u, int(pid), sur, set), nil
		}
		p := &processSource{pid: int(pid), kernel: sur.kernel, clock: sur.clock, timeout: timeout}
		if p.isPlainGo() {
			u, err := probe(ctx, int(pid), true, sur, timeout)
			switch {
			case err == nil:
				return newProcessURL(u, int(pid), sur, set), nil
			case mayHaveProfiles(err):
				return nil, err
			}
		}
		return p, nil
	}
	if u, ok, err := asURL(arg); ok {
		if err != nil {
			return nil, err
		}
		return newURLSource(u, sur, set), nil
	}
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !strings.ContainsRune(arg, os.PathSeparator):
		return nil, fmt.Errorf("there is no file %s; a source is the id of a process, a URL (http://HOST:PORT), a file, a folder of recordings, or - for the standard input", printable(arg))
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s", printable(arg))
	case err != nil:
		return nil, err
	case info.Mode()&fs.ModeSocket != 0:
		return newSocketSource(arg, sur, set), nil
	case info.IsDir():
		return openFolder(arg, sur.clock, step)
	}
	return &fileSource{path: arg, o: set.tracing()}, nil
}

func allDigits(s string) bool {
	return strings.Trim(s, "0123456789") == "" && s != ""
}

// hostPort is an address without http:// in front of it.
var hostPort = regexp.MustCompile(`^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):[0-9]+(/.*)?$`)

// asURL reports whether arg names a URL, and which.
func asURL(arg string) (u *url.URL, ok bool, err error) {
	if hostPort.MatchString(arg) {
		if _, err := os.Lstat(arg); err == nil {
			return nil, false, nil
		}
		if arg[0] == ':' {
			arg = "127.0.0.1" + arg
		}
		arg = "http://" + arg
	}
	if !strings.Contains(arg, "://") {
		return nil, false, nil
	}
	u, err = url.Parse(arg)
	switch {
	case err != nil:
		// The text of the error has the whole URL, and so the password.
		return nil, true, fmt.Errorf("this is not a URL: %w", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, true, fmt.Errorf("%s: want a URL that begins with http:// or https://", printable(u.Redacted()))
	case u.Host == "":
		return nil, true, fmt.Errorf("%s: want a URL with a host, like http://127.0.0.1:9090", printable(u.Redacted()))
	}
	u.Fragment = ""
	return u, true, nil
}

// A fileSource is a dump or a trace in a file. It is read again when it has been replaced; a pipe is
// read once.
type fileSource struct {
	path string
	o    gotrace.Options
	last *bgraph.Snapshot // what was read; nil: nothing yet
	info fs.FileInfo      // of the file at that time
}

func (f *fileSource) Name() string { return printable(f.path) }

func (f *fileSource) Snapshot(context.Context) (*bgraph.Snapshot, error) {
	info, err := os.Stat(f.path)
	if err == nil && f.last != nil && (!info.Mode().IsRegular() || sameContent(info, f.info)) {
		return f.last.Clone(), nil
	}
	s, err := f.read()
	if err != nil {
		return nil, err
	}
	f.last, f.info = s, info
	return s.Clone(), nil
}

// sameContent reports whether two looks at a name found the same file, and the file was not written in between.
func sameContent(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

func (f *fileSource) read() (*bgraph.Snapshot, error) {
	head, plain, err := headOf(f.path)
	if err != nil || plain && !gotrace.IsTrace(head) && !compressed(head) {
		s, err := bgraph.ReadFile(f.path) // its errors name the file
		return s, norTrace(err, head)
	}
	// Without O_NONBLOCK, opening a pipe without a writer would block for ever.
	in, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	o := f.o
	o.Name = filepath.Base(f.path)
	s, err := readGraph(in, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return s, nil
}

// headLength is how many bytes tell what a source is.
const headLength = 16

// headOf returns the first bytes of a plain file. Of a pipe or a device it returns none, as reading them would use them up.
func headOf(path string) (head []byte, plain bool, err error) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return nil, false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, true, err
	}
	defer f.Close()
	head = make([]byte, headLength)
	n, _ := io.ReadFull(f, head)
	return head[:n], true, nil
}

// compressed reports whether what begins with head was written by gzip.
func compressed(head []byte) bool { return bytes.HasPrefix(head, []byte("\x1f\x8b")) }

// norTrace adds to the error of reading a dump that the source is no trace either.
func norTrace(err error, head []byte) error {
	if err == nil || len(head) == 0 || bytes.HasPrefix(head, []byte("capriccio")) {
		return err
	}
	return fmt.Errorf("%w; nor is it an execution trace, which begins with %q", err, gotrace.Magic)
}

// A stdinSource is a dump or a trace on the standard input, which is read when first asked for.
type stdinSource struct {
	in   io.Reader
	o    gotrace.Options
	read bool
	snap *bgraph.Snapshot
	err  error
}

func (*stdinSource) Name() string { return "standard input" }

func (s *stdinSource) Snapshot(context.Context) (*bgraph.Snapshot, error) {
	if !s.read {
		s.read = true
		s.o.Name = "standard input"
		s.snap, s.err = readGraph(s.in, s.o)
	}
	if s.err != nil {
		return nil, fmt.Errorf("standard input: %w", s.err)
	}
	return s.snap.Clone(), nil
}

// readGraph reads a dump or a trace, plain or compressed by gzip.
func readGraph(r io.Reader, o gotrace.Options) (*bgraph.Snapshot, error) {
	in := bufio.NewReaderSize(r, 1<<20)
	head, _ := in.Peek(headLength)
	if compressed(head) {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("it cannot be decompressed: %w", err)
		}
		in = bufio.NewReaderSize(z, 1<<20)
		if head, _ = in.Peek(headLength); !gotrace.IsTrace(head) && !bytes.HasPrefix(head, []byte("capriccio")) {
			return nil, errors.New("what is compressed there is neither a dump nor an execution trace; perhaps it is a profile, for go tool pprof")
		}
	}
	if gotrace.IsTrace(head) {
		return gotrace.Read(in, o)
	}
	s, err := bgraph.Decode(in)
	return s, norTrace(err, head)
}

// printable makes what came from elsewhere fit for a terminal and for one line.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// clip shortens s to n runes.
func clip(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	if n <= 1 {
		return string(r[:max(n, 0)])
	}
	return string(r[:n-1]) + "…"
}
