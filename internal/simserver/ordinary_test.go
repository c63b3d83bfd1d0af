//go:build linux

package simserver

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/feed"
	"github.com/capriccio-go/capriccio/internal/testenv"
	"github.com/capriccio-go/capriccio/knot"
)

// lan is the way to most clients here.
var lan = Path{Latency: 100 * time.Microsecond}

func asks(steps string) func() *Request {
	return func() *Request { return &Request{Path: "/?" + steps} }
}

// A row is a load of ordinary life, in which nothing is scarce.
type row struct {
	name    string
	play    func(s *Server, from time.Duration) (until time.Duration)
	adapted bool // hello by net/http, through knot.AdaptHTTP
	long    bool // takes seconds
	files   bool // there is a folder of files
}

var ordinary = []row{
	{name: "200 long pollers of 1 s", play: closedLoop(200, "s1000000", 3*time.Second)},
	{name: "2,000 long pollers at once", play: atOnce(2000, "s1000000")},
	{name: "cold start, 5,000 that sleep 50 ms", long: true, play: closedLoop(5000, "s50000", 300*time.Millisecond)},
	{name: "cold start through AdaptHTTP", play: closedLoop(2000, "", 100*time.Millisecond), adapted: true},
	{name: "burst of 10 at 5 ms of processor", play: bursts(10, "w5000", 625*time.Millisecond)},
	{name: "burst of 20 at 5 ms of processor", play: bursts(20, "w5000", 1250*time.Millisecond)},
	{name: "burst of 20 that sleep 200 ms", play: bursts(20, "s200000", time.Second)},
	{name: "burst of 50 that sleep 200 ms", play: bursts(50, "s200000", time.Second)},
	{name: "bimodal at 0.5", play: bimodal(0.5, 2*time.Second)},
	{name: "bimodal at 0.8", play: bimodal(0.8, 2*time.Second)},
	// Longer than it takes from a deadline of a new connection to the end.
	{name: "bimodal at 0.8 for 20 s", long: true, play: bimodal(0.8, 20*time.Second)},
	{name: "wrk -c100, sleep 500 ms", play: closedLoop(100, "s500000", 3*time.Second)},
	{name: "ab -c200, sleep 50 ms", play: func(s *Server, from time.Duration) time.Duration {
		h := &Habit{Path: lan, Make: asks("s50000")}
		s.Clients.ClosedLoop(h, 200, 0, from+time.Second)
		return from + time.Second
	}},
	{name: "wrk -c100, 1 ms of processor", play: closedLoop(100, "w1000", time.Second)},
	{name: "wrk -c200, 100 KB", long: true, play: closedLoop(200, "z100000", 100*time.Millisecond)},
	{name: "300 downloads at 0.5 MB/s", long: true, play: func(s *Server, from time.Duration) time.Duration {
		slow := lan
		slow.Rate = 500_000
		s.Clients.ClosedLoop(&Habit{Path: slow, Make: asks("z1000000")}, 300, 0, from+time.Millisecond)
		return from + time.Millisecond
	}},
	// A segment of 128 bytes costs as much as one of 1,460: the send buffer is not to be filled with them. It is nearly as many as can be served.
	{name: "2,700 slow readers with windows of 256 bytes beside others", long: true, files: true, play: func(s *Server, from time.Duration) time.Duration {
		slow := lan
		slow.Rate, slow.Segment = 100_000, 128
		s.Clients.OpenLoop(&Habit{Path: slow, Make: func() *Request { return &Request{Path: "/large", Want: fileSize} }}, 900, from+3*time.Second)
		s.Clients.ClosedLoop(&Habit{Path: lan, Make: asks("w50"), KeepAlive: true, Think: 5 * time.Millisecond}, 8, 0, from+3*time.Second)
		return from + 3*time.Second
	}},
	{name: "uploads: 100 at once", play: func(s *Server, from time.Duration) time.Duration {
		slow := lan
		slow.UpRate = 200_000
		h := &Habit{Path: slow, Make: func() *Request { return &Request{Path: "/?e0", Body: 300_000} }}
		s.Clients.ClosedLoop(h, 100, 0, from+time.Millisecond)
		return from + time.Millisecond
	}},
	{name: "SSE: 500 at once", play: atOnce(500, "c20")},
	{name: "AdaptHTTP hello, wrk -c1000", long: true, play: closedLoop(1000, "", 100*time.Millisecond), adapted: true},
	{name: "SIGSTOP for 100 ms", play: stopped(100*time.Millisecond, 1000, "w300")},
	{name: "SIGSTOP for 1 s at 0.4", play: stopped(time.Second, 400, "w1000")},
	{name: "SIGSTOP for 5 s", long: true, play: stopped(5*time.Second, 1000, "w300")},
	{name: "quota of 20 %, 500 × 300 µs/s", play: func(s *Server, from time.Duration) time.Duration {
		s.SetQuota(0.2)
		s.Clients.OpenLoop(&Habit{Path: lan, Make: asks("w300")}, 500, from+2*time.Second)
		return from + 2*time.Second
	}},
	{name: "steal", play: func(s *Server, from time.Duration) time.Duration {
		s.SetFaults(Faults{Steal: 0.2})
		s.Clients.OpenLoop(&Habit{Path: lan, Make: asks("w300")}, 1000, from+2*time.Second)
		return from + 2*time.Second
	}},
	{name: "waves of 1 s at 0.8", play: waves(time.Second)},
	{name: "waves of 2 s at 0.8", long: true, play: waves(2 * time.Second)},
	{name: "1:100 in cost at 0.8", play: mixed(0.8, 0.01, 2*time.Second)},
	{name: "10/s of 100 ms of processor at 0.5", play: func(s *Server, from time.Duration) time.Duration {
		s.Clients.OpenLoop(&Habit{Path: lan, Make: asks("w100000")}, 5, from+4*time.Second)
		return from + 4*time.Second
	}},
}

// closedLoop is n clients with keep-alive and no pause between requests.
func closedLoop(n int, steps string, lasts time.Duration) func(*Server, time.Duration) time.Duration {
	return func(s *Server, from time.Duration) time.Duration {
		h := &Habit{Path: lan, Make: asks(steps), KeepAlive: true}
		s.Clients.ClosedLoop(h, n, 0, from+lasts)
		return from + lasts
	}
}

// atOnce is n clients with one request each.
func atOnce(n int, steps string) func(*Server, time.Duration) time.Duration {
	return func(s *Server, from time.Duration) time.Duration {
		h := &Habit{Path: lan, Make: asks(steps)}
		for range n {
			s.Clients.Once(h, nil)
		}
		return from
	}
}

// bursts is n requests at once, four times.
func bursts(n int, steps string, every time.Duration) func(*Server, time.Duration) time.Duration {
	return func(s *Server, from time.Duration) time.Duration {
		h := &Habit{Path: lan, Make: asks(steps)}
		for i := range 4 {
			s.At(from+time.Duration(i)*every, func() {
				for range n {
					s.Clients.Once(h, nil)
				}
			})
		}
		return from + 4*every
	}
}

// bimodal is 95 % of 50 µs and 5 % of 5 ms, at a share of what one loop can do.
func bimodal(share float64, lasts time.Duration) func(*Server, time.Duration) time.Duration {
	return mixed(share, 0.05, lasts)
}

// mixed is requests of 50 µs, of which some take 5 ms, at a share of what one loop can do.
func mixed(share, long float64, lasts time.Duration) func(*Server, time.Duration) time.Duration {
	return func(s *Server, from time.Duration) time.Duration {
		mean := (1-long)*60e-6 + long*5010e-6 // with what the runtime takes
		chance := drawn()
		h := &Habit{Path: lan, KeepAlive: true, Gaps: chance.ExpFloat64, Make: func() *Request {
			if chance.Float64() < long {
				return &Request{Path: "/?w5000"}
			}
			return &Request{Path: "/?w50"}
		}}
		s.Clients.OpenLoop(h, share/mean, from+lasts)
		return from + lasts
	}
}

// waves is twice 1.2 times what one loop can do, for a while each time, and then 0.4 times.
func waves(each time.Duration) func(*Server, time.Duration) time.Duration {
	return func(s *Server, from time.Duration) time.Duration {
		h := &Habit{Path: lan, Make: asks("w1000"), KeepAlive: true, Gaps: drawn().ExpFloat64}
		const capacity = 1 / 1010e-6
		at := from
		for range 2 {
			high, low := at+each, at+2*each
			s.At(at, func() { s.Clients.OpenLoop(h, 1.2*capacity, high) })
			s.At(high, func() { s.Clients.OpenLoop(h, 0.4*capacity, low) })
			at = low
		}
		return at
	}
}

// stopped is a load with a pause of the process in the middle.
func stopped(d time.Duration, rate float64, steps string) func(*Server, time.Duration) time.Duration {
	return func(s *Server, from time.Duration) time.Duration {
		s.Clients.OpenLoop(&Habit{Path: lan, Make: asks(steps), Gaps: drawn().ExpFloat64}, rate, from+time.Second+d)
		s.At(from+500*time.Millisecond, func() { s.Stop(d) })
		return from + time.Second + d
	}
}

// drawn is chance that is the same for two servers that take what is drawn in another order.
func drawn() *rand.Rand { return rand.New(rand.NewPCG(1, 1)) }

func (x row) run(t *testing.T, scheduler string) *Result {
	folder := ""
	if x.files {
		folder = t.TempDir()
	}
	cfg := Config{Seed: 1, Scheduler: scheduler, Patience: time.Minute, MayRefuse: true}
	var mix *Mix
	cfg.Done = func() { mix.close() }
	cfg.Handler = func(w *World) knot.Handler {
		m := testenv.Need(newMix(w, folder, 1))(t)
		mix = m
		if x.adapted {
			return knot.AdaptHTTP(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello\n") }))
		}
		return m.Handle
	}
	r := Run(t, cfg, func(s *Server) time.Duration { return x.play(s, s.Now()) })
	r.check(t, 1)
	return r
}

func (r *Result) check(t *testing.T, seed uint64) {
	t.Helper()
	for _, b := range r.Broken {
		t.Errorf("seed %d: %s", seed, b)
	}
}

func (r *Result) String() string {
	return fmt.Sprintf("%d of %d refused; %v %v; p50 %v, p99 %v; loops %.0f %% busy for %v; %d events",
		r.Clients.Statuses[503], r.Clients.begun, r.Clients.Statuses, r.Clients.Failures,
		r.Clients.Quantile(0.5).Round(10*time.Microsecond), r.Clients.Quantile(0.99).Round(10*time.Microsecond), 100*r.Busy, r.Took.Round(time.Millisecond), r.Events)
}

// In ordinary life no request is refused, and one in a hundred waits no longer than where all is done in the order of arrival.
func TestOrdinaryLifeIsAsQuickAsFIFO(t *testing.T) {
	if testenv.Race {
		t.Skip("these are many requests; the seeds look for races")
	}
	for _, x := range ordinary {
		t.Run(x.name, func(t *testing.T) {
			if x.long {
				testenv.NeedsFull(t, "many requests")
			}
			ours := x.run(t, "")
			want(t, ours.Clients.Statuses[503] == 0, ours)
			fifo, p99 := x.run(t, feed.FIFO).Clients.Quantile(0.99), ours.Clients.Quantile(0.99)
			want(t, p99 < fifo+fifo/10+time.Millisecond, "p99", p99, "with fifo", fifo)
		})
	}
}
