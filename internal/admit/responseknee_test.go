package admit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/capriccio-go/capriccio/internal/testenv"
)

// watchClients shows a ResponseKnee a server with each of these numbers of clients for five seconds. rest is the time from an
// answer to the next request, work that of a request on the only processor; every time is off by up to noise parts.
func watchClients(b *ResponseKnee, now *time.Duration, clients []int, rest, work time.Duration, each time.Duration, noise float64) {
	rng := rand.New(rand.NewPCG(1, 2))
	done := 0.0
	for _, n := range clients {
		for range 5 * 50 {
			*now += 20 * time.Millisecond
			rate := min(float64(n)/(rest+work+time.Duration(n)*each).Seconds(), 1/work.Seconds())
			done += rate / 50
			inside := float64(n) - rate*rest.Seconds() // the others rest
			b.Observe(*now, float64(n+7), inside*(1+noise*(2*rng.Float64()-1)), uint64(done))
		}
	}
}

func doublings(from, to int) (n []int) {
	for x := float64(from); x <= float64(to); x *= math.Sqrt2 {
		n = append(n, int(x))
	}
	return n
}

func TestResponseKnee(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name       string
		clients    []int
		rest, work time.Duration
		each       time.Duration // what an open connection adds to each request
		noise      float64
		knee       float64 // 0: there is none
	}{
		{"clients that rest for a second, 1,000 requests a second", doublings(64, 16_384), time.Second, ms, 0, 0, 1000},
		{"the same, noisy", doublings(64, 16_384), time.Second, ms, 0, 0.1, 1000},
		{"more clients first", doublings(64, 16_384), time.Second, ms / 8, 0, 0.05, 8000},
		{"a few clients that rest briefly", doublings(1, 4096), 100 * ms, 10 * ms, 0, 0.05, 18},
		{"never busy", doublings(64, 16_384), 100 * time.Second, ms, 0, 0.1, 0},
		{"never busy, and very noisy", doublings(64, 16_384), 100 * time.Second, ms, 0, 0.6, 0},
		{"very noisy", doublings(64, 16_384), time.Second, ms, 0, 0.5, 1000},
		{"clients that never rest: in proportion from the first one on", doublings(2, 4096), 0, ms, 0, 0.05, 0},
		{"all the time a little slower", doublings(64, 16_384), 10 * time.Second, ms / 8, ms / 1024, 0, 0},
		{"one number of clients", []int{100, 100, 100, 100}, time.Second, ms, 0, 0.1, 0},
		{"beyond the knee only", doublings(4096, 16_384), time.Second, ms, 0, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b ResponseKnee
			now := time.Second
			watchClients(&b, &now, c.clients, c.rest, c.work, c.each, c.noise)
			r, ok := b.Report()
			switch {
			case !ok && c.knee == 0:
			case ok != (c.knee > 0):
				t.Errorf("found %v: %+v", ok, r)
			case r.Open < c.knee/1.5 || r.Open > c.knee*1.5:
				t.Errorf("the knee is at %.0f, want about %.0f", r.Open, c.knee)
			case r.Slowed < responseLeast*r.Took || r.Most < float64(c.clients[len(c.clients)-1]):
				t.Errorf("%+v", r)
			}
			b.Observe(now+2*responseForget, 0, 0, 0)
			if _, ok := b.Report(); ok {
				t.Error("what was seen long ago still counts")
			}
		})
	}
}

// What is known of a number of connections follows what is seen there now.
func TestResponseKneeOfAProgramThatChanges(t *testing.T) {
	var b ResponseKnee
	now := time.Second
	watchClients(&b, &now, doublings(64, 16_384), time.Second, time.Millisecond, 0, 0)
	if _, ok := b.Report(); !ok {
		t.Fatal("no knee")
	}
	for range 10 { // the work takes an eighth of the time
		watchClients(&b, &now, doublings(64, 16_384), time.Second, time.Millisecond/8, 0, 0)
	}
	if r, ok := b.Report(); !ok || r.Open < 5000 {
		t.Errorf("found %v: %+v, want about 8000", ok, r)
	}
}

// A second in which connections come by the hundred belongs to no number of them, and one without
// answers says nothing.
func TestResponseKneeLeavesOutWhatSaysNothing(t *testing.T) {
	var b ResponseKnee
	for i := range 1000 {
		now := time.Duration(i) * 20 * time.Millisecond
		b.Observe(now, float64(10+i%50*10), 100, uint64(i*100))
	}
	testenv.Equal(t, len(b.bins), 0, "of connections that come: N bins")
	b = ResponseKnee{}
	for i := range 1000 {
		b.Observe(time.Duration(i)*20*time.Millisecond, 100, 100, uint64(i/50*(responseAnswers-1)))
	}
	testenv.Equal(t, len(b.bins), 0, "of few answers: N bins")
}
