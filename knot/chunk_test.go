package knot

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestFramingHasALimit: a client can't send without end what no limit on bodies counts.
func TestFramingHasALimit(t *testing.T) {
	long := "1;a=" + strings.Repeat("x", 1000) + "\r\na\r\n"
	padded := strings.Repeat("0", 14) + "1\r\na\r\n"
	for _, test := range []struct {
		name, chunk string
		reads       bool
		most        int // bytes that may be taken
		status      string
	}{
		{"nobody reads, long extensions", long, false, 1 << 20, "200"},
		{"nobody reads, padded sizes", padded, false, 1 << 20, "200"},
		{"nobody reads, one byte each", "1\r\na\r\n", false, 1 << 20, "200"},
		{"read, long extensions", long, true, 1 << 20, "413"},
		{"read, until the body is too large", "1;a=b\r\na\r\n", true, 12 << 20, "413"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &Server{MaxBody: 1 << 20, Handler: func(x *Ctx) error {
				if test.reads {
					if _, err := io.Copy(io.Discard, x.Body()); err != nil {
						return err
					}
				}
				return x.SendString(200, "", "")
			}}
			defer s.Close()
			nc := &endlessConn{scriptConn: *newScriptConn([]byte("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"), nil, 1), chunk: test.chunk}
			s.ServeConn(nc)
			testenv.AtMost(t, nc.sent, test.most, "bytes were taken")
			testenv.Equal(t, statusOf(string(nc.output)), test.status, "status")
		})
	}
}

// endlessConn goes on with chunks when its script has ended.
type endlessConn struct {
	scriptConn
	chunk string
	sent  int
}

func (c *endlessConn) Read(p []byte) (int, error) {
	if c.taken < len(c.input) {
		return c.scriptConn.Read(p)
	}
	if c.sent > 64<<20 {
		return 0, io.EOF
	}
	n := 0
	for n < len(p) {
		k := copy(p[n:], c.chunk[c.sent%len(c.chunk):])
		n += k
		c.sent += k
	}
	return n, nil
}

// TestSmallChunksAreFine: a byte in each chunk is how some clients send what they type.
func TestSmallChunksAreFine(t *testing.T) {
	const n = 100_000
	body := strings.Repeat("1\r\na\r\n", n/2) + strings.Repeat("1;ab=cd\r\na\r\n", n/2) + "0\r\n\r\n"
	s := &Server{Handler: func(x *Ctx) error {
		got, err := io.Copy(io.Discard, x.Body())
		if err != nil {
			return err
		}
		return x.SendString(200, "", fmt.Sprint(got))
	}}
	defer s.Close()
	nc := newScriptConn([]byte("PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"), []byte(body), 4000)
	s.ServeConn(nc)
	if output := string(nc.output); !strings.HasSuffix(output, fmt.Sprint(n)) {
		t.Errorf("got %q", output)
	}
}

// TestBadLineEndsInPieces: a line that ends wrongly is refused when it comes, not when
// the time for the head is over, however the pieces are cut.
func TestBadLineEndsInPieces(t *testing.T) {
	for _, text := range []string{
		"GET / HTTP/1.1\r\nHost: h\r\n\n", "GET / HTTP/1.1\r\nHost: h\n", "GET / HTTP/1.1\n",
		"\n", "\r\n\n", "GET / HTTP/1.1\r\n\n",
	} {
		for cut := range len(text) {
			for _, step := range []int{1, 100} {
				s := &Server{Handler: echoHandler}
				nc := newScriptConn([]byte(text[:cut]), []byte(text[cut:]), step)
				s.ServeConn(nc)
				testenv.Equal(t, statusOf(string(nc.output)), "400", "%q, cut at %d, then steps of %d: status", text, cut, step)
				s.Close()
			}
		}
	}
}
