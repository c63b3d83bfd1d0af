//go:build linux

package simserver

import (
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/knot"
)

// Clients that have closed their connections before it is their turn are not served, so that those that come next need not
// wait until that work has been done.
func TestClientsThatLeaveWhileTheyWait(t *testing.T) {
	const crowd, patience = 3000, 100 * time.Millisecond
	ran, due, good := 0, 0, 0
	cfg := Config{Seed: 1, Change: func(k *knot.Server) {
		serve := k.Handler
		k.Handler = func(x *knot.Ctx) error {
			ran++
			return serve(x)
		}
	}}
	r := onMix(t, cfg, 1, func(s *Server, _ *Mix) time.Duration {
		from, until := s.Now()+1500*time.Millisecond, s.Now()+2500*time.Millisecond
		for range crowd {
			s.Clients.Once(&Habit{Path: lan, Make: asks("w1000"), Timeout: patience}, nil)
		}
		s.At(from, func() { s.Clients.OpenLoop(asking("w1000", from, &due, &good), 300, until) })
		return until
	})
	r.check(t, 1)
	useless := ran - r.Clients.Statuses[200]
	want(t, useless < crowd/2 && good == due && due > 200, good, "of", due, "that came later are answered within 100 ms;", useless, "of", crowd, "are served for nothing;", r)
}

// In an overload the important requests are answered in time, and what they leave is for the others.
func TestImportantRequestsInAnOverload(t *testing.T) {
	const warm, lasts, important, others = 700 * time.Millisecond, 2 * time.Second, 200, 1800
	all, good, due, inTime := 0, 0, 0, 0
	cfg := Config{Seed: 1, Forgetful: time.Minute, Change: func(k *knot.Server) {
		k.Priority = func(x *knot.Ctx) int {
			if x.Path() == "/important" {
				return 10
			}
			return 0
		}
	}}
	r := onMix(t, cfg, 1, func(s *Server, _ *Mix) time.Duration {
		from := s.Now() + warm
		s.Clients.OpenLoop(asking("w1000", from, &all, &good), others, from+lasts)
		first := asking("", from, &due, &inTime)
		ask := first.Make
		first.Make = func() *Request {
			q := ask()
			q.Path = "/important?w1000"
			return q
		}
		s.Clients.OpenLoop(first, important, from+lasts)
		return from + lasts
	})
	r.check(t, 1)
	share, rest := float64(inTime)/float64(due), float64(good)/(lasts.Seconds()*(1000-important))
	want(t, share > 0.98 && rest > 0.7, share, "of the important requests are answered within 100 ms, of the others", rest, "of what is left for them;", r)
}
