package knot

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h2"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
)

// TestTenMegabyteHead: 431, the connection closed, and no memory to speak of.
func TestTenMegabyteHead(t *testing.T) {
	line := []byte("A: " + strings.Repeat("b", 1021) + "\r\n")
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		p := sv.dial()
		p.send("GET / HTTP/1.1\r\nHost: h\r\n")
		go func() {
			for range 10 << 10 {
				if _, err := p.nc.Write(line); err != nil {
					return // refused, as it should be
				}
			}
		}()
		testenv.Equal(t, statusAndClose(p.head()), "431 close")
		io.Copy(io.Discard, p.r)
		runtime.ReadMemStats(&after)
		// What is dropped comes in thousands of pieces, each of which may start a task.
		testenv.AtMost(t, after.TotalAlloc-before.TotalAlloc, 8<<20, "bytes allocated")
	})
}

func TestZeroLengthLines(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		for request, status := range map[string]string{
			"\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n": "200",
			"\r\n\r\n":                           "",
			"\n\n":                               "400",
			"":                                   "",
			"GET / HT":                           "",
		} {
			testenv.Equal(t, statusOf(sv.exchange(request)), status, "%q", request)
		}
	})
}

func TestMaxConns(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(limited(&Server{Handler: echoHandler, MaxConns: 2}, func(l *settings) { l.rest = time.Hour }))
		a, b := sv.dial(), sv.dial()
		for _, p := range []*peer{a, b} {
			p.send(req("GET /"))
			p.want("200", "GET /? h")
		}
		c := sv.dial()
		c.wantStatus("503 close", "the third")
		stats := sv.Stats()
		testenv.Equal(t, stats.TurnedAway, 1, "turned away")
		testenv.Equal(t, stats.Evicted, 0, "evicted")
		c.wantClosed()
		c.nc.Close()
		a.nc.Close()
		servedInTheEnd(sv).nc.Close() // the place of a comes free as soon as the server has seen its end
	})
}

// servedInTheEnd connects until a client is served, as places may come free a moment later.
func servedInTheEnd(sv *served) *peer {
	for {
		p := sv.dial()
		if resp, _ := p.ask(req("GET /")); resp.StatusCode == 200 {
			return p
		}
		p.nc.Close()
	}
}

// A connection between two requests makes room for a new one; one in a request does not.
func TestRestingConnectionsMakeRoom(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		entered, leave := make(chan bool), make(chan bool)
		sv := start(limited(&Server{MaxConns: 2, Handler: slowly(entered, leave)}, func(l *settings) { l.rest = 0 }))
		busy := sv.dial()
		busy.send(req("GET /slow"))
		<-entered
		last := servedInTheEnd(sv)
		for range 3 {
			next := servedInTheEnd(sv)
			last.wantClosed()
			last = next
		}
		close(leave)
		busy.want("200", "GET /slow? h", "the request under way")
		testenv.AtLeast(t, sv.Stats().Evicted, 3, "connections were closed to make room")
	})
}

// The one that has rested longest is the first to go, and each has its turn.
func TestWhichConnectionMakesRoom(t *testing.T) {
	s := limited(&Server{}, func(l *settings) { l.rest = 0 })
	now := s.clock.Now()
	const conns = 20
	all := make(map[*conn]int)
	for n := range conns {
		c := &conn{srv: s}
		c.state.Store(connIdle)
		c.since.Store(now - int64(n*7%conns))
		switch n {
		case 3:
			c.state.Store(connActive)
		case 5:
			c.since.Store(0) // not started
		case 6:
			c.since.Store(now + int64(time.Hour)) // has only just had an answer
		case 8:
			c.unwanted = true
		}
		s.conns.enter(c, 0, nil)
		all[c] = n
	}
	seen := make(map[int]bool)
	for range 3 {
		some := s.resting()
		for i, c := range some {
			seen[all[c]] = true
			if i > 0 && some[i-1].since.Load() > c.since.Load() {
				t.Errorf("%d has rested longer than %d before it", all[c], all[some[i-1]])
			}
		}
	}
	if seen[3] || seen[5] || seen[6] || seen[8] || len(seen) != conns-4 {
		t.Errorf("of %d connections these may go: %v", conns, seen)
	}
	c := s.conns.cursor
	s.conns.leave(c)
	if s.conns.cursor == c {
		t.Error("a connection that is gone is looked at")
	}
}

// TestSlowClientsMakeNoRoom: a connection of HTTP/2 whose last response is still being written makes no room until its
// client has taken nothing for long.
func TestSlowClientsMakeNoRoom(t *testing.T) {
	s := limited(&Server{}, func(l *settings) { l.rest = 0 })
	near, far := net.Pipe()
	defer near.Close()
	c := &conn{srv: s, nc: far}
	c.h2 = &http2Conn{c: c, Conn: h2.NewConn(h2.Setting{NC: far, Limits: &s.settings().h2, Clock: &s.clock})} // it has SETTINGS to write
	c.state.Store(connIdle)
	c.since.Store(s.clock.Now())
	s.conns.enter(c, 0, nil)
	testenv.Equal(t, s.makeRoom(), false, "makes room")
	s.settings().stall = 0
	testenv.Equal(t, s.makeRoom(), true, "makes room after a while")
}

// TestClientsThatVanish resets connections at every point of a request and of its response: no failure of the server.
func TestClientsThatVanish(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		cut := func(request string, read int) {
			p := sv.dial()
			p.send(request)
			testenv.Need(io.CopyN(io.Discard, p.r, int64(read)))(t)
			p.reset()
		}
		small := req("GET /a")
		request := req("PUT /echo", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n" + req("GET /large")
		for n := range len(request) + 1 {
			cut(request[:n], 0)
		}
		whole := len(sv.exchange(small))
		for n := range whole + 1 {
			cut(small+small[:n%len(small)], n) // the next one is half read when the connection ends
		}
		for n := 1; n <= 1<<20; n *= 2 {
			cut(req("GET /large"), n)
			cut(strings.Repeat(small, 50), min(n, 50*whole))
		}
		testenv.Equal(t, statusOf(sv.exchange("GET /a HTTP/1.0\r\n\r\n")), "200", "afterwards")
		sv.stop()
		testenv.Equal(t, sv.log.String(), "", "the log says")
	})
}

// TestBodyThatIsReset: the handler learns why, and hands on what is answered as a fault of the client; nothing is logged.
func TestBodyThatIsReset(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		began, got := make(chan bool, 1), make(chan error, 1)
		read := func(body io.Reader) error {
			if _, err := io.ReadFull(body, make([]byte, 1)); err != nil {
				return err
			}
			began <- true
			_, err := io.ReadAll(body)
			got <- err
			return err
		}
		for name, handler := range map[string]Handler{
			"native":   func(x *Ctx) error { return read(x.Body()) },
			"net/http": AdaptHTTP(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { read(r.Body) })),
		} {
			sv := start(&Server{Handler: handler})
			p := sv.dial()
			p.send(req("PUT /", "Content-Length: 10") + "abc")
			<-began
			p.reset()
			err := <-got
			_, plain := err.(net.Error)
			if !errors.Is(err, syscall.ECONNRESET) || plain != (name == "net/http") || plain == errors.Is(err, Status(400)) {
				t.Errorf("%s: Read: %v", name, err)
			}
			sv.stop()
			testenv.Equal(t, sv.log.String(), "", "%s: the log says", name)
			if counts := sv.Stats().Errors; counts[400] != 1 || counts[500] != 0 {
				t.Errorf("%s: errors by status: %v, want one 400", name, counts)
			}
		}
	})
}

// TestGoexitGivesBuffersBack: a handler that leaves by runtime.Goexit leaves no buffers in use behind, as they are counted.
func TestGoexitGivesBuffersBack(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		before := tasks.Buffers.InUse()
		for range 3 {
			testenv.Equal(t, statusOf(sv.exchange(req("GET /goexit"))), "500")
		}
		testenv.Until(t, "no more buffers are in use than before", func() bool { return tasks.Buffers.InUse() <= before })
	})
}

func TestIdleConnectionIsSmall(t *testing.T) {
	const most = 128 + 16                                       // size classes of the allocator
	size := unsafe.Sizeof(conn{}) + 2*unsafe.Sizeof(uintptr(0)) // and the closure of whenReadable
	testenv.AtMost(t, size, most, "bytes per idle connection")
	t.Logf("%d bytes per idle connection besides net.Conn", size)
}

func TestFixedResponseAllocatesNothing(t *testing.T) {
	payload := []byte("Hello, World!")
	s := &Server{Handler: func(x *Ctx) error { return x.Send(200, "text/plain", payload) }}
	s.ready()
	defer s.Close()
	nc := script(req("GET /"))
	nc.discard = true
	c := &conn{nc: nc, srv: s}
	x := newCtx()
	n := testing.AllocsPerRun(200, func() {
		nc.taken = 0
		x.c, x.srv = c, s
		c.state.Store(connIdle)
		x.run()
		x.recycle()
	})
	testenv.Equal(t, n, 0, "allocations per request")
}

// A client that is still sending what was refused gets to read the answer: its connection is not reset.
func TestLargeBodyRefusedWhileItComes(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		const length = 16 << 20 // more than sockets hold
		p := start(limited(&Server{MaxBody: 1, Handler: echoHandler}, func(l *settings) { l.linger = time.Minute })).dial()
		p.send(req("PUT /", fmt.Sprint("Content-Length: ", length)))
		testenv.Check(t, testenv.Err(io.CopyN(p.nc, endless{}, length)), "sending the body")
		p.wantStatus("413 close")
		p.wantClosed()
	})
}

// TestLimitsNearTheEndOfInt: sums with a limit do not overflow either.
func TestLimitsNearTheEndOfInt(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{
			Handler: echoHandler, MaxConns: math.MaxInt, MaxBody: math.MaxInt64, MaxDrain: math.MaxInt64,
			MaxHead: math.MaxInt, MaxRequestLine: math.MaxInt, MaxFields: math.MaxInt,
		})
		p := sv.dial()
		for range 2 {
			p.send(put("/a", "abcde"))
			p.want("200", "PUT /a? h")
		}
	})
}

// TestServeLeavesDescriptorsToHandlers: where descriptors are few, no more requests are served at a time than can
// have a connection of their own each.
func TestServeLeavesDescriptorsToHandlers(t *testing.T) {
	const room = 100
	defer limitDescriptors(t, countFDs()+room)()
	var h http.Handler = http.NotFoundHandler()
	s := likeHTTP(&h)
	s.ready()
	defer s.Close()
	testenv.AtLeast(t, s.settings().conns, 1, "connections at a time")
	testenv.AtMost(t, s.settings().conns, room/2, "connections at a time, with %d descriptors", room)
}
