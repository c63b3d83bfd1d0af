//go:build linux

package simserver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

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

// A pollerCase is pollers that hold memory until a POST releases them.
type pollerCase struct {
	name   string
	loops  int
	limit  int // MiB
	each   int // bytes that a poller holds
	rate   float64
	crowd  int  // pollers that come at once
	others bool // requests that need nothing come as well
}

// Pollers hold memory, all there is, until a POST releases them. In 1 to 3 of 100 runs where more pollers come meanwhile that
// takes up to 6 s.
func TestPollersThatAPostReleases(t *testing.T) {
	runs := testenv.Rounds(2, 5)
	for _, c := range []pollerCase{
		{name: "200 at once", loops: 1, limit: 256, each: 2 << 20, crowd: 200},
		{name: "200 at once, 4 loops", loops: 4, limit: 256, each: 2 << 20, crowd: 200},
		{name: "continuously", loops: 1, limit: 256, each: 2 << 20, rate: 300},
		{name: "at once and continuously, 2 loops", loops: 2, limit: 256, each: 2 << 20, crowd: 200, rate: 100},
		{name: "large ones", loops: 1, limit: 256, each: 15 << 20, crowd: 40, rate: 10},
		{name: "small ones", loops: 1, limit: 64, each: 100 << 10, crowd: 1000, rate: 200},
		{name: "beside others", loops: 1, limit: 256, each: 2 << 20, crowd: 150, rate: 100, others: true},
	} {
		late := 0
		for seed := range uint64(runs) {
			t.Run(fmt.Sprintf("%s/seed=%d", c.name, seed), func(t *testing.T) {
				if c.run(t, seed) > 2500*time.Millisecond {
					late++
				}
			})
		}
		if late > 1 || late > 0 && c.rate == 0 {
			t.Errorf("%s: in %d of %d runs the one that releases the others waits for more than 2.5 s", c.name, late, runs)
		}
	}
}

// run returns how long the one that releases the others waits at most.
func (c *pollerCase) run(t *testing.T, seed uint64) time.Duration {
	var lock task.Mutex
	changed := task.NewCond(&lock)
	releases := 0
	cfg := Config{Seed: seed, Loops: c.loops, Memory: c.limit << 20, MayRefuse: true, Patience: time.Minute, Forgetful: time.Minute}
	cfg.Handler = func(w *World) knot.Handler {
		return func(x *knot.Ctx) error {
			if x.Path() == "/hello" {
				return x.Send(200, "text/plain", nil)
			}
			lock.Lock()
			defer lock.Unlock()
			if x.Path() == "/release" {
				releases++
				changed.Broadcast()
				return x.Send(200, "text/plain", nil)
			}
			w.Memory.Hold(c.each)
			defer w.Memory.Release(c.each)
			for before := releases; releases == before; {
				if err := changed.WaitContext(context.Background()); err != nil {
					return err
				}
			}
			return x.Send(200, "text/plain", nil)
		}
	}
	var waits []time.Duration
	denied := 0
	r := Run(t, cfg, func(s *Server) time.Duration {
		poll := &Habit{Path: lan, Make: asks("poll")}
		for range c.crowd {
			s.Clients.Once(poll, nil)
		}
		until := s.Now() + 4*time.Second
		if c.rate > 0 {
			s.Clients.OpenLoop(poll, c.rate, until)
		}
		if c.others {
			s.Clients.OpenLoop(&Habit{Path: lan, Make: func() *Request { return &Request{Path: "/hello"} }}, 300, until)
		}
		var release func()
		first := s.Now() + time.Second
		release = func() {
			s.Clients.Once(&Habit{Path: lan, Make: func() *Request {
				return &Request{Path: "/release", Done: func(r *Request) {
					if r.Status == 200 {
						waits = append(waits, s.Now()-first)
						first = s.Now() + time.Second
						s.At(first, release)
					} else {
						denied++
						s.After(200*time.Millisecond, release)
					}
				}}
			}}, nil)
		}
		s.At(first, release)
		return until + 2*time.Second
	})
	longest := time.Hour
	if len(waits) >= 3 {
		longest = max(waits[0], waits[1], waits[2])
	}
	// Where no more pollers come, the request that releases the others is not refused.
	want(t, len(r.Broken) == 0 && !r.Killed && longest < 8*time.Second && (denied == 0 || c.rate > 0), r.Most>>20, "the one that releases the others waits up to", longest, "and is refused", denied, "times", r, r.Broken)
	return longest
}

// 150 clients come at once, of which nothing is known, and each holds much for a while. They are served in turn.
func TestAColdStartThatHoldsMuch(t *testing.T) {
	for _, c := range []struct {
		limit, ballast int // MiB
		steps          string
	}{
		{110, 0, "h2000000.s1000000"}, {110, 0, "h8000000.s600000"}, {110, 40, "h2000000.s1000000"},
		{256, 0, "h15000000.s500000"}, {256, 40, "h2000000.s1000000"},
	} {
		for _, loops := range []int{1, 4} {
			t.Run(fmt.Sprint(c, loops), func(t *testing.T) {
				r := onMix(t, Config{Seed: 1, Loops: loops, Memory: c.limit << 20, Patience: time.Minute}, 1, func(s *Server, _ *Mix) time.Duration {
					s.Memory.Hold(c.ballast << 20)
					s.Memory.Collect()
					start, until := s.Now()+490*time.Millisecond, s.Now()+500*time.Millisecond
					left := 150
					h := &Habit{Path: lan, KeepAlive: true, Make: func() *Request {
						return &Request{Path: "/?" + c.steps, Done: func(*Request) {
							if left--; left == 0 {
								s.Memory.Release(c.ballast << 20)
							}
						}}
					}}
					s.At(start, func() { s.Clients.ClosedLoop(h, 150, 0, until) })
					return until
				})
				want(t, !r.Killed && len(r.Broken) == 0 && r.Clients.Statuses[200] == 150, r.Most>>20, "MiB", r.Clients.Statuses, r.Broken)
			})
		}
	}
}

// Responses of 1 KB to 8 MB to 400 slow readers, with 256 MiB. In all runs but that of seed 0, which takes seconds, a sleep
// stands for the time in which the client reads.
func TestMixedResponsesInLittleMemory(t *testing.T) {
	const rate = 2 << 20 // bytes a second
	over, held, looks, most := 0, 0, 0, 0
	seeds := testenv.Rounds(10, 40)
	for seed := uint64(testenv.Rounds(1, 0)); seed < uint64(seeds); seed++ {
		slow, steps := lan, "h%d.s%d"
		if seed == 0 {
			slow.Rate, steps = rate, "h%d.z%[1]d"
		}
		r := onMix(t, Config{Seed: seed, Memory: 256 << 20, Patience: 3 * time.Minute, Forgetful: 3 * time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
			h := &Habit{Path: slow, Make: func() *Request {
				size := 1 << (10 + s.IntN(14))
				return &Request{Path: fmt.Sprintf("/?"+steps, size, size*1_000_000/rate)}
			}}
			for at := 500 * time.Millisecond; at < 2*time.Second; at += 10 * time.Millisecond {
				s.After(at, func() {
					held += s.Memory.Held()
					looks++
				})
			}
			s.Clients.ClosedLoop(h, 400, 0, s.Now()+2*time.Second)
			return s.Now() + 2*time.Second
		})
		most = max(most, r.Most)
		if r.Killed || len(r.Broken) > 0 {
			over++
			t.Error("seed", seed, r, r.Broken)
		}
	}
	want(t, over == 0 && held/looks > 180<<20, over, "of", seeds, "runs at most took more than there is, the most was", most>>20, "MiB;", held/looks>>20, "MiB were in use on average")
}

// 150 clients upload 1 MiB each at once, which handlers keep, with 64 MiB. Those that began first are read to
// their ends, so that no more than about half of the memory is ever held, and nearly all are served.
func TestUploadsThatDoNotFitAtOnce(t *testing.T) {
	for seed := range uint64(3) {
		slow := lan
		slow.Rate = 1 << 20
		r := onMix(t, Config{Seed: seed, Memory: 64 << 20, Patience: time.Minute, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
			h := &Habit{Path: slow, Make: func() *Request { return &Request{Path: "/?u1048576.s20000", Body: 1 << 20} }}
			for range 150 {
				s.Clients.Once(h, nil)
			}
			return s.Now() + time.Second
		})
		want(t, r.Most <= 36<<20 && len(r.Broken) == 0 && r.Clients.Statuses[200] >= 145, "seed", seed, "at most", r.Most>>20, "MiB", r.Clients.Statuses, r.Broken)
	}
}

// 100 clients upload 1 MiB each over slow lines, which handlers pass on, beside a cache that takes two thirds of the
// memory. Nobody is refused.
func TestUploadsThatArePassedOnBesideACache(t *testing.T) {
	slow := lan
	slow.Rate = 300 << 10
	r := onMix(t, Config{Seed: 1, Memory: 6 << 20, Patience: time.Minute, Forgetful: time.Minute}, 1, func(s *Server, m *Mix) time.Duration {
		s.Memory.Hold(4 << 20)
		s.After(59*time.Second, func() { s.Memory.Release(4 << 20) })
		h := &Habit{Path: slow, Make: func() *Request { return &Request{Path: "/?e1048576", Body: 1 << 20} }}
		for range 100 {
			s.Clients.Once(h, nil)
		}
		return s.Now() + time.Minute
	})
	want(t, r.Clients.Statuses[200] == 100 && len(r.Broken) == 0, r.Clients.Statuses, r.Broken)
}

// 60 clients come at once with 5 requests each, at the same connection, for a slow backend. Before any of
// them has had all its answers it has not been seen that they ever end: that they go round is no reason to
// think that they will hold all of the memory, and to refuse those that come later.
func TestPipelinesAtASlowBackendHoldLittle(t *testing.T) {
	for seed := range uint64(5) {
		r := onMix(t, Config{Seed: seed, Loops: 3, Memory: 256 << 20}, 2, func(s *Server, m *Mix) time.Duration {
			h := &Habit{Path: lan, Make: asks("b13000.h116000"), Pipeline: 5}
			for range 60 {
				s.Clients.Once(h, nil)
			}
			for at := 100 * time.Millisecond; at < time.Second; at += 20 * time.Millisecond {
				s.After(at, func() { s.Clients.Once(h, nil) })
			}
			return s.Now() + time.Second
		})
		r.check(t, seed)
		want(t, r.Clients.Statuses[503] == 0, "seed", seed, r.Clients.Statuses)
	}
}
