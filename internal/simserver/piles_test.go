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

// A remote is a server elsewhere, which does that many things at once, first come, first served. All is
// the conductor's, but for ask.
type remote struct {
	w       *World
	since   time.Duration
	workers int
	takes   timing
	busy    int
	queue   []*task.Chan[bool]
}

// ask waits, at one place for all remotes, until r has done what the caller wants.
func ask(r *remote) error {
	done := task.NewChan[bool](1)
	r.w.After(0, func() {
		r.queue = append(r.queue, done)
		r.serve()
	})
	_, err := done.Recv()
	return err
}

func (r *remote) serve() {
	for r.busy < r.workers && len(r.queue) > 0 {
		done := r.queue[0]
		r.queue = r.queue[1:]
		r.busy++
		r.w.After(r.takes(r.w, r.w.Now()-r.since), func() {
			done.TrySend(true)
			r.busy--
			r.serve()
		})
	}
}

// A route is some of the requests to a server that asks remotes.
type route struct {
	rate    float64 // of requests a second
	workers int     // of its remote; 0: it asks that of the one before
	takes   timing
	due     int
	good    int // answered within 100 ms
	done    int
	refused int
}

const unlimited = 1 << 30

// A timing is how long something takes.
type timing func(w *World, now time.Duration) time.Duration

func always(d time.Duration) timing { return func(*World, time.Duration) time.Duration { return d } }

// around is d on average, and differs widely.
func around(d time.Duration) timing {
	return func(w *World, _ time.Duration) time.Duration { return w.Exp(d) }
}

// later is one until a second has passed, then another.
func later(before, after timing) timing {
	return func(w *World, now time.Duration) time.Duration {
		if now < time.Second {
			return before(w, now)
		}
		return after(w, now)
	}
}

// onRoutes has requests come to the given routes for so long, which differ in the letter behind the given
// path. Each asks a remote of its own, but all wait for an answer in the same function.
func onRoutes(t *testing.T, seed uint64, path string, lasts time.Duration, routes ...*route) *Result {
	if testenv.Race {
		t.Skip("these are many requests; the seeds look for races")
	}
	remotes := map[string]*remote{}
	pathTo := func(i int) string { return path + string(rune('a'+i)) }
	cfg := Config{Seed: seed, MayRefuse: true, Forgetful: time.Minute, Patience: 2 * time.Minute, Handler: func(w *World) knot.Handler {
		for i, x := range routes {
			if remotes[pathTo(i)] = remotes[pathTo(i-1)]; i == 0 || x.workers > 0 {
				remotes[pathTo(i)] = &remote{w: w, workers: x.workers, takes: x.takes}
			}
		}
		return func(x *knot.Ctx) error {
			path := x.Path()
			if q := x.Query(); q != "" {
				path += "?" + q
			}
			if err := ask(remotes[path]); err != nil {
				return err
			}
			return x.Send(200, "text/plain", nil)
		}
	}}
	r := Run(t, cfg, func(s *Server) time.Duration {
		from := s.Now()
		for i, x := range routes {
			path := pathTo(i)
			remotes[path].since = from
			s.Clients.OpenLoop(&Habit{Path: lan, KeepAlive: true, Make: func() *Request {
				return &Request{Path: path, Done: func(q *Request) {
					x.due++
					switch q.Status {
					case 200:
						x.done++
						if q.Took() <= 100*time.Millisecond {
							x.good++
						}
					case 503:
						x.refused++
					}
				}}
			}}, x.rate, from+lasts)
		}
		return from + lasts
	})
	r.check(t, seed)
	return r
}

const fast = 5 * time.Millisecond

// Two routes ask different remotes, but wait for them at the same place. One remote becomes so slow that it can't
// do what it is asked for. Those that don't need it are all served.
func TestASlowRouteBesideAQuickOne(t *testing.T) {
	for seed := range uint64(testenv.Rounds(2, 20)) {
		path := []string{"/", "/?"}[seed%2]
		t.Run(fmt.Sprint(path, seed+1), func(t *testing.T) {
			quick := &route{rate: 300, workers: 20, takes: always(fast)}
			slow := &route{rate: 200, workers: 4, takes: later(always(fast), always(40*time.Millisecond))}
			r := onRoutes(t, seed+1, path, 5*time.Second, quick, slow)
			want(t, quick.good == quick.due && slow.done > 540 && slow.refused > 250, "quick", quick, "slow", slow, r)
		})
	}
}

// The remotes of three routes become slow, and none of these has most of those that wait.
func TestThreeSlowRoutesBesideAQuickOne(t *testing.T) {
	for seed := range uint64(testenv.Rounds(2, 20)) {
		path := []string{"/", "/?"}[seed%2]
		t.Run(fmt.Sprint(path, seed+1), func(t *testing.T) {
			quick := &route{rate: 300, workers: 20, takes: always(fast)}
			all := []*route{quick}
			done, refused := 0, 0
			for range 3 {
				all = append(all, &route{rate: 100, workers: 2, takes: later(always(fast), always(40*time.Millisecond))})
			}
			r := onRoutes(t, seed+1, path, 5*time.Second, all...)
			for _, x := range all[1:] {
				done, refused = done+x.done, refused+x.refused
			}
			want(t, quick.good == quick.due && done > 800 && refused > 300, "quick", quick, "slow", all[1:], r)
		})
	}
}

// 400 clients that come within some time, each of which asks again as soon as it has an answer, at a backend that serves 40
// at a time: the line at the backend's door grows only until all are there, and nobody is refused.
func TestClientsThatComeSlowlyToABackend(t *testing.T) {
	for _, within := range []time.Duration{0, 300 * time.Millisecond, time.Second, 1900 * time.Millisecond} { // 2 s of growth are an overload
		for _, takes := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
			r := Run(t, Config{Seed: 1, Loops: 1, MayRefuse: true, Patience: time.Minute, Handler: func(w *World) knot.Handler {
				backend := task.NewSemaphore(40)
				return func(x *knot.Ctx) error {
					if err := backend.Acquire(1); err != nil {
						return err
					}
					defer backend.Release(1)
					if err := engine.Sleep(takes + w.Below(takes/5)); err != nil {
						return err
					}
					return x.Send(200, "text/plain", nil)
				}
			}}, func(s *Server) time.Duration {
				end := s.Now() + 5*time.Second
				s.Clients.ClosedLoop(&Habit{Path: lan, KeepAlive: true, Make: func() *Request { return &Request{Path: "/"} }}, 400, within, end)
				return end
			})
			want(t, r.Clients.Statuses[503] == 0 && r.Clients.Statuses[200] > 1000, "within", within, "takes", takes, r.Clients.Statuses)
		}
	}
}

// Three routes ask one remote, which becomes slow: each has its share of what that does.
func TestThreeRoutesToASlowRemote(t *testing.T) {
	for seed := range uint64(testenv.Rounds(2, 20)) {
		t.Run(fmt.Sprint(seed+1), func(t *testing.T) {
			quick := &route{rate: 300, workers: 20, takes: always(fast)}
			all := []*route{quick, {rate: 100, workers: 6, takes: later(always(fast), always(40*time.Millisecond))}, {rate: 100}, {rate: 100}}
			r := onRoutes(t, seed+1, "/", 5*time.Second, all...)
			refused, good := 0, 0
			for _, x := range all[1:] {
				refused, good = refused+x.refused, good+x.good
			}
			want(t, quick.good == quick.due && refused > 50, "quick", quick, "slow", all[1:], good, "in time", r)
		})
	}
}

// Nothing is scarce where tasks only wait, however long, and whatever else waits at the same place.
func TestNoPileWhereNothingIsScarce(t *testing.T) {
	quick := func() *route { return &route{rate: 500, workers: unlimited, takes: always(fast)} }
	waits := func(rate float64, takes timing) *route {
		return &route{rate: rate, workers: unlimited, takes: takes}
	}
	for name, routes := range map[string]func() []*route{
		"1 s": func() []*route { return []*route{quick(), waits(200, always(time.Second))} },
		"becomes slow": func() []*route {
			return []*route{quick(), waits(200, later(always(fast), always(500*time.Millisecond)))}
		},
		"becomes very slow": func() []*route { return []*route{quick(), waits(50, later(always(fast), always(5*time.Second)))} },
		"becomes slow and varies": func() []*route {
			return []*route{quick(), waits(200, later(always(fast), around(500*time.Millisecond)))}
		},
		"becomes very slow and varies": func() []*route {
			return []*route{quick(), waits(200, later(always(fast), around(3*time.Second)))}
		},
		"two become slow": func() []*route {
			return []*route{quick(), waits(200, later(always(fast), around(500*time.Millisecond))), waits(200, later(always(fast), around(time.Second)))}
		},
		"three become slow": func() []*route {
			return []*route{quick(), waits(100, later(always(fast), around(time.Second))), waits(100, later(always(fast), around(time.Second))), waits(100, later(always(fast), around(time.Second)))}
		},
		"long pollers": func() []*route { return []*route{quick(), waits(20, always(10*time.Second))} },
		"a remote that is slow, but does what it is asked": func() []*route {
			return []*route{quick(), {rate: 40, workers: 25, takes: always(500 * time.Millisecond)}}
		},
	} {
		for seed := range uint64(testenv.Rounds(1, 20)) {
			t.Run(fmt.Sprint(name, "/", seed+1), func(t *testing.T) {
				all := routes()
				r := onRoutes(t, seed+1, "/", 6*time.Second, all...)
				want(t, r.Clients.Statuses[503] == 0 && all[0].good == all[0].due, "quick", all[0], r)
			})
		}
	}
}

func (x *route) String() string {
	return fmt.Sprintf("%d of %d in time, %d later, %d refused", x.good, x.due, x.done-x.good, x.refused)
}

// A backend that does many things at once, which wait for it at one place meanwhile, is asked for more than it can do: it
// is never let run dry for long.
func TestABackendThatDoesManyThingsAtOnceStaysBusy(t *testing.T) {
	for _, x := range []struct {
		workers int
		takes   time.Duration
	}{
		{25, 20 * time.Millisecond}, {100, 100 * time.Millisecond}, {12, 500 * time.Millisecond},
		{100, 20 * time.Millisecond}, // 100,000 requests
	}[:testenv.Rounds(3, 4)] {
		for seed := range uint64(testenv.Rounds(1, 5)) {
			t.Run(fmt.Sprint(x.workers, "/", x.takes, "/", seed+1), func(t *testing.T) {
				could := float64(x.workers) / x.takes.Seconds()
				all := &route{rate: 2 * could, workers: x.workers, takes: always(x.takes)}
				r := onRoutes(t, seed+1, "/", 10*time.Second, all)
				want(t, float64(all.done) > 0.9*10*could, all, "of", int(10*could), "that it could do;", r)
			})
		}
	}
}
