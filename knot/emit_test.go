package knot

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSmallWritesShareChunks: what a template writes word by word does not travel word by word, and
// whatever the sizes and flushes, the client gets the bytes that were written.
func TestSmallWritesShareChunks(t *testing.T) {
	words := func(x *Ctx) error {
		for range 10_000 {
			if _, err := x.WriteString("<td>7</td>"); err != nil {
				return err
			}
		}
		return nil
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
		got := sv.exchange("GET /words HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
		if len(got) > 101_000 {
			t.Errorf("100,000 bytes of body took %d", len(got))
		}
		for seed := range 30 {
			p := sv.dial()
			p.send("GET /mixed?" + strings.Repeat("s", seed) + " HTTP/1.1\r\nHost: h\r\n\r\n")
			resp, body := p.response("GET")
			if body != string(all) || len(resp.TransferEncoding) != 1 {
				t.Errorf("seed %d: %d bytes, want %d; framing %q", seed, len(body), len(all), resp.TransferEncoding)
			}
		}
	})
}
