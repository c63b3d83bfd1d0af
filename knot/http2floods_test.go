package knot

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/h2"
)

// floods are what clients did to bring servers down, each a frame or two at a time. Each ends with its connection.
var floods = map[string]struct {
	first frames
	then  func(p *framePeer, i int) error // from 0
}{
	"trailers that nobody wants":          {frames{headers(1, endsHeaders, post("X-Y", "z")...)}, func(p *framePeer, i int) error { return p.headers(1, p.head("a", "b"), wholeHead) }},
	"rapid reset":                         {nil, func(p *framePeer, i int) error { return p.askAndReset(i, "/wait") }},
	"rapid reset of what is done at once": {nil, func(p *framePeer, i int) error { return p.askAndReset(i, "/") }},
	"rapid reset by the server": {nil, func(p *framePeer, i int) error {
		p.ask(i, "/wait")
		return p.WriteWindowUpdate(uint32(2*i+1), 0)
	}},
	"streams beyond the limit": {nil, func(p *framePeer, i int) error { return p.ask(i, "/wait") }},
	"continuation": {frames{headers(1, 0, get()...)}, func(p *framePeer, i int) error {
		return p.WriteContinuation(1, false, p.head(fmt.Sprintf("x%d", i), strings.Repeat("y", 1000)))
	}},
	"empty continuation":     {frames{headers(1, 0, get()...)}, func(p *framePeer, i int) error { return p.WriteContinuation(1, false, nil) }},
	"settings":               {nil, func(p *framePeer, i int) error { return p.WriteSettings() }},
	"many settings at once":  {nil, func(p *framePeer, i int) error { return p.WriteSettings(make([]http2.Setting, 100)...) }},
	"settings ack":           {nil, func(p *framePeer, i int) error { return p.WriteSettingsAck() }},
	"ping":                   {nil, func(p *framePeer, i int) error { return p.WritePing(false, [8]byte{}) }},
	"ping ack":               {nil, func(p *framePeer, i int) error { return p.WritePing(true, [8]byte{}) }},
	"goaway":                 {nil, func(p *framePeer, i int) error { return p.WriteGoAway(0, http2.ErrCodeNo, nil) }},
	"priority":               {nil, func(p *framePeer, i int) error { return p.WritePriority(1, http2.PriorityParam{Weight: 1}) }},
	"unknown":                {nil, func(p *framePeer, i int) error { return p.WriteRawFrame(99, 0, 0, nil) }},
	"empty data":             {frames{open()}, func(p *framePeer, i int) error { return p.WriteData(1, false, nil) }},
	"data that nobody wants": {frames{closed}, func(p *framePeer, i int) error { return p.WriteData(1, false, []byte("x")) }},
	"a window for nothing":   {nil, func(p *framePeer, i int) error { return p.WriteWindowUpdate(0, 1) }},
	"windows of one byte": {frames{narrow(0), func(p *framePeer) {
		for n := range 50 {
			p.ask(n, "/large")
		}
	}}, func(p *framePeer, i int) error { return p.WriteWindowUpdate(uint32(i%50)*2+1, 1) }},
	"heads like bombs": {frames{request(get("x", strings.Repeat("y", 1000))...)}, func(p *framePeer, i int) error { // of 1 byte each, 1 KB when decoded
		p.headers(uint32(2*i+3), append(p.get(), bytes.Repeat([]byte{0x80 | 62}, 10_000)...), wholeHead)
		return p.WriteRSTStream(uint32(2*i+3), http2.ErrCodeCancel)
	}},
}

func (p *framePeer) askAndReset(i int, path string) error {
	p.ask(i, path)
	return p.WriteRSTStream(uint32(2*i+1), http2.ErrCodeCancel)
}

// calm waits until the server says something about the connection as a whole, or refuses.
func (p *framePeer) calm() string {
	for {
		if v := p.verdict(); v == "end" || strings.HasPrefix(v, "away") {
			return v
		}
	}
}

// TestHTTP2Floods: the server sends clients away that flood it, and serves others meanwhile.
func TestHTTP2Floods(t *testing.T) {
	var running, most atomic.Int32
	release := make(chan bool)
	large := bytes.Repeat([]byte("x"), 1<<20)
	sv := startServer(t, &Server{H2C: true, MaxHead: 16 << 10, Handler: adaptBlocking(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/large":
			w.Write(large)
			return
		case "/echo":
			io.Copy(w, r.Body)
			return
		case "/wait":
		default:
			return
		}
		n, m := running.Add(1), most.Load()
		for n > m && !most.CompareAndSwap(m, n) {
			m = most.Load()
		}
		<-release
		running.Add(-1)
	}))}, 1)
	other := func(name string) {
		p := sv.framed()
		p.ask(0, "/")
		testenv.Equal(t, p.verdict(), "200", "%s: another client", name)
		p.nc.Close()
	}
	for name, flood := range floods {
		p := sv.framed()
		said := make(chan string, 1)
		for _, send := range flood.first { // which may read
			send(p)
		}
		go func() { said <- p.calm() }()
		var begun error
		for i := 0; i < 20_000 && begun == nil && len(said) == 0; i++ {
			if begun = flood.then(p, i); i == 500 {
				other(name)
			}
		}
		if begun == nil {
			p.nc.(*net.TCPConn).CloseWrite() // so that a server that bears all of that ends, too
		}
		testenv.Equal(t, <-said, "away ENHANCE_YOUR_CALM", name)
		p.nc.Close()
		other(name)
	}
	testenv.AtMost(t, most.Load(), 4*h2.DefaultMaxStreams, "handlers at a time of four connections")
	close(release)
	// One that does not read what it has asked for is not read from either, but for what is dropped at the end.
	p := startServer(t, limited(&Server{H2C: true, Handler: echoHandler}, func(l *settings) { l.h2.Linger = time.Millisecond }), 1).framed()
	pings := bytes.Repeat([]byte("\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"), 1000)
	for i := 0; ; i++ {
		if _, err := p.nc.Write(pings); err != nil {
			break
		}
		if i == 100_000 {
			t.Fatal("pings whose answers nobody reads are read")
		}
	}
}

// TestHTTP2UselessFrames: what clients do in earnest does not count against them, however much of it there is.
func TestHTTP2UselessFrames(t *testing.T) {
	sv := startServer(t, &Server{H2C: true, MaxBody: 10, Handler: echoHandler}, 1)
	const much = 3 * h2.MaxUseless
	for _, window := range []uint32{1<<16 - 1, 1000} { // clients that widen their windows often
		p := sv.framed()
		p.narrow(window)
		for i, sent := 0, 0; sent < much; i++ {
			p.ask(i, "/large")
			for p.ended = false; !p.ended; {
				v := p.verdict()
				var size int
				if n, _ := fmt.Sscanf(v, "data %d", &size); n == 0 && v != "200" {
					t.Fatalf("a window of %d, after %d updates: %s", window, sent, v)
				}
				for left := size; left > 0; left -= 4 << 10 {
					p.WriteWindowUpdate(0, uint32(min(left, 4<<10)))
					p.WriteWindowUpdate(uint32(2*i+1), uint32(min(left, 4<<10)))
					sent += 2
				}
			}
		}
	}
	up := sv.framed() // uploads that are refused while they are on their way
	window := make(chan bool, 2)
	go func() {
		block := make([]byte, 4<<10)
		for i := range much / 50 {
			window <- true
			up.headers(uint32(2*i+1), up.post("content-length", "1000000"), endsHeaders)
			for range 50 {
				up.WriteData(uint32(2*i+1), false, block)
			}
		}
	}()
	for refused := 0; refused < much/50; {
		switch v := up.verdict(); v {
		case "413":
			refused++
			<-window
		case "end", "away ENHANCE_YOUR_CALM", "away FLOW_CONTROL_ERROR":
			t.Fatalf("after %d uploads: %s", refused, v)
		}
	}
}

// unbuffered connects a client to s over a connection that buffers nothing, and returns when s has acknowledged its SETTINGS.
func unbuffered(t *testing.T, s *Server) *framePeer {
	t.Helper()
	near, far := net.Pipe()
	near.SetDeadline(time.Now().Add(time.Minute))
	go s.ServeConn(far)
	p := newFramePeer(t, near, near)
	io.WriteString(near, wholePre)
	p.WriteSettings()
	for {
		settings, is := testenv.Need(p.ReadFrame())(t).(*http2.SettingsFrame)
		if is && settings.IsAck() {
			return p
		}
	}
}

// TestHTTP2HeadsWait: a client that does not read for a while, and meanwhile gets the heads of many responses, is not taken for
// one that floods: the heads wait, as bodies do.
func TestHTTP2HeadsWait(t *testing.T) {
	const many = h2.DefaultMaxStreams - 1
	var begun atomic.Int64
	s := &Server{H2C: true, ErrorLog: quietLog(), Handler: func(x *Ctx) error {
		begun.Add(1)
		if x.Path() != "/large" {
			x.AddHeader("X-Own", strings.Repeat(x.Path(), 2000))
			return x.Send(200, "", nil)
		}
		return echoHandler(x)
	}}
	p := unbuffered(t, s)
	p.ask(0, "/large")
	for i := range many {
		p.ask(i+1, fmt.Sprint("/", i))
	}
	s.conns.mu.Lock()
	h := s.conns.newest.h2
	s.conns.mu.Unlock()
	testenv.Until(t, "all are answered, or wait; one may be sending", func() bool {
		left, ended := h.Requests()
		h.EachWriter(func(h2.Request) { left-- })
		return ended || begun.Load() == many+1 && left <= 1
	})
	p.WritePing(false, [8]byte{})
	for heads, pinged := 0, false; heads <= many || !pinged; {
		switch v := p.verdict(); {
		case v == "200":
			heads++
		case v == "ping":
			pinged = true
		case !strings.HasPrefix(v, "data "):
			t.Fatalf("%s after %d heads", v, heads)
		}
	}
	p.nc.Close()
	testenv.Until(t, "the end of the connection", func() bool { return s.Stats().Conns == 0 })
	s.Close()
}

// TestHTTP2ReadsBesideAWrite: a client that takes nothing for a while has its further requests served all the same, and not
// when it has taken an answer to a PING.
func TestHTTP2ReadsBesideAWrite(t *testing.T) {
	begun := make(chan bool, 1)
	s := &Server{H2C: true, ErrorLog: quietLog(), Handler: func(x *Ctx) error {
		begun <- true
		return echoHandler(x)
	}}
	p := unbuffered(t, s)
	p.WritePing(false, [8]byte{})
	testenv.Must(t, p.ask(0, "/"))
	<-begun
	testenv.Equal(t, p.verdict(), "ping")
	testenv.Equal(t, p.verdict(), "200")
	p.nc.Close()
	testenv.Until(t, "the end of the connection", func() bool { return s.Stats().Conns == 0 })
	s.Close()
}

// TestHTTP2MakesRoom: a connection without a request makes room for a new one, and is told so; one with a request does not.
func TestHTTP2MakesRoom(t *testing.T) {
	ca := testenv.NewCA(t)
	for _, secure := range []bool{false, true} {
		everyMode(t, func(t *testing.T, start func(*Server) *served) {
			entered, leave := make(chan bool), make(chan bool)
			s := &Server{H2C: true, MaxConns: 2, Handler: slowly(entered, leave)}
			if secure {
				s.TLS = ca.Server(t)
			}
			sv := start(limited(s, func(l *settings) { l.rest = 0 }))
			asked := func(path string) *framePeer {
				p := sv.framed()
				p.ask(0, path)
				return p
			}
			busy := asked("/slow")
			<-entered
			served := func() *framePeer { // that before is not at rest, or gone, at once
				for {
					p := asked("/")
					if p.verdict() == "200" {
						return p
					}
					p.nc.Close()
				}
			}
			last := served()
			for range 3 {
				next := served()
				testenv.Equal(t, last.calm(), "away NO_ERROR")
				testenv.Equal(t, last.calm(), "end")
				last = next
			}
			close(leave)
			testenv.Equal(t, busy.verdict(), "200", "the request under way")
			testenv.AtLeast(t, sv.Stats().Evicted, 3, "connections were closed to make room")
		})
	}
}

// TestHTTP2Farewell: a stop is announced by a GOAWAY that names no stream. What the client sends before it can know is served,
// and so is what comes on a connection that was accepted but had not spoken; then the last GOAWAY names the last one.
func TestHTTP2Farewell(t *testing.T) {
	began, goOn := make(chan bool), make(chan bool)
	sv := startServer(t, &Server{H2C: true, HeadTimeout: -1, Handler: slowly(began, goOn)}, 1)
	p := sv.framed()
	p.ask(0, "/slow")
	<-began
	q := sv.framed()
	q.ask(0, "/slow")
	<-began
	sv.settings().h2.Farewell = time.Minute
	late := sv.frames("") // accepted, silent
	sv.awaitConns(3)
	ended := startDown(sv)
	var ping [8]byte
	expect := func(p *framePeer, want ...string) { // in any order
		t.Helper()
		for len(want) > 0 {
			f, err := p.ReadFrame()
			if err != nil {
				t.Fatalf("%v instead of %q", err, want)
			}
			got := ""
			switch f := f.(type) {
			case *http2.GoAwayFrame:
				got = fmt.Sprint("away ", f.LastStreamID, " ", f.ErrCode)
			case *http2.PingFrame:
				got, ping = "ping", f.Data
			case *http2.HeadersFrame:
				got = fmt.Sprint("answer ", f.StreamID)
			default:
				continue
			}
			at := slices.Index(want, got)
			if at < 0 {
				t.Fatalf("%s instead of %q", got, want)
			}
			want = slices.Delete(want, at, at+1)
		}
	}
	const farewell = "away 2147483647 NO_ERROR"
	expect(q, farewell, "ping")
	q.WritePing(true, ping)
	expect(q, "away 1 NO_ERROR")
	q.ask(1, "/")
	q.WriteRawFrame(http2.FrameData, 0, 0, nil)
	expect(q, "away 1 PROTOCOL_ERROR") // not the one that came too late
	q.nc.Close()
	expect(p, farewell, "ping")
	p.ask(1, "/") // was on its way
	expect(p, "answer 3")
	p.ask(2, "/")
	io.WriteString(late.nc, wholePre)
	late.WriteSettings()
	late.ask(0, "/")
	known := ping
	expect(late, farewell, "ping", "answer 1")
	late.WritePing(true, ping)
	expect(late, "away 1 NO_ERROR")
	late.nc.Close()
	p.WritePing(true, known)
	expect(p, "answer 5", "away 5 NO_ERROR")
	p.headers(7, p.post(), endsHeaders) // too late, all of it, and no error
	p.headers(7, p.head("a", "b"), wholeHead)
	p.WritePing(false, [8]byte{})
	expect(p, "ping")
	goOn <- true
	goOn <- true
	expect(p, "answer 1")
	p.nc.Close()
	testenv.Check(t, <-ended)
}
