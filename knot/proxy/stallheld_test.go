package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

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
	const conns, size, taken = 30, 16 << 20, 1 << 20
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
		{"a response", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", 0, 56 << 10},
		{"a tunnel", "GET /up HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", 0, 32 << 10},
		{"an upload", "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4194304\r\n\r\n", taken, 104 << 10},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := serve(t, Config{Backends: []string{backend}}, 1)
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
