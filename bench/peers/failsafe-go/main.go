// Command failsafe-go is net/http's server with failsafe-go's adaptive limiter around a
// handler that computes, and may wait meanwhile. With -prioritized it is the limiter that asks for priorities.
package main

import (
	"context"
	"flag"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/capriccio-go/capriccio/bench/internal/chores"
	"github.com/capriccio-go/capriccio/bench/peers/ready"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/adaptivelimiter"
	"github.com/failsafe-go/failsafe-go/failsafehttp"
	"github.com/failsafe-go/failsafe-go/priority"
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
	limiter := adaptivelimiter.NewBuilder[*http.Response]()
	if *prioritized {
		prioritizer := adaptivelimiter.NewPrioritizer()
		prioritizer.ScheduleCalibrations(context.Background(), 100*time.Millisecond)
		handler = ranked(handler, failsafe.With(limiter.BuildPrioritized(prioritizer)))
	} else {
		handler = failsafehttp.NewHandler(handler, limiter.Build())
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		ready.Fail(err)
	}
	ready.Listening(ln.Addr())
	ready.Fail(http.Serve(ln, handler))
}

// ranked makes a priority out of the Priority header of RFC 9218, as the driver sends it.
// The handler of failsafehttp does not hand the request's context to its policies, so
// each request gets an executor that does.
func ranked(next http.Handler, executor failsafe.Executor[*http.Response]) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := priority.Medium
		switch r.Header.Get("Priority") {
		case "u=1":
			p = priority.VeryHigh
		case "u=6":
			p = priority.VeryLow
		}
		ctx := p.AddTo(r.Context())
		failsafehttp.NewHandlerWithExecutor(next, executor.WithContext(ctx)).ServeHTTP(w, r)
	})
}
