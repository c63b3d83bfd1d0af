package knot

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/pace"
)

// TestPace: files from memory and from disk, and what a handler writes, leave at the set rate.
func TestPace(t *testing.T) {
	const size = 100_000
	root, content := layFiles(t, 1, sized(size)), contentOf(0, size)
	for _, name := range []string{"memory", "open", "write"} {
		synctest.Test(t, func(t *testing.T) {
			handler := openWith(t, root, FilesConfig{CacheFileMax: map[string]int64{"open": -1}[name]}).Serve
			if name == "write" {
				handler = func(x *Ctx) error { return testenv.Err(x.Write(content)) }
			}
			nc := &timedConn{scriptConn: script(req("GET /f0")), began: time.Now()}
			const rate, free = 8000, 20_000
			serveScript(&Server{Handler: func(x *Ctx) error {
				x.SetRate(rate, free)
				return handler(x)
			}}, nc)
			if body := bodyOf(string(nc.output)); name != "write" && body != string(content) {
				t.Fatalf("%s: %d bytes", name, len(body))
			}
			// The last piece waits for those before it, the first ones for nothing.
			want := (size - free - 1024) * time.Second / rate
			if got := time.Since(nc.began); got < want-time.Second/pace.PiecesPerSecond || got > want+2*time.Second/pace.PiecesPerSecond {
				t.Errorf("%s: took %v, want about %v", name, got, want)
			}
			// What leaves at once is framing, free, and a piece; then 8000 in a second are pieces of 1024 bytes.
			if nc.most > 1024+300 {
				t.Errorf("%s: %d bytes have left before their time", name, nc.most)
			}
		})
	}
}

// timedConn measures how far what is written is ahead of 8000 bytes in a second, after 20,000.
type timedConn struct {
	*scriptConn
	began time.Time
	most  int
}

func (c *timedConn) Write(p []byte) (int, error) {
	n, err := c.scriptConn.Write(p)
	due := 20_000 + int(8000*time.Since(c.began).Seconds())
	c.most = max(c.most, len(c.output)-due-len(c.output)/1024*8)
	return n, err
}

// TestPaceIsOfOneResponse: the next one on the connection is not slowed down.
func TestPaceIsOfOneResponse(t *testing.T) {
	root := layFiles(t, 1, sized(50_000))
	request := req("GET /f0")
	synctest.Test(t, func(t *testing.T) {
		f := openWith(t, root, FilesConfig{})
		n, began := 0, time.Now()
		serveScript(&Server{Handler: func(x *Ctx) error {
			if n++; n == 1 {
				x.SetRate(10_000, 0)
			}
			return f.Serve(x)
		}}, script(request+request))
		if took := time.Since(began); n != 2 || took < 4800*time.Millisecond || took > 5*time.Second {
			t.Errorf("%d requests in %v; want 2 in 5 s", n, took)
		}
	})
}

// TestSlowResponsesLeave: a response that is slowed down keeps nobody out, also of a handler of net/http that runs on a
// goroutine.
func TestSlowResponsesLeave(t *testing.T) {
	const size = 50_000
	for way, adapt := range adapters {
		t.Run(way, func(t *testing.T) {
			handler := adapt(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(contentOf(1, size)) }))
			sv := guarded(t, &doorman{room: 10}, &Server{Handler: func(x *Ctx) error {
				x.SetRate(200_000, 0) // two pieces, and a wait between them
				return handler(x)
			}})
			var clients []*peer
			for range 5 {
				p := sv.dial()
				p.send(req("GET /"))
				clients = append(clients, p)
			}
			for _, p := range clients {
				p.want("200", string(contentOf(1, size)))
			}
		})
	}
}
