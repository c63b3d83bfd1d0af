//go:build linux

package simserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/engine"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// onMix runs a server with the handler Mix, whose backend has that many workers.
func onMix(t *testing.T, cfg Config, workers int, play func(s *Server, m *Mix) time.Duration) *Result {
	if testenv.Race && cfg.Change == nil {
		t.Skip("these are many requests; the seeds look for races")
	}
	var mix *Mix
	cfg.MayRefuse = true
	cfg.Handler = func(w *World) knot.Handler {
		var err error
		if mix, err = newMix(w, "", workers); err != nil {
			t.Fatal(err)
		}
		return mix.Handle
	}
	return Run(t, cfg, func(s *Server) time.Duration { return play(s, mix) })
}

// want logs, or fails the test with, what there is to say.
func want(t *testing.T, good bool, args ...any) {
	t.Helper()
	if good {
		t.Log(args...)
	} else {
		t.Error(args...)
	}
}

// lockRate is how many times a second a lock can be held for 1 ms, with the time until the
// next one runs.
const lockRate = 930

// One lock that is held for 1 ms, with up to 10 times as many requests as it can serve. What was let
// in before it was found is work for most of a second; the others are served in time meanwhile. Half
// as many as it could serve need another lock, which is taken at the same place in the program, and
// are all served. When all clients have gone nothing is done for them any more.
func TestOneLockOfTwo(t *testing.T) {
	loads := []float64{2}
	if testenv.Full() {
		loads = []float64{0.8, 2, 10}
	}
	for _, times := range loads {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			const warm, lasts = 200 * time.Millisecond, 1300 * time.Millisecond
			var good, beside, due int
			r := onMix(t, Config{Seed: 1, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
				from := s.Now() + warm
				s.Clients.OpenLoop(asking("k1000", from, new(int), &good), times*lockRate, from+lasts)
				s.Clients.OpenLoop(asking("j1000", from, &due, &beside), lockRate/2, from+lasts)
				return from + lasts
			})
			r.check(t, 1)
			share, besides := float64(good)/lasts.Seconds()/lockRate, float64(beside)/float64(due)
			least := 0.98 // more than chance brings, and than a lock can do that gives one turn in 16 to what is late
			if times < 1 {
				least = 0.9 * times
			}
			want(t, share > least && besides > 0.98 && r.Took < 4*time.Second, share, "of what the lock can serve is served within 100 ms, beside it", besides, "of what comes;", r)
		})
	}
}

// asking is a habit of requests with the given steps from clients that leave after a second. Those sent
// from the given time on are counted in all, and in good if they are answered within 100 ms.
func asking(steps string, from time.Duration, all, good *int) *Habit {
	return &Habit{Path: lan, KeepAlive: true, Timeout: time.Second, Make: func() *Request {
		q := asks(steps)()
		q.Done = func(q *Request) {
			if q.Sent < from {
				return
			}
			*all++
			if q.Status == 200 && q.Took() <= 100*time.Millisecond {
				*good++
			}
		}
		return q
	}}
}

// Ten times as many requests as can be served.
func TestOverloadThatLasts(t *testing.T) {
	for _, x := range []struct {
		what, work  string
		rate        float64 // a second, of which a tenth can be served
		warm, lasts time.Duration
		share       float64 // at least, in time
	}{
		// Clients that come new and leave cost three times as much as those that are refused and come again.
		{"clients that leave after a second", "w2000", 5000, 500 * time.Millisecond, 2 * time.Second, 0.9},
		// Each on a new connection at first: more than can be accepted, so that the oldest of those that wait for
		// it are taken when it is too late for them.
		{"cheap requests", "w200", 50_000, 700 * time.Millisecond, time.Duration(testenv.Rounds(400, 1200)) * time.Millisecond, 0.6},
	} {
		t.Run(x.what, func(t *testing.T) {
			all, good := 0, 0
			r := onMix(t, Config{Seed: 1, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
				from := s.Now() + x.warm
				s.Clients.OpenLoop(asking(x.work, from, &all, &good), x.rate, from+x.lasts)
				return from + x.lasts
			})
			r.check(t, 1)
			share := float64(good) / (x.rate / 10) / x.lasts.Seconds()
			want(t, share > x.share, share, "of the capacity is answered within 100 ms;", r)
		})
	}
}

// Work that is cut into steps by waits, as most is: what has begun goes on before more begins, so that twice as much as can
// be served costs nobody but those that are refused. The processor alone is scarce, and inside of the entrance is
// where it is waited for. Streams of events, or whatever else is there and waits for long, make no difference.
func TestOverloadOfWorkThatWaits(t *testing.T) {
	const warm, lasts = 1250 * time.Millisecond, 1500 * time.Millisecond
	for _, streams := range []int{0, 1000} {
		for _, x := range []struct {
			work  string
			rate  float64 // a second, of which half can be served
			seeds int     // one alone has from 0.8 to 1.03 where a request works for 5 ms
		}{
			{"w500.s5000.w500", 2000, 1}, {"w900.s5000.w100", 2000, 1}, {"w100.s5000.w900", 2000, 1},
			{"w500.s5000.w4500", 400, 3}, {"w1000.s5000.w1000.s5000.w1000.s5000.w1000.s5000.w1000", 400, 3},
		} {
			t.Run(fmt.Sprint(x.work, "/", streams), func(t *testing.T) {
				all, good := 0, 0
				var r *Result
				for seed := range uint64(x.seeds) {
					r = onMix(t, Config{Seed: 1 + seed, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
						from := s.Now() + warm
						s.Clients.ClosedLoop(&Habit{Path: lan, Make: asks("s20000000")}, streams, 0, from+lasts)
						s.Clients.OpenLoop(asking(x.work, from, &all, &good), x.rate, from+lasts)
						return from + lasts
					})
					r.check(t, 1)
				}
				share := float64(good) / float64(x.seeds) / (x.rate / 2) / lasts.Seconds()
				want(t, share > 0.9, share, "of the capacity is answered within 100 ms;", r)
			})
		}
	}
}

// Work that is long after it was let in holds nobody up at the entrance, though a burst of it may be ready: that would make
// a burst of those that are kept out, again and again.
func TestWorkThatComesLater(t *testing.T) {
	const rate, lasts = 800, 4 * time.Second
	r := onMix(t, Config{Seed: 1, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
		until := s.Now() + lasts
		s.Clients.OpenLoop(&Habit{Path: lan, KeepAlive: true, Timeout: time.Second, Make: asks("w20.s500000.w480.s1000.w500")}, rate, until)
		return until
	})
	r.check(t, 1)
	p99 := r.Clients.Quantile(0.99)
	want(t, len(r.Clients.Failures) == 0 && r.Clients.Statuses[200] > rate*3 && p99 < 600*time.Millisecond, "p99", p99, r)
}

// Nine clients with a tenth of the capacity each, or a little less, hardly notice one that has all of it.
func TestTenTenants(t *testing.T) {
	const warm, lasts = time.Second, 5 * time.Second
	all, good, tenth := 0, 0, 0
	r := onMix(t, Config{Seed: 1, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
		from := s.Now() + warm
		for i := range 10 {
			h, rate := asking("w1000", from, &all, &good), 90.0
			if i == 9 {
				h, rate = asking("w1000", from, new(int), &tenth), 1000
			}
			h.Path.Host = byte(i + 1)
			s.Clients.OpenLoop(h, rate, from+lasts)
		}
		return from + lasts
	})
	r.check(t, 1)
	share := float64(good) / float64(all)
	want(t, share > 0.96, share, "of what the nine ask for is answered within 100 ms, of the tenth", tenth, "requests;", r)
}

// A backend of 12 workers goes from 5 to 500 ms for some time, under clients that give up after
// 1 s and try three times more. It has to be as before 2 s after the backend is, though the processor is away now and then.
func TestBackendStep(t *testing.T) {
	for seed := range uint64(testenv.Rounds(1, 12)) {
		for _, lasts := range []time.Duration{2500 * time.Millisecond, 5 * time.Second} {
			t.Run(fmt.Sprint(lasts, "/", seed+1), func(t *testing.T) { backendStep(t, seed+1, lasts) })
		}
	}
}

func backendStep(t *testing.T, seed uint64, lasts time.Duration) {
	delay := 5000
	sent, good, since := 0, 0, time.Duration(0)
	const rate = 1200.0
	r := Run(t, Config{Seed: seed, MayRefuse: true, Forgetful: time.Minute, Patience: time.Minute, Handler: func(w *World) knot.Handler {
		backend := task.NewSemaphore(12)
		return func(x *knot.Ctx) error {
			if err := backend.Acquire(1); err != nil {
				return err
			}
			defer backend.Release(1)
			if err := engine.Sleep(time.Duration(delay) * time.Microsecond); err != nil {
				return err
			}
			return x.Send(200, "text/plain", nil)
		}
	}}, func(s *Server) time.Duration {
		from := s.Now()
		h := &Habit{Path: lan, KeepAlive: true, Timeout: time.Second, Retries: 3, Pause: 100 * time.Millisecond, Make: func() *Request {
			return &Request{Path: "/", Done: func(r *Request) {
				if since == 0 || r.Sent < since {
					return
				}
				sent++
				if r.Status == 200 && r.Took() < 100*time.Millisecond {
					good++
				}
			}}
		}}
		until := from + lasts + 4*time.Second
		var away func()
		away = func() {
			s.Stop(s.Below(20 * time.Millisecond))
			s.After(s.Exp(100*time.Millisecond), away)
		}
		s.After(s.Exp(100*time.Millisecond), away)
		s.Clients.OpenLoop(h, rate, until)
		s.At(from+time.Second-s.Below(100*time.Millisecond), func() { delay = 500_000 })
		s.At(from+lasts+time.Second, func() { delay = 5000 })
		s.At(from+lasts+3*time.Second, func() { since = s.Now() })
		return until
	})
	r.check(t, seed)
	share := float64(good) / float64(sent)
	want(t, share > 0.95, share, "of the requests are answered in 100 ms from 2 s after the step on;", r)
}
