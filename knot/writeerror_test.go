package knot

import (
	"bytes"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"

	capriccio "github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/ownconn"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h2"
	"github.com/capriccio-go/capriccio/netpoll"
	"github.com/capriccio-go/capriccio/task"
)

var seed = flag.Uint64("seed", 0, "replay the random tests with this seed")

var errBroken = errors.New("the connection is broken")

// A breakingConn fails once it has passed on some bytes.
type breakingConn struct {
	net.Conn
	mu    sync.Mutex
	armed bool  // from now on bytes count; guarded by mu
	left  int   // guarded by mu
	ends  []int // what had been written after each Write since; guarded by mu
	total int   // guarded by mu
	after int   // writes after the first that has failed; guarded by mu
}

func (c *breakingConn) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
}

func (c *breakingConn) Write(p []byte) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.armed {
		switch whole := len(p); {
		case c.left < 0:
			c.after++
			return 0, errBroken
		case whole > c.left:
			p, c.left, err = p[:c.left], -1, errBroken
		default:
			c.left -= whole
		}
	}
	n, failed := c.Conn.Write(p)
	if c.armed {
		c.total += n
		c.ends = append(c.ends, c.total)
	}
	if err == nil {
		err = failed
	}
	return n, err
}

// A breakingVectors has writev and sendfile besides.
type breakingVectors struct{ *breakingConn }

func (c breakingVectors) WriteBuffers(all *net.Buffers) (int64, error) {
	n, err := c.Write(slices.Concat(*all...))
	*all = nil
	return int64(n), err
}

func (c breakingVectors) SendFile(head []byte, fd int, off, n int64, _ ownconn.Pages) (int64, error) {
	part := make([]byte, n)
	if _, err := unix.Pread(fd, part, off); err != nil {
		return 0, err
	}
	sent, err := c.Write(append(slices.Clone(head), part...))
	return max(int64(sent-len(head)), 0), err
}

// A breakable is a kind of connection that TestNothingGoesOnAfterAWriteError breaks.
type breakable struct {
	name    string
	tls     bool
	framed  bool
	vectors bool
}

var breakables = []breakable{{name: "HTTP/1.1"}, {name: "HTTP/1.1, writev", vectors: true}, {name: "h2c", framed: true}, {name: "TLS", tls: true}, {name: "TLS, h2", tls: true, framed: true}}

// ask sends one request, and drops what comes, until the end of the response or of the connection.
func (b *breaking) ask(nc net.Conn) {
	defer nc.Close()
	if b.tls {
		nc = tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{map[bool]string{true: protoHTTP2, false: protoHTTP1}[b.framed]}})
	}
	var request bytes.Buffer
	if b.framed {
		p := newFramePeer(b.t, nil, &request)
		request.WriteString(wholePre)
		p.narrow(8 << 20)
		p.WriteWindowUpdate(0, 8<<20)
		p.headers(1, p.head(":method", b.method, ":scheme", "http", ":path", "/file", ":authority", "h"), endsHeaders)
		p.WriteData(1, true, []byte("0123456789"))
	} else {
		request.WriteString(req(b.method+" /file", "Connection: close", "Content-Length: 10") + "0123456789")
	}
	go nc.Write(request.Bytes())
	if !b.framed {
		io.Copy(io.Discard, nc)
		return
	}
	frames := http2.NewFramer(nil, nc)
	for {
		switch f, err := frames.ReadFrame(); {
		case err != nil || f.Header().Type == http2.FrameRSTStream:
			return
		case f.Header().StreamID == 1 && f.Header().Flags&http2.FlagDataEndStream != 0:
			return
		}
	}
}

// A step is a call of a handler. It returns the error of that, and has to have one, if it tells, on a broken connection.
type step struct {
	name  string
	tells bool
	call  func(h *broken) error
}

// A broken is the response that a handler goes on with.
type broken struct {
	*breaking
	mu  sync.Mutex
	x   *Ctx                // nil: an adapted handler
	w   http.ResponseWriter // nil: a native one
	r   *http.Request
	did []string
	err error // the first; guarded by mu
}

// do takes a step, and fails the test if a step before has met an error, and this one meets none.
func (h *broken) do(s step) {
	h.mu.Lock()
	before := h.err
	h.mu.Unlock()
	err := s.call(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.did = append(h.did, fmt.Sprintf("%s: %v", s.name, err))
	if before != nil && s.tells && err == nil {
		h.t.Errorf("no error after one: %s", strings.Join(h.did, "; "))
	}
	if h.err == nil && (errors.Is(err, errBroken) || errors.Is(err, h2.ErrReset)) {
		h.err = err
	}
}

// writesOf are calls of a Write, with that of io.ReaderFrom if there is one.
func writesOf(random *rand.Rand, to func(h *broken) io.Writer) step {
	n := 1 + random.IntN(1<<random.IntN(9))
	if random.IntN(12) == 0 {
		n = 1 + random.IntN(80<<10)
	}
	text := strings.Repeat("x", n)
	switch random.IntN(4) {
	case 0:
		return step{fmt.Sprint("WriteString ", n), true, func(h *broken) error { return testenv.Err(io.WriteString(to(h), text)) }}
	case 1:
		return step{fmt.Sprint("Copy ", n), true, func(h *broken) error {
			return testenv.Err(io.Copy(to(h), io.LimitReader(strings.NewReader(text), int64(n))))
		}}
	}
	return step{fmt.Sprint("Write ", n), true, func(h *broken) error { return testenv.Err(to(h).Write([]byte(text))) }}
}

// nativeCalls are those of Ctx that may come in the middle of a response.
var nativeCalls = []step{
	{"Flush", true, func(h *broken) error { return h.x.Flush() }},
	{"Flush", true, func(h *broken) error { return h.x.Flush() }},
	{"AddTrailer", true, func(h *broken) error { return h.x.AddTrailer("A", "b") }},
	{"Inform", true, func(h *broken) error { return h.x.Inform(103, Header{"Link", "</a>"}) }},
	{"Read", false, func(h *broken) error { return testenv.Err(h.x.Body().Read(make([]byte, 3))) }},
	{"SetRate", false, func(h *broken) error { h.x.SetRate(1<<40, 100); return nil }},
	{"others", false, func(h *broken) error {
		h.x.SetStatus(201)
		h.x.SetContentType("text/x")
		h.x.AddHeader("B", "c")
		h.x.CloseAfter()
		return nil
	}},
}

// someOf are calls in random order, and writes to what to returns among them.
func someOf(random *rand.Rand, calls []step, to func(h *broken) io.Writer) (all []step) {
	for range 2 + random.IntN(14) {
		if i := random.IntN(len(calls) * 12 / 7); i < len(calls) {
			all = append(all, calls[i])
		} else {
			all = append(all, writesOf(random, to))
		}
	}
	return all
}

// nativeSteps are calls of the methods of Ctx.
func nativeSteps(random *rand.Rand) (all []step) {
	all = someOf(random, nativeCalls, func(h *broken) io.Writer { return h.x })
	if random.IntN(4) == 0 {
		which := random.IntN(2)
		for i := range all {
			all[i].tells = all[i].tells && all[i].name != "AddTrailer"
		}
		all = append([]step{{"Files", true, func(h *broken) error { return h.files[which].Handle(h.x) }}}, all...)
	}
	ends := []step{
		{"SendString", true, func(h *broken) error { return h.x.SendString(200, "", "whole") }},
		{"SendError", true, func(h *broken) error { return h.x.SendError(404) }},
		{"SendHead", true, func(h *broken) error { return (*inner)(h.x).SendHead() }},
		{"Redirect", true, func(h *broken) error { return h.x.Redirect(302, "/") }},
		{"Hijack", true, func(h *broken) error {
			if h.err == nil {
				return nil
			}
			return third(h.x.Hijack())
		}},
	}
	random.Shuffle(len(ends), func(i, j int) { ends[i], ends[j] = ends[j], ends[i] })
	return append(all, ends...)
}

func third[A, B any](_ A, _ B, err error) error { return err }

// adaptedCalls are those of what a ResponseWriter of net/http has.
var adaptedCalls = []step{
	{"FlushError", true, func(h *broken) error { return h.control().Flush() }},
	{"FlushError", true, func(h *broken) error { return h.control().Flush() }},
	{"Flush", false, func(h *broken) error { h.w.(http.Flusher).Flush(); return nil }},
	{"WriteHeader", false, func(h *broken) error { h.w.WriteHeader(103); return nil }},
	{"deadlines", false, func(h *broken) error {
		h.control().SetWriteDeadline(time.Now().Add(time.Hour))
		h.control().SetReadDeadline(time.Time{})
		return h.control().EnableFullDuplex()
	}},
	{"trailer", false, func(h *broken) error { h.w.Header().Set(http.TrailerPrefix+"A", "b"); return nil }},
	{"Read", false, func(h *broken) error { return testenv.Err(h.r.Body.Read(make([]byte, 3))) }},
	{"file", true, func(h *broken) error {
		f, err := os.Open(h.file)
		if err != nil {
			panic(err)
		}
		defer f.Close()
		return testenv.Err(io.Copy(h.w, f))
	}},
}

func (h *broken) control() *http.ResponseController { return http.NewResponseController(h.w) }

// adaptedSteps are calls of a handler of net/http.
func adaptedSteps(random *rand.Rand) (all []step) {
	all = someOf(random, adaptedCalls, func(h *broken) io.Writer { return h.w })
	if random.IntN(3) == 0 {
		length := step{"length", false, func(h *broken) error { h.w.Header().Set("Content-Length", "10000000"); return nil }}
		all = append([]step{length}, all...)
	}
	return append(all, step{"Hijack", true, func(h *broken) error {
		if h.err == nil {
			return nil
		}
		return third(h.control().Hijack())
	}})
}

// A breaking is a server whose connections break.
type breaking struct {
	breakable
	s     *Server
	log   testenv.Buffer
	ended chan *broken
	place
	took   chan *breakingConn
	t      *testing.T
	file   string
	method string
	files  []*Files
}

// A place is where a connection is served: in tasks, or on goroutines.
type place struct {
	name  string
	seeds int // responses that are tried there
	// pair makes a connection, and start calls serve there with its server's end.
	pair func(t *testing.T, serve func(server net.Conn)) (client net.Conn)
}

var onGoroutines = place{"goroutine", 2, func(t *testing.T, serve func(net.Conn)) net.Conn {
	client, server := net.Pipe()
	go serve(server)
	return client
}}

func inTasks(t *testing.T) place {
	rt := testenv.Need(capriccio.New(capriccio.WithLoops(1), capriccio.WithHoldLimit(time.Hour), capriccio.WithoutRefusals()))(t)
	t.Cleanup(func() { testenv.Check(t, rt.Close()) })
	ln := testenv.Need(netpoll.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { ln.Close() })
	return place{"task", 1, func(t *testing.T, serve func(net.Conn)) net.Conn {
		client := testenv.Need(net.Dial("tcp", ln.Addr().String()))(t)
		rt.Go(func() {
			server, err := ln.Accept()
			if testenv.Check(t, err); err == nil {
				serve(server)
			}
		})
		return client
	}}
}

func newBreaking(t *testing.T, kind breakable, method string, adapted bool, steps []step, where place) *breaking {
	b := &breaking{breakable: kind, method: method, ended: make(chan *broken, 1), place: where, took: make(chan *breakingConn, 1), t: t}
	dir := t.TempDir()
	b.file = filepath.Join(dir, "file")
	testenv.Must(t, os.WriteFile(b.file, bytes.Repeat([]byte("f"), 50_000), 0o600))
	b.files = []*Files{openWith(t, dir, FilesConfig{}), openWith(t, dir, FilesConfig{CacheBytes: -1})}
	b.s = &Server{H2C: true, ErrorLog: textLog(&b.log)}
	if kind.tls {
		cert, _ := testenv.SelfSigned()
		b.s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	run := func(h *broken) {
		defer func() { b.ended <- h }()
		(<-b.took).arm()
		h.breaking = b
		for _, s := range steps {
			h.do(s)
		}
		if h.err != nil && h.r != nil {
			task.Await(h.r.Context()) // it ends, as under net/http: a handler may go by that alone
		}
	}
	b.s.Handler = func(x *Ctx) error {
		h := &broken{x: x}
		run(h)
		return h.err
	}
	if adapted {
		b.s.Handler = AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { run(&broken{w: w, r: r}) }))
	}
	t.Cleanup(func() { testenv.Check(t, b.s.Close()) })
	return b
}

// whole is the least size of a response that never breaks.
const whole = 1 << 30

// breakAt serves a request on a connection that breaks after so many bytes of its response, and returns it.
func (b *breaking) breakAt(left int) *breakingConn {
	c := &breakingConn{left: left}
	b.took <- c
	served := make(chan bool)
	client := b.pair(b.t, func(server net.Conn) {
		defer close(served)
		if c.Conn = server; b.vectors {
			b.s.ServeConn(breakingVectors{c})
			return
		}
		b.s.ServeConn(c)
	})
	var asked sync.WaitGroup
	asked.Go(func() { b.ask(client) })
	h := <-b.ended
	<-served
	asked.Wait()
	testenv.Until(b.t, "the connection is forgotten", func() bool { return b.s.Stats().Conns == 0 })
	if !b.tls && !b.framed {
		testenv.Equal(b.t, c.after, 0, "%s: writes after one that has failed", strings.Join(h.did, "; "))
	}
	if log := b.log.String(); strings.Contains(log, "panicked") {
		b.t.Errorf("after %s: %s", strings.Join(h.did, "; "), log)
	}
	return c
}

// TestNothingGoesOnAfterAWriteError: a connection breaks after any byte of a response, and whatever the handler then calls
// returns an error. It runs to its end, its context ends if it is one of net/http, and nothing is left of it.
func TestNothingGoesOnAfterAWriteError(t *testing.T) {
	checkLeaks(t)
	places := []place{onGoroutines, inTasks(t)}
	for way, steps := range map[string]func(*rand.Rand) []step{"native": nativeSteps, "adapted": adaptedSteps} {
		for _, kind := range breakables {
			for _, where := range places {
				t.Run(way+", "+kind.name+", "+where.name, func(t *testing.T) {
					random := testenv.Rand(t, *seed)
					for range where.seeds {
						method := []string{"GET", "GET", "GET", "HEAD"}[random.IntN(4)]
						b := newBreaking(t, kind, method, way == "adapted", steps(random), where)
						unbroken := b.breakAt(whole)
						for _, left := range breakAts(random, unbroken) {
							if b.breakAt(left); t.Failed() {
								t.Fatalf("broken after %d of %d bytes", left, unbroken.total)
							}
						}
					}
				})
			}
		}
	}
}

// breakAts are the bytes after which a connection is to break that had been written to as c was: about the ends of all writes,
// all at the beginning, and some more.
func breakAts(random *rand.Rand, c *breakingConn) (at []int) {
	c.mu.Lock() // a connection of HTTP/2 writes its goodbye after the response
	defer c.mu.Unlock()
	some := testenv.Rounds(25, 60)
	for i := range min(c.total, some) {
		at = append(at, i)
	}
	for _, end := range c.ends {
		at = append(at, end-1, end, end+1)
	}
	for range some {
		at = append(at, random.IntN(c.total+1))
	}
	slices.Sort(at)
	at = slices.Compact(at)
	return slices.DeleteFunc(at, func(n int) bool { return n < 0 || n >= c.total })
}
