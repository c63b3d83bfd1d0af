package store

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// poisonFreed fills what becomes free during the test.
func poisonFreed(t testing.TB) {
	FreePoison = func(p []byte) {
		for i := range p {
			p[i] = 0xdd
		}
	}
	t.Cleanup(func() { FreePoison = nil })
}

func mapped(t testing.TB, bytes int64) *Memory {
	m := new(Memory)
	testenv.Must(t, m.reserve(bytes))
	t.Cleanup(m.close)
	return m
}

// TestFileMemoryLosesNothing takes and frees contents of all sizes at random: as long as there
// is memory it is given out, no byte of it twice.
func TestFileMemoryLosesNothing(t *testing.T) {
	poisonFreed(t)
	m := mapped(t, 40*BlockBytes)
	type content struct {
		parts [][]byte
		mark  byte
	}
	var held []content
	used := 0
	r := rand.New(rand.NewPCG(2, 2))
	for step := range testenv.Rounds(5_000, 20_000) {
		size := int64(r.IntN(1 << r.IntN(20)))
		switch {
		case r.IntN(100) == 0:
			if s, ok := m.idle(1 + r.IntN(5)); ok {
				m.giveBack(s)
				m.rested(s)
			}
		case r.IntN(2) == 0 && len(held) > 0:
			i := r.IntN(len(held))
			c := held[i]
			n := 0
			for _, p := range c.parts {
				if n += len(p); bytes.Count(p, []byte{c.mark}) != len(p) {
					t.Fatalf("step %d: content was overwritten", step)
				}
			}
			used -= ChunksFor(int64(n))
			m.put(c.parts)
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		default:
			parts, ok := m.take(size)
			if fits := used+ChunksFor(size) <= 40*blockChunks; ok != fits {
				t.Fatalf("step %d: %d bytes with %d chunks in use: given is %t", step, size, used, ok)
			}
			if !ok {
				continue
			}
			used += ChunksFor(size)
			n, mark := 0, byte(step%0xdd)
			for _, p := range parts {
				n += len(p)
				for i := range p {
					p[i] = mark
				}
			}
			if int64(n) != size || m.Used() != int64(used)*ChunkBytes {
				t.Fatalf("step %d: got %d bytes of %d; %d in use, want %d chunks", step, n, size, m.Used(), used)
			}
			held = append(held, content{parts, mark})
		}
	}
}

// TestFileMemoryIsInOnePiece: what fits in a row is in one part, whatever its size.
func TestFileMemoryIsInOnePiece(t *testing.T) {
	m := mapped(t, 20*BlockBytes)
	for _, size := range []int64{1, ChunkBytes, BlockBytes, 5*BlockBytes + 1, 300_000} {
		parts, ok := m.take(size)
		if !ok || len(parts) != 1 || int64(len(parts[0])) != size {
			t.Errorf("%d bytes in %d parts, %t", size, len(parts), ok)
		}
	}
	if parts, ok := m.take(0); !ok || len(parts) != 0 {
		t.Errorf("nothing takes %d parts, %t", len(parts), ok)
	}
}

func BenchmarkFileMemory(b *testing.B) {
	m := mapped(b, 64<<20)
	var held [][][]byte
	for i := int64(0); ; i++ { // full, of files of all sizes
		parts, ok := m.take(500 + i*7919%30_000)
		if !ok {
			break
		}
		held = append(held, parts)
	}
	b.ReportAllocs()
	parts, i := 0, 0
	for b.Loop() {
		k := i * 7919 % len(held)
		i++
		size := int64(0)
		for _, p := range held[k] {
			size += int64(len(p))
		}
		m.put(held[k])
		held[k], _ = m.take(size)
		parts += len(held[k])
	}
	b.ReportMetric(float64(parts)/float64(b.N), "parts/op")
}
