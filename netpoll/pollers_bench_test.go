//go:build linux

package netpoll

import (
	"io"
	"testing"

	"github.com/capriccio-go/capriccio/internal/engine"
)

// Connections that are opened, pass a byte to and fro, and are closed.
func BenchmarkConnections(b *testing.B) {
	rt := onOne(b, 1).start(b)
	inTask(b, rt, func() {
		ln, err := Listen("tcp", "127.0.0.1:0")
		must(b, err)
		defer ln.Close()
		for range b.N {
			d, err := Dial("tcp", ln.Addr().String())
			must(b, err)
			c := d.(*Conn)
			s, err := ln.AcceptConn()
			must(b, err)
			must(b, c.SetLinger(0))
			pingPong(b, c, s, 1)
			must(b, s.Close())
			must(b, c.Close())
		}
	})
}

// A megabyte at a time, written and read in pieces of 64 KiB.
func BenchmarkBulk(b *testing.B) {
	rt := onOne(b, 1).start(b)
	inTask(b, rt, func() {
		c, s := connPair(b, "tcp")
		b.SetBytes(1 << 20)
		writer := engine.Go(func() {
			piece := make([]byte, copySize)
			for range b.N * (1 << 20 / copySize) {
				_, err := c.Write(piece)
				must(b, err)
			}
			must(b, c.Close())
		})
		_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{s}, make([]byte, copySize))
		must(b, err)
		must(b, writer.Join())
		must(b, s.Close())
	})
}
