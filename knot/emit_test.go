package knot

import (
	"bytes"
	"math/rand/v2"
	"net"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestSmallWritesShareChunks: what a template writes word by word does not travel word by word, and
// whatever the sizes and flushes, the client gets the bytes that were written.
func TestSmallWritesShareChunks(t *testing.T) {
	words := func(x *Ctx) (err error) {
		for i := 0; i < 10_000 && err == nil; i++ {
			_, err = x.WriteString("<td>7</td>")
		}
		return err
	}
	all := bytes.Repeat([]byte("0123456789abcdef"), 20<<10)
	mixed := func(x *Ctx) error {
		random := rand.New(rand.NewPCG(uint64(len(x.Query())), 9))
		for rest := all; len(rest) > 0; {
			n := min(len(rest), 1+random.IntN(1<<random.IntN(17)))
			if _, err := x.Write(rest[:n]); err != nil {
				return err
			}
			rest = rest[n:]
			if random.IntN(50) == 0 {
				if err := x.Flush(); err != nil {
					return err
				}
			}
		}
		return nil
	}
	everyMode(t, func(t *testing.T, start func(*Server) *served) {
		sv := start(&Server{Handler: func(x *Ctx) error {
			if x.Path() == "/words" {
				return words(x)
			}
			return mixed(x)
		}})
		got := sv.exchange(req("GET /words", "Connection: close"))
		testenv.AtMost(t, len(got), 101_000, "100,000 bytes of body took")
		for seed := range 30 {
			resp, body := sv.dial().ask(req("GET /mixed?" + strings.Repeat("s", seed)))
			if body != string(all) || len(resp.TransferEncoding) != 1 {
				t.Errorf("seed %d: %d bytes, want %d; framing %q", seed, len(body), len(all), resp.TransferEncoding)
			}
		}
	})
}

// A vectorConn is a scriptConn with writev, which notes the largest one.
type vectorConn struct {
	*scriptConn
	most int
}

func (c *vectorConn) Write(p []byte) (int, error) {
	c.most = max(c.most, len(p))
	return c.scriptConn.Write(p)
}

func (c *vectorConn) WriteBuffers(all *net.Buffers) (int64, error) {
	size := 0
	for _, p := range *all {
		size += len(p)
		c.output = append(c.output, p...)
	}
	*all = nil
	c.writes++
	c.most = max(c.most, size)
	return int64(size), nil
}

// TestLargeWritesAreCut: what leaves under one deadline is bounded, and nothing gets lost between two pieces.
func TestLargeWritesAreCut(t *testing.T) {
	all := make([]byte, 3*writeMost+5)
	for i := range all {
		all[i] = byte(i % 251)
	}
	for name, cuts := range map[string][]int{
		"one part":          nil,
		"several":           {10, 20_000, writeMost},
		"at the end of one": {writeMost - outSize, writeMost, 2 * writeMost, 2*writeMost + 1},
	} {
		nc := &vectorConn{scriptConn: script(req("GET /") + req("GET /"))}
		serveScript(&Server{Handler: func(x *Ctx) error {
			var parts [][]byte
			from := 0
			for _, to := range append(cuts[:len(cuts):len(cuts)], len(all)) {
				parts = append(parts, all[from:to])
				from = to
			}
			x.beginBytes(int64(len(all)))
			return x.emitParts(parts, int64(len(all)))
		}}, nc)
		for range 2 {
			_, rest, _ := bytes.Cut(nc.output, []byte("\r\n\r\n"))
			if len(rest) < len(all) || !bytes.Equal(rest[:len(all)], all) {
				t.Fatalf("%s: other bytes than were written", name)
			}
			nc.output = rest[len(all):]
		}
		if len(nc.output) > 0 || nc.most > writeMost {
			t.Errorf("%s: %d bytes too many; %d bytes in one write, want at most %d", name, len(nc.output), nc.most, writeMost)
		}
	}
}
