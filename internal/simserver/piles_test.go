//go:build linux

package simserver

import (
	"fmt"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
	"github.com/capriccio-go/capriccio/task"
)

// A remote is a server elsewhere, which does so many things at once, first come, first served. Only the conductor
// uses it, but for ask.
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
func onRoutes(t *testing.T, seed uint64, path string, lasts time.Duration, given ...route) (routes []*route, r *Result) {
	if testenv.Race {
		t.Skip("these are many requests; the seeds look for races")
	}
	for _, x := range given {
		routes = append(routes, &x)
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
	r = Run(t, cfg, func(s *Server) time.Duration {
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
	return routes, r
}

const fast = 5 * time.Millisecond

// Routes ask remotes that become so slow that they can't do what they are asked for, and all wait at the same place as a
// route whose remote is quick: that one is served whole. Where there are three slow remotes, none of their routes has most of
// the tasks that wait; three routes to one remote have each their share of what it does.
func TestSlowRoutesBesideAQuickOne(t *testing.T) {
	slow := later(always(fast), always(40*time.Millisecond))
	for _, c := range []struct {
		name    string
		slow    []route
		done    int // more than that, of the slow ones
		refused int // likewise
	}{
		{"one", []route{{rate: 200, workers: 4, takes: slow}}, 540, 250},
		{"three remotes", []route{{rate: 100, workers: 2, takes: slow}, {rate: 100, workers: 2, takes: slow}, {rate: 100, workers: 2, takes: slow}}, 800, 300},
		{"three routes to one remote", []route{{rate: 100, workers: 6, takes: slow}, {rate: 100}, {rate: 100}}, 0, 50},
	} {
		for seed := range uint64(testenv.Rounds(2, 20)) {
			path := []string{"/", "/?"}[seed%2]
			t.Run(fmt.Sprint(c.name, path, seed+1), func(t *testing.T) {
				all, r := onRoutes(t, seed+1, path, 5*time.Second, append([]route{{rate: 300, workers: 20, takes: always(fast)}}, c.slow...)...)
				quick, done, refused := all[0], 0, 0
				for _, x := range all[1:] {
					done, refused = done+x.done, refused+x.refused
				}
				want(t, quick.good == quick.due && done > c.done && refused > c.refused, "quick", quick, "slow", all[1:], r)
			})
		}
	}
}

// 400 clients that come within some time, each of which asks again as soon as it has an answer, at a backend that serves 40
// at a time: the queue before the backend grows only until all are there, and no request is refused.
func TestClientsThatComeSlowlyToABackend(t *testing.T) {
	for _, within := range []time.Duration{0, 300 * time.Millisecond, time.Second, 1900 * time.Millisecond} { // 2 s of growth are an overload
		for _, takes := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
			r := onMix(t, Config{Seed: 1, Patience: time.Minute}, 40, func(s *Server, _ *Mix) time.Duration {
				end := s.Now() + 4*time.Second
				ask := func() *Request { return asks(fmt.Sprint("b", (takes + s.Below(takes/5)).Microseconds()))() }
				s.Clients.ClosedLoop(&Habit{Path: lan, KeepAlive: true, Make: ask}, 400, within, end)
				return end
			})
			want(t, r.Clients.Statuses[503] == 0 && r.Clients.Statuses[200] > 1000, "within", within, "takes", takes, r.Clients.Statuses)
		}
	}
}

// Nothing is scarce where tasks only wait, however long, and whatever else waits at the same place.
func TestNoPileWhereNothingIsScarce(t *testing.T) {
	waits := func(rate float64, takes timing) route { return route{rate: rate, workers: unlimited, takes: takes} }
	becomes := func(rate float64, takes timing) route { return waits(rate, later(always(fast), takes)) }
	for name, others := range map[string][]route{
		"1 s":                          {waits(200, always(time.Second))},
		"becomes slow":                 {becomes(200, always(500*time.Millisecond))},
		"becomes very slow":            {becomes(50, always(5*time.Second))},
		"becomes slow and varies":      {becomes(200, around(500*time.Millisecond))},
		"becomes very slow and varies": {becomes(200, around(3*time.Second))},
		"two become slow":              {becomes(200, around(500*time.Millisecond)), becomes(200, around(time.Second))},
		"three become slow":            {becomes(100, around(time.Second)), becomes(100, around(time.Second)), becomes(100, around(time.Second))},
		"long pollers":                 {waits(20, always(10*time.Second))},
		"a remote that is slow, but does what it is asked": {{rate: 40, workers: 25, takes: always(500 * time.Millisecond)}},
	} {
		for seed := range uint64(testenv.Rounds(1, 20)) {
			t.Run(fmt.Sprint(name, "/", seed+1), func(t *testing.T) {
				all, r := onRoutes(t, seed+1, "/", 6*time.Second, append([]route{waits(500, always(fast))}, others...)...)
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
	lasts := time.Duration(testenv.Rounds(6, 10)) * time.Second
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
				all, r := onRoutes(t, seed+1, "/", lasts, route{rate: 2 * could, workers: x.workers, takes: always(x.takes)})
				could *= lasts.Seconds()
				want(t, float64(all[0].done) > 0.9*could, all[0], "of", int(could), "that it could do;", r)
			})
		}
	}
}
