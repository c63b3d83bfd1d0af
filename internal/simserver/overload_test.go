//go:build linux

package simserver

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// onMix runs a server with the handler Mix, whose backend has that many workers.
func onMix(t *testing.T, cfg Config, workers int, play func(s *Server, m *Mix) time.Duration) *Result {
	if raceEnabled && cfg.Change == nil {
		t.Skip("these are many requests; the seeds look for races")
	}
	var mix *Mix
	cfg.MayRefuse = true
	cfg.Handler = func(w *World) knot.Handler {
		var err error
		if mix, err = newMix(w, "", workers); err != nil {
			t.Fatal(err)
		}
		return mix.Serve
	}
	return Run(t, cfg, func(s *Server) time.Duration { return play(s, mix) })
}

// inTime is how many requests were answered with 200 within d.
func (r *Result) inTime(d time.Duration) (n int) {
	for _, took := range r.Clients.Late {
		if took <= d {
			n++
		}
	}
	return n
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

// 111 requests hold as much memory as there may be, for a minute; what comes then is admitted
// later, refused, or cut off, but does not wait for ever.
func TestNobodyWaitsForEverAtAFullMemory(t *testing.T) {
	waited := time.Hour
	r := onMix(t, Config{Seed: 1, Memory: 64 << 20, Patience: 2 * time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
		for range 111 {
			s.Clients.Once(&Habit{Path: lan, Make: asks("h550000.s60000000")}, nil)
		}
		s.After(time.Second, func() {
			s.Clients.Once(&Habit{Path: lan, Make: func() *Request {
				return &Request{Path: "/?h1000", Done: func(r *Request) { waited = r.Took() }}
			}}, nil)
		})
		return s.Now() + 61*time.Second
	})
	want(t, len(r.Broken) == 0 && waited < 12*time.Second, "it waited", waited, r, r.Broken)
}

// Pollers hold 2 MiB each until a POST releases them.
func TestPollersThatAPostReleases(t *testing.T) {
	var wait *task.Cond
	var lock task.Mutex
	wait = task.NewCond(&lock)
	released := false
	cfg := Config{Seed: 1, Memory: 256 << 20, MayRefuse: true, Patience: time.Minute, Forgetful: time.Minute, Handler: func(w *World) knot.Handler {
		return func(x *knot.Ctx) error {
			lock.Lock()
			defer lock.Unlock()
			if x.Path() == "/release" {
				released = true
				wait.Broadcast()
				return x.Send(200, "text/plain", nil)
			}
			w.Memory.Hold(2 << 20)
			defer w.Memory.Release(2 << 20)
			for !released {
				if err := wait.WaitCancel(); err != nil {
					return err
				}
			}
			return x.Send(200, "text/plain", nil)
		}
	}}
	done := false
	r := Run(t, cfg, func(s *Server) time.Duration {
		h := &Habit{Path: lan, Make: get, Retries: 100, Pause: 100 * time.Millisecond}
		for i := range 300 {
			s.After(time.Duration(i)*10*time.Millisecond, func() { s.Clients.Once(h, nil) })
		}
		s.After(5*time.Second, func() {
			s.Clients.Once(&Habit{Path: lan, Retries: 200, Pause: 100 * time.Millisecond, Make: func() *Request {
				return &Request{Path: "/release", Done: func(r *Request) { done = done || r.Status == 200 }}
			}}, nil)
		})
		return s.Now() + 6*time.Second
	})
	want(t, len(r.Broken) == 0 && done, r, r.Broken)
}

// lockRate is how many times a second a lock can be held for 1 ms, with the time until the
// next one runs.
const lockRate = 930

// One lock that is held for 1 ms, with up to 10 times as many requests as it can serve. What was let
// in before it was found is work for most of a second; the others are served in time meanwhile. Half
// as many as it could serve need another lock, which is taken at the same place in the program, and
// are all served.
func TestOneLockOfTwo(t *testing.T) {
	for _, times := range []float64{0.8, 2, 10} {
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
			want(t, share > 0.9*min(times, 1) && besides > 0.98, share, "of what the lock can serve is served within 100 ms, beside it", besides, "of what comes;", r)
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

// Ten times as many requests of 1 ms as can be served, from clients that leave after a second: those who
// come new and leave cost three times as much as those who are refused and come again.
func TestOverloadWhoseClientsLeave(t *testing.T) {
	const warm, lasts = 500 * time.Millisecond, 2 * time.Second
	all, good := 0, 0
	r := onMix(t, Config{Seed: 1, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
		from := s.Now() + warm
		s.Clients.OpenLoop(asking("w1000", from, &all, &good), 10_000, from+lasts)
		return from + lasts
	})
	r.check(t, 1)
	share := float64(good) / 1000 / lasts.Seconds()
	want(t, share > 0.9, share, "of the capacity is answered within 100 ms;", r)
}

// Nine clients with a tenth of the capacity each, or a little less, hardly notice one that has all of it.
func TestTenTenants(t *testing.T) {
	const warm, lasts = 500 * time.Millisecond, 5 * time.Second
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
	want(t, share > 0.98, share, "of what the nine ask for is answered within 100 ms, of the tenth", tenth, "requests;", r)
}

// A backend of 12 workers goes from 5 to 500 ms for 3 s, under clients that give up after
// 1 s and try three times more. It has to be as before 2 s after the backend is.
func TestBackendStep(t *testing.T) {
	delay := 5000
	good, since := 0, time.Duration(0)
	const rate = 1000.0
	r := Run(t, Config{Seed: 1, MayRefuse: true, Forgetful: time.Minute, Patience: time.Minute, Handler: func(w *World) knot.Handler {
		backend := task.NewSemaphore(12)
		return func(x *knot.Ctx) error {
			if err := backend.Acquire(1); err != nil {
				return err
			}
			defer backend.Release(1)
			if err := task.Sleep(time.Duration(delay) * time.Microsecond); err != nil {
				return err
			}
			return x.Send(200, "text/plain", nil)
		}
	}}, func(s *Server) time.Duration {
		from := s.Now()
		h := &Habit{Path: lan, Timeout: time.Second, Retries: 3, Pause: 10 * time.Millisecond, Make: func() *Request {
			return &Request{Path: "/", Done: func(r *Request) {
				if since > 0 && r.Sent >= since && r.Status == 200 && r.Took() < time.Second {
					good++
				}
			}}
		}}
		s.Clients.OpenLoop(h, rate, from+7*time.Second)
		s.At(from+time.Second, func() { delay = 500_000 })
		s.At(from+4*time.Second, func() { delay = 5000 })
		s.At(from+6*time.Second, func() { since = s.Now() })
		return from + 7*time.Second
	})
	r.check(t, 1)
	share := float64(good) / rate
	want(t, share > 0.95, share, "of the requests are answered from 2 s after the step on;", r)
}

// Responses of 1 KB to 8 MB to 400 slow readers, with 256 MiB.
func TestMixedResponsesInLittleMemory(t *testing.T) {
	r := onMix(t, Config{Seed: 1, Memory: 256 << 20, Patience: 3 * time.Minute, Forgetful: 3 * time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
		slow := lan
		slow.Rate = 2 << 20
		h := &Habit{Path: slow, Make: func() *Request {
			size := 1 << (10 + s.IntN(14))
			return asks("h" + strconv.Itoa(size) + ".z" + strconv.Itoa(size))()
		}}
		s.Clients.ClosedLoop(h, 400, 0, s.Now()+2*time.Second)
		return s.Now() + 2*time.Second
	})
	want(t, !r.Killed && len(r.Broken) == 0, r, r.Broken)
}
