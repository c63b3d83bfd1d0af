package admit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A plant turns load into pressure; its knee is where that is 1.
type plant struct {
	name     string
	knee     float64
	pressure func(load float64) float64
	// What the controller is to keep to, in parts of the knee, once it has settled.
	low, mean, high float64
	// Share of time in which the load may be beyond the knee.
	beyond float64
}

func plants(knee float64) []plant {
	return []plant{
		{"proportional", knee, func(x float64) float64 { return x / knee }, 0.9, 0.94, 1.01, 0.05},
		{"with others", knee, func(x float64) float64 { return 0.4 + 0.6*x/knee }, 0.85, 0.92, 1.02, 0.05},
		{"queue", knee, func(x float64) float64 { // as the share of a garbage collector
			u := 0.8 * x / knee
			if u >= 0.999 {
				return 100
			}
			return u / (1 - u) / 4
		}, 0.85, 0.95, 1.01, 0.05},
		{"cliff", knee, func(x float64) float64 {
			if x > knee {
				return 5
			}
			return 0.2
		}, 0.65, 0.9, 1.06, 0.06},
	}
}

const step = 10 * time.Millisecond

// settle runs the controller against a plant whose pressure is measured some steps
// later, with noise, and returns what the limit was at each step.
func settle(k *Knee, p plant, now *time.Duration, steps, delay int, noise float64, rng *rand.Rand, history *[]float64) (limits []float64) {
	for range steps {
		*now += step
		load := k.Limit()
		*history = append(*history, p.pressure(load))
		seen := (*history)[max(len(*history)-1-delay, 0)]
		seen *= 1 + noise*(2*rng.Float64()-1)
		at := *now - time.Duration(delay)*step
		k.Update(*now, at-step, load, seen)
		limits = append(limits, load/p.knee)
	}
	return limits
}

func TestKneeIsFoundAndHeld(t *testing.T) {
	for _, p := range plants(1000) {
		for _, delay := range []int{0, 1, 3, 10} {
			for _, noise := range []float64{0, 0.05} {
				t.Run(fmt.Sprintf("%s/delay=%d/noise=%v", p.name, delay, noise), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(*seedFlag, 2))
					k := &Knee{Start: 16}
					var now time.Duration
					var history []float64
					limits := settle(k, p, &now, 200, delay, noise, rng, &history)
					testenv.AtLeast(t, limits[len(limits)-1], p.low-0.1, "after 2 s the limit is of the knee")
					low, high, sum, beyond := 1.0, 0.0, 0.0, 0
					limits = settle(k, p, &now, 3000, delay, noise, rng, &history)
					for _, x := range limits {
						low, high, sum = min(low, x), max(high, x), sum+x
						if x > 1 {
							beyond++
						}
					}
					mean, part := sum/float64(len(limits)), float64(beyond)/float64(len(limits))
					t.Logf("limit %.3f to %.3f of the knee, mean %.3f, beyond for %.3f of the time", low, high, mean, part)
					slack := noise + 0.01*float64(delay)
					if low < p.low-slack || high > p.high+slack || mean < p.mean-slack || part > p.beyond+0.03*float64(delay) {
						t.Errorf("limit %.3f to %.3f of the knee, mean %.3f, beyond for %.3f of the time", low, high, mean, part)
					}
				})
			}
		}
	}
}

// A knee that moves is found again: down to a quarter within half a second, up to four
// times within four seconds.
func TestKneeThatMoves(t *testing.T) {
	for i := range plants(1) {
		var now time.Duration
		var history []float64
		rng := rand.New(rand.NewPCG(*seedFlag, 2))
		k := &Knee{Start: 16}
		at := func(knee float64) plant { return plants(knee)[i] }
		settle(k, at(4000), &now, 1000, 1, 0.01, rng, &history)
		for round := range 5 {
			p := at(1000)
			limits := settle(k, p, &now, 1000, 1, 0.01, rng, &history)
			for s, x := range limits {
				if s > 50 && x > 1.1 {
					t.Errorf("%s, round %d: %d steps after the knee moved down the limit is still %.2f of it", p.name, round, s, x)
					break
				}
			}
			p = at(4000)
			limits = settle(k, p, &now, 1000, 1, 0.01, rng, &history)
			for s, x := range limits {
				if s > 400 && x < 0.65 {
					t.Errorf("%s, round %d: %d steps after the knee moved up the limit is only %.2f of it", p.name, round, s, x)
					break
				}
			}
		}
	}
}

func TestKneeThatLoadDoesNotReach(t *testing.T) {
	k := &Knee{Start: 16}
	for i := range 1000 {
		now := time.Duration(i) * step
		k.Update(now, now-step, 10, 0.1)
	}
	testenv.Equal(t, k.Limit(), 16, "the limit became although the load is only 10")
	// A blow that has nothing to do with the load takes the limit down by and by only.
	k = &Knee{Start: 5000}
	k.Update(step, 0, 10, 3)
	testenv.Equal(t, k.Limit(), 3500, "the limit became at once although the load was only 10")
}

// Pressure that has nothing to do with the load: the limit is lowered, to no avail, and
// given back. More load is then all right, but not more pressure.
func TestPressureFromElsewhere(t *testing.T) {
	k := &Knee{Start: 400}
	least := 400.0
	now := time.Duration(0)
	run := func(steps int, pressure float64, want float64) {
		for range steps {
			now += step
			k.Update(now, now-step, min(k.Limit(), want), pressure)
			least = min(least, k.Limit())
		}
	}
	run(1000, 1.5, 300)
	if k.Limit() < 400 {
		t.Errorf("the limit is %v, want 400 again", k.Limit())
	}
	if least > 100 || least < 20 {
		t.Errorf("the limit fell to %v, want about an eighth of the load", least)
	}
	run(100, 1.5, 1000)
	testenv.AtLeast(t, k.Limit(), 1000, "the limit")
	run(10, 3, 1000)
	testenv.AtMost(t, k.Limit(), 900, "the limit is, although pressure doubled")
	// From the very beginning, too.
	k = &Knee{Start: 4}
	run(300, 2, 200)
	testenv.AtLeast(t, k.Limit(), 200, "from the beginning: the limit")
}

// As long as the load is more than the limit, because what is inside takes its time, it
// is not lowered further.
func TestKneeWaitsForTheLoadToFollow(t *testing.T) {
	k := &Knee{Start: 1000}
	now := time.Duration(0)
	for range 100 {
		now += 2 * step
		k.Update(now, now-step, 1000, 2)
	}
	if k.Limit() != 1000*kneeLeast && math.Abs(k.Limit()-1000/math.Sqrt2) > 1 {
		t.Errorf("the limit is %v, want that of one step", k.Limit())
	}
}

func TestKneeWithoutFirstLimit(t *testing.T) {
	k := &Knee{}
	k.Update(step, 0, 700, 0.9)
	if !math.IsInf(k.Limit(), 1) {
		t.Errorf("there is a limit, %v, before there was pressure", k.Limit())
	}
	k.Update(2*step, step, 700, 1.2)
	if k.Limit() < 500 || k.Limit() > 690 {
		t.Errorf("at pressure 1.2 with a load of 700 the limit became %v", k.Limit())
	}
	k = &Knee{Start: 10, Max: 25}
	for i := range 100 {
		now := time.Duration(i) * 2 * step
		k.Update(now, now-step, k.Limit(), 0)
	}
	if k.Limit() != 25 {
		t.Errorf("the limit is %v, want the highest, 25", k.Limit())
	}
}

// Until a measurement that began after the last change, nothing changes.
func TestKneeWaitsForNews(t *testing.T) {
	k := &Knee{Start: 1000}
	k.Update(100*step, 99*step, 1000, 2)
	after := k.Limit()
	for i := range 50 {
		k.Update((101+time.Duration(i))*step, 99*step, after, 2) // old news
	}
	if k.Limit() != after || after >= 1000 {
		t.Errorf("limit %v, then %v: the same measurement counted twice", after, k.Limit())
	}
}

func TestProductivity(t *testing.T) {
	var p Productivity
	var now time.Duration
	work := 0.0
	// run works at a rate for a second and returns the last that was said.
	run := func(rate, load float64) (behind float64) {
		for range 100 {
			now += step
			work += rate * step.Seconds()
			if b, ready := p.Observe(now, work, load); ready {
				behind = b
			}
		}
		return behind
	}
	testenv.Equal(t, run(1000, 50), 0, "at the beginning it is behind")
	testenv.Equal(t, run(2000, 100), 0, "with more load and more work it is behind")
	if got := run(1000, 200); got < 1.7 || got > 2 {
		t.Errorf("with more load and half the work it is %.2f behind, want nearly 2", got)
	}
	if got := run(300, 20); got != 0 {
		t.Errorf("with little load it is %.2f behind, want 0: there is nothing to do", got)
	}
	for range 20 {
		run(1000, 200)
	}
	testenv.AtMost(t, run(1000, 200), 1.1, "after 20 s of the same it is still behind: work has become heavier")
	if got := run(0, 200); math.IsInf(got, 0) || got < 50 {
		t.Errorf("without any work done it is %.2f behind", got)
	}
}
