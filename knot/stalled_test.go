package knot

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot/internal/tasks"
	"github.com/capriccio-go/capriccio/task"
)

// TestStalledResponsesMakeRoom: a newcomer is served in place of a response that its client does not take, if there is no
// room inside, or if there are as many connections as there may be. Others are refused.
func TestStalledResponsesMakeRoom(t *testing.T) {
	const size = 16 << 20 // more than the buffers of a socket hold
	content := make([]byte, size)
	root := layFiles(t, 1, func(int) int { return size })
	release := make(chan bool)
	for _, test := range []struct {
		name    string
		handler Handler
		rests   bool // it has nothing to send
	}{
		{"a file", openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 10}).Handle, false},
		{"Send", func(x *Ctx) error { return x.Send(200, "text/plain", content) }, false},
		{"many Writes", func(x *Ctx) error { return writePieces(x, content, 1000) }, false},
		{"net/http", AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(content) })), false},
		{"a file, net/http", AdaptHTTP(http.FileServer(http.Dir(root))), false},
		{"an event stream", func(x *Ctx) error {
			x.Flush()
			task.Offload(func() { <-release })
			return nil
		}, true},
	} {
		for i := range 1 << 3 {
			framed, scarceConns, slow := i&1 != 0, i&2 != 0, i&4 != 0
			if framed && scarceConns { // the connection goes when it has no request
				continue
			}
			t.Run(fmt.Sprintf("%s, HTTP/2: %v, connections: %v, slow: %v", test.name, framed, scarceConns, slow), func(t *testing.T) {
				began, over := make(chan bool, 1), make(chan bool, 1)
				s := &Server{H2C: true, Handler: func(x *Ctx) error {
					if x.Path() == "/new" {
						return x.SendString(200, "text/plain", "done")
					}
					began <- true
					defer func() { over <- true }()
					return test.handler(x)
				}}
				d := &doorman{room: 1, refuses: true}
				if scarceConns {
					s.MaxConns, d.room = 1, 2
				}
				s.ready()
				if s.settings().stall = time.Hour; slow {
					s.settings().stall = 0
				}
				sv := guarded(t, d, s)
				if framed {
					sv.framed(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}).ask(0, "/f0")
				} else {
					p := sv.dial()
					p.tcp.SetReadBuffer(4 << 10)
					p.send(req("GET /f0"))
				}
				<-began
				if !test.rests {
					testenv.Until(t, "the response stalls", func() bool { return len(s.stalled(s.clock.Now())) > 0 })
				}
				want := 503
				if slow && !test.rests {
					want = 200
				}
				newcomer, _ := sv.dial().ask(req("GET /new"))
				testenv.Equal(t, newcomer.StatusCode, want, "status for the newcomer")
				if test.rests {
					release <- true
				}
				if test.rests || want == 200 {
					<-over
				}
			})
		}
	}
}

// TestWhatCountsAsStalled: bytes now and then do not help a client that is slower than LeastRate.
func TestWhatCountsAsStalled(t *testing.T) {
	for _, test := range []struct {
		name    string
		bytes   int
		every   time.Duration
		stalled bool
	}{
		{"nothing", 0, time.Second, true},
		{"a byte every 4 s", 1, 4 * time.Second, true},
		{"as slow as may be", 2 * DefaultLeastRate, time.Second, false},
		{"pauses of 8 s in 20 KB/s", 160_000, 8 * time.Second, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{Handler: func(x *Ctx) error {
					for {
						x.Write(make([]byte, max(test.bytes, 1)))
						if err := x.Flush(); err != nil {
							return err
						}
					}
				}}
				p := pipePeer(t, s)
				p.send(req("GET /"))
				resp := p.head()
				for range 25 * time.Second / test.every {
					time.Sleep(test.every)
					testenv.Need(io.CopyN(io.Discard, resp.Body, int64(test.bytes)))(t)
				}
				synctest.Wait()
				ended, _ := s.endStalled()
				testenv.Equal(t, ended == 1, test.stalled, "it is ended")
				again, _ := s.endStalled()
				testenv.Equal(t, again, 0, "ended at once again")
			})
		})
	}
}

// TestBuffersAreCounted: the runtime is told of all bytes of the buffers, be they made larger by what is gathered.
func TestBuffersAreCounted(t *testing.T) {
	before := tasks.Buffers.InUse()
	x := new(Server).borrow(new(conn))
	x.c.srv, x.c.stream = x.srv, nil
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		switch r.IntN(6) {
		case 0:
			x.shrinkBuffers(r.IntN(leastPiece))
		case 1:
			x.widenOut()
		case 2:
			x.out = append(x.out, make([]byte, r.IntN(2*outSize))...) // more than there is room for
			continue
		case 3:
			x.out = x.out[:0]
			continue
		case 4:
			x.growIn(0)
			x.in = x.in[:min(len(x.in), 2*inSize):min(len(x.in), 2*inSize)]
			continue
		case 5:
			x.out = x.out[:0]
			x.widen()
			x.narrow()
		}
		if held := int64(len(x.in) + cap(x.out)); tasks.Buffers.InUse()-before != x.counted || x.counted < held-1<<20 {
			t.Fatalf("%d bytes are counted, the buffers have %d", x.counted, held)
		}
	}
	giveBack(x)
	testenv.Equal(t, tasks.Buffers.InUse(), before, "bytes counted after the end")
}

// TestUnreadConnectionsHoldLittle: a connection of HTTP/2 with open windows whose client reads nothing holds little for all of its
// responses together.
func TestUnreadConnectionsHoldLittle(t *testing.T) {
	const conns, requests, most = 30, 8, 120 << 10
	content := contentOf(0, 16<<20)
	sv := startServer(t, &Server{H2C: true, WriteTimeout: time.Hour, Handler: func(x *Ctx) error { return x.Send(200, "text/plain", content) }}, 1)
	before := testenv.Heap()
	for range conns {
		p := sv.frames(wholePre)
		p.nc.(*net.TCPConn).SetReadBuffer(64 << 10)
		p.narrow(1<<31 - 1)
		p.WriteWindowUpdate(0, 1<<30)
		for i := range requests {
			p.ask(i, "/")
		}
	}
	testenv.Until(t, "the responses stall", func() bool { return len(sv.stalled(sv.clock.Now())) == conns*(requests-1) })
	wantHeld(t, before, conns, most)
}

// wantHeld wants each connection to hold at most so many bytes of the heap more than before, once its response stalls: one that
// is being written counts as stalled before the kernel takes no more of it.
func wantHeld(t *testing.T, before, conns, most int) {
	t.Helper()
	each := 0
	if !testenv.Soon(func() bool { each = (testenv.Heap() - before) / conns; return each <= most }) {
		t.Errorf("each connection holds %d bytes; want at most %d", each, most)
	}
	t.Logf("each holds %d bytes", each)
}

// TestStalledConnectionsHoldLittle: a response of HTTP/1.1 whose client took much at first, and then takes nothing, holds no
// large buffer. All of it arrives when the client goes on.
func TestStalledConnectionsHoldLittle(t *testing.T) {
	const size, taken = 16 << 20, 1 << 20
	conns := testenv.Rounds(10, 30)
	root := layFiles(t, 1, func(int) int { return size })
	content := contentOf(0, size)
	ca := testenv.NewCA(t)
	for _, test := range []struct {
		name    string
		handler Handler
		secure  bool
		most    int // bytes of each
	}{
		{"a file", openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 10}).Handle, false, 8 << 10},
		{"a file over TLS", openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 10}).Handle, true, 32 << 10},
		{"Send", func(x *Ctx) error { return x.Send(200, "text/plain", content) }, false, 8 << 10},
		{"large Writes", func(x *Ctx) error {
			x.SetContentLength(size)
			return writePieces(x, content, 100_000)
		}, false, 8 << 10},
		{"Send over TLS", func(x *Ctx) error { return x.Send(200, "text/plain", content) }, true, 32 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := &Server{WriteTimeout: time.Hour, Handler: func(x *Ctx) error {
				if x.Path() == "/small" {
					return x.Send(200, "text/plain", content[:taken])
				}
				return test.handler(x)
			}}
			if test.secure {
				srv.TLS = ca.Server(t)
			}
			sv := startServer(t, srv, 1)
			clients := make([]*peer, conns)
			for i := range clients {
				p := sv.dial()
				p.tcp.SetReadBuffer(64 << 10)
				if test.secure {
					p.secure(ca.Client())
				}
				p.ask(req("GET /small")) // the client has its own buffers after that
				clients[i] = p
			}
			before := testenv.Heap()
			var bodies []io.Reader
			for _, p := range clients {
				p.send(req("GET /f0"))
				body := p.head().Body
				testenv.Need(io.CopyN(io.Discard, body, taken))(t)
				bodies = append(bodies, body)
			}
			testenv.Until(t, "the responses stall", func() bool { return len(sv.stalled(sv.clock.Now())) == conns })
			wantHeld(t, before, conns, test.most)
			for _, body := range bodies[:2] {
				if rest := testenv.Need(io.ReadAll(body))(t); !bytes.Equal(rest, content[taken:]) {
					t.Errorf("%d bytes that are not those of the content", len(rest))
				}
			}
			for _, p := range clients {
				p.nc.Close()
			}
		})
	}
}
