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

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
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
