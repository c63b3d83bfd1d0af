package proxy

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

func noAnswer(http.ResponseWriter, *http.Request) {}

// occupied returns a proxy whose backend has as many requests as it may have: one.
func occupied(t *testing.T, c Config) (*front, *backend) {
	c.Backends, c.MaxConns = []string{behind(t, noAnswer)}, 1
	f := serve(t, c, 1)
	b := f.p.all()[0]
	if room, _ := b.enter(); !room || !b.slots.TryAcquire(1) {
		t.Fatal("there is no room for one")
	}
	return f, b
}

// TestGoneInTheQueue: a request whose client leaves while it waits for its turn does not wait on, in the way of others.
func TestGoneInTheQueue(t *testing.T) {
	f, b := occupied(t, Config{QueueTimeout: time.Hour})
	c, _ := f.dial(aRequest)
	testenv.Until(t, "a wait", func() bool { return f.stats().Queued == 1 })
	c.Close()
	testenv.Until(t, "its end", func() bool { return f.stats().Outstanding == 1 && f.stats().Failures["client gone"] == 1 })
	b.leave(nil, false)
	testenv.Equal(t, f.log.String(), "", "the log")
}

// TestCloseLeavesTheQueue: a request that waits for its turn gets a connection after Close too, which ends with it.
func TestCloseLeavesTheQueue(t *testing.T) {
	closed := make(chan bool, 1)
	backend := script(t, func(_ int, c net.Conn, _ string) {
		io.WriteString(c, okResponse)
		io.Copy(io.Discard, c)
		closed <- true
	})
	f := serve(t, Config{Backends: []string{backend}, MaxConns: 1, QueueTimeout: time.Hour, KeepTimeout: time.Hour}, 1)
	b := f.p.all()[0]
	b.enter()
	b.slots.TryAcquire(1)
	_, in := f.dial(aRequest)
	testenv.Until(t, "a wait", func() bool { return f.stats().Queued == 1 })
	f.p.Close()
	b.leave(nil, false)
	resp := testenv.Need(http.ReadResponse(in, nil))(t)
	testenv.MustEqual(t, resp.StatusCode, 200, "a request that has waited")
	<-closed
}

// TestGoneBeforeAConnection: a request whose client leaves while there is no connection for it ends: no handshake, no name and no
// descriptor is waited for.
func TestGoneBeforeAConnection(t *testing.T) {
	never := task.NewSemaphore(1)
	never.TryAcquire(1)
	for name, c := range map[string]Config{
		"a handshake": {Backends: []string{"https" + strings.TrimPrefix(silent(t, ""), "http")}},
		"a descriptor": {Backends: []string{"http://a:1"}, QueueTimeout: time.Hour, Dial: func(string, string, time.Duration) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}},
		"a name": {Backends: []string{"http://a:1"}, Dial: func(string, string, time.Duration) (net.Conn, error) {
			return nil, never.Acquire(1)
		}},
	} {
		c.ConnectTimeout = time.Hour
		f := serve(t, c, 1)
		client, _ := f.dial(aRequest)
		testenv.Until(t, name, func() bool { return f.stats().Dials > 0 })
		client.Close()
		testenv.Until(t, "the end of "+name, func() bool { return f.stats().Outstanding == 0 && f.stats().Failures["client gone"] == 1 })
		testenv.Equal(t, f.log.String(), "", "the log")
	}
}

// TestTotalTimeInTheQueue: the time that there is for all of a request ends in the queue too, if that has no limit of its own.
func TestTotalTimeInTheQueue(t *testing.T) {
	f, b := occupied(t, Config{QueueTimeout: -1, TotalTimeout: time.Millisecond})
	status, _ := f.ask(aRequest)
	testenv.Equal(t, status, "503", "a request that waits for its turn")
	b.leave(nil, false)
}

// TestWaitsForADescriptor: without a limit for the queue a request waits until there is a descriptor for its connection.
func TestWaitsForADescriptor(t *testing.T) {
	var dials atomic.Int64
	c := to(behind(t, noAnswer))
	c.QueueTimeout = -1
	c.Dial = func(network, address string, _ time.Duration) (net.Conn, error) {
		if dials.Add(1) == 1 {
			return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
		return net.Dial(network, address)
	}
	status, _ := serve(t, c, 1).ask(aRequest)
	testenv.Equal(t, status, "200", "status")
	testenv.Equal(t, dials.Load(), 2, "tries to connect")
}

// asked is called when a connection that has rested is looked at, and then that is stale.
type asked func()

func (fn asked) Quiet() bool {
	fn()
	return false
}

// TestStaleAndQueued: a request that draws a stale connection keeps its turn while others wait for theirs.
func TestStaleAndQueued(t *testing.T) {
	f, b := occupied(t, Config{QueueTimeout: time.Hour})
	u := testenv.Need(b.get(t.Context(), time.Time{}))(t)
	turn := make(chan bool, 1)
	u.quiet = asked(func() {
		waits := false // of the one loop
		task.Go(func() {
			b.enter()
			waits = true
			b.slots.Acquire(1)
			turn <- true
		})
		for !waits {
			task.Yield()
		}
	})
	b.leave(u, true)
	status, _ := f.ask(aRequest)
	testenv.Equal(t, status, "200", "a request that draws a stale connection")
	<-turn
	b.leave(nil, false)
}

// TestQueueTimeIsOver: a request that has waited for as long as it may does not wait for another backend.
func TestQueueTimeIsOver(t *testing.T) {
	f := serve(t, Config{Backends: []string{behind(t, noAnswer), behind(t, noAnswer)}, MaxConns: 1, QueueTimeout: time.Millisecond}, 1)
	for _, b := range f.p.all() {
		b.enter()
		b.slots.TryAcquire(1)
		defer b.leave(nil, false)
	}
	status, _ := f.ask(aRequest)
	if s := f.p.Stats(); status != "503" || s[0].Queued+s[1].Queued != 1 {
		t.Errorf("%s: %+v", status, s)
	}
	testenv.Contains(t, f.log.String(), "waited too long", "the log")
}

// TestNothingRests: with no connections at rest each is closed behind its response, and the backend is told so.
func TestNothingRests(t *testing.T) {
	var closed atomic.Int32
	backend := script(t, func(_ int, c net.Conn, head string) {
		if !strings.Contains(head, "\r\nConnection: close\r\n") {
			t.Errorf("the head %q", head)
		}
		io.WriteString(c, okResponse)
		if _, err := io.Copy(io.Discard, c); err == nil {
			closed.Add(1)
		}
	})
	for _, c := range []Config{{KeepConns: -1}, {KeepTimeout: -1}} {
		c.Backends = []string{backend}
		closed.Store(0)
		f := serve(t, c, 1)
		_, body := f.ask(aRequest)
		testenv.Equal(t, body, "ok", "the answer")
		testenv.Until(t, "the end of the connection", func() bool { return closed.Load() == 1 })
	}
}

// TestTotalTimeForConnections: the time that there is for all of a request bounds that of a connection too. When it is over no
// other backend is asked.
func TestTotalTimeForConnections(t *testing.T) {
	var dials, limit atomic.Int64
	dial := func(_, _ string, most time.Duration) (net.Conn, error) {
		limit.Store(int64(most))
		dials.Add(1)
		if most <= time.Millisecond {
			<-time.After(10 * time.Millisecond)
		}
		return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	}
	for total, tries := range map[time.Duration]int64{time.Minute: 2, time.Millisecond: 1} {
		dials.Store(0)
		f := serve(t, Config{Backends: []string{"http://a:1", "http://b:1"}, ConnectTimeout: time.Hour, TotalTimeout: total, Dial: dial}, 1)
		status, _ := f.ask(aRequest)
		testenv.AtMost(t, dials.Load(), tries, "%v: connections", total)
		testenv.AtMost(t, time.Duration(limit.Load()), total, "a connection may take")
		if total == time.Minute {
			testenv.Equal(t, status, "504", "status")
			testenv.AtLeast(t, limit.Load(), 1, "a connection may take")
		}
	}
}

// TestRetries: what counts as one is a request that another backend is asked for.
func TestRetries(t *testing.T) {
	good, bad := says(t, okResponse), refusing(t)
	for want, backends := range [][]string{{bad}, {bad, good}} {
		f := serve(t, Config{Backends: backends}, 1)
		f.p.stable.turn.Store(^uint64(0)) // the first one first
		f.raw(aRequest)
		if s := f.stats(); s.Retries != uint64(want) || s.Failures["connect"] != 1 {
			t.Errorf("of %d backends the first: %+v", len(backends), s)
		}
	}
}

// trickle sends text again and again, n bytes at a time, until it can't.
func trickle(w io.Writer, text string, n int) {
	for {
		for rest := text; rest != ""; rest = rest[min(n, len(rest)):] {
			if _, err := io.WriteString(w, rest[:min(n, len(rest))]); err != nil {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
}

// TestEndlessHeads: the time for the head of a response is not renewed by what comes of it, nor by what comes before it.
func TestEndlessHeads(t *testing.T) {
	const hint = "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
	const limit = 100 * time.Millisecond
	trickles := func(text string) string {
		return script(t, func(_ int, c net.Conn, _ string) { trickle(c, text, 1) })
	}
	records := func(first string, kind byte, content string) string {
		return testenv.Serve(t, func(c net.Conn) {
			io.WriteString(c, first)
			trickle(c, string(appendRecord(nil, kind, []byte(content))), 100)
		})
	}
	hints := behind(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			w.WriteHeader(103)
			<-time.After(10 * time.Millisecond)
		}
	})
	line := strings.Repeat("x", 50)
	begun := string(appendRecord(nil, fcgiStdout, []byte("Content-Type: a/b\r\n\r\nbody")))
	for _, test := range []struct {
		name, backend string
		c             Config
		status        string
	}{
		{"bytes of a head", trickles("HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 10_000)), Config{ResponseTimeout: limit}, "504"},
		{"bytes of an informational head", trickles(hint), Config{ResponseTimeout: limit}, "504"},
		{"informational heads", silent(t, strings.Repeat(hint, maxInterim+1)), Config{ResponseTimeout: time.Minute}, "502"},
		{"as many as may come", says(t, strings.Repeat(hint, maxInterim)+okResponse), Config{ResponseTimeout: time.Hour}, "200"},
		{"informational heads over HTTP/2", hints, Config{HTTP2: true, ResponseTimeout: limit}, "504"},
		{"records of complaints", records("", fcgiStderr, line), Config{FastCGI: nowhere, ResponseTimeout: limit}, "504"},
		{"empty records", records("", fcgiStdout, ""), Config{FastCGI: nowhere, ResponseTimeout: limit}, "504"},
		{"records of a head", records("", fcgiStdout, "A: b\r\n"), Config{FastCGI: nowhere, ResponseTimeout: limit}, "504"},
		{"complaints in the body", records(begun, fcgiStderr, line), Config{FastCGI: nowhere, IdleTimeout: limit}, "200"},
	} {
		test.c.Backends = []string{test.backend}
		status, _ := serve(t, test.c, 1).ask(aRequest)
		testenv.Equal(t, status, test.status, test.name)
	}
}

// TestHintsForNobody: a client that does not take early hints is no failure of the backend.
func TestHintsForNobody(t *testing.T) {
	backend := script(t, func(_ int, c net.Conn, _ string) {
		hints := "HTTP/1.1 103 Early Hints\r\nLink: <" + strings.Repeat("x", 60_000) + ">\r\n\r\n"
		for err := error(nil); err == nil; {
			_, err = io.WriteString(c, hints)
		}
	})
	f := serve(t, to(backend), 1, func(s *knot.Server) { s.WriteTimeout = 100 * time.Millisecond })
	raw := testenv.Need(f.ln.(syscall.Conn).SyscallConn())(t)
	raw.Control(func(fd uintptr) { unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUF, 4<<10) }) // or all may fit
	f.dial("GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	failures := func() map[string]uint64 { return f.stats().Failures }
	testenv.Until(t, "the end", func() bool { return failures()["client gone"]+failures()["broken"] == 1 })
	testenv.Equal(t, failures()["broken"], 0, "failures of the backend")
}

// TestAnswersThatBreakOff: a backend that begins each answer and breaks off is taken out as one that gives none.
func TestAnswersThatBreakOff(t *testing.T) {
	cut := behind(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "begin")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	good := behind(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "good") })
	for _, http2 := range []bool{false, true} {
		f := serve(t, Config{Backends: []string{cut, good}, HTTP2: http2, MaxFails: 3, FailTime: time.Hour}, 1)
		for range 10 {
			f.raw(aRequest)
		}
		if s := f.stats(); s.Up || s.Failures["broken"] != 3 {
			t.Errorf("HTTP/2 %v: after 10 requests to two backends it is up: %v, with %v", http2, s.Up, s.Failures)
		}
	}
}
