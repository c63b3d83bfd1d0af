package balance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// loadsOf are idle backends of these weights.
func loadsOf(weights ...float64) (all []Load) {
	for i, w := range weights {
		all = append(all, Load{Of: i, Weight: w, Seed: Hash([]byte(fmt.Sprint("backend ", i)))})
	}
	return all
}

// TestLeastLoaded compares each choice with what a plain reading of the rule says, while requests come and end at random; and
// the requests under way are in proportion to the weights.
func TestLeastLoaded(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []Load
		sum := 0.0
		for range 1 + r.IntN(8) {
			all = append(all, loadsOf(float64(1+r.IntN(5)))...)
			sum += all[len(all)-1].Weight
		}
		most := 1 + r.IntN(300)
		var under []int // the backends of the requests under way
		for turn := range uint32(5000) {
			for len(under) >= most || len(under) > 0 && r.IntN(3) == 0 {
				i := r.IntN(len(under))
				all[under[i]].Out--
				under[i] = under[len(under)-1]
				under = under[:len(under)-1]
			}
			chosen := LeastLoaded(all, turn)
			for i, l := range all {
				if mine := all[chosen]; float64(mine.Out)/mine.Weight >= float64(l.Out+1)/l.Weight+1e-9 {
					t.Fatalf("seed %d: %v chosen beside %v, which would still have less with the request (%d)", seed, mine, l, i)
				}
			}
			all[chosen].Out++
			under = append(under, chosen)
		}
		for len(under) < 1000 { // none ends: the parts are exact
			chosen := LeastLoaded(all, uint32(len(under)))
			all[chosen].Out++
			under = append(under, chosen)
		}
		for _, l := range all {
			if part := 1000 * l.Weight / sum; math.Abs(float64(l.Out)-part) > l.Weight+1 {
				t.Errorf("seed %d: %d of 1000 requests are at a backend of weight %v of %v", seed, l.Out, l.Weight, sum)
			}
		}
	}
}

// TestIdleBackends: when one request comes after another, each backend gets its part of any some in a row; alike ones take turns.
func TestIdleBackends(t *testing.T) {
	for _, weights := range [][]float64{{1}, {1, 1}, {1, 1, 1}, {3, 1}, {1, 3}, {1, 2, 5}, {100, 1}, {1, 0.1}, {7, 7, 7, 1}} {
		all, got, sum := loadsOf(weights...), make([]float64, len(weights)), 0.0
		for _, w := range weights {
			sum += w
		}
		for turn := range uint32(1000) {
			got[LeastLoaded(all, turn)]++
			for i := range got {
				if off := math.Abs(got[i] - float64(turn+1)*weights[i]/sum); off > 4 {
					t.Fatalf("of weights %v: %v after %d requests", weights, got, turn+1)
				}
			}
		}
		if weights[0] == 1 && len(weights) == 3 && weights[2] == 1 && LeastLoaded(all, 7) == LeastLoaded(all, 8) {
			t.Error("the same one twice in a row")
		}
	}
}

// TestSlowServer simulates servers of which one takes twice as long: with as many requests under way at each, it gets half of
// what the others do.
func TestSlowServer(t *testing.T) {
	all, takes, served := loadsOf(1, 1, 1), [3]int{10, 10, 20}, [3]int{}
	var ends [][2]int // backend, and tick of the end
	for now := range 20_000 {
		for i := 0; i < len(ends); i++ {
			if ends[i][1] <= now {
				all[ends[i][0]].Out--
				served[ends[i][0]]++
				ends[i] = ends[len(ends)-1]
				ends, i = ends[:len(ends)-1], i-1
			}
		}
		for len(ends) < 90 { // clients ask again at once
			to := LeastLoaded(all, uint32(now+len(ends)))
			all[to].Out++
			ends = append(ends, [2]int{to, now + takes[to]})
		}
	}
	for i, want := range [3]float64{0.4, 0.4, 0.2} {
		if got := float64(served[i]) / float64(served[0]+served[1]+served[2]); math.Abs(got-want) > 0.01 {
			t.Errorf("server %d serves %.3f of the requests, want %v", i, got, want)
		}
	}
}

// TestByKey: keys are spread by weight; when a backend goes, only its keys move, and to all others.
func TestByKey(t *testing.T) {
	const keys = 20_000
	all := loadsOf(1, 2, 3, 4)
	count := make([]float64, 4)
	var moved [4]int
	for k := range uint64(keys) {
		key := Mix(k)
		at := all[ByKey(all, key, 0)].Of
		count[at]++
		without := append(append([]Load{}, all[:2]...), all[3:]...)
		switch now := without[ByKey(without, key, 0)].Of; {
		case at == 2:
			moved[now]++
		case now != at:
			t.Fatalf("key %d moves from %d to %d, though 2 has gone", k, at, now)
		}
	}
	for i, n := range count {
		if want := keys * all[i].Weight / 10; math.Abs(n-want) > 0.06*want {
			t.Errorf("weight %v: %v of %d keys", all[i].Weight, n, keys)
		}
	}
	for _, i := range []int{0, 1, 3} {
		if want := count[2] * all[i].Weight / 7; math.Abs(float64(moved[i])-want) > 0.15*want {
			t.Errorf("%d keys move to %d, want about %.0f", moved[i], i, want)
		}
	}
}

// TestBound: whatever the keys are, no backend has more than its bound, and a key that is not in the way keeps its place.
func TestBound(t *testing.T) {
	const bound = 1.25
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 2))
		all := loadsOf(1, 1, 2, 3)
		total := int64(0)
		for range 2000 {
			key := Hash([]byte{byte(r.IntN(3))}) // hot ones
			i := ByKey(all, key, bound)
			if first := ByKey(all, key, 0); float64(all[first].Out) < math.Ceil(bound*float64(total+1)*all[first].Weight/7) {
				testenv.Equal(t, i, first, "the backend of a key, which has room")
			}
			all[i].Out++
			total++
			if most := math.Ceil(bound * float64(total) * all[i].Weight / 7); float64(all[i].Out) > most {
				t.Fatalf("seed %d: %d of %d at a backend of weight %v", seed, all[i].Out, total, all[i].Weight)
			}
			if j := r.IntN(len(all)); r.IntN(3) > 0 && all[j].Out > 0 {
				all[j].Out--
				total--
			}
		}
	}
	testenv.Equal(t, ByKey(loadsOf(1, 1), 7, bound), ByKey(loadsOf(1, 1), 7, 0), "when all are idle")
}

// TestRetryBudget: in any span of time there are no more retries than the share of its requests, ten a second and what can be
// saved up; and as many as that there may be.
func TestRetryBudget(t *testing.T) {
	for _, perSecond := range []int{0, 5, 100, 5000} {
		b := NewBudget(0.1)
		choices, now, first := uint64(0), int64(0), 0
		for second := range 60 {
			granted := 0
			for range perSecond + 1 { // each fails, and asks for a retry
				now += int64(time.Second) / int64(perSecond+1)
				choices += 2
				if b.Take(now, choices) {
					granted++
				}
			}
			if second == 0 {
				first = granted
			}
			if fair := 0.1*float64(perSecond) + RetryFloor; second >= 10 && float64(granted) > fair+2 {
				t.Fatalf("%d requests a second: %d retries in second %d, want %.0f", perSecond, granted, second, fair)
			} else if second == 59 && perSecond >= 100 && float64(granted) < 0.9*fair {
				t.Errorf("%d requests a second: only %d retries", perSecond, granted)
			}
		}
		testenv.AtMost(t, first, 100+int(0.1*float64(perSecond))+RetryFloor+2, "retries of the first second")
		// After a calm hour at that rate a backend breaks: what it had is mended, up to ten seconds' worth.
		now += int64(time.Hour)
		choices += uint64(3600 * perSecond)
		granted := 0
		for range 10_000 {
			choices++
			if b.Take(now, choices) {
				granted++
			}
		}
		want := 10 * (0.1*float64(perSecond) + RetryFloor)
		if math.Abs(float64(granted)-want) > 0.02*want+1 {
			t.Errorf("%d requests a second: %d retries at once, want %.0f", perSecond, granted, want)
		}
	}
	late := NewBudget(0.1) // two loops choose, and then ask in either order
	granted := 0
	for choices := uint64(2); choices < 2000; choices += 2 {
		for _, one := range [...]uint64{choices, choices - 1} {
			if late.Take(0, one) {
				granted++
			}
		}
	}
	testenv.Equal(t, granted, 100, "retries of requests that all fail at once, on two loops")
	none := NewBudget(-1)
	for range 1000 {
		testenv.True(t, none.Take(0, 0), "no bound")
	}
}

// TestFailures: a failure counts until an answer would have come, to a millisecond, and for a second at most.
func TestFailures(t *testing.T) {
	var f Failures
	count := func(at time.Duration, want int64) {
		t.Helper()
		testenv.Equal(t, f.Count(int64(at)), want, "failures at %v", at)
	}
	testenv.True(t, !f.Any(), "at first")
	count(0, 0)
	for _, begin := range []time.Duration{0, 10 * time.Second, time.Hour} {
		f.Add(int64(begin), 10*time.Millisecond)
		f.Add(int64(begin), time.Hour)
		count(begin+10*time.Millisecond, 2)
		count(begin+12*time.Millisecond, 1)
		f.Add(int64(begin+500*time.Millisecond), time.Second)
		count(begin+time.Second, 2)
		count(begin+1002*time.Millisecond, 1)
		count(begin+time.Second, 1) // an older reading of the clock, by another processor
		count(begin+1502*time.Millisecond, 0)
		testenv.True(t, !f.Any(), "in the end")
	}
}
