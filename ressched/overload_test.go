package ressched

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A webServer is a loop that serves requests one after another, simulated event by
// event: open-loop Poisson arrivals, an Admission that looks at each request when its
// turn comes, and a cost for every refusal.
type webServer struct {
	rng       *rand.Rand
	admission *Admission
	gate      *Gate
	ledger    *Ledger
	service   func() time.Duration
	refusal   time.Duration
	priority  func() Priority
	tick      time.Duration // next Ledger.Tick
	now       time.Duration
	next      time.Duration // arrival
	pooled    bool          // connections are kept open, and used again
	queue     []request
	pool      int // connections there are
	done      []served
	refused   []served
}

type request struct {
	at time.Duration
	p  Priority
}

type served struct {
	at, latency time.Duration // when it was done, and for how long it was there
	p           Priority
}

func newWebServer(seed uint64, service func(*rand.Rand) time.Duration) *webServer {
	w := &webServer{rng: rand.New(rand.NewPCG(seed, 7)), refusal: 8 * time.Microsecond}
	w.ledger = NewLedger()
	w.gate = w.ledger.NewGate("requests")
	w.admission = NewAdmission(0, AdmissionConfig{Refuse: true})
	w.admission.Mark(1, w.gate)
	w.service = func() time.Duration { return service(w.rng) }
	w.priority = func() Priority { return 0 }
	return w
}

func always(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

func exponential(d time.Duration) func(*rand.Rand) time.Duration {
	return func(rng *rand.Rand) time.Duration { return time.Duration(rng.ExpFloat64() * float64(d)) }
}

// run offers so many requests per second for a while.
func (w *webServer) run(rate float64, d time.Duration) {
	gap := func() time.Duration { return time.Duration(w.rng.ExpFloat64() / rate * 1e9) }
	end := w.now + d
	w.next = w.now + gap()
	for {
		for w.next <= w.now && w.next < end {
			w.queue = append(w.queue, request{w.next, w.priority()})
			w.next += gap()
		}
		if w.pooled {
			w.pool = max(w.pool, len(w.queue))
			w.admission.SetClients(1, w.pool)
		}
		if w.now >= end {
			return
		}
		for ; w.tick <= w.now; w.tick += 10 * time.Millisecond {
			w.ledger.Tick(w.tick)
		}
		if len(w.queue) == 0 {
			w.now = min(w.next, end)
			continue
		}
		w.serve()
	}
}

func (w *webServer) serve() {
	r := w.queue[0]
	switch w.admission.Decide(w.now, 1, w.now-r.at, r.p) {
	case Admit:
		w.queue = w.queue[1:]
		w.now += w.service()
		w.admission.Finished(1)
		w.done = append(w.done, served{w.now, w.now - r.at, r.p})
	case Refuse:
		w.queue = w.queue[1:]
		w.now += w.refusal
		w.refused = append(w.refused, served{w.now, w.now - r.at, r.p})
	case Defer:
		w.now += 100 * time.Microsecond
	}
}

const latencyTarget = 100 * time.Millisecond

// goodput is how many requests per second were served in time, between two moments.
func (w *webServer) goodput(from, to time.Duration) float64 {
	n := 0
	for _, s := range w.done {
		if s.at >= from && s.at < to && s.latency <= latencyTarget {
			n++
		}
	}
	return float64(n) / (to - from).Seconds()
}

// quantile is the latency that the share q of what was served between two moments did
// not exceed.
func (w *webServer) quantile(q float64, from, to time.Duration) time.Duration {
	var all []time.Duration
	for _, s := range w.done {
		if s.at >= from && s.at < to {
			all = append(all, s.latency)
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[int(q*float64(len(all)-1))]
}

func TestOverloadKeepsGoodput(t *testing.T) {
	t.Run("clients unknown", func(t *testing.T) { overloadKeepsGoodput(t, false) })
	t.Run("clients known", func(t *testing.T) { overloadKeepsGoodput(t, true) })
}

func overloadKeepsGoodput(t *testing.T, pooled bool) {
	const capacity = 1000.0 // a second
	length := 60 * time.Second
	if quick() {
		length = 10 * time.Second
	}
	for _, kind := range []struct {
		name    string
		service func(*rand.Rand) time.Duration
	}{{"constant", always(time.Millisecond)}, {"exponential", exponential(time.Millisecond)}} {
		t.Run(kind.name, func(t *testing.T) {
			var normal time.Duration // p99 at 0.8 of capacity
			for _, x := range []float64{0.5, 0.8, 1, 1.5, 2, 5, 10} {
				w := newWebServer(*seedFlag, kind.service)
				w.pooled = pooled
				w.run(x*capacity, time.Second)
				from := w.now
				w.run(x*capacity, length)
				got := w.goodput(from, w.now) / capacity
				p99 := w.quantile(0.99, from, w.now)
				want := map[float64]float64{0.5: 0.49, 0.8: 0.78, 1: 0.93, 1.5: 0.98, 2: 0.98, 5: 0.94, 10: 0.90}[x]
				t.Logf("%4.1f × capacity: goodput %.3f, p50 %v, p99 %v, refused %.2f %%", x, got, w.quantile(0.5, from, w.now).Round(time.Microsecond), p99.Round(time.Microsecond),
					100*float64(len(w.refused))/float64(len(w.refused)+len(w.done)))
				if got < want {
					t.Errorf("%v × capacity: goodput %.3f of capacity, want %.3f", x, got, want)
				}
				if x == 0.8 {
					normal = p99
				}
				if x >= 1 && p99 > 2*normal {
					t.Errorf("%v × capacity: p99 of what is served %v, more than twice %v", x, p99, normal)
				}
			}
		})
	}
}

// stable checks that between two moments the server is busy all the time and nobody who
// is served waits longer than limit.
func (w *webServer) stable(t *testing.T, from, to, limit time.Duration, capacity float64) {
	t.Helper()
	const window = 20 * time.Millisecond
	for at := from; at+window <= to; at += window {
		if got := w.quantile(1, at, at+window); got > limit {
			t.Errorf("%v after the step: somebody waited for %v, more than %v", at-from, got, limit)
		}
		if got := w.goodput(at, at+5*window); at+5*window <= to && got < 0.9*capacity {
			t.Errorf("%v after the step: %.0f requests per second, want %.0f", at-from, got, 0.9*capacity)
		}
	}
	if got := w.goodput(from, to); got < 0.98*capacity {
		t.Errorf("after the step: %.0f requests per second, want %.0f", got, 0.98*capacity)
	}
}

func TestStepInLoadIsStableWithin20ms(t *testing.T) {
	t.Run("clients unknown", func(t *testing.T) { stepInLoad(t, false) })
	t.Run("clients known", func(t *testing.T) { stepInLoad(t, true) })
}

func stepInLoad(t *testing.T, pooled bool) {
	const capacity = 1000
	w := newWebServer(*seedFlag, always(time.Millisecond))
	w.pooled = pooled
	w.run(0.8*capacity, 60*time.Second)
	normal := w.quantile(0.99, 0, w.now)
	length := 2 * time.Second
	if pooled {
		length = firstTrial - 20*time.Millisecond // what comes then is another test's
	}
	for range 50 {
		step := w.now
		w.run(1.4*capacity, length)
		w.stable(t, step+20*time.Millisecond, w.now, 2*normal, capacity)
		end := w.now
		w.run(0.8*capacity, 3*time.Second)
		w.normalAgain(t, end, normal)
	}
}

// normalAgain checks that a second after the given moment all is as it used to be.
func (w *webServer) normalAgain(t *testing.T, end, normal time.Duration) {
	t.Helper()
	from := end + time.Second
	if got := w.quantile(0.99, from, w.now); got > 2*normal {
		t.Errorf("a second after the overload p99 is %v, it was %v before", got, normal)
	}
	refused := 0
	for _, r := range w.refused {
		if r.at > from {
			refused++
		}
	}
	if refused > 30 { // of 1,600; at this load two or three bursts are too much as well
		t.Errorf("%d were refused later than a second after the overload", refused)
	}
	w.done, w.refused = w.done[:0], w.refused[:0]
}

func TestNormalAgainAfterHeavyOverload(t *testing.T) {
	w := newWebServer(*seedFlag, always(time.Millisecond))
	w.run(800, 60*time.Second)
	normal := w.quantile(0.99, 0, w.now)
	for range 20 {
		w.run(10_000, 2*time.Second)
		end := w.now
		w.run(800, 3*time.Second)
		w.normalAgain(t, end, normal)
	}
}

// A pause of the whole machine leaves a line behind that is not overload: it is getting
// shorter.
func TestPauseIsNotOverload(t *testing.T) {
	w := newWebServer(*seedFlag, always(time.Millisecond))
	paused := time.Duration(0)
	w.service = func() time.Duration {
		if w.now-paused > time.Second {
			paused = w.now
			return 51 * time.Millisecond
		}
		return time.Millisecond
	}
	w.run(500, 200*time.Second)
	if part := float64(len(w.refused)) / float64(len(w.refused)+len(w.done)); part > 0.006 {
		t.Errorf("%.2f %% were refused, though the load is half of the capacity", 100*part)
	}
}

func TestImportantTasksAreServedInASpike(t *testing.T) {
	// 20 % of the capacity is important, 12 times the capacity is not.
	for _, service := range []func(*rand.Rand) time.Duration{always(time.Millisecond), exponential(time.Millisecond)} {
		w := newWebServer(*seedFlag, service)
		w.priority = func() Priority {
			if w.rng.Float64() < 0.2/12.2 {
				return 5
			}
			return 0
		}
		w.run(12_200, 60*time.Second)
		var good, bad, low int
		for _, s := range w.done {
			switch {
			case s.p == 0:
				low++
			case s.latency <= latencyTarget:
				good++
			default:
				bad++
			}
		}
		for _, s := range w.refused {
			if s.p == 5 {
				bad++
			}
		}
		if part := float64(good) / float64(good+bad); part < 0.999 {
			t.Errorf("%.3f %% of the important requests succeed, want 99.9 %%", 100*part)
		}
		if got := w.goodput(0, w.now); got < 0.9*1000 {
			t.Errorf("goodput %.0f of 1000; the others (%d served) are to have what is left", got, low)
		}
	}
}

// With three levels, of which the upper two are more than the capacity, the lowest gets
// nothing and the highest all it wants.
func TestLevelOfRefusalFindsItsPlace(t *testing.T) {
	w := newWebServer(*seedFlag, always(time.Millisecond))
	w.priority = func() Priority { return Priority(w.rng.IntN(3)-1) * 10 }
	w.run(2000, 60*time.Second)
	var done, refused [3]int
	for _, s := range w.done {
		done[s.p/10+1]++
	}
	for _, s := range w.refused {
		refused[s.p/10+1]++
	}
	share := func(i int) float64 { return float64(done[i]) / float64(done[i]+refused[i]) }
	t.Logf("served: %.3f, %.3f, %.3f", share(0), share(1), share(2))
	if share(2) < 0.99 {
		t.Errorf("%.3f of the most important were served, want nearly all", share(2))
	}
	if share(1) < 0.3 || share(1) > 0.6 {
		t.Errorf("%.3f of those in the middle were served, want about a half", share(1))
	}
	if share(0) > 0.12 {
		t.Errorf("%.3f of the least important were served, want hardly any", share(0))
	}
}

func TestNobodyIsRefusedUnlessRefusalsAreOn(t *testing.T) {
	w := newWebServer(*seedFlag, always(time.Millisecond))
	w.admission = NewAdmission(0, AdmissionConfig{})
	w.admission.Mark(1, w.gate)
	w.run(3000, time.Second)
	if len(w.refused) > 0 {
		t.Errorf("%d were refused", len(w.refused))
	}
	var r Report
	w.admission.Report(&r)
	if r.Admitted != uint64(len(w.done)) || r.Refused != 0 {
		t.Errorf("counted %d admitted and %d refused, want %d and 0", r.Admitted, r.Refused, len(w.done))
	}
}
