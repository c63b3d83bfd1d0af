package proxy

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// TestStalledClientsHoldNoLargeBuffer: a response whose client takes nothing is not read on into a large buffer, whatever
// its backend speaks.
func TestStalledClientsHoldNoLargeBuffer(t *testing.T) {
	const requests = 10
	var made atomic.Int64
	before := largeBuffers.New
	largeBuffers = sync.Pool{New: func() any {
		made.Add(1)
		return before()
	}}
	defer func() { largeBuffers = sync.Pool{New: before} }()
	answer := func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 1<<20)) }
	for name, c := range map[string]Config{
		"HTTP/1":  {Backends: []string{behind(t, answer)}},
		"HTTP/2":  {Backends: []string{behind(t, answer)}, HTTP2: true},
		"FastCGI": {Backends: []string{fastCGIServer(t, answer)}, FastCGI: &FastCGI{Root: "/nowhere"}},
	} {
		f := serve(t, c, 1, func(s *knot.Server) { s.H2C = true })
		nc := testenv.Dial(t, f.addr)
		fr := http2.NewFramer(nc, nc)
		io.WriteString(nc, http2.ClientPreface)
		fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		var block bytes.Buffer
		enc := hpack.NewEncoder(&block)
		for i := range requests {
			block.Reset()
			for _, h := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "h"}} {
				enc.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
			}
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
		}
		heads, body := 0, 0
		for heads < requests {
			if _, ok := testenv.Need(fr.ReadFrame())(t).(*http2.HeadersFrame); ok {
				heads++
			}
		}
		testenv.Equal(t, made.Load(), 0, "%s: large buffers", name)
		// One of them takes all of it.
		fr.WriteWindowUpdate(0, 1<<25)
		fr.WriteWindowUpdate(1, 1<<25)
		for ended := false; !ended; {
			if d, ok := testenv.Need(fr.ReadFrame())(t).(*http2.DataFrame); ok {
				body, ended = body+len(d.Data()), d.StreamEnded()
			}
		}
		testenv.Equal(t, body, 1<<20, "%s: bytes of a body", name)
		nc.Close()
		made.Store(0)
	}
}
