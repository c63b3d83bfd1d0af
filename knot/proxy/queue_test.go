package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/task"
)

const aRequest = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"

// occupied returns a proxy whose backend has as many requests as it may have: one.
func occupied(t *testing.T, c Config) (*front, *backend) {
	backend := behind(t, func(http.ResponseWriter, *http.Request) {})
	c.Backends, c.MaxConns = []string{backend}, 1
	f := serve(t, c, 1)
	b := f.p.backends[0]
	if !b.enter() || !b.units.TryAcquire(1) {
		t.Fatal("there is no room for one")
	}
	return f, b
}

// TestGoneInTheQueue: a request whose client leaves while it waits for its turn does not wait on, in the way of others.
func TestGoneInTheQueue(t *testing.T) {
	f, b := occupied(t, Config{QueueTimeout: time.Hour})
	c, _ := f.dial(aRequest)
	testenv.Until(t, "a wait", func() bool { return f.p.Stats()[0].Queued == 1 })
	c.Close()
	testenv.Until(t, "its end", func() bool {
		s := f.p.Stats()[0]
		return s.Outstanding == 1 && s.Failures["client gone"] == 1
	})
	b.leave(nil, false)
	if log := f.log.String(); log != "" {
		t.Errorf("the log has %s", log)
	}
}

// TestTotalTimeInTheQueue: the time that there is for all of a request ends in the queue too, if that has no limit of its own.
func TestTotalTimeInTheQueue(t *testing.T) {
	f, b := occupied(t, Config{QueueTimeout: -1, TotalTimeout: time.Millisecond})
	if got := f.raw(aRequest); !strings.HasPrefix(got, "HTTP/1.1 503 ") {
		t.Errorf("a request that waits for its turn: %q", got)
	}
	b.leave(nil, false)
}

// asked is called when a connection that has rested is looked at, and then that is stale.
type asked func()

func (fn asked) Quiet() bool {
	fn()
	return false
}

// TestStaleAndQueued: a request that draws a stale connection keeps its turn while others wait for theirs.
func TestStaleAndQueued(t *testing.T) {
	f, b := occupied(t, Config{QueueTimeout: time.Hour})
	u, err := b.get()
	testenv.Must(t, err)
	turn := make(chan bool, 1)
	u.quiet = asked(func() {
		waits := false // of the one loop
		task.Go(func() {
			b.enter()
			waits = true
			b.units.Acquire(1)
			turn <- true
		})
		for !waits {
			task.Yield()
		}
	})
	b.leave(u, true)
	if got := f.raw(aRequest); !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Errorf("a request that draws a stale connection: %q", got)
	}
	<-turn
	b.leave(nil, false)
}
