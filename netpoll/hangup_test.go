//go:build linux

package netpoll

import (
	"context"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

// What has registered is told once that the peer has gone, before and after it has; other events do not
// count, nor what was taken back.
func TestOnHangup(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			told := make(chan string, 10)
			on := func(which string) bool {
				fn := func() { told <- which }
				return s.OnHangup(&fn)
			}
			if !on("first") {
				return // this poller does not tell
			}
			need(c.Write([]byte("bytes that nobody reads")))(t)
			if !s.OnHangup(nil) || s.OnHangup(nil) {
				t.Error("what was registered is taken back once")
			}
			on("second")
			must(t, c.CloseWrite())
			for _, want := range []string{"second", "late"} {
				var got string
				task.Offload(func() {
					select {
					case got = <-told:
					case <-time.After(time.Minute):
					}
				})
				if got != want || len(told) > 0 {
					t.Errorf("%s: told %q, want %q, and %d more", network, got, want, len(told))
				}
				if s.OnHangup(nil) {
					t.Error("what was called is taken back")
				}
				if want == "second" {
					on("late")
				}
			}
		}
	})
}

func TestQuiet(t *testing.T) {
	both(t, func(t *testing.T) {
		for _, network := range []string{"tcp", "unix"} {
			c, s := connPair(t, network)
			talkOnce(t, c, s)
			if !s.Quiet() {
				t.Error(network, "nothing has come, and it is not quiet")
			}
			need(c.Write([]byte("x")))(t)
			for s.Quiet() { // until the loop has been told
				must(t, task.Sleep(time.Millisecond))
			}
			need(s.Read(make([]byte, 10)))(t)
			if !s.Quiet() {
				t.Error(network, "all has been read, and it is not quiet")
			}
			must(t, c.Close())
			for s.Quiet() {
				must(t, task.Sleep(time.Millisecond))
			}
		}
	})
}

// A plain goroutine has no loop, and uses what rests at any.
func TestPoolOfGoroutines(t *testing.T) {
	both(t, func(t *testing.T) {
		p, dials := poolOf(t, 0)
		for range 3 {
			c := need(p.Get(context.Background()))(t)
			p.Put(c, false)
		}
		task.Offload(func() {
			for range 3 {
				c := need(p.Get(context.Background()))(t)
				p.Put(c, false)
			}
		})
		testenv.Equal(t, dials.Load(), 1, "connections for one at a time")
		must(t, p.Close())
	})
}
