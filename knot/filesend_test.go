package knot

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
	"github.com/capriccio-go/capriccio/netpoll"
)

// failingSender is a connection on which SendFile breaks off in the middle.
type failingSender struct {
	*scriptConn
	err error
}

func (c failingSender) SendFile(head []byte, fd int, off, n int64, pages netpoll.Pages) (int64, error) {
	c.Write(head)
	c.Write(make([]byte, n/2))
	return n / 2, &net.OpError{Op: "sendfile", Net: "tcp", Err: c.err}
}

// TestResponseCutOffByTheDisk: it ends the connection, and there is one line about it; a client that goes
// is worth none.
func TestResponseCutOffByTheDisk(t *testing.T) {
	root := t.TempDir()
	testenv.Must(t, os.WriteFile(filepath.Join(root, "f"), make([]byte, 2*sendfileMin), 0o644))
	for _, test := range []struct {
		name string
		err  error
		said string // in the one line; "": nothing
	}{
		{"sendfile", os.NewSyscallError("sendfile", unix.EIO), "input/output error"},
		{"reading ahead", &fs.PathError{Op: "read", Path: "/f", Err: unix.EIO}, "input/output error"},
		{"a file system that is damaged", os.NewSyscallError("sendfile", unix.EUCLEAN), "structure needs cleaning"},
		{"a file server that has lost the file", os.NewSyscallError("sendfile", unix.ESTALE), "stale"},
		{"the client is gone", os.NewSyscallError("sendfile", unix.EPIPE), ""},
		{"the client has reset", os.NewSyscallError("sendfile", unix.ECONNRESET), ""},
		{"the client is too slow", os.ErrDeadlineExceeded, ""},
		{"the server closes", net.ErrClosed, ""},
		{"the request's task ends", &fs.PathError{Op: "read", Path: "/f", Err: context.Canceled}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 10})
			var log testenv.Buffer
			s := &Server{Handler: f.Serve, ErrorLog: slog.New(slog.NewTextHandler(&log, nil))}
			defer s.Close()
			request := "GET /f HTTP/1.1\r\nHost: h\r\n\r\n"
			nc := failingSender{newScriptConn([]byte(request+request), nil, 1), test.err}
			s.ServeConn(nc)
			testenv.Equal(t, strings.Count(string(nc.output), "HTTP/1.1"), 1, "responses")
			said := log.String()
			if strings.Count(said, "\n") != min(1, len(test.said)) || !strings.Contains(said, test.said) {
				t.Errorf("the log says %q", said)
			}
			if test.said != "" && !strings.Contains(said, "target=/f") {
				t.Errorf("the log does not name the file: %q", said)
			}
			if stats := f.Stats(); test.said != "" && stats.Open != 0 {
				t.Errorf("%d files still open: what can't be read is to be opened anew", stats.Open)
			}
		})
	}
}

// TestPagesAreNotLookedForWhileAFileIsHot: what was in memory a moment ago is taken to be there, also if it was looked
// for piece by piece, in order and without a gap. The moment is that of the first piece.
func TestPagesAreNotLookedForWhileAFileIsHot(t *testing.T) {
	const size = 100_000
	for _, test := range []struct {
		name string
		hot  bool
		ask  func(p *entryPages, clock func(time.Duration)) bool // reports whether all was in memory
	}{
		{"at once", true, func(p *entryPages, _ func(time.Duration)) bool { return p.Resident(0, size) == size }},
		{"in pieces, some of them twice", true, func(p *entryPages, clock func(time.Duration)) bool {
			whole := p.Resident(0, size/2) == size/2
			clock(seenFor / 2)
			return whole && p.Resident(size/4, size/2) == size/2 && p.Resident(3*size/4, size/4) == size/4
		}},
		{"with a gap", false, func(p *entryPages, _ func(time.Duration)) bool {
			return p.Resident(0, size/4) == size/4 && p.Resident(size/2, size/2) == size/2
		}},
		{"not from the beginning", false, func(p *entryPages, _ func(time.Duration)) bool { return p.Resident(1, size-1) == size-1 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(layFiles(t, 1, func(int) int { return size }), "f0")
			file := testenv.Need(aio.Open(path))(t)
			defer file.Close()
			server := &Server{}
			server.ready()
			server.clock.Close() // it stands where the test sets it
			clock := func(after time.Duration) { server.clock.Set(1 + int64(after)) }
			clock(0)
			x := newCtx()
			x.c, x.srv = &conn{nc: newScriptConn(nil, nil, 1), srv: server}, server
			e := &store.Entry{Length: size}
			e.File.Store(file)
			p := entryPages{x: x, e: e}
			if !test.ask(&p, clock) {
				t.Skip("what was just written is not in memory here")
			}
			testenv.Must(t, os.Truncate(path, 10))
			for _, step := range []struct {
				after time.Duration
				hot   bool
			}{{0, test.hot}, {seenFor - 1, test.hot}, {seenFor, false}} {
				clock(step.after)
				if n := p.Resident(0, size); (n == size) != step.hot {
					t.Errorf("%v after it was seen in memory %d bytes count as in memory, want all: %v", step.after, n, step.hot)
				}
			}
		})
	}
}

// TestPagesOfTwoServers: the clock of each counts from its own start, and what one has seen by its own is not hot for
// the other until that one is as old.
func TestPagesOfTwoServers(t *testing.T) {
	const size = 100_000
	path := filepath.Join(layFiles(t, 1, func(int) int { return size }), "f0")
	file := testenv.Need(aio.Open(path))(t)
	defer file.Close()
	e := &store.Entry{Length: size}
	e.File.Store(file)
	pages := func(age time.Duration) *entryPages {
		server := &Server{}
		server.ready()
		server.clock.Close() // it stands
		server.clock.Set(1 + int64(age))
		x := newCtx()
		x.c, x.srv = &conn{nc: newScriptConn(nil, nil, 1), srv: server}, server
		return &entryPages{x: x, e: e}
	}
	if pages(time.Hour).Resident(0, size) != size || e.Seen.Load() == 0 {
		t.Skip("what was just written is not in memory here")
	}
	testenv.Must(t, os.Truncate(path, 10))
	if n := pages(0).Resident(0, size); n == size {
		t.Error("a younger server does not look whether the file is in memory")
	}
}
