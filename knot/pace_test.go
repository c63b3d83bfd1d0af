package knot

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// fakePace lets paced responses sleep on a clock of the test's own. It returns how long they have
// slept, and what nc had written by then, sleep by sleep.
func fakePace(t *testing.T, written func() int) (total func() time.Duration, steps *[]int) {
	t.Helper()
	began := time.Now()
	now := began
	steps = new([]int)
	paceClock = func() time.Time { return now }
	paceSleep = func(d time.Duration) error {
		now = now.Add(d)
		*steps = append(*steps, written())
		return nil
	}
	t.Cleanup(func() { paceClock, paceSleep = time.Now, sleep })
	return func() time.Duration { return now.Sub(began) }, steps
}

// TestPace: files from memory and from disk, and what a handler writes, leave at the set rate.
func TestPace(t *testing.T) {
	root := t.TempDir()
	const size = 100_000
	testenv.Must(t, os.WriteFile(filepath.Join(root, "f"), contentOf(1, size), 0o644))
	memory, open := openWith(t, root, FilesConfig{}), openWith(t, root, FilesConfig{CacheFileMax: -1})
	for name, handler := range map[string]Handler{
		"memory": memory.Serve,
		"open":   open.Serve,
		"write": func(x *Ctx) error {
			_, err := x.Write(contentOf(1, size))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			nc := newScriptConn([]byte("GET /f HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
			total, steps := fakePace(t, func() int { return len(nc.output) })
			const rate, free = 8000, 20_000
			serveScript(&Server{Handler: func(x *Ctx) error {
				x.SetRate(rate, free)
				return handler(x)
			}}, nc)
			_, body, _ := strings.Cut(string(nc.output), "\r\n\r\n")
			if name != "write" && body != string(contentOf(1, size)) {
				t.Fatalf("%d bytes", len(body))
			}
			// The last piece waits for those before it, the first ones for nothing.
			want := (size - free - 1024) * time.Second / rate
			if got := total(); got < want-time.Second/pacePieces || got > want+2*time.Second/pacePieces {
				t.Errorf("took %v, want about %v", got, want)
			}
			for i, n := range *steps {
				// 8000 in a second are pieces of 1024 bytes; what is in between is the framing.
				if most := free + (i+1)*1024 + 300 + 20*(i+2); n > most {
					t.Fatalf("after %d waits %d bytes had left, want at most %d", i, n, most)
				}
			}
		})
	}
}

// TestPaceIsOfOneResponse: the next one on the connection is not slowed down.
func TestPaceIsOfOneResponse(t *testing.T) {
	root := layFiles(t, 1, func(int) int { return 50_000 })
	f := openWith(t, root, FilesConfig{})
	request := "GET /f0 HTTP/1.1\r\nHost: h\r\n\r\n"
	nc := newScriptConn([]byte(request+request), nil, 1)
	_, steps := fakePace(t, func() int { return 0 })
	n := 0
	serveScript(&Server{Handler: func(x *Ctx) error {
		if n++; n == 1 {
			x.SetRate(10_000, 0)
		}
		return f.Serve(x)
	}}, nc)
	if n != 2 || len(*steps) != 39 {
		t.Errorf("%d requests, %d waits; want 2 and 39", n, len(*steps))
	}
}

// TestSlowResponsesLeave: a response that is slowed down keeps nobody out, also of a handler of net/http that runs on a
// goroutine.
func TestSlowResponsesLeave(t *testing.T) {
	const size = 50_000
	for way, adapt := range adapters {
		t.Run(way, func(t *testing.T) {
			fakePace(t, func() int { return 0 })
			handler := adapt(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(contentOf(1, size)) }))
			addr := guarded(t, &doorman{room: 10}, &Server{Handler: func(x *Ctx) error {
				x.SetRate(8000, 0)
				return handler(x)
			}})
			client := &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}
			defer client.CloseIdleConnections()
			for range 5 {
				if _, body := testenv.Get(t, client, "http://"+addr); len(body) != size {
					t.Errorf("%d bytes", len(body))
				}
			}
		})
	}
}
