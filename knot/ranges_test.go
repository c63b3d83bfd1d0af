package knot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/store"
)

// parts reads an answer with several ranges; its length must be the declared one.
func parts(t *testing.T, answer, content string) (ranges []store.Range) {
	t.Helper()
	body := bodyOf(answer)
	testenv.MustEqual(t, headerOf(answer, "Content-Length"), fmt.Sprint(len(body)), "length")
	ctype := headerOf(answer, "Content-Type")
	kind, params, err := mime.ParseMediaType(ctype)
	if err != nil || kind != "multipart/byteranges" {
		t.Fatalf("type %q, %v", ctype, err)
	}
	r := multipart.NewReader(strings.NewReader(body), params["boundary"])
	for {
		part, err := r.NextRawPart()
		if err == io.EOF {
			return ranges
		}
		testenv.Must(t, err)
		var one store.Range
		var size int
		testenv.Need(fmt.Sscanf(part.Header.Get("Content-Range"), "bytes %d-%d/%d", &one.From, &one.To, &size))(t)
		one.To++
		text, err := io.ReadAll(part)
		if err != nil || string(text) != content[one.From:one.To] || size != len(content) || part.Header.Get("Content-Type") != "application/octet-stream" {
			t.Fatalf("%v of %d: %q, %v, %v", one, size, text, part.Header, err)
		}
		ranges = append(ranges, one)
	}
}

// TestSeveralRanges from memory, by copy and by sendfile.
func TestSeveralRanges(t *testing.T) {
	content := string(contentOf(0, 300_000))
	root := layFiles(t, 1, sized(len(content)))
	ask := func(f *Files, ranges string) string { return askFile(f, "/f0", "Range: bytes="+ranges) }
	for name, config := range map[string]FilesConfig{"memory": {CacheFileMax: 1 << 20}, "open": {CacheFileMax: -1}, "none": {CacheBytes: -1, OpenFiles: -1}} {
		t.Run(name, func(t *testing.T) {
			f := openWith(t, root, config)
			for _, test := range []struct {
				ranges string
				want   []store.Range
			}{
				{"0-9,100-109", spans(0, 10, 100, 110)},
				{"100-109,0-9", spans(100, 110, 0, 10)},
				{"0-0,-1", spans(0, 1, 299_999, 300_000)},
				{"5-100000,200000-280000", spans(5, 100_001, 200_000, 280_001)},
				{"0-9,20-29,5-24,5000-", spans(0, 30, 5000, 300_000)},
				{"500-600,0-9,400-499,900000-", spans(400, 601, 0, 10)},
			} {
				answer := ask(f, test.ranges)
				if got := parts(t, answer, content); statusOf(answer) != "206" || !slices.Equal(got, test.want) {
					t.Errorf("%s: %s, %v; want %v", test.ranges, statusOf(answer), got, test.want)
				}
			}
			var many []string
			for i := range defaultMaxRanges + 1 {
				many = append(many, fmt.Sprintf("%d-%d", i*100, i*100+1))
			}
			testenv.Equal(t, statusOf(ask(f, strings.Join(many, ","))), "200", "more ranges than allowed")
			testenv.Equal(t, len(parts(t, ask(f, strings.Join(many[1:], ",")), content)), defaultMaxRanges, "as many ranges as allowed")
		})
	}
	one := openWith(t, root, FilesConfig{MaxRanges: -1})
	testenv.Equal(t, statusOf(ask(one, "0-1,5-6")), "200", "two ranges where one is allowed")
}

// TestSeveralRangesOverSendfile: the framing and the pieces leave in order.
func TestSeveralRangesOverSendfile(t *testing.T) {
	content := contentOf(0, 2_000_000)
	root := layFiles(t, 1, sized(len(content)))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: openWith(t, root, FilesConfig{}).Handle})
		p := sv.dial()
		request := req("GET /f0", "Range: bytes=10-700000,800000-800009,-500000")
		p.send(request + request)
		for range 2 {
			resp, body := p.response("GET")
			_, params, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
			r := multipart.NewReader(strings.NewReader(body), params["boundary"])
			for _, want := range [][]byte{content[10:700_001], content[800_000:800_010], content[1_500_000:]} {
				part := testenv.Need(r.NextPart())(t)
				if got, err := io.ReadAll(part); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, %v; want %d", len(got), err, len(want))
				}
			}
			if _, err := r.NextPart(); err != io.EOF {
				t.Error("another part", err)
			}
		}
	})
}

// TestIfRangeWithAFreshDate: within the second of the last change a date says nothing.
func TestIfRangeWithAFreshDate(t *testing.T) {
	root := layFiles(t, 1, sized(100))
	f := openWith(t, root, FilesConfig{})
	ask := func(at time.Time) string {
		testenv.Must(t, os.Chtimes(filepath.Join(root, "f0"), at, at))
		f.store.Caches.Empty()
		return statusOf(askFile(f, "/f0", "Range: bytes=0-1", "If-Range: "+at.UTC().Format(http.TimeFormat)))
	}
	if now, old := ask(time.Now()), ask(time.Now().Add(-time.Minute)); now != "200" || old != "206" {
		t.Errorf("just changed %s, changed a minute ago %s; want 200, 206", now, old)
	}
}

// TestIfRangeWithADateOfTwoForms: a client may have the beginning of the other form.
func TestIfRangeWithADateOfTwoForms(t *testing.T) {
	root := tree(t, map[string]string{"a.css": strings.Repeat("plain ", 100), "a.css.gz": strings.Repeat("zipped ", 10)})
	f := openWith(t, root, FilesConfig{Codings: Precompressed()})
	answer := askFile(f, "/a.css", "Accept-Encoding: gzip")
	for condition, want := range map[string]string{headerOf(answer, "ETag"): "206", headerOf(answer, "Last-Modified"): "200"} {
		answer := askFile(f, "/a.css", "Range: bytes=5-", "If-Range: "+condition, "Accept-Encoding: gzip")
		testenv.Equal(t, statusOf(answer), want, "If-Range: %s", condition)
	}
}

// TestRangesOfAnEmptyFile: there is none that a header could name, and clients ask for bytes=0- in any case.
func TestRangesOfAnEmptyFile(t *testing.T) {
	f := openWith(t, layFiles(t, 1, sized(0)), FilesConfig{})
	for _, ranges := range []string{"0-", "-5", "3-4"} {
		if answer := askFile(f, "/f0", "Range: bytes="+ranges); statusOf(answer) != "200" || headerOf(answer, "Content-Length") != "0" {
			t.Errorf("%s: %q", ranges, answer)
		}
	}
}

// spans are ranges, given by their ends in turn.
func spans(ends ...int64) (all []store.Range) {
	for i := 0; i < len(ends); i += 2 {
		all = append(all, store.Range{From: ends[i], To: ends[i+1]})
	}
	return all
}

// failingSender is a connection on which SendFile breaks off in the middle.
type failingSender struct {
	*scriptConn
	err error
}

func (c failingSender) SendFile(head []byte, fd int, off, n int64, pages ownconn.Pages) (int64, error) {
	c.Write(head)
	c.Write(make([]byte, n/2))
	return n / 2, &net.OpError{Op: "sendfile", Net: "tcp", Err: c.err}
}

// TestResponseCutOffByTheDisk: it ends the connection, and there is one line about it; a client that goes
// is worth none.
func TestResponseCutOffByTheDisk(t *testing.T) {
	root := layFiles(t, 1, sized(2*sendfileMin))
	for _, test := range []struct {
		name string
		err  error
		said string // in the one line; "": nothing
	}{
		{"sendfile", os.NewSyscallError("sendfile", unix.EIO), "input/output error"},
		{"reading ahead", &fs.PathError{Op: "read", Path: "/f0", Err: unix.EIO}, "input/output error"},
		{"a file system that is damaged", os.NewSyscallError("sendfile", unix.EUCLEAN), "structure needs cleaning"},
		{"a file server that has lost the file", os.NewSyscallError("sendfile", unix.ESTALE), "stale"},
		{"the client is gone", os.NewSyscallError("sendfile", unix.EPIPE), ""},
		{"the client has reset", os.NewSyscallError("sendfile", unix.ECONNRESET), ""},
		{"the client is too slow", os.ErrDeadlineExceeded, ""},
		{"the server closes", net.ErrClosed, ""},
		{"the request's task ends", &fs.PathError{Op: "read", Path: "/f0", Err: context.Canceled}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 10})
			var log testenv.Buffer
			s := &Server{Handler: f.Handle, ErrorLog: textLog(&log)}
			defer s.Close()
			nc := failingSender{script(req("GET /f0") + req("GET /f0")), test.err}
			s.ServeConn(nc)
			testenv.Equal(t, strings.Count(string(nc.output), "HTTP/1.1"), 1, "responses")
			said := log.String()
			if strings.Count(said, "\n") != min(1, len(test.said)) || !strings.Contains(said, test.said) {
				t.Errorf("the log says %q", said)
			}
			if test.said != "" && !strings.Contains(said, "target=/f0") {
				t.Errorf("the log does not name the file: %q", said)
			}
			if stats := f.Stats(); test.said != "" && stats.Open != 0 {
				t.Errorf("%d files still open: what can't be read is to be opened anew", stats.Open)
			}
		})
	}
}
