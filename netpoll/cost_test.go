//go:build linux

package netpoll

import (
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

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

func pipeEnds(tb testing.TB) (a, b end, stop func()) {
	r1, w1, err := Pipe()
	must(tb, err)
	r2, w2, err := Pipe()
	must(tb, err)
	return end{r1, w2}, end{r2, w1}, func() {
		for _, f := range []*File{r1, w1, r2, w2} {
			must(tb, f.Close())
		}
	}
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

// One read for each token: none that meets EAGAIN. The kernel counts the read(2) calls
// of the process in /proc/self/io (proc(5)).
func TestOneReadPerToken(t *testing.T) {
	for _, x := range pollers {
		rt := setting{x.name, x.open, 1}.start(t)
		inTask(t, rt, func() {
			a, b, stop := pipeEnds(t)
			defer stop()
			pingPong(t, a, b, 10)
			const n = 1000
			before := readCalls(t)
			pingPong(t, a, b, n)
			testenv.AtMost(t, readCalls(t)-before, 2*n+50, "reads for %d tokens", 2*n)
		})
	}
}

func readCalls(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip(err)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if s, ok := strings.CutPrefix(line, "syscr: "); ok {
			n := need(strconv.Atoi(s))(t)
			return n
		}
	}
	t.Skip("/proc/self/io does not count reads")
	return 0
}
