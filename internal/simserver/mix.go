//go:build linux

package simserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/aio"
	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// A Mix is a handler that does what the query of a request says: steps, each a letter
// and a number, with dots between them.
//
//	w  works that many µs            s  sleeps that many µs
//	h  holds that many bytes         z  sends that many bytes in the end
//	l  works under a lock            b  sleeps at a backend with few workers
//	k  sleeps under it               j  the same under another lock
//	r  reads bytes of a file         p  writes them to one
//	e  reads the body, of that size  c  sends pieces, 100 ms apart
//	   bytes (0: not known)        u  the same, and holds it
//	x  panics
type Mix struct {
	w       *World
	lock    task.Mutex
	other   task.Mutex
	backend *task.Semaphore
	folder  string        // of files; "": there are none
	locked  time.Duration // for how long in all
	served  time.Duration // by all workers of the backend together
	workers int
	static  *knot.Files // nil: there are none
	adapted knot.Handler
	files   int                    // written so far
	inside  int                    // requests in the handler; one loop's goroutine runs at a time
	of      map[netip.AddrPort]int // ... by the address of their client
	most    int                    // of one client; 0: as many as it likes
}

// fileSize is the size of the file that r reads.
const (
	fileSize  = 256 << 10
	smallSize = 3000
)

// newMix makes the handler, and a file in folder if that is not "".
func newMix(w *World, folder string, workers int) (*Mix, error) {
	m := &Mix{w: w, backend: task.NewSemaphore(int64(workers)), workers: workers, folder: folder, of: map[netip.AddrPort]int{}}
	m.adapted = knot.AdaptHTTP(knot.OffloadHTTP(http.HandlerFunc(m.serveHTTP)))
	if folder == "" {
		return m, nil
	}
	for name, size := range map[string]int{"in": fileSize, "large": fileSize, "small": smallSize} {
		if is, err := os.Stat(filepath.Join(folder, name)); err == nil && is.Size() == int64(size) {
			continue // of the run before
		}
		if err := os.WriteFile(filepath.Join(folder, name), pattern[:size], 0o600); err != nil {
			return nil, err
		}
	}
	var err error
	m.static, err = knot.OpenFiles(folder, knot.FilesConfig{CacheBytes: 1 << 20, CacheFileMax: smallSize, OpenFiles: 4, Revalidate: 20 * time.Millisecond})
	return m, err
}

// close is called in the bubble.
func (m *Mix) close() {
	if m.static != nil {
		m.static.Close()
	}
}

// serveHTTP is what requests for /http get: their body is read, and after a while they are
// answered.
func (m *Mix) serveHTTP(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	time.Sleep(time.Millisecond)
	w.Header().Set("Content-Length", strconv.Itoa(smallSize))
	w.Write(pattern[:smallSize])
}

// gauges has the lock and the backend watched.
func (m *Mix) gauges(s *Server) {
	s.Gauge("lock", true, func() float64 { return m.locked.Seconds() })
	s.Gauge("backend", true, func() float64 { return m.served.Seconds() / float64(m.workers) })
}

// A mixTask is one request in the handler.
type mixTask struct {
	m    *Mix
	x    *knot.Ctx
	held int
	size int
	done bool // the response is complete
}

// Handle is a knot.Handler.
func (m *Mix) Handle(x *knot.Ctx) error {
	t := &mixTask{m: m, x: x}
	client := x.RemoteAddr().(*net.TCPAddr).AddrPort()
	m.inside++
	if m.of[client]++; m.most > 0 && m.of[client] > m.most {
		m.w.fault("%d requests of one connection are inside, %d may be", m.of[client], m.most)
	}
	defer func() {
		m.inside--
		if m.of[client]--; m.of[client] == 0 {
			delete(m.of, client)
		}
		if t.held > 0 {
			m.w.Memory.Release(t.held)
		}
	}()
	switch x.Path() {
	case "/small", "/large":
		return m.static.Handle(x)
	case "/http":
		return m.adapted(x)
	}
	for step := range strings.FieldsFuncSeq(x.Query(), func(r rune) bool { return r == '.' }) {
		n, err := strconv.Atoi(step[1:])
		if err != nil {
			return knot.Status(400)
		}
		if err := t.step(step[0], n); err != nil {
			return err
		}
	}
	if t.done {
		return nil
	}
	return x.Send(200, "application/octet-stream", m.bytes(t.size))
}

// bytes are n bytes to send.
func (m *Mix) bytes(n int) []byte {
	if n <= len(pattern) {
		return pattern[:n]
	}
	return make([]byte, n)
}

func (t *mixTask) step(what byte, n int) error {
	m := t.m
	d := time.Duration(n) * time.Microsecond
	switch what {
	case 'w':
		m.w.Work(d)
	case 's':
		return engine.Sleep(d)
	case 'h':
		t.held += n
		m.w.Memory.Hold(n)
	case 'z':
		t.size = n
	case 'l':
		m.lock.Lock()
		defer m.lock.Unlock()
		began := m.w.Now()
		m.w.Work(d)
		m.locked += m.w.Now() - began
	case 'k', 'j':
		return m.sleepUnder(what == 'j', d)
	case 'b':
		if err := m.backend.Acquire(1); err != nil {
			return err
		}
		defer m.backend.Release(1)
		began := m.w.Now()
		defer func() { m.served += m.w.Now() - began }()
		return engine.Sleep(d)
	case 'r':
		return t.readFile(n)
	case 'p':
		return t.writeFile(n)
	case 'e', 'u':
		return t.readBody(n, what == 'u')
	case 'c':
		return t.stream(n)
	case 'x':
		panic("as the request says")
	}
	return nil
}

// readBody reads a body, of n bytes if that is not 0, which must be those of pattern.
func (t *mixTask) readBody(n int, hold bool) error {
	var got int
	b := make([]byte, 32<<10)
	for {
		k, err := t.x.Body().Read(b)
		if got+k > len(pattern) || !bytes.Equal(b[:k], pattern[got:got+k]) {
			t.m.w.fault("%d bytes of the body of %s are wrong from %d on", k, t.x.Query(), got)
		}
		got += k
		if hold {
			t.held += k
			t.m.w.Memory.Hold(k)
		}
		switch {
		case err == io.EOF && n > 0 && got != n:
			t.m.w.fault("the body of %s ended after %d bytes", t.x.Query(), got)
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

func (m *Mix) sleepUnder(other bool, d time.Duration) error {
	lock := &m.lock
	if other {
		lock = &m.other
	}
	if err := lock.LockContext(context.Background()); err != nil {
		return err
	}
	defer lock.Unlock()
	began := m.w.Now()
	if !other {
		defer func() { m.locked += m.w.Now() - began }()
	}
	return engine.Sleep(d)
}

func (t *mixTask) readFile(n int) error {
	f, err := aio.Open(filepath.Join(t.m.folder, "in"))
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, min(n, fileSize))
	got, err := f.ReadAt(b, 0)
	if err == nil && got != len(b) {
		t.m.w.fault("ReadAt of %d bytes: %d and no error", len(b), got)
	}
	return err
}

// writeFile writes a file and reads it again: what has been written without an error must
// be there.
func (t *mixTask) writeFile(n int) (err error) {
	t.m.files++
	name := filepath.Join(t.m.folder, fmt.Sprint("out", t.m.files))
	defer os.Remove(name)
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i + n)
	}
	out, err := aio.Create(name)
	if err != nil {
		return err
	}
	_, err = out.Write(b)
	err = errors.Join(err, out.Close())
	if err != nil {
		return err
	}
	got, err := os.ReadFile(name)
	if err == nil && string(got) != string(b) {
		t.m.w.fault("%d bytes were written without an error, of which %d are there", n, len(got))
	}
	return err
}

func (t *mixTask) stream(n int) error {
	x := t.x
	t.done = true
	x.SetContentType("text/event-stream")
	for i := range n {
		if _, err := fmt.Fprintf(x, "data: %d\n\n", i); err != nil {
			return err
		}
		if err := x.Flush(); err != nil {
			return err
		}
		if err := engine.Sleep(100 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
