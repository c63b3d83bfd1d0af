package knot

import (
	"bytes"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/pace"
)

// TestSmallWritesShareChunks: what a template writes word by word does not travel word by word, and
// whatever the sizes and flushes, the client gets the bytes that were written.
func TestSmallWritesShareChunks(t *testing.T) {
	words := func(x *Ctx) (err error) {
		for i := 0; i < 10_000 && err == nil; i++ {
			_, err = x.WriteString("<td>7</td>")
		}
		return err
	}
	all := bytes.Repeat([]byte("0123456789abcdef"), 20<<10)
	mixed := func(x *Ctx) error {
		random := rand.New(rand.NewPCG(uint64(len(x.Query())), 9))
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(1<<random.IntN(17)))
			if _, err := x.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
			if random.IntN(50) == 0 {
				if err := x.Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: func(x *Ctx) error {
			if x.Path() == "/words" {
				return words(x)
			}
			return mixed(x)
		}})
		got := sv.exchange(req("GET /words", "Connection: close"))
		testenv.AtMost(t, len(got), 101_000, "100,000 bytes of body took")
		for seed := range testenv.Rounds(10, 30) {
			resp, body := sv.dial().ask(req("GET /mixed?" + strings.Repeat("s", seed)))
			if body != string(all) || len(resp.TransferEncoding) != 1 {
				t.Errorf("seed %d: %d bytes, want %d; framing %q", seed, len(body), len(all), resp.TransferEncoding)
			}
		}
	})
}

// TestSmallWritesLeave: a response that is written byte by byte leaves as the buffer fills.
func TestSmallWritesLeave(t *testing.T) {
	const size = 1 << 20
	for step := 1; step <= 5; step++ {
		nc := &vectorConn{scriptConn: script(req("GET /", "Connection: close"))}
		serveScript(&Server{Handler: func(x *Ctx) error {
			piece := "12345"[:step]
			for range size / step {
				if _, err := x.WriteString(piece); err != nil {
					return err
				}
			}
			return nil
		}}, nc)
		testenv.AtMost(t, nc.most, writeMost, "%d bytes at a time: the largest write has", step)
		testenv.AtLeast(t, len(nc.output), size/step*step, "%d bytes at a time: all is", step)
	}
}

// A vectorConn is a scriptConn with writev, which notes the largest one.
type vectorConn struct {
	*scriptConn
	most int
}

func (c *vectorConn) Write(p []byte) (int, error) {
	c.most = max(c.most, len(p))
	return c.scriptConn.Write(p)
}

func (c *vectorConn) WriteBuffers(all *net.Buffers) (int64, error) {
	size := 0
	for _, p := range *all {
		size += len(p)
		c.output = append(c.output, p...)
	}
	*all = nil
	c.writes++
	c.most = max(c.most, size)
	return int64(size), nil
}

// TestLargeWritesAreCut: what leaves under one deadline is bounded, and nothing gets lost between two pieces.
func TestLargeWritesAreCut(t *testing.T) {
	all := make([]byte, 3*writeMost+5)
	for i := range all {
		all[i] = byte(i % 251)
	}
	for name, cuts := range map[string][]int{
		"one part":          nil,
		"several":           {10, 20_000, writeMost},
		"at the end of one": {writeMost - outSize, writeMost, 2 * writeMost, 2*writeMost + 1},
	} {
		nc := &vectorConn{scriptConn: script(req("GET /") + req("GET /"))}
		serveScript(&Server{Handler: func(x *Ctx) error {
			var parts [][]byte
			from := 0
			for _, to := range append(cuts[:len(cuts):len(cuts)], len(all)) {
				parts = append(parts, all[from:to])
				from = to
			}
			x.beginBytes(int64(len(all)))
			return x.emitParts(parts, int64(len(all)))
		}}, nc)
		for range 2 {
			_, rest, _ := bytes.Cut(nc.output, []byte("\r\n\r\n"))
			if len(rest) < len(all) || !bytes.Equal(rest[:len(all)], all) {
				t.Fatalf("%s: other bytes than were written", name)
			}
			nc.output = rest[len(all):]
		}
		if len(nc.output) > 0 || nc.most > writeMost {
			t.Errorf("%s: %d bytes too many; %d bytes in one write, want at most %d", name, len(nc.output), nc.most, writeMost)
		}
	}
}

// TestPace: files from memory and from disk, and what a handler writes, leave at the set rate.
func TestPace(t *testing.T) {
	const size = 100_000
	root, content := layFiles(t, 1, sized(size)), contentOf(0, size)
	for _, name := range []string{"memory", "open", "write"} {
		synctest.Test(t, func(t *testing.T) {
			handler := openWith(t, root, FilesConfig{CacheFileMax: map[string]int64{"open": -1}[name]}).Handle
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
			return f.Handle(x)
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

// What a handler says of its body after it has written some of it counts: the response is right by that, or it is an error,
// and the bytes behind it are never those of a body that should not be there.
func TestBodiesThatDoNotFitTheHead(t *testing.T) {
	for _, test := range []struct {
		name   string
		say    func(x *Ctx)
		flush  bool
		status string
	}{
		{"the length", func(x *Ctx) { x.SetContentLength(3) }, false, "200 abc"},
		{"the length, flushed", func(x *Ctx) { x.SetContentLength(3) }, true, "200 abc"},
		{"less", func(x *Ctx) { x.SetContentLength(2) }, false, "500"},
		{"less, flushed", func(x *Ctx) { x.SetContentLength(2) }, true, "500"},
		{"nothing, flushed", func(x *Ctx) { x.SetContentLength(0) }, true, "500"},
		{"more", func(x *Ctx) { x.SetContentLength(4) }, false, "500"},
		{"a status without body", func(x *Ctx) { x.SetStatus(204) }, false, "500"},
		{"a status without body, flushed", func(x *Ctx) { x.SetStatus(304) }, true, "500"},
	} {
		got := answerTo(&Server{ErrorLog: quietLog(), Handler: func(x *Ctx) error {
			x.WriteString("abc")
			test.say(x)
			if test.flush {
				x.Flush()
			}
			return nil
		}}, req("GET /"))
		if testenv.Equal(t, statusOf(got), test.status[:3], test.name); test.status == "200 abc" {
			testenv.Equal(t, statusAndBody(got), test.status, test.name)
		}
	}
}
