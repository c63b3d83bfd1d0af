package knot

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

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
		var b, block bytes.Buffer
		b.WriteString(http2.ClientPreface)
		f := http2.NewFramer(&b, nil)
		f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		f.WriteWindowUpdate(0, 1<<30)
		enc := hpack.NewEncoder(&block)
		for i := range requests {
			block.Reset()
			for _, field := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/"}, {Name: ":authority", Value: "h"}} {
				enc.WriteField(field)
			}
			f.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
		}
		nc := testenv.Dial(t, sv.addr)
		defer nc.Close()
		nc.(*net.TCPConn).SetReadBuffer(64 << 10)
		testenv.Need(nc.Write(b.Bytes()))(t)
	}
	testenv.Until(t, "the responses stall", func() bool { return len(sv.stalled(sv.clock.Now())) == conns*(requests-1) })
	each := (testenv.Heap() - before) / conns
	t.Logf("each holds %d bytes", each)
	if each > most {
		t.Errorf("each holds %d bytes, more than %d", each, most)
	}
}

// TestStalledConnectionsHoldLittle: a response of HTTP/1.1 whose client took much at first, and then takes nothing, holds no
// large buffer. All of it arrives when the client goes on.
func TestStalledConnectionsHoldLittle(t *testing.T) {
	const conns, size, taken = 30, 16 << 20, 1 << 20
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
			for p := content; len(p) > 0; p = p[min(len(p), 100_000):] {
				if _, err := x.Write(p[:min(len(p), 100_000)]); err != nil {
					return err
				}
			}
			return nil
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
			var readers []*bufio.Reader
			var all []net.Conn
			var bodies []io.Reader
			ask := func(nc net.Conn, path string) { io.WriteString(nc, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n") }
			for range conns {
				nc := testenv.Dial(t, sv.addr)
				nc.(*net.TCPConn).SetReadBuffer(64 << 10)
				if test.secure {
					nc = tls.Client(nc, ca.Client())
				}
				ask(nc, "/small") // the client has its own buffers after that
				r := bufio.NewReader(nc)
				resp := testenv.Need(http.ReadResponse(r, nil))(t)
				testenv.Need(io.Copy(io.Discard, resp.Body))(t)
				all, readers = append(all, nc), append(readers, r)
			}
			before := testenv.Heap()
			for i, nc := range all {
				ask(nc, "/f0")
				resp := testenv.Need(http.ReadResponse(readers[i], nil))(t)
				testenv.Need(io.CopyN(io.Discard, resp.Body, taken))(t)
				bodies = append(bodies, resp.Body)
			}
			testenv.Until(t, "the responses stall", func() bool { return len(sv.stalled(sv.clock.Now())) == conns })
			most := test.most
			if testenv.Race && test.secure { // writes are slower, and more of them stop in the middle of a piece of 32 KB
				most += 32 << 10
			}
			if each := (testenv.Heap() - before) / conns; each > most {
				t.Errorf("each holds %d bytes, more than %d", each, most)
			} else {
				t.Logf("each holds %d bytes", each)
			}
			for _, body := range bodies[:2] {
				if rest := testenv.Need(io.ReadAll(body))(t); !bytes.Equal(rest, content[taken:]) {
					t.Errorf("%d bytes that are not those of the content", len(rest))
				}
			}
			for _, nc := range all {
				nc.Close()
			}
		})
	}
}
