package admit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// A webServer is a loop that serves requests one after another, simulated event by
// event: arrivals, an Admission that says which is next, and a cost for every refusal. Requests
// have a priority of 0 or above, small numbers.
type webServer struct {
	rng       *rand.Rand
	admission *Admission
	limit     *ConcurrencyLimit
	ledger    *Ledger
	service   func() time.Duration
	refusal   time.Duration
	priority  func() int
	tick      time.Duration // next Ledger.Tick
	now       time.Duration
	line      [4][]request // by priority, in order of arrival
	waiting   int
	refusing  int // refused since somebody was let in
	done      []served
	refused   []served

	// thinks is how long a closed-loop client waits for before it asks again, after an answer.
	returning []time.Duration // when they do, sorted
	think     time.Duration
	closed    bool
}

type request struct {
	at time.Duration
	p  int
}

type served struct {
	at, latency time.Duration // when it was done, and for how long it was there
	p           int
}

func newWebServer(seed uint64, service func(*rand.Rand) time.Duration) *webServer {
	w := &webServer{rng: rand.New(rand.NewPCG(seed, 7)), refusal: 8 * time.Microsecond}
	w.ledger = NewLedger()
	w.limit = w.ledger.NewLimit("requests")
	w.admission = NewAdmission(0, true, func(int) *ConcurrencyLimit { return w.limit })
	w.service = func() time.Duration { return service(w.rng) }
	w.priority = func() int { return 0 }
	return w
}

func always(d time.Duration) func(*rand.Rand) time.Duration {
	return func(*rand.Rand) time.Duration { return d }
}

func exponential(d time.Duration) func(*rand.Rand) time.Duration {
	return func(rng *rand.Rand) time.Duration { return time.Duration(rng.ExpFloat64() * float64(d)) }
}

// bimodal is 95 % of 50 µs and 5 % of 5 ms: 297.5 µs on average.
func bimodal(rng *rand.Rand) time.Duration {
	if rng.Float64() < 0.05 {
		return 5 * time.Millisecond
	}
	return 50 * time.Microsecond
}

// poisson offers requests at a rate per second for a while.
func (w *webServer) poisson(rate float64, d time.Duration) {
	w.run(d, func() time.Duration { return time.Duration(w.rng.ExpFloat64() / rate * 1e9) })
}

// crowd serves a number of clients that ask again as soon as they have an answer, and come within
// the time of the given length.
func (w *webServer) crowd(clients int, within, d time.Duration) {
	w.closed = true
	for i := range clients {
		w.returning = append(w.returning, w.now+time.Duration(i)*within/time.Duration(clients))
	}
	w.run(d, func() time.Duration { return time.Hour })
}

func (w *webServer) run(d time.Duration, gap func() time.Duration) {
	end := w.now + d
	next := w.now + gap()
	for w.now < end {
		for next <= w.now && next < end {
			w.arrive(next)
			next += gap()
		}
		for len(w.returning) > 0 && w.returning[0] <= w.now {
			w.arrive(w.returning[0])
			w.returning = w.returning[1:]
		}
		for ; w.tick <= w.now; w.tick += 10 * time.Millisecond {
			w.ledger.Tick(w.tick)
		}
		if w.waiting == 0 {
			w.now = min(next, end)
			if len(w.returning) > 0 {
				w.now = min(w.now, w.returning[0])
			}
			continue
		}
		w.serve()
	}
}

func (w *webServer) arrive(at time.Duration) {
	p := w.priority()
	w.line[p] = append(w.line[p], request{at, p})
	w.waiting++
}

func (w *webServer) serve() {
	low, high := -1, len(w.line)-1
	for p := range w.line {
		if len(w.line[p]) > 0 && (low < 0 || w.line[p][0].at < w.line[low][0].at) {
			low = p
		}
	}
	for len(w.line[high]) == 0 {
		high--
	}
	v := w.admission.Next(w.now, 1, &QueueState{Waiting: w.waiting, Refusing: w.refusing, Oldest: w.now - w.line[low][0].at, Front: w.now - w.line[high][0].at})
	var r request
	switch v {
	case Admit:
		r, w.line[high] = w.line[high][0], w.line[high][1:]
	case AdmitNewest:
		last := len(w.line[high]) - 1
		r, w.line[high] = w.line[high][last], w.line[high][:last]
	case Refuse:
		r, w.line[low] = w.line[low][0], w.line[low][1:]
		w.now += w.refusal
		w.refusing++
		w.refused = append(w.refused, served{w.now, w.now - r.at, r.p})
	case Defer:
		w.now += 100 * time.Microsecond
		return
	}
	w.waiting--
	if v != Refuse {
		w.refusing = 0
		w.now += w.service()
		w.admission.Left(w.now, 1)
		w.done = append(w.done, served{w.now, w.now - r.at, r.p})
	}
	if w.closed {
		w.returning = append(w.returning, w.now+w.think)
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

// A load is what requests need.
type load struct {
	name    string
	service func(*rand.Rand) time.Duration
	mean    time.Duration
}

var loads = []load{
	{"200µs", always(200 * time.Microsecond), 200 * time.Microsecond},
	{"1ms", always(time.Millisecond), time.Millisecond},
	{"5ms", always(5 * time.Millisecond), 5 * time.Millisecond},
	{"exponential", exponential(time.Millisecond), time.Millisecond},
	{"bimodal", bimodal, 297500 * time.Nanosecond},
}

func (l load) capacity() float64 { return 1 / l.mean.Seconds() }

func eachLoad(t *testing.T, test func(t *testing.T, l load)) {
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) { test(t, l) })
	}
}

// onset is how long what has begun may take for a burst, in which the oldest go first.
const onset = growthAllowed

// Once that is clear what is served is served in time, and it is as much as is possible.
func TestOverloadKeepsGoodput(t *testing.T) {
	length := 60 * time.Second
	if quick() {
		length = 10 * time.Second
	}
	eachLoad(t, func(t *testing.T, l load) {
		var normal time.Duration // p99 at 0.8 of capacity
		for _, x := range []float64{0.5, 0.8, 1.2, 1.5, 2, 5, 10} {
			w := newWebServer(*seedFlag, l.service)
			w.poisson(x*l.capacity(), length)
			free := 1 - max(x-1, 0)*w.refusal.Seconds()*l.capacity() // what refusals leave
			got := w.goodput(onset, w.now) / l.capacity()
			p99 := w.quantile(0.99, onset, w.now)
			t.Logf("%4.1f × capacity: goodput %.3f of %.3f, p50 %v, p99 %v, refused %.2f %%", x, got, min(x, free),
				w.quantile(0.5, 0, w.now).Round(time.Microsecond), p99.Round(time.Microsecond), 100*float64(len(w.refused))/float64(len(w.refused)+len(w.done)))
			least := 0.97
			switch {
			case x == 1.2 || l.name == "bimodal": // it takes longer to be sure of it
				least = 0.78
			case l.name == "exponential": // less is offered than expected, by chance
				least = 0.95
			case free < 0.7: // nor do refusals leave what follows a trial, when many of them are due
				least = 0.95
			}
			testenv.AtLeast(t, got, least*min(x, free), "%v × capacity: goodput of capacity", x)
			if x < 1 && len(w.refused) > 0 {
				t.Errorf("%v × capacity: %d were refused", x, len(w.refused))
			}
			if x == 0.8 {
				normal = p99
			}
			if x >= 1.5 && p99 > 2*normal {
				t.Errorf("%v × capacity: p99 of what is served %v, more than twice %v", x, p99, normal)
			}
		}
	})
}

// When overload is found 20,000 have waited too long, and to refuse one takes a third of the time that it takes to
// serve one. They are refused, but the others do not wait until all of them are.
func TestManyThatHaveWaitedTooLongHoldUpNobody(t *testing.T) {
	const slice, from, lasts = 50 * time.Millisecond, time.Second, 6 * time.Second
	w := newWebServer(*seedFlag, always(85*time.Microsecond))
	w.refusal = 30 * time.Microsecond
	w.poisson(2/85e-6, lasts)
	var served [(lasts - from) / slice]int
	for _, s := range w.done {
		if i := int((s.at - from) / slice); s.at >= from && i < len(served) {
			served[i]++
		}
	}
	if least := slices.Min(served[:]); least < 50 || len(w.refused) < 20_000 {
		t.Errorf("in some %v only %d are served, %d were refused; want 50 and 20,000", slice, least, len(w.refused))
	}
}

// Whatever happens below the capacity, nobody is refused. Pauses of the process are in package simserver.
func TestOrdinaryLifeRefusesNobody(t *testing.T) {
	none := func(t *testing.T, w *webServer) {
		t.Helper()
		if n := len(w.refused); n > 0 {
			t.Errorf("%d of %d were refused, the first at %v", n, n+len(w.done), w.refused[0].at)
		}
	}
	eachLoad(t, func(t *testing.T, l load) {
		for _, clients := range []int{1, 10, 100, 1000, 5000} {
			for _, within := range []time.Duration{0, 200 * time.Millisecond, 1500 * time.Millisecond} {
				t.Run(fmt.Sprintf("crowd=%d/within=%v", clients, within), func(t *testing.T) {
					if time.Duration(clients)*l.mean > longestWait/2 {
						t.Skip("they would wait longer than anybody does")
					}
					w := newWebServer(*seedFlag, l.service)
					w.crowd(clients, within, 5*time.Second)
					none(t, w)
				})
			}
		}
		for _, n := range []int{10, 100, 1000} {
			t.Run(fmt.Sprintf("bursts=%d", n), func(t *testing.T) {
				w := newWebServer(*seedFlag, l.service)
				pause := max(2*time.Duration(n)*l.mean, 10*time.Millisecond)
				if pause > longestWait {
					t.Skip("too long")
				}
				i := 0
				w.run(20*pause, func() time.Duration {
					if i++; i%n == 0 {
						return pause
					}
					return 0
				})
				none(t, w)
			})
		}
	})
}

// A step to 1.4 times the capacity: what is served from the onset on is served in time, and before nobody
// that is served waits much longer than is useful.
func TestStepInLoad(t *testing.T) {
	eachLoad(t, func(t *testing.T, l load) {
		w := newWebServer(*seedFlag, l.service)
		w.poisson(0.8*l.capacity(), 10*time.Second)
		rounds := testenv.Rounds(5, 20)
		good, latest := 0.0, time.Duration(0)
		for range rounds {
			step := w.now
			w.poisson(1.4*l.capacity(), 4*time.Second)
			good += w.goodput(step+onset, w.now) / l.capacity() / float64(rounds)
			latest += w.quantile(0.99, step, step+onset) / time.Duration(rounds)
			end := w.now
			w.poisson(0.8*l.capacity(), 12*time.Second)
			late := 0
			for _, r := range w.refused {
				if r.at > end+time.Second {
					late++
				}
			}
			testenv.AtMost(t, float64(late), 0.005*11*0.8*l.capacity(), "refused later than a second after the overload, more than one in 200")
			w.done, w.refused = w.done[:0], w.refused[:0]
		}
		t.Logf("goodput %.3f of capacity from the onset on, p99 %v until then", good, latest)
		if good < 0.9 || latest > burstWait+50*time.Millisecond {
			t.Errorf("want 0.9 and about %v at most", burstWait)
		}
	})
}

func TestImportantTasksAreServedInASpike(t *testing.T) {
	// 20 % of the capacity is important, 12 times the capacity is not.
	for _, service := range []func(*rand.Rand) time.Duration{always(time.Millisecond), exponential(time.Millisecond)} {
		w := newWebServer(*seedFlag, service)
		w.priority = func() int {
			if w.rng.Float64() < 0.2/12.2 {
				return 3
			}
			return 0
		}
		w.poisson(12_200, time.Duration(testenv.Rounds(20, 60))*time.Second)
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
			if s.p == 3 {
				bad++
			}
		}
		if part := float64(good) / float64(good+bad); part < 0.999 {
			t.Errorf("%.3f %% of the important requests succeed, want 99.9 %%", 100*part)
		}
		testenv.AtLeast(t, w.goodput(0, w.now), 0.88*1000, "goodput of 1000; the others (%d served) are to have what is left", low)
	}
}

func TestNobodyIsRefusedUnlessRefusalsAreOn(t *testing.T) {
	w := newWebServer(*seedFlag, always(time.Millisecond))
	w.admission = NewAdmission(0, false, func(int) *ConcurrencyLimit { return w.limit })
	w.poisson(3000, 15*time.Second)
	testenv.Equal(t, len(w.refused), 0, "were refused")
	var r Report
	w.admission.Report(&r)
	if r.Admitted != uint64(len(w.done)) || r.Refused != 0 {
		t.Errorf("counted %d admitted and %d refused, want %d and 0", r.Admitted, r.Refused, len(w.done))
	}
}
