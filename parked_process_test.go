package capriccio_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/capriccio-go/capriccio"
	"github.com/capriccio-go/capriccio/internal/coro"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/netpoll"
)

const (
	parkedConns = 1200
	parkedCold  = 256  // tasks of a loop that has so few may have larger stacks, see engine.Loop.handOverSlow
	leastStack  = 2048 // of a goroutine, in bytes
)

// parkedProgram has a task for each connection, which waits in Read most of the time, and prints how many of
// them have come to have more than the least stack.
func parkedProgram() error {
	var grown atomic.Int64
	buffer := func() []byte { return make([]byte, 64) }
	return capriccio.Run(context.Background(), func(context.Context) error {
		ln, err := netpoll.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		go func() {
			err := talkInTurn(ln.Addr().String())
			if errors.Is(err, syscall.EMFILE) {
				fmt.Println("descriptors")
			} else {
				fmt.Println(grown.Load(), err)
			}
			os.Exit(0)
		}()
		return netpoll.Serve(ln, func(c *netpoll.Conn) {
			defer c.Close()
			large := false
			for b := buffer(); ; {
				n, err := c.Read(b)
				if g := coro.G(); !large && coro.Peek(g+8)-coro.Peek(g) > leastStack {
					large = true
					grown.Add(1)
				}
				if err != nil {
					return
				}
				if _, err := c.Write(b[:n]); err != nil {
					return
				}
			}
		})
	}, capriccio.WithHoldLimit(-1)) // a report of a task that held its loop takes more
}

// talkInTurn says something on each of parkedConns connections, and hears it again, a few times.
func talkInTurn(addr string) error {
	var all []net.Conn
	for range parkedConns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		all = append(all, c)
	}
	b := []byte("x")
	for range 4 {
		for _, c := range all {
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
		for _, c := range all {
			if _, err := c.Read(b); err != nil {
				return err
			}
		}
	}
	return nil
}

// A task that waits in Read has no more stack than a goroutine that does: with all that is on by default, what
// the runtime has on it leaves room in the least stack for a handler.
func TestATaskThatWaitsInReadHasTheLeastStack(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); testenv.Race || !coro.Exact ||
		ok && slices.ContainsFunc(info.Settings, func(s debug.BuildSetting) bool { return s.Key == "-gcflags" || s.Key == "-cover" && s.Value == "true" }) {
		t.Skip("frames of other builds are larger")
	}
	for _, poller := range []string{"epoll", "uring"} {
		for loops := range 2 {
			if poller != "epoll" && !testenv.Full() && loops > 0 {
				continue
			}
			t.Run(fmt.Sprint(poller, loops+1), func(t *testing.T) {
				// Goroutines begin with the least stack, and not with what others have had.
				_, line := start(t, "parked", capriccio.EnvPoller+"="+poller, fmt.Sprint(capriccio.EnvLoops, "=", loops+1), "GODEBUG=adaptivestackstart=0")
				if line == "descriptors" {
					t.Skip("too few descriptors are allowed here")
				}
				var grown int
				if _, err := fmt.Sscanf(line, "%d <nil>", &grown); err != nil {
					t.Fatalf("the program says %q", line)
				}
				if most := (loops+1)*parkedCold + (parkedConns-2*parkedCold)/5; grown > most {
					t.Errorf("%d of %d tasks have a larger stack, want %d at most", grown, parkedConns, most)
				} else {
					t.Logf("%d of %d tasks have a larger stack", grown, parkedConns)
				}
			})
		}
	}
}
