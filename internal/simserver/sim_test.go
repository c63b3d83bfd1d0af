//go:build linux

package simserver

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/knot"
)

func hello(w *World) knot.Handler {
	return func(x *knot.Ctx) error {
		w.Work(20 * time.Microsecond)
		return x.Send(200, "text/plain", []byte("hello\n"))
	}
}

func TestHello(t *testing.T) {
	r := Run(t, Config{Seed: 1, Handler: hello}, func(s *Server) time.Duration {
		h := &Habit{Path: Path{Latency: 100 * time.Microsecond}, Make: func() *Request { return &Request{Path: "/"} }}
		s.Clients.OpenLoop(h, 200, s.Now()+time.Second)
		return s.Now() + time.Second
	})
	t.Logf("%v %v %v events %d took %v busy %.3f p50 %v broken %q", r.Clients.Statuses, r.Clients.Failures, r.Clients.begun, r.Events, r.Took, r.Busy, r.Clients.Quantile(0.5), r.Broken)
}
