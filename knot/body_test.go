package knot

import (
	"bufio"
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
		bodies.Open()
	})
	return bodies
}

const uploadSize = 1 << 20

func newUpload() *scriptConn {
	head := fmt.Sprintf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", uploadSize)
	return newScriptConn([]byte(head), make([]byte, uploadSize), 32<<10)
}

// The body of a request whose handler has returned is none any more before which others wait, also if it was read
// apart, and the server has ended that.
func TestABodyReadApartGivesBackItsTurn(t *testing.T) {
	bodies := shortOfMemory(t)
	for i, status := range []string{"200", "500", "200"} {
		nc := newUpload()
		serveScript(&Server{bodies: bodies, MaxBody: uploadSize, ErrorLog: quietLog(), Handler: func(x *Ctx) error {
			b, err := x.BodyApart()
			if err == nil {
				_, err = io.CopyN(io.Discard, b, uploadSize/2)
			}
			if status == "500" {
				panic("of a test")
			}
			return err
		}}, nc)
		if got := string(nc.output); !strings.HasPrefix(got, "HTTP/1.1 "+status+" ") {
			t.Errorf("request %d: %.40q, want status %s", i, got, status)
		}
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
				b, err := x.BodyApart()
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
			defer bodies.Open()
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
				bodies.Open()
				<-served
			}
			<-ended
			if got := string(nc.output); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
				t.Errorf("%.40q, want status 200", got)
			}
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
	const head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
	for name, handler := range handlers {
		for _, c := range []struct {
			what, body  string
			await       time.Duration
			drain       int64
			last, waits bool // the answer says so; it has waited, which it does not after EnableFullDuplex
		}{
			{"whole", "3\r\nabc\r\n0\r\n\r\n", time.Hour, 0, false, false},
			{"whole, nothing is drained", "0\r\n\r\n", time.Hour, -1, false, false},
			{"nothing is drained", "3\r\nabc\r\n", time.Hour, -1, true, true},
			{"the client stops", "3\r\nab", time.Millisecond, 0, true, true},
		} {
			if name == "full duplex" && c.waits {
				continue
			}
			s := &Server{Handler: handler, MaxDrain: c.drain}
			s.ready()
			s.limits.await = c.await
			sv := startServer(t, s, 1)
			nc := testenv.Dial(t, sv.addr)
			io.WriteString(nc, head+c.body)
			resp := testenv.Need(http.ReadResponse(bufio.NewReader(nc), nil))(t)
			if resp.StatusCode != 401 || resp.Close != c.last {
				t.Errorf("%s, %s: %d, close %v; want 401, %v", name, c.what, resp.StatusCode, resp.Close, c.last)
			}
			nc.Close()
		}
	}
}
