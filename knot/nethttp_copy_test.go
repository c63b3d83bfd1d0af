package knot

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

// sendCounter counts what goes out by sendfile(2).
type sendCounter struct {
	*netpoll.Conn
	sent *atomic.Int64
}

func (c sendCounter) SendFile(head []byte, fd int, off, n int64, pages ownconn.Pages) (int64, error) {
	c.sent.Add(n) // before the client can know
	return ownconn.Of(c.Conn).(fileSender).SendFile(head, fd, off, n, pages)
}

// A copyCase is a way to fill a response from a file or something else.
type copyCase struct {
	name     string
	serve    func(w http.ResponseWriter, r *http.Request)
	want     string
	sendfile bool // a piece of it
}

// copyCases copy the file of that name, which has that content: whole, from the middle and cut short, with and
// without a length.
func copyCases(name, content string) []copyCase {
	size := len(content)
	file := func(length int, copy func(w http.ResponseWriter, r *http.Request, f *os.File)) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			if length > 0 {
				w.Header().Set("Content-Length", fmt.Sprint(length))
			}
			f, err := os.Open(name)
			if err != nil {
				panic(err)
			}
			defer f.Close()
			copy(w, r, f)
		}
	}
	whole := func(w http.ResponseWriter, _ *http.Request, f *os.File) { io.Copy(w, f) }
	return []copyCase{
		{"length", file(size, whole), content, true},
		{"typed", file(size, func(w http.ResponseWriter, _ *http.Request, f *os.File) {
			w.Header().Set("Content-Type", "text/x")
			io.Copy(w, f)
		}), content, true},
		{"chunked", file(0, whole), content, false},
		{"middle", file(100_000, func(w http.ResponseWriter, _ *http.Request, f *os.File) {
			f.Seek(1000, io.SeekStart)
			n, err := io.CopyN(w, f, 99_000)
			at, _ := f.Seek(0, io.SeekCurrent)
			fmt.Fprintf(w, "%1000s", fmt.Sprint(n, err, at))
		}), content[1000:100_000] + fmt.Sprintf("%1000s", "99000 <nil> 100000"), true},
		{"after a write", file(size+3, func(w http.ResponseWriter, _ *http.Request, f *os.File) {
			io.WriteString(w, "one")
			io.Copy(w, f)
		}), "one" + content, true},
		{"too long", file(5, func(w http.ResponseWriter, _ *http.Request, f *os.File) {
			if _, err := io.Copy(w, f); err == http.ErrContentLength {
				io.WriteString(w, "12345")
			}
		}), "12345", false},
		{"small", file(0, func(w http.ResponseWriter, _ *http.Request, f *os.File) { io.CopyN(w, f, 700) }), content[:700], false},
		{"reader", func(w http.ResponseWriter, r *http.Request) {
			io.Copy(w, struct{ io.Reader }{strings.NewReader(content)})
		}, content, false},
		{"serve content", file(0, func(w http.ResponseWriter, r *http.Request, f *os.File) {
			http.ServeContent(w, r, "x.txt", time.Time{}, f)
		}), content, true},
		{"body", func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			io.Copy(w, r.Body)
		}, content, false},
		{"head", file(size, whole), "", false},
	}
}

// TestAdaptedCopies: io.Copy to a response, from files and from other things.
func TestAdaptedCopies(t *testing.T) {
	content := contentOf(0, 320_000)
	name := filepath.Join(layFiles(t, 1, sized(len(content))), "f0")
	cases := copyCases(name, string(content))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		var sent atomic.Int64
		var native atomic.Bool
		adapted := make(map[string]Handler)
		for _, c := range cases {
			adapted["/"+strings.ReplaceAll(c.name, " ", "-")] = AdaptHTTP(http.HandlerFunc(c.serve))
		}
		sv := start(&Server{Handler: func(x *Ctx) error {
			if nc, ok := x.c.nc.(*netpoll.Conn); ok {
				native.Store(true)
				x.c.nc = sendCounter{nc, &sent}
				defer func() { x.c.nc = nc }()
			}
			return adapted[x.Path()](x)
		}})
		for _, c := range cases {
			sent.Store(0)
			method := "GET"
			var body io.Reader
			switch c.name {
			case "head":
				method = "HEAD"
			case "body":
				method, body = "POST", bytes.NewReader(content)
			}
			r := testenv.Need(http.NewRequest(method, sv.url()+"/"+strings.ReplaceAll(c.name, " ", "-"), body))(t)
			resp := testenv.Need(http.DefaultClient.Do(r))(t)
			got, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || string(got) != c.want {
				t.Errorf("%s: %d bytes, %v, want %d", c.name, len(got), err, len(c.want))
			}
			if byFile := sent.Load() > 0; byFile != (c.sendfile && native.Load()) {
				t.Errorf("%s: %d bytes by sendfile", c.name, sent.Load())
			}
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// TestAdaptedCopiesAreSlowedDown: SetRate is for files that a handler of net/http copies, too.
func TestAdaptedCopiesAreSlowedDown(t *testing.T) {
	content := contentOf(0, 320_000)
	name := filepath.Join(layFiles(t, 1, sized(len(content))), "f0")
	adapted := AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, name) }))
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		var sent atomic.Int64
		sv := start(&Server{Handler: func(x *Ctx) error {
			if nc, ok := x.c.nc.(*netpoll.Conn); ok {
				x.c.nc = sendCounter{nc, &sent}
				defer func() { x.c.nc = nc }()
			}
			x.SetRate(1<<40, 0)
			return adapted(x)
		}})
		_, body := sv.dial().ask(req("GET /"))
		testenv.Equal(t, body, string(content))
		testenv.AtMost(t, sent.Load(), 0, "bytes left at once")
	})
}
