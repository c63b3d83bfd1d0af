//go:build linux

package simserver

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// TestQueue compares a queue with a naive one, and what was taken with what it was.
func TestQueue(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var q queue
	var naive []byte
	for range 2000 {
		switch n := q.len(); {
		case rnd.IntN(3) > 0:
			b := pattern[rnd.IntN(1000):][:rnd.IntN(50_000)]
			q.add(b)
			naive = append(naive, b...)
		case rnd.IntN(10) == 0:
			b := q.take()
			q.add(pattern[:spareSize])
			if !bytes.Equal(b, naive) {
				t.Fatal("what was taken has changed")
			}
			reuse(b)
			naive = bytes.Clone(pattern[:spareSize])
		case n > 0:
			k := 1 + rnd.IntN(n)
			q.drop(k)
			naive = naive[k:]
		}
		if !bytes.Equal(q.bytes(), naive) {
			t.Fatalf("%d bytes, want %d, or others", q.len(), len(naive))
		}
	}
	for range 2 * sparesMost {
		reuse(make([]byte, 0, spareSize))
	}
	testenv.AtMost(t, len(spare), sparesMost, "spare buffers")
	spare = nil
}
