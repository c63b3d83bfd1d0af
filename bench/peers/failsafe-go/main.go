// Command failsafe-go is net/http's server with failsafe-go's adaptive limiter around a
// handler that computes, and may wait meanwhile. With -prioritized it is the limiter that asks for priorities.
package main

import (
	"flag"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/peers/adaptive"
	"github.com/capriccio-go/capriccio/bench/peers/ready"
)

func main() {
	steps := flag.Int("burn", 0, "steps of work a request")
	pause := flag.Duration("pause", 0, "how long it waits in the middle of them")
	prioritized := flag.Bool("prioritized", false, "look at the Priority header")
	flag.Parse()
	handler := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		chores.Work(*steps / 2)
		if *pause > 0 {
			time.Sleep(*pause)
		}
		chores.Work(*steps - *steps/2)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "served\n")
	}))
	handler = adaptive.Limited(handler, *prioritized)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		ready.Fail(err)
	}
	ready.Listening(ln.Addr())
	ready.Fail(http.Serve(ln, handler))
}
