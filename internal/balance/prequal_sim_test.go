package balance

import (
	"container/heap"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A server of the simulation has four workers, which take requests in the order in which they come.
type simServer struct {
	speed         float64
	noisy, stalls bool
	free          [4]float64 // when each worker is done, in seconds
	inFlight      int
	latency       [12]float64 // by the power of two of requests in flight
}

const meanService = 0.010

// at is the speed of the server at a time. A noisy neighbour takes half of it in every other half second.
func (s *simServer) at(now float64) float64 {
	if s.noisy && int(now*2)%2 == 1 {
		return s.speed / 2
	}
	return s.speed
}

// stalledUntil is the end of a stall that the time is in, or the time.
func (s *simServer) stalledUntil(now float64) float64 {
	if s.stalls {
		if in := math.Mod(now, 20); in >= 10 && in < 12 {
			return now - in + 12
		}
	}
	return now
}

// done is when work that begins at a time is done.
func (s *simServer) done(from, work float64) float64 {
	const step = 0.005
	at := s.stalledUntil(from)
	for {
		can := s.at(at) * step
		if work <= can {
			at += work / s.at(at)
			return s.stalledUntil(at)
		}
		work -= can
		at = s.stalledUntil(at + step)
	}
}

type event struct {
	at float64
	do func(now float64)
}
type events []event

func (e events) Len() int           { return len(e) }
func (e events) Less(i, j int) bool { return e[i].at < e[j].at }
func (e events) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)        { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// say is what the server says of itself: how many requests it has, and how long they take beside so many.
func (s *simServer) say() (inFlight float64, latency time.Duration) {
	for k := level(s.inFlight + 1); k >= 0 && latency == 0; k-- {
		latency = time.Duration(s.latency[k] * 1e9)
	}
	return float64(s.inFlight), latency
}

func level(n int) int { return min(bits.Len(uint(max(n, 1)))-1, 11) }

// ended takes up a request that came as the n-th.
func (s *simServer) ended(n int, took float64) {
	s.inFlight--
	l := &s.latency[level(n)]
	if *l == 0 {
		*l = took
	}
	*l += (took - *l) * 0.05
}

// A simBalancer sees its own requests, and what servers have told it.
type simBalancer struct {
	out     [8]int64
	signals [8]Signal
	probed  [8]float64
	turn    uint32
}

// A simFleet is eight servers behind balancers: one at half speed, one with a noisy neighbour, one that stalls for 2 s every 20 s.
type simFleet struct {
	r       *rand.Rand
	rule    string
	servers [8]simServer
	events  events
	loads   []Load
	room    []float64
	took    []float64 // by requests that came after the first seconds
}

// oneWay is the time on the network, and probeEvery that between two probes of a server, in seconds.
const oneWay, probeEvery = 0.0002, 0.005

func (f *simFleet) at(at float64, do func(float64)) { heap.Push(&f.events, event{at, do}) }

func (f *simFleet) choose(b *simBalancer, now float64) int {
	b.turn++
	switch f.rule {
	case "random":
		return f.r.IntN(8)
	case "two":
		x, y := f.r.IntN(8), f.r.IntN(8)
		if b.out[y] < b.out[x] {
			return y
		}
		return x
	case "oracle": // knows when each server would be done
		best, least := 0, math.Inf(1)
		for i := range f.servers {
			s := &f.servers[i]
			if end := s.done(max(now, slices.Min(s.free[:])), meanService); end < least {
				best, least = i, end
			}
		}
		return best
	}
	for i := range f.loads {
		f.loads[i] = Load{Of: i, Out: b.out[i], Weight: 1}
		if f.rule == "prequal" {
			b.signals[i].Fill(int64(now*1e9), &f.loads[i])
		}
	}
	if f.rule == "least" {
		return LeastLoaded(f.loads, b.turn)
	}
	var at int
	at, f.room = HotCold(f.loads, b.turn, f.room)
	b.signals[at].Use()
	return at
}

// probe asks a server at random how it is. While it stalls it does not answer.
func (f *simFleet) probe(b *simBalancer, now float64) {
	i := f.r.IntN(8)
	if now-b.probed[i] < probeEvery {
		return
	}
	b.probed[i] = now
	f.at(f.servers[i].stalledUntil(now+oneWay), func(at float64) {
		n, latency := f.servers[i].say()
		f.at(at+oneWay, func(at float64) { b.signals[i].Report(int64(at*1e9), n, latency) })
	})
}

// request sends a request through b.
func (f *simFleet) request(b *simBalancer, now float64) {
	if f.rule == "prequal" {
		f.probe(b, now)
	}
	i := f.choose(b, now)
	s := &f.servers[i]
	b.out[i]++
	work := f.r.ExpFloat64() * meanService
	f.at(now+oneWay, func(came float64) {
		s.inFlight++
		n, w := s.inFlight, 0
		for k := range s.free {
			if s.free[k] < s.free[w] {
				w = k
			}
		}
		s.free[w] = s.done(max(came, s.free[w]), work)
		f.at(s.free[w], func(end float64) {
			s.ended(n, end-came)
			left, latency := s.say() // with the response
			f.at(end+oneWay, func(end float64) {
				b.out[i]--
				b.signals[i].Report(int64(end*1e9), left, latency)
				if now > 5 {
					f.took = append(f.took, end-now)
				}
			})
		})
	})
}

// simulate returns the 99th percentile of the response time, in seconds, at 0.8 times the capacity.
func simulate(seed uint64, balancers int, rule string, seconds float64) float64 {
	f := &simFleet{r: rand.New(rand.NewPCG(seed, 42)), rule: rule, loads: make([]Load, 8)}
	for i := range f.servers {
		f.servers[i].speed = 1
	}
	f.servers[1].speed, f.servers[2].noisy, f.servers[3].stalls = 0.5, true, true
	const capacity = 4 * (5 + 0.5 + 0.75 + 0.9) / meanService
	all := make([]simBalancer, balancers)
	for i := range all {
		all[i].turn = f.r.Uint32()
	}
	var arrive func(now float64)
	arrive = func(now float64) {
		if now < seconds {
			f.at(now+f.r.ExpFloat64()/(0.8*capacity), arrive)
		}
		f.request(&all[f.r.IntN(balancers)], now)
	}
	f.at(0, arrive)
	for len(f.events) > 0 {
		e := heap.Pop(&f.events).(event)
		e.do(e.at)
	}
	slices.Sort(f.took)
	return f.took[len(f.took)*99/100]
}

// TestManyBalancers: with 64 balancers, each of which sees only its own requests, what the servers say halves the 99th percentile
// of the response time at least; with one balancer it does no harm.
func TestManyBalancers(t *testing.T) {
	const seed = 1
	p99 := func(balancers int, rule string) float64 {
		p := simulate(seed, balancers, rule, 40)
		t.Logf("%2d balancers, %-7s: p99 %.0f ms", balancers, rule, 1000*p)
		return p
	}
	least, prequal := p99(64, "least"), p99(64, "prequal")
	if prequal > 0.5*least {
		t.Errorf("seed %d: 64 balancers: %.3f of least-outstanding; want 0.5 at most", seed, prequal/least)
	}
	least, prequal = p99(1, "least"), p99(1, "prequal")
	if prequal > 1.05*least {
		t.Errorf("seed %d: one balancer: %.3f of least-outstanding; want 1.05 at most", seed, prequal/least)
	}
	if testing.Verbose() {
		for _, rule := range []string{"random", "two", "oracle"} {
			p99(64, rule)
		}
	}
}
