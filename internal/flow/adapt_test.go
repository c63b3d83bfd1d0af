package flow

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A world serves Poisson arrivals with workers whose number a sizer decides: 50 a second,
// then 1,500, then 50 again, every 33 s, of 20 ms each, so that 30 workers are needed at
// the peak and one at rest.
type world struct {
	rand          *rand.Rand
	sizer         *sizer
	damper        damper
	v             viscosity
	now           time.Duration
	events        []event // the next first
	queue         []time.Duration
	waits         []time.Duration
	workers, busy int
	spawns, kills int
	peak, idle    []float64 // numbers of workers
}

type event struct {
	at   time.Duration
	kind int
}

const (
	arrival = iota
	tick
	served
)

// rate is how many arrive per second.
func rate(t time.Duration) float64 {
	switch phase := math.Mod(t.Seconds(), 33); {
	case phase < 3:
		return 50 + 1450*phase/3
	case phase < 20:
		return 1500
	case phase < 23:
		return 1500 - 1450*(phase-20)/3
	}
	return 50
}

func (w *world) at(at time.Duration, kind int) {
	i, _ := slices.BinarySearchFunc(w.events, at, func(e event, at time.Duration) int { return cmp.Compare(e.at, at) })
	w.events = slices.Insert(w.events, i, event{at, kind})
}

// after has something happen after a random time, of that many seconds on average.
func (w *world) after(mean float64, kind int) {
	w.at(w.now+time.Duration(w.rand.ExpFloat64()*mean*float64(time.Second)), kind)
}

func (w *world) decide() {
	change := w.sizer.decide(w.now, w.workers, len(w.queue), w.v)
	w.workers += change
	w.spawns += max(change, 0)
	w.kills += max(-change, 0)
}

// run lets the world go on until the given time, with arrivals at all or none.
func (w *world) run(until time.Duration, arrivals bool) {
	if arrivals {
		w.after(1/rate(w.now), arrival)
	}
	w.at(w.now+100*time.Millisecond, tick)
	for w.now < until {
		e := w.events[0]
		w.events = w.events[1:]
		w.now = e.at
		switch e.kind {
		case arrival:
			if !arrivals {
				continue
			}
			w.queue = append(w.queue, w.now)
			w.after(1/rate(w.now), arrival)
			if w.sizer.arrivedAt(w.now) {
				w.decide()
			}
		case tick:
			w.at(w.now+100*time.Millisecond, tick)
			w.v = w.damper.tick(w.now, w.workers)
			if !arrivals {
				w.decide()
			}
			switch phase := math.Mod(w.now.Seconds(), 33); {
			case phase > 8 && phase < 20:
				w.peak = append(w.peak, float64(w.workers))
			case phase > 28:
				w.idle = append(w.idle, float64(w.workers))
			}
		case served:
			w.busy--
		}
		for len(w.queue) > 0 && w.busy < w.workers {
			w.waits = append(w.waits, w.now-w.queue[0])
			w.queue = w.queue[1:]
			w.busy++
			took := w.rand.ExpFloat64() * 0.02
			w.sizer.addService(time.Duration(took*float64(time.Second)), 0)
			w.at(w.now+time.Duration(took*float64(time.Second)), served)
		}
	}
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func newWorld(seed uint64, high float64) *world {
	return &world{rand: rand.New(rand.NewPCG(seed, 0)), sizer: newSizer(high, 1, defaultMax), v: still, workers: 1}
}

// The numbers are those of a simulation in another language, with margins.
func TestPeaksAreServedAndLessIsKeptTheLowerHighIs(t *testing.T) {
	for _, want := range []struct{ high, idleLeast, idleMost, changes float64 }{
		{20, 25, 42, 80},
		{5, 17, 28, 180},
		{2, 10, 19, 250},
	} {
		for seed := range uint64(3) {
			w := newWorld(seed, want.high)
			w.run(99*time.Second, true)
			slices.Sort(w.waits)
			p99 := w.waits[len(w.waits)*99/100]
			peak, idle := mean(w.peak), mean(w.idle)
			if p99 > 30*time.Millisecond || peak < 30 || peak > 45 || len(w.queue) > 100 {
				t.Errorf("HIGH %v, seed %d: p99 of waits %v, %.0f workers at the peak, %d left; want at most 30ms, 30 to 45, few",
					want.high, seed, p99, peak, len(w.queue))
			}
			if idle < want.idleLeast || idle > want.idleMost || float64(w.spawns+w.kills) > want.changes {
				t.Errorf("HIGH %v, seed %d: %.0f workers between peaks, %d spawns, %d kills; want %v to %v, at most %v in all",
					want.high, seed, idle, w.spawns, w.kills, want.idleLeast, want.idleMost, want.changes)
			}
		}
	}
}

func TestWorkersGoWhenNothingArrivesAnyMore(t *testing.T) {
	w := newWorld(1, 0)
	w.run(15*time.Second, true)
	if w.workers < 25 {
		t.Fatalf("%d workers at the peak", w.workers)
	}
	w.run(45*time.Second, false)
	testenv.Equal(t, w.workers, 1, "workers after 30 s without work")
}

func TestMinimumAndMaximumHold(t *testing.T) {
	w := newWorld(1, 0)
	w.sizer = newSizer(0, 3, 7)
	w.workers = 3
	w.run(15*time.Second, true)
	if w.workers != 7 {
		t.Errorf("%d workers with 30 needed, want the maximum of 7", w.workers)
	}
	s := newSizer(0, 3, 7)
	for workers, want := range map[int]int{1: 1, 2: 1, 3: 0, 5: -1, 7: -1, 8: -1, 9: -1} {
		testenv.Equal(t, s.decide(0, workers, 0, still), want, "%d workers and no work", workers)
	}
	testenv.Equal(t, s.decide(0, 9, 1000, still), -1, "more workers than the maximum and much to do")
}

func TestNoMoreWorkersWhereTheProcessorIsShort(t *testing.T) {
	s := newSizer(0, 1, defaultMax)
	for range 2 * samples {
		s.addService(time.Millisecond, 2*time.Millisecond)
	}
	testenv.Equal(t, s.decide(time.Second, 4, 1000, still), 0, "workers wait longer than they work")
	for range 2 * samples {
		s.addService(time.Millisecond, time.Microsecond)
	}
	testenv.Equal(t, s.decide(time.Second, 4, 1000, still), 1, "workers hardly wait")
}

func TestViscosityIsFiniteAndEnds(t *testing.T) {
	var d damper
	testenv.Equal(t, d.tick(0, 5), still, "at first")
	up := d.tick(100*time.Millisecond, 5000)
	if math.IsInf(up.spawn, 0) || up.spawn < 1e8 || up.kill > 1.1 {
		t.Errorf("after a leap up %v; want much for spawns, little for kills, nothing infinite", up)
	}
	down := d.tick(200*time.Millisecond, 1)
	if math.IsInf(down.kill, 0) || down.kill < 1e8 || down.spawn > 1.1 {
		t.Errorf("after a leap down %v; want much for kills, little for spawns, nothing infinite", down)
	}
	now := 200 * time.Millisecond
	for range 200 {
		now += 100 * time.Millisecond
		down = d.tick(now, 1)
	}
	if down.spawn > math.E+1e-9 || down.kill > math.E+1e-9 {
		t.Errorf("20 s later %v, want %v", down, still)
	}
	// One worker more or less than the average must not forbid the other direction for ever.
	if v := d.tick(now+time.Millisecond, 2); v.spawn > 3 || v.kill > 3 {
		t.Errorf("one more than the average: %v", v)
	}
}
