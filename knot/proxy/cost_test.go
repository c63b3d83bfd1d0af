package proxy

import (
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A request that is passed on over a connection at rest makes next to no garbage: what it needs is kept for the next one.
func TestNoGarbagePerRequest(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
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
	f := serve(t, Config{Backends: []string{backend}}, 1)
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
	const requests = 500
	before := allocations("proxy.(*Proxy).Serve")
	for range requests {
		ask()
	}
	testenv.AtMost(t, float64(allocations("proxy.(*Proxy).Serve")-before)/requests, 0.5, "allocations a request")
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
