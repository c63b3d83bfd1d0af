package knot

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/admit"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// shortOfMemory has large bodies read in an order until the test ends: one goes on at a time, and what is held for ten
// seconds, of a clock that moves on by one each millisecond, is refused.
func shortOfMemory(t *testing.T) *admit.BodyBudget {
	const heap = 1 << 20
	bodies := new(admit.BodyBudget)
	bodies.Tick(0, heap, heap, true)
	done, over := make(chan bool), make(chan bool)
	go func() {
		defer close(over)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for now := time.Second; ; now += time.Second {
			select {
			case <-done:
				return
			case <-tick.C:
				bodies.Tick(now, heap, heap, false)
			}
		}
	}()
	t.Cleanup(func() {
		close(done)
		<-over
		bodies.LiftUntilTick()
	})
	return bodies
}

// TestLimitBodyBelowZero: a limit below 0 is that of a request without a body.
func TestLimitBodyBelowZero(t *testing.T) {
	s := &Server{Handler: func(x *Ctx) error {
		if err := x.LimitBody(-1); err != nil {
			return err
		}
		return x.SendString(200, "", "ok")
	}}
	for text, want := range map[string]string{req("GET /"): "HTTP/1.1 200", put("/", "x"): "HTTP/1.1 413"} {
		testenv.Contains(t, answerTo(s, text), want)
	}
}

const uploadSize = 1 << 20

func newUpload() *scriptConn {
	return newScriptConn(req("POST /", fmt.Sprint("Content-Length: ", uploadSize)), strings.Repeat("x", uploadSize), 32<<10)
}

// The body of a request whose handler has returned is none any more before which others wait, also if it was read
// apart, and the server has ended that.
func TestABodyReadApartGivesBackItsTurn(t *testing.T) {
	bodies := shortOfMemory(t)
	for i, status := range []string{"200", "500", "200"} {
		nc := newUpload()
		serveScript(&Server{bodies: bodies, MaxBody: uploadSize, ErrorLog: quietLog(), Handler: func(x *Ctx) error {
			b, err := (*inner)(x).BodyApart()
			if err == nil {
				_, err = io.CopyN(io.Discard, b, uploadSize/2)
			}
			if status == "500" {
				panic("of a test")
			}
			return err
		}}, nc)
		testenv.Equal(t, statusOf(string(nc.output)), status, "request %d", i)
	}
}

// A Ctx that has served a request is no other for the next body that is read by it.
func TestAUsedCtxCountsBodies(t *testing.T) {
	x := newCtx()
	x.finished = true
	x.recycle()
	if x.finished {
		t.Error("what is read of a body by a Ctx that was used before would not be counted")
	}
}

// A tellingConn tells once how much it has handed out.
type tellingConn struct {
	*scriptConn
	at   int
	once sync.Once
	told chan struct{} // closed when it is at least at
}

func (c *tellingConn) Read(p []byte) (int, error) {
	n, err := c.scriptConn.Read(p)
	if c.taken >= c.at {
		c.once.Do(func() { close(c.told) })
	}
	return n, err
}

// A request does not wait for a reader of its body that is held up beside its handler.
func TestAReaderThatIsHeldEndsWithTheHandler(t *testing.T) {
	for name, handler := range map[string]func(read <-chan struct{}, ended chan<- bool) Handler{
		"apart": func(read <-chan struct{}, ended chan<- bool) Handler {
			return func(x *Ctx) error {
				b, err := (*inner)(x).BodyApart()
				if err != nil {
					return err
				}
				go func() {
					io.Copy(io.Discard, b)
					ended <- true
				}()
				<-read
				b.End()
				return nil
			}
		},
		"net/http": func(read <-chan struct{}, ended chan<- bool) Handler {
			return AdaptHTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				go func() {
					io.Copy(io.Discard, r.Body)
					ended <- true
				}()
				<-read
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			const heap = 1 << 20
			bodies := new(admit.BodyBudget)
			bodies.Tick(0, heap, heap, true) // and never again: nobody lets go what is held
			defer bodies.LiftUntilTick()
			ended, served := make(chan bool, 1), make(chan bool, 1)
			nc := &tellingConn{scriptConn: newUpload(), at: 64 << 10, told: make(chan struct{})} // what is counted at once
			go func() {
				serveScript(&Server{bodies: bodies, MaxBody: uploadSize, Handler: handler(nc.told, ended)}, nc)
				served <- true
			}()
			select {
			case <-served:
			case <-time.After(time.Minute):
				t.Error("the request waits for the reader of its body")
				bodies.LiftUntilTick()
				<-served
			}
			<-ended
			testenv.Equal(t, statusOf(string(nc.output)), "200")
		})
	}
}

// An answer waits for the end of a chunked body, but not for long: then it says that it is the last one.
func TestAnAnswerAwaitsTheBodyForAWhile(t *testing.T) {
	handlers := map[string]Handler{
		"knot":     func(x *Ctx) error { return Status(401) },
		"net/http": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401) })),
		"full duplex": AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).EnableFullDuplex()
			w.WriteHeader(401)
		})),
	}
	for name, handler := range handlers {
		for _, c := range []struct {
			what, body string
			await      time.Duration
			drain      int64
			want       string // with "close" where it has waited, which it does not after EnableFullDuplex
		}{
			{"whole", "3\r\nabc\r\n0\r\n\r\n", time.Hour, 0, "401"},
			{"whole, nothing is drained", "0\r\n\r\n", time.Hour, -1, "401"},
			{"nothing is drained", "3\r\nabc\r\n", time.Hour, -1, "401 close"},
			{"the client stops", "3\r\nab", time.Millisecond, 0, "401 close"},
		} {
			if name == "full duplex" && c.want == "401 close" {
				continue
			}
			p := startServer(t, limited(&Server{Handler: handler, MaxDrain: c.drain}, func(l *settings) { l.await = c.await }), 1).dial()
			p.send(chunkedHead + c.body)
			p.wantStatus(c.want, "%s, %s", name, c.what)
			p.nc.Close()
		}
	}
}

// TestAKeptConnectionIsKept: after a body that the handler leaves the connection stays open unless the response says that it
// does not.
func TestAKeptConnectionIsKept(t *testing.T) {
	handler := func(*Ctx) error { return Status(404) }
	for _, drain := range []int64{-1, 0, 10_000} {
		limit := int(cmp.Or(max(drain, 0), defaultMaxDrain))
		for _, size := range []int{1, 5, 3000, limit - 1, limit, limit + 1, limit + 5000} {
			head := req("PUT /", fmt.Sprint("Content-Length: ", size))
			at := min(size, 2000)
			nc := newScriptConn(head+strings.Repeat("b", at), strings.Repeat("b", size-at), 4000)
			_, v := runScript(&Server{Handler: handler, MaxDrain: drain}, nc)
			if closes := strings.Contains(string(nc.output), "Connection: close\r\n"); closes != (v != turnRest) {
				t.Errorf("MaxDrain %d, %d bytes: the response says close: %v; verdict %v", drain, size, closes, v)
			}
		}
	}
}

var chunkedHead = req("PUT /", "Transfer-Encoding: chunked")

// TestFramingHasALimit: a client can't send without end what no limit on bodies counts.
func TestFramingHasALimit(t *testing.T) {
	long := "1;a=" + strings.Repeat("x", 1000) + "\r\na\r\n"
	padded := strings.Repeat("0", 14) + "1\r\na\r\n"
	for _, test := range []struct {
		name, chunk string
		reads       bool
		most        int // bytes that may be taken
		status      string
	}{
		{"nobody reads, long extensions", long, false, 1 << 20, "200"},
		{"nobody reads, padded sizes", padded, false, 1 << 20, "200"},
		{"nobody reads, one byte each", "1\r\na\r\n", false, 1 << 20, "200"},
		{"read, long extensions", long, true, 1 << 20, "413"},
		{"read, until the body is too large", "1;a=b\r\na\r\n", true, 12 << 20, "413"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Server{MaxBody: 1 << 20, Handler: func(x *Ctx) error {
				if test.reads {
					if _, err := io.Copy(io.Discard, x.Body()); err != nil {
						return err
					}
				}
				return x.SendString(200, "", "")
			}}
			defer s.Close()
			nc := &endlessConn{scriptConn: *script(chunkedHead), chunk: test.chunk}
			s.ServeConn(nc)
			testenv.AtMost(t, nc.sent, test.most, "bytes were taken")
			testenv.Equal(t, statusOf(string(nc.output)), test.status, "status")
		})
	}
}

// A line of framing is bounded by itself, and a trailer as a whole, also if each line comes in a read of its own.
func TestLinesOfFramingHaveALimit(t *testing.T) {
	line := "A: " + strings.Repeat("b", 1000) + "\r\n"
	for _, test := range []struct{ name, first, rest, status string }{
		{"a trailer within the limit", "0\r\n", line + "\r\n", "200"},
		{"a trailer without end", "0\r\n", strings.Repeat(line, 100) + "\r\n", "400"},
		{"a long extension", "1;" + strings.Repeat("a", 1100) + "\r\n", "a\r\n0\r\n\r\n", "400"},
	} {
		nc := newScriptConn(chunkedHead+test.first, test.rest, len(line))
		serveScript(&Server{Handler: func(x *Ctx) error {
			if _, err := io.Copy(io.Discard, x.Body()); err != nil {
				return err
			}
			return x.SendString(200, "", "")
		}}, nc)
		testenv.Equal(t, statusOf(string(nc.output)), test.status, test.name)
	}
}

// endlessConn goes on with chunks when its script has ended.
type endlessConn struct {
	scriptConn
	chunk string
	sent  int
}

func (c *endlessConn) Read(p []byte) (int, error) {
	if c.taken < len(c.input) {
		return c.scriptConn.Read(p)
	}
	if c.sent > 64<<20 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		k := copy(p[n:], c.chunk[c.sent%len(c.chunk):])
		n += k
		c.sent += k
	}
	return n, nil
}

// TestSmallChunksAreFine: a byte in each chunk is how some clients send what they type.
func TestSmallChunksAreFine(t *testing.T) {
	const n = 100_000
	body := strings.Repeat("1\r\na\r\n", n/2) + strings.Repeat("1;ab=cd\r\na\r\n", n/2) + "0\r\n\r\n"
	nc := newScriptConn(chunkedHead, body, 4000)
	serveScript(&Server{Handler: func(x *Ctx) error {
		got, err := io.Copy(io.Discard, x.Body())
		if err != nil {
			return err
		}
		return x.SendString(200, "", fmt.Sprint(got))
	}}, nc)
	testenv.Equal(t, bodyOf(string(nc.output)), fmt.Sprint(n))
}

// TestBadLineEndsInPieces: a line that ends wrongly is refused when it comes, not when
// the time for the head is over, however the pieces are cut.
func TestBadLineEndsInPieces(t *testing.T) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\n", "GET / HTTP/1.1\r\nHost: h\n", "GET / HTTP/1.1\n",
		"\n", "\r\n\n", "GET / HTTP/1.1\r\n\n",
	} {
		for cut := range len(text) {
			for _, step := range []int{1, 100} {
				s := &Server{Handler: echoHandler}
				nc := newScriptConn(text[:cut], text[cut:], step)
				s.ServeConn(nc)
				testenv.Equal(t, statusOf(string(nc.output)), "400", "%q, cut at %d, then steps of %d: status", text, cut, step)
				s.Close()
			}
		}
	}
}
