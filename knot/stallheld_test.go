package knot

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestUnreadConnectionsHoldLittle: a connection of HTTP/2 with open windows whose client reads nothing holds little for all of its
// responses together.
func TestUnreadConnectionsHoldLittle(t *testing.T) {
	const conns, requests, most = 30, 8, 120 << 10
	content := contentOf(0, 16<<20)
	sv := startServer(t, &Server{H2C: true, Handler: func(x *Ctx) error { return x.Send(200, "text/plain", content) }}, 1)
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

// wantHeld wants each connection to hold at most so many bytes of the heap more than before.
func wantHeld(t *testing.T, before, conns, most int) {
	t.Helper()
	each := (testenv.Heap() - before) / conns
	t.Logf("each holds %d bytes", each)
	testenv.AtMost(t, each, most, "bytes held by each")
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
		{"a file", openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 10}).Serve, false, 8 << 10},
		{"a file over TLS", openWith(t, root, FilesConfig{CacheBytes: -1, OpenFiles: 10}).Serve, true, 32 << 10},
		{"Send", func(x *Ctx) error { return x.Send(200, "text/plain", content) }, false, 8 << 10},
		{"large Writes", func(x *Ctx) error {
			x.SetContentLength(size)
			return writePieces(x, content, 100_000)
		}, false, 8 << 10},
		{"Send over TLS", func(x *Ctx) error { return x.Send(200, "text/plain", content) }, true, 32 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			srv := &Server{Handler: func(x *Ctx) error {
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
			most := test.most
			if testenv.Race && test.secure { // writes are slower, and more of them stop in the middle of a piece of 32 KB
				most += 32 << 10
			}
			wantHeld(t, before, conns, most)
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
