//go:build linux

package simserver

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/capriccio-go/capriccio/internal/feed"
	"github.com/capriccio-go/capriccio/knot"
)

// A Scenario is a server and its clients, drawn from a seed.
type Scenario struct {
	Config
	parts   []part
	disk    func(d *Disk)
	stops   []stop
	workers int           // of the backend
	streams int           // that a client of HTTP/2 may have at a time; 0: as many as by default
	halt    time.Duration // when the server is told to stop; 0: it is not
	torn    bool          // large files may be cut off, by a broken disk
	mutes   []string
	within  time.Duration // in which the server ends these
	text    []string
}

// A part is some clients.
type part struct {
	habit Habit
	path  string
	body  int     // bytes
	want  int     // bytes
	rate  float64 // of requests a second that come by themselves; 0: n clients
	n     int
	start time.Duration
	until time.Duration
}

type stop struct{ at, lasts time.Duration }

// NewScenario draws a scenario.
func NewScenario(seed uint64) *Scenario {
	sc := newScenario1(seed)
	sc.drawHTTP2()
	return sc
}

// newScenario1 draws one whose clients speak HTTP/1.1.
func newScenario1(seed uint64) *Scenario {
	r := rand.New(rand.NewPCG(seed, 0x5ce7a110))
	sc := &Scenario{workers: 1 + r.IntN(8)}
	sc.Seed = seed
	sc.Loops = []int{1, 1, 2, 3, 4, 8}[r.IntN(6)]
	sc.Scheduler = []string{feed.Resource, feed.Resource, feed.Resource, feed.Cohort, feed.FIFO}[r.IntN(5)]
	sc.drawFaults(r)
	if r.IntN(5) == 0 {
		sc.FDs = 30 + r.IntN(100)
	}
	if r.IntN(3) == 0 {
		for range 1 + r.IntN(3) {
			sc.stops = append(sc.stops, stop{time.Duration(r.IntN(300)) * time.Millisecond, time.Duration(1+r.IntN(300)) * time.Millisecond})
		}
	}
	if r.IntN(5) == 0 {
		sc.drawMutes(r)
	}
	for range 1 + r.IntN(3) {
		sc.parts = append(sc.parts, sc.drawPart(r))
	}
	if r.IntN(3) == 0 && sc.Scheduler == feed.Resource { // the others promise nothing
		sc.Memory = 64 << 20 << r.IntN(3)
	}
	sc.text = append(sc.text, fmt.Sprintf("seed %d: %d loops, %s, %d descriptors, %d bytes of memory, faults %+v, stops %v", seed, sc.Loops, sc.Scheduler, sc.FDs, sc.Memory, sc.Faults, sc.stops))
	return sc
}

func (sc *Scenario) String() string { return strings.Join(sc.text, "\n") }

func (sc *Scenario) drawFaults(r *rand.Rand) {
	p := func() float64 {
		if r.IntN(2) == 0 {
			return 0
		}
		return r.Float64() * 0.1
	}
	sc.Faults = Faults{Interrupt: p(), Short: p(), Spurious: p(), Stale: p(), Abort: p() / 10, Steal: p() / 10}
	latency, cold, broken, full := time.Duration(1+r.IntN(5000))*time.Microsecond, r.Float64(), p(), r.IntN(4) == 0
	sc.disk, sc.torn = func(d *Disk) { d.Set(latency, cold, broken, full) }, broken > 0
}

// drawMutes draws clients that the server has to get rid of, and when it does.
func (sc *Scenario) drawMutes(r *rand.Rand) {
	d := func() time.Duration { return time.Duration(250+r.IntN(3000)) * time.Millisecond }
	head, idle, body := d(), d(), d()
	sc.Change = func(k *knot.Server) { k.HeadTimeout, k.IdleTimeout, k.BodyTimeout = head, idle, body }
	sc.within = 2*(head+idle+body) + 5*time.Second
	for range 1 + r.IntN(5) {
		sc.mutes = append(sc.mutes, []string{
			"", "G", "GET / HTTP/1.1\r\nHost", "GET /?w10 HTTP/1.1\r\nHost: a\r\n\r\n",
			"GET /?w10 HTTP/1.1\r\nHost: a\r\n\r\nGET",
			"POST /?e0 HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n\x00\x01\x02\x03",
			"POST /?w1 HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n\x00\x01\x02\x03",
			"nonsense\r\n\r\n",
		}[r.IntN(8)])
	}
	sc.text = append(sc.text, fmt.Sprintf("mute clients %q; head %v, idle %v, body %v", sc.mutes, head, idle, body))
}

// maybe calls f with the probability one/in.
func maybe(r *rand.Rand, one, in int, f func()) {
	if r.IntN(in) < one {
		f()
	}
}

func (sc *Scenario) drawPart(r *rand.Rand) part {
	maybe := func(one, in int, f func()) { maybe(r, one, in, f) }
	p := part{start: time.Duration(r.IntN(100)) * time.Millisecond}
	p.until = p.start + time.Duration(20+r.IntN(280))*time.Millisecond
	h := &p.habit
	h.Path.Latency = time.Duration(20+r.IntN(2000)) * time.Microsecond
	maybe(1, 4, func() { h.Path.Split = 1 + r.IntN(100) })
	maybe(1, 8, func() { h.Path.InRoom = 256 + r.IntN(8192) })
	maybe(1, 8, func() { h.Path.OutRoom = 1024 + r.IntN(16384) })
	var steps []string
	add := func(what byte, n int) { steps = append(steps, fmt.Sprintf("%c%d", what, n)) }
	for range r.IntN(4) {
		switch r.IntN(10) {
		case 0, 1, 2:
			add('w', r.IntN(2000))
		case 3, 4:
			add('s', r.IntN(50_000))
		case 5:
			add('h', 1+r.IntN(1<<20))
		case 6:
			add('l', r.IntN(1000))
		case 7:
			add('b', r.IntN(20_000))
		case 8:
			add('k', r.IntN(2000))
		case 9:
			add([]byte("rrrp")[r.IntN(4)], 1+r.IntN(64<<10))
		}
	}
	maybe(1, 8, func() { p.body = 1 + r.IntN(200_000) })
	if p.body > 0 {
		maybe(2, 3, func() { add('e', 0) })
		maybe(1, 3, func() { h.Path.UpRate = 50_000 + r.IntN(1_000_000) })
	}
	maybe(1, 50, func() { add('x', 0) })
	size := 0
	switch r.IntN(8) {
	case 0:
		add('c', 1+r.IntN(20))
	case 1, 2:
		size = r.IntN(300_000)
		add('z', size)
		maybe(1, 2, func() { h.Path.Rate = 100_000 + r.IntN(1_000_000) })
	default:
		size = r.IntN(4096)
		add('z', size)
	}
	p.path, p.want = "/?"+strings.Join(steps, "."), size
	h.draw(r)
	if r.IntN(2) == 0 {
		p.rate = 20 + 500*r.Float64()*r.Float64()
	} else {
		p.n = 1 + r.IntN(30)
	}
	if r.IntN(6) == 0 {
		p.path = []string{"/small", "/large", "/http"}[r.IntN(3)]
		p.want = map[string]int{"/small": smallSize, "/large": fileSize, "/http": smallSize}[p.path]
		if p.path != "/http" {
			p.body = 0
		}
	}
	sc.text = append(sc.text, fmt.Sprintf("%v to %v: rate %.0f or %d clients, %q, body %d, %+v", p.start, p.until, p.rate, p.n, p.path, p.body, h.Path))
	return p
}

// draw decides how a client goes about its requests.
func (h *Habit) draw(r *rand.Rand) {
	maybe(r, 1, 2, func() { h.KeepAlive = true })
	maybe(r, 1, 6, func() { h.Pipeline = 1 + r.IntN(5) })
	maybe(r, 1, 3, func() { h.Leave = r.Float64() })
	maybe(r, 1, 2, func() { h.Abort = true })
	maybe(r, 1, 6, func() { h.Half = true })
	maybe(r, 1, 4, func() {
		h.Timeout = time.Duration(1+r.IntN(500)) * time.Millisecond
		h.Retries, h.Pause = r.IntN(4), time.Duration(r.IntN(50))*time.Millisecond
	})
	maybe(r, 1, 2, func() { h.Think = time.Duration(r.IntN(20_000)) * time.Microsecond })
}

// play is for Run.
func (sc *Scenario) play(s *Server) (until time.Duration) {
	sc.disk(s.Disk)
	s.Clients.Dropped = sc.FDs > 0 || sc.torn && slices.ContainsFunc(sc.parts, func(p part) bool { return p.path == "/large" })
	s.Clients.Slow = sc.within > 0
	from := s.Now()
	for _, says := range sc.mutes {
		s.At(from+s.Below(300*time.Millisecond), func() { s.Clients.Mute(Path{Latency: time.Millisecond}, says, sc.within) })
	}
	for i := range sc.parts {
		p := &sc.parts[i]
		p.habit.Make = func() *Request { return &Request{Path: p.path, Body: p.body, Want: p.want} }
		until = max(until, from+p.until)
		s.At(from+p.start, func() {
			if p.rate > 0 {
				s.Clients.OpenLoop(&p.habit, p.rate, from+p.until)
			} else {
				s.Clients.ClosedLoop(&p.habit, p.n, 5*time.Millisecond, from+p.until)
			}
		})
	}
	if sc.halt > 0 {
		s.At(from+sc.halt, s.Halt)
	}
	for _, x := range sc.stops {
		s.At(from+x.at, func() { s.Stop(x.lasts) })
	}
	return until
}
