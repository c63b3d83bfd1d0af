package knot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/task"
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
		resp := testenv.Need(http.ReadResponse(p.r, nil))(t)
		if resp.StatusCode != 431 || !resp.Close {
			t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
		}
		io.Copy(io.Discard, p.r)
		runtime.ReadMemStats(&after)
		// What is dropped comes in thousands of pieces, each of which may start a task.
		testenv.AtMost(t, after.TotalAlloc-before.TotalAlloc, 8<<20, "bytes allocated")
	})
}

func TestZeroLengthLines(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		if got := sv.exchange("\r\n\r\n\r\nGET / HTTP/1.0\r\n\r\n"); statusOf(got) != "200" {
			t.Errorf("after empty lines: %q", got)
		}
		testenv.Equal(t, sv.exchange("\r\n\r\n"), "", "only empty lines")
		if got := sv.exchange("\n\n"); statusOf(got) != "400" {
			t.Errorf("bare LF: %q", got)
		}
		testenv.Equal(t, sv.exchange(""), "", "nothing")
		testenv.Equal(t, sv.exchange("GET / HT"), "", "half a head and the end")
	})
}

func TestMaxConns(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		srv := &Server{Handler: echoHandler, MaxConns: 2}
		srv.ready()
		srv.limits.rest = time.Hour
		sv := start(srv)
		get := func(p *peer) int {
			p.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			resp, _ := p.response("GET")
			return resp.StatusCode
		}
		a, b := sv.dial(), sv.dial()
		if get(a) != 200 || get(b) != 200 {
			t.Fatal("the first two are not served")
		}
		c := sv.dial()
		resp, _ := c.response("GET")
		if stats := sv.Stats(); resp.StatusCode != 503 || !resp.Close || stats.TurnedAway != 1 || stats.Evicted != 0 {
			t.Errorf("the third: status %d, close %v; %+v", resp.StatusCode, resp.Close, stats)
		}
		c.wantClosed()
		c.nc.Close()
		a.nc.Close()
		// The place of a comes free as soon as the server has seen its end.
		for {
			d := sv.dial()
			d.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			resp, _ := d.response("GET")
			d.nc.Close()
			if resp.StatusCode == 200 {
				break
			}
		}
	})
}

// A connection between two requests makes room for a new one; one in a request does not.
func TestRestingConnectionsMakeRoom(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		entered, leave := make(chan bool), make(chan bool)
		srv := &Server{MaxConns: 2, Handler: slowly(entered, leave)}
		srv.ready()
		srv.limits.rest = 0
		sv := start(srv)
		busy := sv.dial()
		busy.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\n")
		<-entered
		served := func() *peer { // those that came before are not at rest, or gone, at once
			for {
				p := sv.dial()
				p.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				if resp, _ := p.response("GET"); resp.StatusCode == 200 {
					return p
				}
				p.nc.Close()
			}
		}
		last := served()
		for range 3 {
			next := served()
			last.wantClosed()
			last = next
		}
		close(leave)
		if resp, body := busy.response("GET"); resp.StatusCode != 200 || body != "GET /slow? h" {
			t.Errorf("the request under way: status %d, %q", resp.StatusCode, body)
		}
		testenv.AtLeast(t, sv.Stats().Evicted, 3, "connections were closed to make room")
	})
}

// The one that has rested longest is the first to go, and each has its turn.
func TestWhichConnectionMakesRoom(t *testing.T) {
	s := &Server{}
	s.ready()
	s.limits.rest = 0
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
		}
		s.enlist(c)
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
	if seen[3] || seen[5] || seen[6] || len(seen) != conns-3 {
		t.Errorf("of %d connections these may go: %v", conns, seen)
	}
	c := s.hand
	s.forget(c)
	if s.hand == c {
		t.Error("a connection that is gone is looked at")
	}
}

func TestShutdownWaitsForRequests(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		entered, leave := make(chan bool), make(chan bool)
		sv := start(&Server{Handler: slowly(entered, leave)})
		idle, busy, fresh := sv.dial(), sv.dial(), sv.dial()
		idle.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		idle.response("GET")
		busy.send("GET /slow HTTP/1.1\r\nHost: h\r\n\r\nGET /second HTTP/1.1\r\nHost: h\r\n\r\n")
		<-entered
		for sv.Conns() < 3 {
			// A connection that has not been accepted yet would be reset.
			runtime.Gosched()
		}
		down := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			down <- sv.Shutdown(ctx)
		}()
		idle.wantClosed()
		fresh.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		if resp, body := fresh.response("GET"); body != "GET /? h" || !resp.Close {
			t.Errorf("the first request of a connection: body %q, close %v", body, resp.Close)
		}
		fresh.wantClosed()
		fresh.nc.Close()
		leave <- true
		resp, body := busy.response("GET")
		if resp.StatusCode != 200 || body != "GET /slow? h" || !resp.Close {
			t.Errorf("status %d, body %q, close %v", resp.StatusCode, body, resp.Close)
		}
		busy.wantClosed()
		busy.nc.Close()
		testenv.Check(t, <-down, "Shutdown")
	})
}

func TestShutdownGivesUp(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		entered := make(chan bool, 1)
		sv := start(&Server{Handler: func(x *Ctx) error {
			ctx := x.Context()
			task.Offload(func() {
				entered <- true
				<-ctx.Done()
			})
			return ctx.Err()
		}})
		p := sv.dial()
		p.send("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		<-entered
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		testenv.ErrorIs(t, sv.Shutdown(ctx), context.DeadlineExceeded, "Shutdown")
		io.Copy(io.Discard, p.r)
	})
}

// TestClientsThatVanish resets connections at every point of a request and of its response: no failure of the server.
func TestClientsThatVanish(t *testing.T) {
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: echoHandler})
		cut := func(request string, read int) {
			p := sv.dial()
			p.send(request)
			testenv.Need(io.CopyN(io.Discard, p.r, int64(read)))(t)
			p.nc.SetLinger(0)
			p.nc.Close()
		}
		const small = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n"
		const request = "PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /large HTTP/1.1\r\nHost: h\r\n\r\n"
		for n := range len(request) + 1 {
			cut(request[:n], 0)
		}
		whole := len(sv.exchange(small))
		for n := range whole + 1 {
			cut(small+small[:n%len(small)], n) // the next one is half read when the connection ends
		}
		for n := 1; n <= 1<<20; n *= 2 {
			cut("GET /large HTTP/1.1\r\nHost: h\r\n\r\n", n)
			cut(strings.Repeat(small, 50), min(n, 50*whole))
		}
		if got := sv.exchange("GET /a HTTP/1.0\r\n\r\n"); statusOf(got) != "200" {
			t.Errorf("afterwards: %q", got)
		}
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
			p.send("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc")
			<-began
			p.nc.SetLinger(0)
			p.nc.Close()
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
			if got := sv.exchange("GET /goexit HTTP/1.1\r\nHost: h\r\n\r\n"); statusOf(got) != "500" {
				t.Fatalf("%q", got)
			}
		}
		testenv.Until(t, "no more buffers are in use than before", func() bool { return tasks.Buffers.InUse() <= before })
	})
}

func TestIdleConnectionIsSmall(t *testing.T) {
	const most = 128 + 16                                       // size classes of the allocator
	size := unsafe.Sizeof(conn{}) + 2*unsafe.Sizeof(uintptr(0)) // and the closure of again
	testenv.AtMost(t, size, most, "bytes per idle connection")
	t.Logf("%d bytes per idle connection besides net.Conn", size)
}

func TestFixedResponseAllocatesNothing(t *testing.T) {
	payload := []byte("Hello, World!")
	s := &Server{Handler: func(x *Ctx) error { return x.Send(200, "text/plain", payload) }}
	s.ready()
	defer s.Close()
	nc := newScriptConn([]byte("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), nil, 1)
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
		s := &Server{MaxBody: 1, Handler: echoHandler}
		s.ready()
		s.limits.linger = time.Minute
		sv := start(s)
		const length = 16 << 20 // more than sockets hold
		p := sv.dial()
		p.send(fmt.Sprintf("PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", length))
		testenv.Check(t, testenv.Err(io.CopyN(p.nc, endless{}, length)), "sending the body")
		if resp, _ := p.response("PUT"); resp.StatusCode != 413 {
			t.Errorf("status %d", resp.StatusCode)
		}
		p.wantClosed()
	})
}
