package simfleet

import (
	"flag"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

var seed = flag.Uint64("fleet.seed", 1, "the first seed")

// small is a fleet for which a minute is a third of a second. With CAPRICCIO_TEST=full it is the default, of 100 servers.
func small(c Cause, seed uint64, p Parts) Config {
	cfg := Config{Seed: seed, Cause: c, Parts: p, Before: 12 * time.Second, After: 22 * time.Second}
	if !testenv.Full() {
		cfg.Servers, cfg.Balancers = 30, 6
	}
	return cfg
}

// wantWell fails the test unless goodput is as before 10 s after the cause has ended.
func wantWell(t *testing.T, seed uint64, r *Result) {
	t.Helper()
	if r.Recovered < 0 || r.Recovered > 10 || r.After < share {
		t.Errorf("seed %d: %v\nrequests answered in each second: %v", seed, r, r.Goodput())
	}
}

// TestFleetsComeBack: within 10 s of the end of each cause goodput is at 95 % of what it was.
func TestFleetsComeBack(t *testing.T) {
	for _, c := range Causes() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for s := *seed; s < *seed+uint64(testenv.Rounds(1, 5)); s++ {
				r := Run(small(c, s, All))
				wantWell(t, s, r)
				t.Log(r)
			}
		})
	}
}

// melted is the part of its goodput that a fleet has at most that is in the metastable state. With a cold cache it may stay at two
// thirds for half a minute, and then lose the rest.
const melted = 0.8

// TestFleetsWithoutPartsStayMelted, long after the cause has ended: this is what the parts are for, and what shows that the
// test before can fail.
func TestFleetsWithoutPartsStayMelted(t *testing.T) {
	for _, c := range Causes() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			for s := *seed; s < *seed+uint64(testenv.Rounds(1, 5)); s++ {
				cfg := small(c, s, Parts{})
				cfg.After = 32 * time.Second
				r := Run(cfg)
				if r.Recovered >= 0 || r.Last > melted {
					t.Errorf("seed %d: it came back by itself: %v\nrequests answered in each second: %v", s, r, r.Goodput())
				}
				t.Log(r)
			}
		})
	}
}

// TestTwoHoursOfCauses has each cause come again and again for twenty minutes, and the same fleet without parts does not come back within ten minutes.
func TestTwoHoursOfCauses(t *testing.T) {
	testenv.NeedsFull(t, "it takes minutes")
	for _, c := range Causes() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Seed: *seed, Cause: c, Parts: All, Before: 30 * time.Second, After: time.Minute}
			for _, r := range RunTimes(cfg, int(20*time.Minute/(cfg.Before+c.Lasts+cfg.After))) {
				wantWell(t, *seed, r)
			}
			cfg.Parts, cfg.After = Parts{}, 10*time.Minute
			if r := Run(cfg); r.Last > melted {
				t.Errorf("after ten minutes it has come back: %v", r)
			}
		})
	}
}

// TestAThousandServers are what 100 are.
func TestAThousandServers(t *testing.T) {
	testenv.NeedsFull(t, "it takes minutes")
	for _, c := range Causes() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Seed: *seed, Servers: 1000, Balancers: 64, Cause: c, Parts: All}
			wantWell(t, *seed, Run(cfg))
			cfg.Parts = Parts{}
			testenv.AtMost(t, Run(cfg).Last, melted, "without the parts")
		})
	}
}

// TestImportance: with twice as many requests as the servers can do, important ones are answered as if there were no others.
func TestImportance(t *testing.T) {
	for s := *seed; s < *seed+uint64(testenv.Rounds(1, 5)); s++ {
		cfg := Config{Seed: s, Servers: 10, Balancers: 4, Load: 2, Important: 0.1, Parts: All, Cause: Cause{Name: "none", begin: func(*Fleet) {}}, After: 40 * time.Second}
		important, others := Run(cfg).Answered()
		t.Logf("seed %d: without importance %.2f of the important requests and %.2f of the others are answered", s, important, others)
		testenv.AtMost(t, important, 0.8, "important requests answered without importance")
		cfg.Parts.Importance = true
		r := Run(cfg)
		important, others = r.Answered()
		t.Logf("seed %d: with importance %.2f and %.2f; %v", s, important, others, r)
		testenv.AtLeast(t, important, 0.98, "important requests answered")
		testenv.AtLeast(t, others, 0.3, "others answered")
	}
}

// TestASeedComesAgain: two runs of a seed are the same, of two seeds not.
func TestASeedComesAgain(t *testing.T) {
	run := func(seed uint64) *Result {
		return Run(Config{Seed: seed, Servers: 10, Balancers: 2, Cause: Causes()[0], Parts: All, After: 5 * time.Second})
	}
	one := run(*seed)
	testenv.True(t, reflect.DeepEqual(one, run(*seed)), "the same seed")
	testenv.True(t, !reflect.DeepEqual(one, run(*seed+1)), "another seed")
}

// TestNothingIsLost: each attempt is answered or times out, and balancers count none that is over.
func TestNothingIsLost(t *testing.T) {
	for _, p := range []Parts{{}, All} {
		for _, c := range Causes() {
			f := newFleet(Config{Seed: *seed, Servers: 10, Balancers: 2, Cause: c, Parts: p})
			f.call(5*time.Second, func() { c.begin(f) })
			if c.end != nil {
				f.call(5*time.Second+c.Lasts, func() { c.end(f) })
			}
			f.until(40 * time.Second)
			waiting := 0
			for i := 0; i < f.timeouts.len(); i++ {
				if a := f.timeouts.all[f.timeouts.from+i]; !a.over {
					waiting++
				}
			}
			out := int64(0)
			for _, b := range f.balancers {
				for _, x := range b.backends {
					out += x.out
				}
			}
			testenv.AtMost(t, out, int64(waiting), "%s %v: attempts that balancers wait for", c.Name, p)
			asking := 0
			for _, e := range f.events {
				if e.kind == userAsks {
					asking++
				}
			}
			testenv.Equal(t, asking+waiting, len(f.users), "%s %v: users who think or wait", c.Name, p)
		}
	}
}

// TestHeap: events come in the order of their times, and of their numbers among equals.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(*seed, 1))
	var h heap
	var q fifo[uint64]
	var want, got []event
	for n := range uint64(1000) {
		e := event{when: time.Duration(r.IntN(50)), number: n}
		h.push(e)
		q.push(n)
		want = append(want, e)
	}
	slices.SortStableFunc(want, func(a, b event) int { return int(a.when - b.when) })
	for n := range uint64(1000) {
		got = append(got, h.pop())
		testenv.Equal(t, q.first(), n, "first in the queue")
		testenv.Equal(t, q.pop(), n, "first out of the queue")
	}
	for i := range want {
		testenv.Equal(t, got[i].number, want[i].number, "event %d", i)
	}
}
