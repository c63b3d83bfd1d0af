package admit

import (
	"github.com/capriccio-go/capriccio/internal/testenv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A watchedNode is a node where tasks wait: each for one of a number of servers, or, without
// servers, for time to pass. What a BottleneckLimit does not let in waits outside, the oldest first.
type watchedNode struct {
	limit   BottleneckLimit
	servers int                  // 0: any number
	service func() time.Duration // of a server, or of the wait
	newest  bool                 // goes first once there is a limit, and those before it are not counted
	late    int                  // these

	now     time.Duration
	outside []time.Duration // since when
	waiting []time.Duration // for a server
	busy    []time.Duration // until when, sorted; of those without servers: all that wait
	began   []time.Duration // of those in busy, without servers

	departed int
	waited   time.Duration
	quickest time.Duration
	done     int
	limited  bool // at any time
}

const lookTick = 10 * time.Millisecond

// run has arrivals at a rate per second for a while, in steps of 100 µs.
func (n *watchedNode) run(d time.Duration, rate float64) {
	const step = 100 * time.Microsecond
	next := 0.0
	for end := n.now + d; n.now < end; n.now += step {
		for next += rate * step.Seconds(); next >= 1; next-- {
			n.outside = append(n.outside, n.now)
		}
		n.move()
		if n.now%lookTick == 0 {
			n.limit.Update(n.now, BacklogState{Waiting: n.inside(), Departed: n.departed, Waited: n.waited, Quickest: n.quickest, Out: len(n.outside)})
			n.departed, n.waited, n.quickest = 0, 0, math.MaxInt64
			if n.newest && !n.limited && n.limit.Limit() > 0 {
				n.late = len(n.waiting)
			}
			n.limited = n.limited || n.limit.Limit() > 0
		}
	}
}

// inside is how many wait at the node.
func (n *watchedNode) inside() int {
	if n.servers == 0 {
		return len(n.busy)
	}
	return len(n.waiting) - n.late
}

func (n *watchedNode) move() {
	for len(n.busy) > 0 && n.busy[0] <= n.now {
		n.busy = n.busy[1:]
		n.done++
		if n.servers == 0 {
			n.leave(n.began[0])
			n.began = n.began[1:]
		}
	}
	for len(n.outside) > 0 && (n.limit.Limit() == 0 || n.inside() < n.limit.Limit()) {
		n.outside = n.outside[1:]
		if n.servers == 0 {
			until := n.now + n.service()
			i, _ := slices.BinarySearch(n.busy, until)
			n.busy, n.began = slices.Insert(n.busy, i, until), slices.Insert(n.began, i, n.now)
			continue
		}
		n.waiting = append(n.waiting, n.now)
	}
	for n.servers > 0 && len(n.waiting) > 0 && len(n.busy) < n.servers {
		next := 0
		if n.late > 0 {
			next = len(n.waiting) - 1
			n.late = min(n.late, next)
		}
		n.leave(n.waiting[next])
		n.waiting = slices.Delete(n.waiting, next, next+1)
		until := n.now + n.service()
		i, _ := slices.BinarySearch(n.busy, until)
		n.busy = slices.Insert(n.busy, i, until)
	}
}

func (n *watchedNode) leave(since time.Duration) {
	n.departed++
	n.waited += n.now - since
	n.quickest = min(n.quickest, n.now-since)
}

func TestALockThatLimitsIsFound(t *testing.T) {
	for _, times := range []float64{1.3, 2, 10, -10} { // below 0: the newest go first
		n := &watchedNode{servers: 1, service: func() time.Duration { return time.Millisecond }, newest: times < 0}
		times = max(times, -times)
		n.run(2*time.Second, times*1000)
		limit := n.limit.Limit()
		before := n.done
		n.run(5*time.Second, times*1000)
		rate := float64(n.done-before) / 5
		t.Logf("%v × what the lock can serve: limit %d after two seconds, then %d; %.0f of 1000 a second", times, limit, n.limit.Limit(), rate)
		if limit == 0 || max(limit, n.limit.Limit()) > 50 || rate < 950 {
			t.Errorf("%v ×: limit %d, then %d, %.0f a second; want one that keeps the wait short and the lock busy", times, limit, n.limit.Limit(), rate)
		}
		n.outside = nil
		n.run(3*time.Second, 100)
		testenv.Equal(t, n.limit.Limit(), 0, "%v ×: still a limit of N when the load is gone", times)
	}
}

// It is found although many wait already when it is first looked at, and the processor is away now and then; and its limit lets
// tasks wait for a short time only from the beginning.
func TestALockThatManyWaitForIsFound(t *testing.T) {
	for _, times := range []float64{2, 10} {
		for seed := range uint64(10) {
			rng := rand.New(rand.NewPCG(seed, 4))
			n := &watchedNode{servers: 1, service: func() time.Duration { return time.Millisecond }, now: lookTick / 2}
			for range int(300 * times) {
				n.waiting = append(n.waiting, n.now)
			}
			for n.now < 3*time.Second && !n.limited {
				if rng.IntN(4) == 0 {
					n.run(3*lookTick, 0)
					n.run(lookTick, times*4000)
				} else {
					n.run(lookTick, times*1000*(0.5+rng.Float64()))
				}
			}
			if !n.limited {
				t.Errorf("%v ×, seed %d: not found in 3 s", times, seed)
			}
			testenv.AtMost(t, n.limit.Limit(), 100, "%v ×, seed %d: the first limit, of 1,000 tasks a second", times, seed)
		}
	}
}

// What servers saw in each window.
func TestWhatServersSawIsFound(t *testing.T) {
	type window struct{ at, waiting, departed, waited, quickest int } // times in ms, of one
	for name, windows := range map[string][]window{
		"a lock, and the processor is away in the first window": {
			{49, 187, 0, 0, 0}, {77, 429, 12, 17, 0}, {99, 483, 6, 31, 28}, {109, 676, 9, 54, 49}, {129, 851, 18, 70, 60},
			{159, 995, 17, 89, 81}, {189, 1353, 24, 125, 110}, {230, 1669, 34, 160, 141}, {270, 2006, 35, 200, 180},
		},
		"a backend that finishes twelve at a time": {
			{1040, 41, 0, 0, 0}, {1503, 585, 4, 461, 460}, {1620, 709, 8, 466, 464}, {2005, 1163, 6, 962, 960},
			{2250, 1706, 6, 967, 966}, {2504, 2267, 5, 1462, 1460},
		},
		"the same, and those of two rounds go on in one window": {
			{1050, 41, 0, 0, 0}, {1509, 607, 9, 454, 452}, {2010, 1198, 14, 849, 460}, {2505, 2401, 8, 1391, 961},
		},
	} {
		var p BottleneckLimit
		for _, w := range windows {
			p.Update(time.Duration(w.at)*time.Millisecond, BacklogState{
				Waiting: w.waiting, Departed: w.departed,
				Waited: time.Duration(w.departed*w.waited) * time.Millisecond, Quickest: time.Duration(w.quickest) * time.Millisecond,
			})
		}
		if p.Limit() == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

// Tasks that wait for time to pass are many, but no bottleneck, not even if for how long differs widely, and how many come:
// then more of them may wait longer than before, and fewer go on, by chance.
func TestTasksThatOvertakeEachOtherAreNoBottleneck(t *testing.T) {
	found := 0
	for seed := range uint64(testenv.Rounds(20, 100)) {
		for _, rate := range []float64{50, 200, 1000} {
			rng := rand.New(rand.NewPCG(seed, 3))
			n := &watchedNode{service: func() time.Duration { return time.Duration(rng.ExpFloat64() * 3e9) }}
			for n.now < 6*time.Second && !n.limited {
				n.run(100*time.Millisecond, rate*(0.5+rng.Float64()))
			}
			if n.limited {
				found++
				t.Logf("seed %d, %v a second: taken for a bottleneck after %v", seed, rate, n.now)
			}
		}
	}
	if found > 1 { // one in 60 or more
		t.Error(found, "were taken for a bottleneck")
	}
}

// Nor are some that sleep for long beside others that sleep briefly and overtake them, but for one server in a
// thousand, by chance.
func TestTwoKindsThatSleepAreNoBottleneck(t *testing.T) {
	servers, taken := 0, 0
	for _, long := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second} {
		for _, share := range []float64{0.1, 0.33, 0.6} {
			for _, rate := range []float64{150, 600} {
				for seed := range uint64(testenv.Rounds(10, 100)) {
					rng := rand.New(rand.NewPCG(seed, 5))
					n := &watchedNode{service: func() time.Duration {
						d := time.Duration(rng.ExpFloat64() * float64(2*time.Millisecond))
						switch {
						case rng.Float64() < share:
							return d + long
						case rng.IntN(30) == 0:
							return d + 500*time.Millisecond
						}
						return d + 50*time.Millisecond
					}}
					for n.now < 6*time.Second && !n.limited {
						n.run(20*time.Millisecond, rate*(0.5+rng.Float64()))
					}
					if servers++; n.limited {
						taken++
						t.Logf("%v of the tasks sleep for %v, %v come a second, seed %d: taken for a bottleneck after %v", share, long, rate, seed, n.now)
					}
				}
			}
		}
	}
	testenv.AtMost(t, taken, servers/1000, "of %d servers are taken for bottlenecks", servers)
}

// If tasks that sleep are taken for a bottleneck nevertheless, that is noticed: they wait no shorter if they are few.
func TestALimitWithoutUseIsGivenUp(t *testing.T) {
	n := &watchedNode{service: func() time.Duration { return 500 * time.Millisecond }}
	n.run(2*time.Second, 100)
	n.busy, n.began = nil, nil // they are late
	n.limit = BottleneckLimit{limit: 5, rate: 100, wait: 0.5, tried: true, began: n.now, wantedAt: n.now, movedAt: n.now}
	n.run(3*time.Second, 100)
	if n.limit.Limit() != 0 || len(n.outside) > 0 {
		t.Errorf("after three seconds the limit is %d, and %d are kept out", n.limit.Limit(), len(n.outside))
	}
	n.limited = false
	n.run(8*time.Second, 100)
	if n.limited {
		t.Error("and it is taken for a bottleneck again")
	}
}

// Nor is a lock that a crowd comes to at once and that can serve them all.
func TestABurstAtALockIsNoBottleneck(t *testing.T) {
	n := &watchedNode{servers: 1, service: func() time.Duration { return time.Millisecond }}
	for range 20 {
		for range 500 {
			n.outside = append(n.outside, n.now)
		}
		n.run(time.Second, 300)
	}
	if n.limited {
		t.Error("taken for a bottleneck")
	}
}

// A blindFleet is what a proxy waits for: servers of four workers each, to which 32 balancers send what is let in. Each balancer
// knows only its own requests, and takes the server with the fewest of them.
type blindFleet struct {
	rng     *rand.Rand
	servers [8][]blindTask // those that a worker has come first
	sent    [32][8]int
	inside  int
}

type blindTask struct {
	since time.Duration
	takes time.Duration // that are left, once a worker has it
	by    int           // the balancer
}

func (f *blindFleet) admit(now time.Duration) {
	by, at := f.rng.IntN(len(f.sent)), f.rng.IntN(len(f.servers))
	for i, n := range f.sent[by] {
		if n < f.sent[by][at] {
			at = i
		}
	}
	f.sent[by][at]++
	f.inside++
	f.servers[at] = append(f.servers[at], blindTask{now, time.Duration(f.rng.ExpFloat64() * 100e6), by})
}

// step lets a time pass, and returns the waits that have ended.
func (f *blindFleet) step(now, d time.Duration) (waited []time.Duration) {
	for at := range f.servers {
		work := d
		if at == 0 {
			work /= 2 // a slow server
		}
		tasks := f.servers[at]
		for i := range tasks[:min(4, len(tasks))] {
			tasks[i].takes -= work
		}
		f.servers[at] = slices.DeleteFunc(tasks, func(t blindTask) bool {
			if t.takes > 0 {
				return false
			}
			waited = append(waited, now-t.since)
			f.sent[t.by][at]--
			f.inside--
			return true
		})
	}
	return waited
}

// The servers behind balancers that know little of each other are kept busy from the beginning of a limit on: with a limit that
// would be enough for one server that does as much, many of them have nothing to do.
func TestServersBehindManyBalancersStayBusy(t *testing.T) {
	const capacity = 7.5 * 4 * 10.0 // in a second
	for seed := range uint64(testenv.Rounds(5, 50)) {
		f := &blindFleet{rng: rand.New(rand.NewPCG(seed, 6))}
		var limit BottleneckLimit
		s := BacklogState{Several: true}
		outside, next, done, limited := 0, 0.0, [12]int{}, false
		for now := time.Millisecond; now < 12*time.Second; now += time.Millisecond {
			for next += 3 * capacity / 1000; next >= 1; next-- {
				outside = min(outside+1, 100) // others are refused
			}
			for ; outside > 0 && (limit.Limit() == 0 || f.inside < limit.Limit()); outside-- {
				f.admit(now)
			}
			for _, w := range f.step(now, time.Millisecond) {
				s.Departed, s.Waited, s.Quickest = s.Departed+1, s.Waited+w, min(s.Quickest, w)
				done[now/time.Second]++
			}
			if now%lookTick == 0 && now > 300*time.Millisecond {
				s.Waiting, s.Out = f.inside, outside
				limit.Update(now, s)
				s = BacklogState{Several: true, Quickest: math.MaxInt64}
				limited = limited || limit.Limit() > 0
			}
		}
		all := 0
		for second, n := range done[2:] {
			all += n
			testenv.AtLeast(t, float64(n), 0.4*capacity, "seed %d, second %d: answers", seed, second+2)
		}
		testenv.AtLeast(t, float64(all), 0.9*10*capacity, "seed %d: answers in 10 s", seed)
		testenv.True(t, limited, "seed %d: there is a limit", seed)
	}
}
