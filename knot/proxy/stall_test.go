package proxy

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/capriccio-go/capriccio/internal/testenv"
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
	for name, c := range wires(t, answer) {
		f := serve(t, c, 1)
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

// A countedConn counts the bytes that are written to it.
type countedConn struct {
	net.Conn
	n *atomic.Int64
}

func (c countedConn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil { // in pieces, as a Write that does not end counts nothing
		var m int
		m, err = c.Conn.Write(p[n:min(n+4096, len(p))])
		c.n.Add(int64(m))
		n += m
	}
	return n, err
}

// TestStalledProxyingHoldsLittle: a client that took much of a response, or of what comes through a tunnel, and a client that
// has sent a part of a body, hold no large buffer while they take, or send, nothing more.
func TestStalledProxyingHoldsLittle(t *testing.T) {
	const conns, size, taken = 10, 16 << 20, 1 << 20
	var passed atomic.Int64 // bytes that backends have sent or taken
	content := make([]byte, size)
	backend := script(t, func(_ int, c net.Conn, head string) {
		switch {
		case head[:3] == "PUT":
			for p := make([]byte, 4096); ; {
				n, err := c.Read(p)
				if passed.Add(int64(n)); err != nil {
					return
				}
			}
		case head[:7] == "GET /up":
			io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		default:
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 16777216\r\n\r\n")
		}
		countedConn{c, &passed}.Write(content)
	})
	for _, test := range []struct {
		name, request string
		sends         int // bytes of the body
		most          int // bytes held for each
	}{
		{"a response", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, 28 << 10},
		{"a tunnel", "GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 0, 14 << 10},
		{"an upload", "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n", taken, 46 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := serve(t, to(backend), 1)
			passed.Store(0)
			before := testenv.Heap()
			for range conns {
				nc := testenv.Dial(t, f.addr)
				defer nc.Close()
				nc.(*net.TCPConn).SetReadBuffer(64 << 10)
				io.WriteString(nc, test.request)
				if test.sends > 0 {
					testenv.Need(nc.Write(make([]byte, test.sends)))(t)
					continue
				}
				resp := testenv.Need(http.ReadResponse(bufio.NewReaderSize(nc, 512), nil))(t)
				if resp.StatusCode == 200 {
					testenv.Need(io.CopyN(io.Discard, resp.Body, taken))(t)
				} else {
					testenv.Need(io.CopyN(io.Discard, nc, taken))(t)
				}
			}
			each, same := 0, 0
			for last := int64(-1); same < 5; same++ {
				each = (testenv.Heap() - before) / conns
				if now := passed.Load(); now != last || now < conns*taken*9/10 { // some have come with the head
					last, same = now, 0
				}
			}
			t.Logf("each holds %d bytes", each)
			if each > test.most {
				t.Errorf("each holds %d bytes, more than %d", each, test.most)
			}
		})
	}
}

// A request that is passed on over a connection at rest makes next to no garbage: what it needs is kept for the next one.
func TestNoGarbagePerRequest(t *testing.T) {
	if testenv.Race {
		t.Skip("sync.Pool drops things at random under the race detector")
	}
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello"
	backend := script(t, func(n int, c net.Conn, head string) {
		buf := make([]byte, 4096)
		for {
			if _, err := io.WriteString(c, answer); err != nil {
				return
			}
			if _, err := c.Read(buf); err != nil {
				return
			}
		}
	})
	f := serve(t, to(backend), 1)
	c := testenv.Dial(t, f.addr)
	buf := make([]byte, 4096)
	ask := func() {
		testenv.Need(io.WriteString(c, "GET /x HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n"))(t)
		for got := ""; !strings.HasSuffix(got, "hello"); {
			n := testenv.Need(c.Read(buf))(t)
			got = string(buf[max(0, n-5):n])
		}
	}
	for range 100 {
		ask()
	}
	const requests = 200
	before := allocations("proxy.(*Proxy).Handle")
	for range requests {
		ask()
	}
	testenv.AtMost(t, float64(allocations("proxy.(*Proxy).Handle")-before)/requests, 0.5, "allocations a request")
}

// allocations is how many there have been under a function.
func allocations(under string) (n int64) {
	runtime.GC() // the profile is that of the last but one
	runtime.GC()
	records := make([]runtime.MemProfileRecord, 1<<16)
	found, ok := runtime.MemProfile(records, true)
	if !ok {
		panic("more records than expected")
	}
	for _, r := range records[:found] {
		frames := runtime.CallersFrames(r.Stack())
		for {
			f, more := frames.Next()
			if strings.HasSuffix(f.Function, under) {
				n += r.AllocObjects
				break
			}
			if !more {
				break
			}
		}
	}
	return n
}
