//go:build linux

package netpoll

import (
	"io"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
)

// pingPong passes one byte to and fro, n times.
func pingPong(tb testing.TB, a, b io.ReadWriter, n int) {
	other := spawn(func() {
		var buf [64]byte
		for range n {
			need(b.Read(buf[:]))(tb)
			need(b.Write(buf[:1]))(tb)
		}
	})
	var buf [64]byte
	for range n {
		need(a.Write(buf[:1]))(tb)
		need(a.Read(buf[:]))(tb)
	}
	must(tb, other())
}

// An end joins one pipe to read from with another to write to.
type end struct {
	io.Reader
	io.Writer
}

func TestNoAllocation(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	for _, x := range pollers {
		t.Run(x.name, func(t *testing.T) { noAllocation(t, setting{x.name, x.open, 1}.start(t)) })
	}
}

func noAllocation(t *testing.T, rt *engine.Runtime) {
	inTask(t, rt, func() {
		c, s := connPair(t, "tcp")
		defer c.Close()
		defer s.Close()
		far := time.Now().Add(time.Hour)
		must(t, s.SetReadDeadline(far))
		pingPong(t, c, s, 100) // fill the pools
		const n = 2000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		pingPong(t, c, s, n)
		for i := range n {
			must(t, s.SetReadDeadline(far.Add(time.Duration(i))))
		}
		runtime.ReadMemStats(&after)
		testenv.AtMost(t, float64(after.Mallocs-before.Mallocs)/n, 0.1, "allocations a round trip")
	})
}

// Most connections of a server are idle. These are size classes of the allocator, or with what it adds.
func TestConnectionsAreSmall(t *testing.T) {
	if s := unsafe.Sizeof(Conn{}); s > 208 {
		t.Errorf("a Conn has %d bytes, want at most 208", s)
	}
	if s := unsafe.Sizeof(deadlines{}); s > 128 {
		t.Errorf("deadlines have %d bytes, want at most 128", s)
	}
	if s := unsafe.Sizeof(tableChunk{}); s > 3200-8 {
		t.Errorf("a chunk of the table has %d bytes, want at most 3192", s)
	}
}
