package proxy

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/netpoll"
)

// fiveRequests makes five at a time; what it returns waits for their answers.
func (f *front) fiveRequests() (answered func()) {
	answers := make(chan int, 5)
	for range 5 {
		go func() {
			status, _ := f.get("/")
			answers <- status
		}()
	}
	return func() {
		f.t.Helper()
		for range 5 {
			testenv.Equal(f.t, <-answers, 200, "status")
		}
	}
}

// TestQueue: as many requests as may be at a backend are, though they share a connection in HTTP/2, as many as may wait do, and
// others are told at once. Checks do not wait.
func TestQueue(t *testing.T) {
	t.Run("HTTP/1", func(t *testing.T) { queue(t, false) })
	t.Run("HTTP/2", func(t *testing.T) { queue(t, true) })
}

func queue(t *testing.T, http2 bool) {
	release := make(chan bool)
	var inside, most, checks atomic.Int32
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/check" {
			if (r.ProtoMajor == 2) == http2 {
				checks.Add(1)
			}
			return
		}
		most.Store(max(most.Load(), inside.Add(1)))
		defer inside.Add(-1)
		<-release
		io.WriteString(w, "ok")
	})
	f := serve(t, Config{
		Backends: []string{backend}, HTTP2: http2, MaxConns: 2, Queue: 3, QueueTimeout: time.Hour,
		Check: &Check{Path: "/check", Every: time.Millisecond, Timeout: time.Hour},
	}, 2)
	f.p.Start()
	answered := f.fiveRequests()
	testenv.Until(t, "five requests", func() bool { return f.stats().Queued == 3 && inside.Load() == 2 })
	if status, body := f.get("/"); status != 503 || !strings.Contains(f.log.String(), "as many requests wait as may") {
		t.Errorf("the sixth: %d %s", status, body)
	}
	before := checks.Load()
	testenv.Until(t, "checks", func() bool { return checks.Load() > before+1 })
	close(release)
	answered()
	if most.Load() > 2 || f.stats().Queued != 3 {
		t.Errorf("%d at a time; %+v", most.Load(), f.stats())
	}
}

// TestNoDescriptorLeft: a request for which no connection can be made, as the process has no descriptor left, waits for
// one of those that there are.
func TestNoDescriptorLeft(t *testing.T) {
	release := make(chan bool)
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		<-release
		io.WriteString(w, "ok")
	})
	var dials atomic.Int32
	f := serve(t, Config{Backends: []string{backend}, QueueTimeout: time.Hour, Dial: func(network, address string, limit time.Duration) (net.Conn, error) {
		if dials.Add(1) > 2 {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
		return netpoll.DialTimeout(network, address, limit)
	}}, 2)
	answered := f.fiveRequests()
	testenv.Until(t, "five requests", func() bool { return f.stats().Outstanding == 5 })
	testenv.Until(t, "a connection that can't be made", func() bool { return dials.Load() > 2 })
	close(release)
	answered()
}

// TestClientGone: a client that leaves takes its request with it, while it waits for the head, and in the body.
func TestClientGone(t *testing.T) {
	for _, begun := range []string{"", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"} {
		asked, left := make(chan bool, 1), make(chan bool, 1)
		backend := script(t, func(_ int, c net.Conn, head string) {
			asked <- true
			io.WriteString(c, begun)
			io.Copy(io.Discard, c)
			left <- true
		})
		f := serve(t, Config{Backends: []string{backend}, ResponseTimeout: time.Hour, IdleTimeout: time.Hour}, 1)
		c, in := f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
		<-asked
		if begun != "" {
			in.ReadString('\n')
		}
		c.Close()
		<-left // the backend is told
		testenv.Until(t, "the end", func() bool { return f.stats().Outstanding == 0 && f.stats().Failures["client gone"] == 1 })
		testenv.Equal(t, f.log.String(), "", "the log")
	}
}

// TestSlowBackend: hundreds of requests that wait for a backend which never answers hold up neither files nor another backend.
func TestSlowBackend(t *testing.T) {
	slow := silent(t, "")
	good := behind(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "good") })
	other := testenv.Need(New(Config{Backends: []string{good}}))(t)
	defer other.Close()
	f := serve(t, Config{Backends: []string{slow}, MaxConns: 100, Queue: 300, ResponseTimeout: time.Hour}, 1, func(s *knot.Server) {
		inner := s.Handler
		s.Handler = func(x *knot.Ctx) error {
			if strings.HasPrefix(x.Path(), "/good/") {
				return other.Handle(x)
			}
			return inner(x)
		}
	})
	for i := range 400 {
		f.dial(fmt.Sprintf("GET /slow/%d HTTP/1.1\r\nHost: h\r\n\r\n", i))
	}
	testenv.Until(t, "all of them", func() bool { return f.stats().Outstanding == 400 })
	for range 50 {
		_, body := f.get("/static/a")
		testenv.MustEqual(t, body, "static", "a file")
		_, body = f.get("/good/a")
		testenv.MustEqual(t, body, "good", "the other backend")
	}
	status, _ := f.get("/slow/more")
	testenv.Equal(t, status, 503, "one more than may wait")
}

// TestEarlyAnswer: a backend may answer before it has read the request, and the client gets that, all of it, whatever it speaks.
func TestEarlyAnswer(t *testing.T) {
	f := serve(t, to(says(t, "HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\nConnection: close\r\n\r\nlarge")), 1)
	c, in := f.dial("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5000000\r\n\r\nbegins")
	for _, resp := range []*http.Response{
		testenv.Need(http.ReadResponse(in, nil))(t),
		testenv.Need(testenv.PlainHTTP2(t).RoundTrip(f.request("POST", "/", strings.Repeat("x", 5_000_000))))(t),
	} {
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 413 || string(body) != "large" || err != nil {
			t.Errorf("HTTP/%d: %d %q %v", resp.ProtoMajor, resp.StatusCode, body, err)
		}
	}
	c.Close()
	testenv.Until(t, "the end", func() bool { return f.stats().Outstanding == 0 })
}

// TestUploads: a client that waits for 100 Continue gets it, one whose body is wrong or too large its own error.
func TestUploads(t *testing.T) {
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n)
	})
	for _, http2 := range []bool{false, true} {
		f := serve(t, Config{Backends: []string{backend}, HTTP2: http2}, 1, func(s *knot.Server) { s.MaxBody = 100_000 })
		c, in := f.dial("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n")
		line, _ := in.ReadString('\n')
		testenv.Equal(t, line, "HTTP/1.1 100 Continue\r\n", "HTTP/2: %v", http2)
		io.WriteString(c, "12345")
		all, _ := io.ReadAll(in)
		testenv.Contains(t, string(all), "\r\n\r\n5", "the answer")
		const chunked = "POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
		for body, want := range map[string]string{"5\r\n12345\r\nzz\r\n": "400", "fffff\r\n": "413", "5\r\n12345\r\n0\r\n\r\n": "200"} {
			status, _ := f.ask(chunked + body)
			testenv.Equal(t, status, want, body)
		}
		testenv.Until(t, "the end", func() bool { return f.stats().Outstanding == 0 })
		testenv.Equal(t, f.log.String(), "", "the log")
	}
}

// TestEvents: what a backend sends is not held back until there is more.
func TestEvents(t *testing.T) {
	next := make(chan bool)
	backend := behind(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			fmt.Fprintf(w, "event %d\n", i)
			w.(http.Flusher).Flush()
			<-next
		}
	})
	for _, http2 := range []bool{false, true} {
		f := serve(t, Config{Backends: []string{backend}, HTTP2: http2}, 1)
		resp := testenv.Need(http.Get("http://" + f.addr))(t)
		in := bufio.NewReader(resp.Body)
		for i := range 3 {
			line, _ := in.ReadString('\n')
			testenv.MustEqual(t, line, fmt.Sprintf("event %d\n", i), "HTTP/2: %v", http2)
			next <- true
		}
		resp.Body.Close()
	}
}

// TestReaderHoldsUpWriter: of a body that a client does not read no more is taken than buffers hold.
func TestReaderHoldsUpWriter(t *testing.T) {
	const size = 256 << 20
	var sent atomic.Int64
	backend := script(t, func(_ int, c net.Conn, _ string) {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
		for piece := make([]byte, 64<<10); sent.Load() < size; {
			n, err := c.Write(piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	f := serve(t, to(backend), 1)
	c, in := f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	in.ReadString('\n')
	before := int64(-1)
	testenv.Until(t, "a standstill", func() bool {
		<-time.After(50 * time.Millisecond)
		now := sent.Load()
		still := now == before
		before = now
		return still
	})
	testenv.AtMost(t, before, size/4, "bytes are on their way to a client that does not read")
	c.Close()
}

// TestHealth: a backend that fails gets no requests for a while, then again; one that fails its checks none until it passes.
func TestHealth(t *testing.T) {
	var bad atomic.Bool
	var asked [2]atomic.Int32
	handler := func(i int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/well" {
				if i == 0 && bad.Load() {
					w.WriteHeader(500)
				}
				return
			}
			asked[i].Add(1)
			if i == 0 && bad.Load() {
				panic(http.ErrAbortHandler)
			}
		}
	}
	var now atomic.Int64
	now.Store(1)
	c := Config{
		Backends: []string{behind(t, handler(0)), behind(t, handler(1))}, FailTime: time.Minute, MaxFails: 2,
		now: func() time.Time { return time.Unix(now.Load(), 0) },
	}
	f := serve(t, c, 1)
	ask := func(n int) (first int32) {
		before := asked[0].Load()
		for range n {
			if status, _ := f.get("/"); status != 200 {
				t.Fatalf("status %d", status)
			}
		}
		return asked[0].Load() - before
	}
	testenv.Equal(t, ask(10), 5, "of 10 requests N went to the first")
	bad.Store(true)
	ask(20)
	if n := ask(10); n != 0 || f.stats().Up || !strings.Contains(f.log.String(), "a backend fails") {
		t.Errorf("%d requests to one that fails: %s", n, f.log.String())
	}
	now.Add(61)
	testenv.Equal(t, ask(10), 1, "after the time, N requests to one that still fails")
	bad.Store(false)
	now.Add(61)
	if n := ask(10); n != 5 || !strings.Contains(f.log.String(), "answers again") {
		t.Errorf("%d requests to one that is well again", n)
	}

	c.Check = &Check{Path: "/well", Every: time.Millisecond, Timeout: time.Hour, Rise: 2}
	c.MaxFails = -1
	f = serve(t, c, 1)
	f.p.Start()
	bad.Store(true)
	testenv.Until(t, "that it is not well", func() bool { return !f.stats().Up })
	testenv.Equal(t, ask(10), 0, "requests to one that is not well")
	bad.Store(false)
	testenv.Until(t, "that it is well", func() bool { return f.stats().Up })
	testenv.Equal(t, ask(10), 5, "requests to one that is well again")
}

// TestFirstCheck: a backend whose first check fails is out at once, another one after Fall failures.
func TestFirstCheck(t *testing.T) {
	c := to("http://127.0.0.1:1", "http://127.0.0.1:2")
	c.Check = &Check{Fall: 3}
	p := testenv.Need(New(c))(t)
	defer p.Close()
	failed := errors.New("of the test")
	first, other := p.all()[0], p.all()[1]
	first.checked(failed)
	testenv.Equal(t, first.isWell(true), false, "the backend is well whose first check has failed")
	other.checked(nil)
	for left := range 3 {
		testenv.Equal(t, other.isWell(true), true, "the other one is well after %d failures", left)
		other.checked(failed)
	}
	testenv.Equal(t, other.isWell(true), false, "the other one is well after 3 failures")
}

// TestChecks: what counts as well.
func TestChecks(t *testing.T) {
	for answer, want := range map[string]string{ // of the error
		"HTTP/1.1 204 No Content\r\n\r\n": "", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 302 Found\r\n\r\n": "",
		"HTTP/1.1 404 Not Found\r\n\r\n": "404", "": "EOF", "SSH-2.0\r\n\r\n": "status line", "wait": "deadline",
	} {
		backend := script(t, func(_ int, c net.Conn, head string) {
			if answer == "wait" {
				io.Copy(io.Discard, c)
			} else if strings.HasPrefix(head, "GET / HTTP/1.1\r\nHost: x\r\n") {
				io.WriteString(c, answer)
			}
		})
		p := testenv.Need(New(Config{Backends: []string{backend}, Check: &Check{Host: "x", Timeout: time.Minute}}))(t)
		if answer == "wait" {
			p.Check.Timeout = 50 * time.Millisecond
		}
		switch err := p.all()[0].check(p.ctx); want {
		case "":
			testenv.Check(t, err, answer)
		case "deadline":
			testenv.Equal(t, errors.As(err, new(net.Error)), true, "%v is of a network", err)
		default:
			testenv.ErrorSays(t, err, want, answer)
		}
		p.Close()
	}
}

// TestTunnel: after 101 bytes go both ways, those that come with the heads too; ends are passed on; in silence it holds no task.
func TestTunnel(t *testing.T) {
	answer := func(_ int, c net.Conn, head string) {
		if !strings.Contains(head, "\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n") {
			io.WriteString(c, "HTTP/1.1 400 Bad\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\nX-A: b\r\n\r\nhello ")
		io.Copy(c, c)
		io.WriteString(c, " bye")
	}
	cert, _ := testenv.SelfSigned()
	secure := testenv.Serve(t, func(raw net.Conn) {
		c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{cert}})
		defer c.Close()
		scripted(answer)(c)
	})
	t.Run("TCP", func(t *testing.T) { tunnel20(t, script(t, answer)) })
	t.Run("TLS", func(t *testing.T) { tunnel20(t, "https://"+secure) })
}

func tunnel20(t *testing.T, backend string) {
	f := serve(t, Config{Backends: []string{backend}, TLS: &tls.Config{InsecureSkipVerify: true}}, 2)
	const ask = "GET /t HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n"
	loops := func() (n int) {
		rt := engine.Default()
		for i := range rt.Loops() {
			n += rt.Loop(i).Tasks()
		}
		return n
	}
	f.get("/static/") // all that a server runs is there now
	idle := loops()
	var conns []net.Conn
	var readers []*bufio.Reader
	for range 20 {
		c, in := f.dial(ask + "early ")
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != 101 || resp.Header.Get("X-A") != "b" || resp.Header.Get("Upgrade") != "echo/1" {
			t.Fatalf("%v, %v", resp, err)
		}
		conns, readers = append(conns, c), append(readers, in)
		expect(t, in, "hello early ")
	}
	testenv.Until(t, "no task for tunnels at rest", func() bool { return loops() < idle+10 })
	if s := f.stats(); s.Tunnels != 20 || s.Outstanding != 20 {
		t.Errorf("%+v", s)
	}
	large := strings.Repeat("0123456789", 20_000)
	for i, c := range conns {
		var wg sync.WaitGroup
		wg.Go(func() {
			io.WriteString(c, large)
			c.(*net.TCPConn).CloseWrite()
		})
		expect(t, readers[i], large+" bye")
		testenv.Equal(t, testenv.Err(readers[i].ReadByte()), io.EOF, "at the end")
		wg.Wait()
	}
	testenv.Until(t, "the end", func() bool { s := f.stats(); return s.Tunnels == 0 && s.Outstanding == 0 })
	for _, head := range []string{"GET / HTTP/1.0\r\nConnection: upgrade\r\nUpgrade: echo/1\r\n\r\n", "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: echo/1\r\nConnection: close\r\n\r\n"} {
		testenv.Contains(t, f.raw(head), " 400 ", "%q", head)
	}
	short := serve(t, Config{Backends: []string{backend}, TLS: &tls.Config{InsecureSkipVerify: true}, TunnelTimeout: 100 * time.Millisecond}, 1)
	c, in := short.dial(ask)
	io.Copy(io.Discard, in)
	c.Close()
	testenv.Until(t, "the end of a silent tunnel", func() bool { return short.p.Stats()[0].Outstanding == 0 })
}

// TestTunnelBehindBody: a tunnel begins behind the body of its request, though the backend switches before that has come; one that takes
// no more of it gets none.
func TestTunnelBehindBody(t *testing.T) {
	for _, reads := range []bool{true, false} {
		switched, body := make(chan bool, 1), make(chan string, 1)
		f := serve(t, to("http://"+testenv.Serve(t, func(c net.Conn) {
			in := bufio.NewReader(c)
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			begin := make([]byte, 5)
			io.ReadFull(r.Body, begin)
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\n\r\n")
			if !reads {
				c.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
			switched <- true
			rest, err := io.ReadAll(r.Body)
			body <- fmt.Sprintf("%s%s %v", begin, rest, err)
			io.Copy(c, in)
		})), 1)
		c, in := f.dial("POST / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: echo/1\r\nTransfer-Encoding: chunked\r\n\r\na\r\n12345")
		<-switched
		f.get("/static/") // the loop has seen the response
		io.WriteString(c, "67890\r\n0\r\n\r\nup")
		resp := testenv.Need(http.ReadResponse(in, nil))(t)
		if !reads {
			testenv.Equal(t, resp.StatusCode, 502, "status")
			<-body
			continue
		}
		testenv.Equal(t, resp.StatusCode, 101, "status")
		testenv.Equal(t, <-body, "1234567890 <nil>", "the body")
		expect(t, in, "up")
		c.Close()
		testenv.Until(t, "the end", func() bool { return f.stats().Outstanding == 0 })
	}
}

func expect(t *testing.T, in io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(in, got); string(got[:n]) != want {
		t.Fatalf("%d bytes, %v; want %d", n, err, len(want))
	}
}

// TestConfig: what is wrong is said, all at once.
func TestConfig(t *testing.T) {
	for want, c := range map[string]Config{
		"say which backends":        {},
		"https://host:port":         {Backends: []string{"https://a"}},
		"want http://host:port":     {Backends: []string{"a"}},
		"a path is not part of it":  {Backends: []string{"http://a:1/x"}},
		"is there twice":            {Backends: []string{"http://a:1", "http://a:1"}},
		"behind unix:":              {Backends: []string{"unix:"}},
		"can't be stripped":         {Backends: []string{"http://a:1"}, Strip: "api/"},
		"is not a host":             {Backends: []string{"http://a:1"}, Host: "a\nb"},
		"is not a path to check":    {Backends: []string{"http://a:1"}, Check: &Check{Path: "x"}},
		"there are 65 backends":     {Backends: strings.Split(strings.Repeat("http://a:1 ", 65), " ")[:65]},
		"want host:port or unix:/p": {Backends: []string{"http://a:1"}, FastCGI: nowhere},
		"want one of them":          {Backends: []string{"a:1"}, FastCGI: nowhere, HTTP2: true},
	} {
		testenv.ErrorSays(t, testenv.Err(New(c)), want)
	}
}
